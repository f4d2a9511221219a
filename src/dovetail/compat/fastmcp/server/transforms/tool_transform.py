"""`ToolTransform`: tools with another name, description or arguments, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .base import Next, Transform


class ToolTransform(Transform):
    """Change some tools as ``transforms`` says."""

    def __init__(self, transforms: Mapping[str, Any]) -> None:
        self.transforms = dict(transforms)

    async def list_tools(self, tools: Sequence[Any]) -> Sequence[Any]:
        return [
            self.transforms[tool.name].apply(tool) if tool.name in self.transforms else tool for tool in tools
        ]

    async def get_tool(self, name: str, call_next: Next, *, version: Any = None) -> Any:
        for old, config in self.transforms.items():
            if (config.name or old) == name:
                tool = await call_next(old, version=version)
                return None if tool is None else config.apply(tool)
        return None if name in self.transforms else await call_next(name, version=version)
