"""Extensions of the protocol, for ``Server(extensions=[…])`` and ``Client(extensions=[…])``.

`Extension` in `base` is the class of all of them. `apps` has MCP Apps (tools whose results a host shows as a page),
`skills` serves skills from folders and from code. A name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .apps import App
    from .base import Extension, ExtensionMethod
    from .skills import Skill, Skills

__all__ = ["App", "Extension", "ExtensionMethod", "Skill", "Skills"]

_HOMES: Final = {
    "App": "apps",
    "Extension": "base",
    "ExtensionMethod": "base",
    "Skill": "skills",
    "Skills": "skills",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
