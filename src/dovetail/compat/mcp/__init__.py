"""The module tree of SDK 1.x (``mcp``) over ours. What is heavy is loaded when it is asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from . import types
from .shared.exceptions import McpError, UrlElicitationRequiredError

if TYPE_CHECKING:
    from .client.session import ClientSession
    from .client.session_group import ClientSessionGroup
    from .client.stdio import StdioServerParameters, stdio_client
    from .server.session import ServerSession
    from .server.stdio import stdio_server

_ELSEWHERE: Final = {
    "ClientSession": ".client.session",
    "ClientSessionGroup": ".client.session_group",
    "StdioServerParameters": ".client.stdio",
    "stdio_client": ".client.stdio",
    "ServerSession": ".server.session",
    "stdio_server": ".server.stdio",
}


def __getattr__(name: str) -> Any:
    """Names of the tree below, and every type of the protocol."""
    if name in _ELSEWHERE:
        return vars(import_module(_ELSEWHERE[name], __name__))[name]
    if name in types.__all__:
        return getattr(types, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ClientSession",
    "ClientSessionGroup",
    "McpError",
    "ServerSession",
    "StdioServerParameters",
    "UrlElicitationRequiredError",
    "stdio_client",
    "stdio_server",
]
