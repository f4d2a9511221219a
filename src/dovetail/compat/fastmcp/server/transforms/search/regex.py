"""`RegexSearchTransform`: tools found by a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from ......gateway.patterns import Pattern
from ......gateway.ranking import whole_text
from ...context import Context
from .base import SearchTransform, native


class RegexSearchTransform(SearchTransform):
    """Finds tools whose names, descriptions or arguments fit a regular expression."""

    def search_function(self) -> Callable[..., Any]:
        async def search_tools(
            pattern: Annotated[
                str, "Regex pattern to match against tool names, descriptions, and parameters"
            ],
            ctx: Context,
        ) -> str | list[dict[str, Any]]:
            """Search for tools with a regular expression; most of them are not listed."""
            wanted = Pattern(pattern)
            found = [one for one in await self.hidden(ctx) if wanted.found_in(whole_text(native(one)))]
            return await self.shown(found)

        return search_tools
