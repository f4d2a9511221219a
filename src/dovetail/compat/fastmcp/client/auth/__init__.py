"""How a client shows who it is."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .bearer import BearerAuth

if TYPE_CHECKING:
    from .oauth import OAuth


def __getattr__(name: str) -> Any:
    """Most clients log in nowhere."""
    if name == "OAuth":
        return vars(import_module(".oauth", __name__))[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["BearerAuth", "OAuth"]
