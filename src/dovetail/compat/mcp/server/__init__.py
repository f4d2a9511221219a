"""The servers of SDK 1.x over ours: `lowlevel`, and `fastmcp` on top."""

from importlib import import_module
from typing import Any

from .lowlevel import NotificationOptions, Server
from .models import InitializationOptions


def __getattr__(name: str) -> Any:
    """``FastMCP`` is loaded when it is asked for: a low-level server does without."""
    if name == "FastMCP":
        return vars(import_module(".fastmcp", __name__))[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["InitializationOptions", "NotificationOptions", "Server"]
