"""The table of the original libraries: how they differ, and which of their names Dovetail uses.

Every name of an original is here, as ``module:attribute``. A name that an installed version lacks is reported
with that version.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from ..errors import DovetailError
from ..extras import install_package

Transport = Literal["stdio", "http", "sse"]

REFUSED: Final = 3
"""The exit status when a program cannot be served."""


class CompatError(DovetailError):
    """A program of an original library cannot be served; the message says why and what to do."""

    kind = "compat"
    status = REFUSED


class ServerClass(Struct, frozen=True, kw_only=True):
    """A high-level server of an original: the methods that open a transport, and what Dovetail passes to them."""

    name: str
    run: Mapping[Transport, tuple[str, Mapping[str, Any]]]
    settings: Mapping[str, str] = {}
    """Members of ``server.settings`` that Dovetail sets before the server opens HTTP."""


class Original(Struct, frozen=True, kw_only=True):
    """One major version of an original library."""

    package: str
    major: int
    servers: tuple[ServerClass, ...]
    low_level: tuple[str, ...]
    """Servers with ``run(read_stream, write_stream, initialization_options)`` and ``lifespan``."""


class Sdk(Struct, frozen=True, kw_only=True):
    """One major version of the official SDK, which FastMCP uses as well."""

    decode: str
    """Reads a message from JSON values."""
    decode_options: Mapping[str, Any] = {}
    encode_options: Mapping[str, Any]
    """For ``model_dump_json`` of a message."""
    root: bool = False
    """A message is wrapped: ``message.root``."""
    tasks: bool = False
    """It has the tasks of 2025-11-25."""
    context_stream: str | None = None
    """A stream that hands each message over in the context of its sender; its items are pairs."""
    request_context: str | None = None
    """The context variable with the request whose handler runs, where handlers do not run in its sender's context."""
    handlers: str | None = None
    """The attribute of a low-level server with its handlers by request type."""
    subscribe: str | None = None
    """The type of a subscription, where the server does not declare that it has a handler for it."""
    middleware: str | None = None
    """The attribute with functions around every request."""
    clients: Mapping[str, str]
    """The functions that connect a client, by their kind. Not every installation has those for URLs."""
    triple: bool = False
    """The HTTP client's streams come with a function that returns the session id."""


_SDK_METHODS: Final[Mapping[Transport, tuple[str, Mapping[str, Any]]]] = {
    "stdio": ("run_stdio_async", {}),
    "http": ("run_streamable_http_async", {}),
    "sse": ("run_sse_async", {}),
}
_FASTMCP_METHODS: Final[Mapping[Transport, tuple[str, Mapping[str, Any]]]] = {
    "stdio": ("run_stdio_async", {"show_banner": False}),
    "http": ("run_http_async", {"transport": "http", "path": "/mcp", "show_banner": False}),
    "sse": ("run_http_async", {"transport": "sse", "path": "/sse", "show_banner": False}),
}
_PATHS: Final = {"streamable_http_path": "/mcp", "sse_path": "/sse"}


def _fastmcp(major: int) -> Original:
    return Original(
        package="fastmcp",
        major=major,
        servers=(ServerClass(name="fastmcp:FastMCP", run=_FASTMCP_METHODS),),
        low_level=("fastmcp.server.low_level:LowLevelServer",),
    )


ORIGINALS: Final[tuple[Original, ...]] = (
    Original(
        package="mcp",
        major=1,
        servers=(ServerClass(name="mcp.server.fastmcp:FastMCP", run=_SDK_METHODS, settings=_PATHS),),
        low_level=("mcp.server.lowlevel:Server",),
    ),
    Original(
        package="mcp",
        major=2,
        servers=(
            ServerClass(
                name="mcp.server:MCPServer",
                run={
                    **_SDK_METHODS,
                    "http": ("run_streamable_http_async", {"streamable_http_path": "/mcp"}),
                    "sse": ("run_sse_async", {"sse_path": "/sse"}),
                },
            ),
        ),
        low_level=("mcp.server.lowlevel:Server",),
    ),
    *map(_fastmcp, (2, 3, 4)),
)
SDKS: Final[Mapping[int, Sdk]] = {
    1: Sdk(
        decode="mcp.types:JSONRPCMessage.model_validate",
        encode_options={"by_alias": True, "exclude_none": True},
        root=True,
        tasks=True,
        request_context="mcp.server.lowlevel.server:request_ctx",
        handlers="request_handlers",
        subscribe="mcp.types:SubscribeRequest",
        clients={
            "stdio": "mcp.client.stdio:stdio_client",
            "http": "mcp.client.streamable_http:streamable_http_client",
            "http with headers": "mcp.client.streamable_http:streamablehttp_client",
            "sse": "mcp.client.sse:sse_client",
            "websocket": "mcp.client.websocket:websocket_client",
        },
        triple=True,
    ),
    2: Sdk(
        decode="mcp.types:jsonrpc_message_adapter.validate_python",
        decode_options={"by_name": False},
        encode_options={"by_alias": True, "exclude_unset": True},
        context_stream="mcp.shared._context_streams:ContextReceiveStream",
        middleware="middleware",
        clients={
            "stdio": "mcp.client.stdio:stdio_client",
            "http": "mcp.client.streamable_http:streamable_http_client",
            "sse": "mcp.client.sse:sse_client",
        },
    ),
}
CREATED_TASK: Final = "modelcontextprotocol.io/task"
"""The member of ``_meta`` in which FastMCP 2 describes the task that it has created."""
STDIO: Final = "mcp.server.stdio:stdio_server"
MANAGER: Final = "mcp.server.streamable_http_manager:StreamableHTTPSessionManager"
SSE: Final = "mcp.server.sse:SseServerTransport"
WEBSOCKET: Final = "mcp.server.websocket:websocket_server"
HTTP_SERVER: Final = "uvicorn:Server"
HTTP_CONFIG: Final = "uvicorn:Config"
HTTP_RUN: Final = "uvicorn:run"
MESSAGE: Final = "mcp.shared.message:SessionMessage"
METADATA: Final = "mcp.shared.message:ServerMessageMetadata"
REQUEST: Final = "starlette.requests:Request"
STREAMS: Final = "anyio:create_memory_object_stream"
HTTP_CLIENT: Final = "mcp.shared._httpx_utils:create_mcp_http_client"


class InstalledOriginals(Struct, frozen=True):
    """The originals that a program uses."""

    sdk: Sdk
    originals: tuple[Original, ...]


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def not_installed(package: str, title: str) -> CompatError:
    return CompatError(f"{title} needs {package}, which is not installed: {install_package(package)}")


def installed(packages: Iterable[str], title: str) -> InstalledOriginals:
    """The rows for the installed versions of ``packages``, of the SDK at least.

    Raises:
        CompatError: one is not installed, or its version is not in the table.
    """
    wanted = ["mcp", *sorted({*packages} - {"mcp"})]
    for package in reversed(wanted):  # report FastMCP first, not the SDK that it needs
        if not is_installed(package):
            raise not_installed(package, title)
    rows = tuple(_row(package) for package in wanted)
    return InstalledOriginals(SDKS[rows[0].major], rows)


def _row(package: str) -> Original:
    version = importlib.metadata.version(package)
    major = version.partition(".")[0]
    known = {str(row.major): row for row in ORIGINALS if row.package == package}
    if major not in known:
        raise CompatError(
            f"{package} {version} is not supported: Dovetail runs servers of {package} {', '.join(known)}"
        )
    return known[major]


def find(name: str) -> Any:
    """The object at ``module:attribute``, or None where the installed version lacks it."""
    try:
        return _at(name)
    except (ImportError, AttributeError):
        return None


def load(name: str) -> Any:
    """The object at ``module:attribute``.

    Raises:
        CompatError: the installed version lacks it, or cannot be imported.
    """
    try:
        return _at(name)
    except (ImportError, AttributeError) as error:
        module = name.partition(":")[0]
        package = module.partition(".")[0]
        if not is_installed(package):
            raise not_installed(package, "dovetail.compat") from None
        version = importlib.metadata.version(package)
        inside = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        if inside or isinstance(error, AttributeError):
            dotted = name.replace(":", ".")
            raise CompatError(f"{package} {version} has no {dotted}, which Dovetail needs") from None
        raise CompatError(f"{package} {version} cannot be imported: {error}") from None


def _at(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found
