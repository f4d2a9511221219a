"""`PromptManager`: the prompts by name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Message, Prompt

log = logging.getLogger("mcp.server.fastmcp")


class PromptManager:
    """The prompts of a server. Of two with one name the first stays."""

    def __init__(self, warn_on_duplicate_prompts: bool = True) -> None:
        self._prompts: dict[str, Prompt] = {}
        self.warn_on_duplicate_prompts = warn_on_duplicate_prompts

    def get_prompt(self, name: str) -> Prompt | None:
        return self._prompts.get(name)

    def list_prompts(self) -> list[Prompt]:
        return list(self._prompts.values())

    def add_prompt(self, prompt: Prompt) -> Prompt:
        if prompt.name in self._prompts and self.warn_on_duplicate_prompts:
            log.warning("Prompt already exists: %s", prompt.name)
        return self._prompts.setdefault(prompt.name, prompt)

    async def render_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Any = None
    ) -> list[Message]:
        prompt = self._prompts.get(name)
        if prompt is None:
            raise ValueError(f"Unknown prompt: {name}")
        return await prompt.render(arguments, context)
