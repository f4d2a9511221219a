"""`BM25SearchTransform`: tools found by what they are for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from ......drivers.pacing import stepwise
from ......gateway.ranking import Index
from ...context import Context
from .base import SearchTransform, native


class BM25SearchTransform(SearchTransform):
    """Finds tools by words, those first that are most likely meant."""

    def search_function(self) -> Callable[..., Any]:
        async def search_tools(
            query: Annotated[str, "Natural language query to search for tools"], ctx: Context
        ) -> str | list[dict[str, Any]]:
            """Search for tools in natural language; most of them are not listed."""
            tools = {one.name: one for one in await self.hidden(ctx)}
            index = Index([native(one) for one in tools.values()])
            await stepwise(index.read())
            return await self.shown([tools[one.name] for one in index.best(query)])

        return search_tools
