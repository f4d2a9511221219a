"""The server."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .context import Context
    from .proxy import create_proxy
    from .server import FastMCP

_NAMES = {"Context": ".context", "FastMCP": ".server", "create_proxy": ".proxy"}


def __getattr__(name: str) -> Any:
    """Loaded when asked for: the parts of this package are needed by what they stand on, too."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = vars(import_module(_NAMES[name], __name__))[name]
    return value


__all__ = ["Context", "FastMCP", "create_proxy"]
