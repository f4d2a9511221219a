"""Extensions of the protocol, for ``Server(extensions=[…])`` and ``Client(extensions=[…])``.

`Extension` in `base` is the class of all of them. `apps` has MCP Apps (tools whose results a host shows as a page),
`idempotency` runs calls with a key once, `skills` serves skills from folders and from code, `tasks` has tools that run
as tasks. A name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .apps import App, Apps
    from .base import Extension, ExtensionMethod
    from .idempotency import Idempotency
    from .skills import Skill, Skills
    from .tasks import Tasks

__all__ = [
    "App",
    "Apps",
    "Extension",
    "ExtensionMethod",
    "Idempotency",
    "Skill",
    "Skills",
    "Tasks",
]

_HOMES: Final = {
    "App": "apps",
    "Apps": "apps",
    "Extension": "base",
    "ExtensionMethod": "base",
    "Idempotency": "idempotency",
    "Skill": "skills",
    "Skills": "skills",
    "Tasks": "tasks",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
