"""The Model Context Protocol for Python: a server that fits every client, a client that fits every server.

Names are loaded when they are first used, so that importing the package costs next to nothing and a server
never pays for a client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .auth import AuthError, InvalidToken, Unavailable
    from .client import Client, SkillError, StatusError
    from .core.channel import ServerRequestsNotSupported
    from .core.principal import Principal
    from .core.route_handlers import RouteRequest, RouteResponse
    from .errors import (
        CapabilityError,
        DovetailError,
        LocalProtocolError,
        ProtocolError,
        Refusal,
        RegistrationError,
        RemoteProtocolError,
        RequestTimeout,
        SessionLost,
        StateError,
        ToolError,
        TransportError,
    )
    from .extensions.apps import App
    from .gateway import Clients, ConfigError
    from .manifest.contract import ContractError
    from .manifest.lock import LockError
    from .model import (
        Annotations,
        AudioContent,
        CallToolResult,
        Completion,
        EmbeddedResource,
        GetPromptResult,
        Icon,
        ImageContent,
        PromptMessage,
        ReadResourceResult,
        ResourceContents,
        ResourceLink,
        Root,
        SamplingMessage,
        TextContent,
        Tool,
        ToolAnnotations,
    )
    from .server import (
        Accepted,
        Audio,
        Context,
        Declined,
        Depends,
        Elicit,
        ElicitUrl,
        File,
        Handle,
        Image,
        InputNotSupported,
        InputRejected,
        InputRequired,
        Roots,
        Sample,
        Sampled,
        Server,
    )
    from .server.current_context import get_context
    from .server.resource_readers import FileResource, FolderResource, TextResource, UrlResource
    from .server.uploads import Upload
    from .settings import HttpOptions, Limits, Reconnect, TaskOptions, Timeouts
    from .stores import StoreError, StoreFull, StoreUnavailable, StoreUnreadable
    from .version import __version__
    from .wire.seal import Keys

_HOMES = {
    "auth": "AuthError InvalidToken Unavailable",
    "client": "Client SkillError StatusError",
    "core.channel": "ServerRequestsNotSupported",
    "core.principal": "Principal",
    "core.route_handlers": "RouteRequest RouteResponse",
    "errors": """CapabilityError DovetailError LocalProtocolError ProtocolError Refusal
        RegistrationError RemoteProtocolError RequestTimeout SessionLost StateError ToolError
        TransportError""",
    "model": """Annotations AudioContent CallToolResult Completion EmbeddedResource GetPromptResult Icon
        ImageContent PromptMessage ReadResourceResult ResourceContents ResourceLink Root SamplingMessage
        TextContent Tool ToolAnnotations""",
    "server": """Accepted Audio Context Declined Depends Elicit ElicitUrl File Handle Image
        InputNotSupported InputRejected InputRequired Roots Sample Sampled Server""",
    "server.current_context": "get_context",
    "server.uploads": "Upload",
    "stores": "StoreError StoreFull StoreUnavailable StoreUnreadable",
    "extensions.apps": "App",
    "manifest.contract": "ContractError",
    "manifest.lock": "LockError",
    "version": "__version__",
    "server.resource_readers": "FileResource FolderResource TextResource UrlResource",
    "gateway": "Clients ConfigError",
    "settings": "HttpOptions Limits Reconnect TaskOptions Timeouts",
    "wire.seal": "Keys",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Accepted",
    "Annotations",
    "App",
    "Audio",
    "AudioContent",
    "AuthError",
    "CallToolResult",
    "CapabilityError",
    "Client",
    "Clients",
    "Completion",
    "ConfigError",
    "Context",
    "ContractError",
    "Declined",
    "Depends",
    "DovetailError",
    "Elicit",
    "ElicitUrl",
    "EmbeddedResource",
    "File",
    "FileResource",
    "FolderResource",
    "GetPromptResult",
    "Handle",
    "HttpOptions",
    "Icon",
    "Image",
    "ImageContent",
    "InputNotSupported",
    "InputRejected",
    "InputRequired",
    "InvalidToken",
    "Keys",
    "Limits",
    "LocalProtocolError",
    "LockError",
    "Principal",
    "PromptMessage",
    "ProtocolError",
    "ReadResourceResult",
    "Reconnect",
    "Refusal",
    "RegistrationError",
    "RemoteProtocolError",
    "RequestTimeout",
    "ResourceContents",
    "ResourceLink",
    "Root",
    "Roots",
    "RouteRequest",
    "RouteResponse",
    "Sample",
    "Sampled",
    "SamplingMessage",
    "Server",
    "ServerRequestsNotSupported",
    "SessionLost",
    "SkillError",
    "StateError",
    "StatusError",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "StoreUnreadable",
    "TaskOptions",
    "TextContent",
    "TextResource",
    "Timeouts",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "TransportError",
    "Unavailable",
    "Upload",
    "UrlResource",
    "__version__",
    "get_context",
]  # fmt: skip


_MODULES = frozenset(("errors", "integrations", "model", "refusals", "settings", "sync", "testing"))
"""What ``import dovetail`` alone lets one write: ``dovetail.sync.Client``."""


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
