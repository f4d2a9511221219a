"""The tables of a migration: names and arguments of the other libraries, and their counterparts in Dovetail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

AWAY: Final = ""
"""Instead of a new name: the argument is removed, because it has no meaning in Dovetail."""
FIRST: Final = "/"
"""Instead of a new name: the argument becomes the first positional one."""


class CallForm(Struct, frozen=True):
    """How to rewrite the arguments of a call."""

    takes: tuple[str, ...] = ()
    """The positional parameters of the other library, in order."""
    leads: int = 1
    """How many of them Dovetail accepts by position; the rest becomes keyword arguments."""
    keywords: Mapping[str, str] = {}
    """Old keyword → new keyword. Others cannot be migrated."""


def _same(*names: str, **others: str) -> dict[str, str]:
    return {name: name for name in names} | others


_FASTMCP: Final = ("fastmcp", "fastmcp.server", "fastmcp.server.server")
_SDK: Final = ("mcp.server.fastmcp", "mcp.server.fastmcp.server", "mcp.server")
_SDK_2: Final = ("mcp.server.mcpserver", "mcp.server.mcpserver.server", "mcp.server")
SERVERS: Final = frozenset(
    {f"{module}.FastMCP" for module in _FASTMCP + _SDK} | {f"{module}.MCPServer" for module in _SDK_2}
)
LOW_LEVEL: Final = frozenset(
    {"mcp.server.Server", "mcp.server.lowlevel.Server", "mcp.server.lowlevel.server.Server"}
)
CONTEXTS: Final = frozenset(
    f"{module}.Context"
    for module in (
        *_FASTMCP, *_SDK, *_SDK_2, "fastmcp.server.context", "fastmcp.context", "mcp.server.mcpserver.context",
    )
)  # fmt: skip
REQUEST: Final = "starlette.requests.Request"
GET_CONTEXT: Final = frozenset(
    {"fastmcp.server.dependencies.get_context", "fastmcp.dependencies.get_context"}
)
MESSAGES: Final = {
    **{
        f"{module}.{name}": role
        for module in (
            "mcp.server.fastmcp.prompts.base", "mcp.server.fastmcp.prompts", "mcp.server.mcpserver",
            "mcp.server.mcpserver.prompts.base",
        )
        for name, role in (("UserMessage", "user"), ("AssistantMessage", "assistant"), ("Message", "user"))
    },
    **{f"{module}.Message": "user" for module in ("fastmcp.prompts", "fastmcp.prompts.prompt")},
}  # fmt: skip
"""Classes of prompt messages, and their default role."""

_TYPES: Final = [
    "Annotations",
    "AudioContent",
    "CallToolResult",
    "EmbeddedResource",
    "GetPromptResult",
    "Icon",
    "ImageContent",
    "PromptMessage",
    "ResourceLink",
    "SamplingMessage",
    "TextContent",
    "ToolAnnotations",
]
_MEDIA: Final = {
    f"{module}.{name}": f"dovetail.{name}"
    for module in (
        "fastmcp", "fastmcp.utilities.types", "mcp.server.fastmcp", "mcp.server.fastmcp.utilities.types",
        "mcp.server.mcpserver", "mcp.server.mcpserver.utilities.types",
    )
    for name in ("Audio", "File", "Image")
}  # fmt: skip
NAMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(SERVERS, "dovetail.Server"),
    **dict.fromkeys(CONTEXTS, "dovetail.Context"),
    **dict.fromkeys(GET_CONTEXT, "dovetail.get_context"),
    **dict.fromkeys(MESSAGES, "dovetail.PromptMessage"),
    **{f"mcp.types.{name}": f"dovetail.{name}" for name in _TYPES},
    "mcp.types.TextResourceContents": "dovetail.ResourceContents",
    "mcp.types.BlobResourceContents": "dovetail.ResourceContents",
    **_MEDIA,
    "fastmcp.exceptions.ToolError": "dovetail.ToolError",
    "mcp.server.fastmcp.exceptions.ToolError": "dovetail.ToolError",
    "mcp.server.mcpserver.exceptions.ToolError": "dovetail.ToolError",
    "fastmcp.server.elicitation.AcceptedElicitation": "dovetail.Accepted",
    "mcp.server.elicitation.AcceptedElicitation": "dovetail.Accepted",
    "mcp.server.mcpserver.AcceptedElicitation": "dovetail.Accepted",
    "fastmcp.dependencies.Depends": "dovetail.Depends",
}
"""Old names → new names."""
HTTP_NAMES: Final[Mapping[str, str]] = {
    REQUEST: "dovetail.RouteRequest",
    "starlette.responses.Response": "dovetail.RouteResponse",
    "starlette.responses.JSONResponse": "dovetail.RouteResponse",
    "starlette.responses.PlainTextResponse": "dovetail.RouteResponse",
}
"""Names for custom routes."""

_CONSTRUCTOR: Final = CallForm(
    ("name", "instructions"), 1,
    _same(
        "name", "instructions", "version", "website_url", "icons", "lifespan", mask_error_details="mask_errors",
        warn_on_duplicate_tools=AWAY, warn_on_duplicate_resources=AWAY, warn_on_duplicate_prompts=AWAY,
        dependencies=AWAY, debug=AWAY, log_level=AWAY, strict_input_validation=AWAY, include_fastmcp_meta=AWAY,
    ),
)  # fmt: skip
_CONSTRUCTOR_2: Final = CallForm(
    ("name", "title", "description", "instructions"), 1,
    _same("title", "description", **_CONSTRUCTOR.keywords),
)  # fmt: skip
_MEMBERS: Final = _same(
    "annotations", "content", "data", "description", "name", "resource", "role", "sizes", "src", "text", "title",
    "uri", "blob", "messages", type=AWAY, mimeType="mime_type", structuredContent="structured_content",
    isError="is_error", _meta="meta", meta="meta", size="size",
)  # fmt: skip
_RESPONSE: Final = CallForm(
    ("content", "status_code", "headers", "media_type"), 1,
    {"content": FIRST, "status_code": "status", "headers": "headers", "media_type": "content_type"},
)  # fmt: skip
CONSTRUCTORS: Final[Mapping[str, CallForm]] = {
    **{name: _CONSTRUCTOR_2 if name.endswith(".MCPServer") else _CONSTRUCTOR for name in SERVERS},
    **{
        name: CallForm((), 0, _MEMBERS)
        for name in NAMES
        if name.startswith("mcp.types.") and not name.endswith("Annotations")
    },
    **{
        name: CallForm(
            ("path", "data"), 0,
            _same("path", "data", "format", **({"name": "name"} if name.endswith("File") else {})),
        )
        for name in _MEDIA
    },
    **{name: _RESPONSE for name in HTTP_NAMES if name != REQUEST},
}  # fmt: skip
"""Calls of imported functions and classes."""

_SHARED: Final = _same("name", "title", "description", "icons", "annotations", "meta", "tags")
_RUN: Final = CallForm(
    ("transport",), 1,
    _same(
        "host", "port", "path", transport=FIRST, show_banner=AWAY, log_level=AWAY, mount_path=AWAY,
        stateless_http="stateless", stateless="stateless", json_response="json_only",
    ),
)  # fmt: skip
MOVED: Final = {
    "host": "host", "port": "port", "streamable_http_path": "path", "stateless_http": "stateless",
    "json_response": "json_only",
}  # fmt: skip
"""Arguments of the constructor in the SDK that are arguments of `Server.run`."""
TRANSPORTS: Final = {"streamable-http": "http", "http": "http", "sse": "sse", "stdio": "stdio"}
RUNNING: Final[Mapping[str, tuple[str, str | None]]] = {
    "run": ("run", None),
    "run_async": ("serve", None),
    "run_stdio_async": ("serve", "stdio"),
    "run_http_async": ("serve", "http"),
    "run_streamable_http_async": ("serve", "http"),
    "run_sse_async": ("serve", "sse"),
}
"""Old method → new method, and the transport in its name."""
_APPLICATION: Final = CallForm(
    (), 0, {"path": "path", "stateless_http": "stateless", "json_response": "json_only"}
)
_MOUNT: Final = CallForm(
    ("server", "prefix"), 2,
    {"server": FIRST, "prefix": "prefix", "namespace": "prefix", "as_proxy": AWAY},
)  # fmt: skip
SERVER_METHODS: Final[Mapping[str, tuple[str, CallForm]]] = {
    "tool": (
        "tool",
        CallForm(
            ("function",), 1,
            {**_SHARED, "output_schema": "output_schema", "structured_output": "structured", "timeout": "timeout",
             "version": "version"},
        ),
    ),
    "add_tool": (
        "add_tool", CallForm(("fn", "name", "title", "description", "annotations"), 1,
                         {**_SHARED, "fn": FIRST, "structured_output": "structured"}),
    ),
    "resource": ("resource", CallForm(("uri",), 1, {**_SHARED, "uri": FIRST, "mime_type": "mime_type"})),
    "prompt": ("prompt", CallForm(("name",), 1, {**_SHARED})),
    "remove_tool": ("remove_tool", CallForm(("name",), 1, {"name": FIRST})),
    "custom_route": (
        "route",
        CallForm(("path", "methods"), 1,
             {"path": FIRST, "methods": "methods", "name": AWAY, "include_in_schema": AWAY}),
    ),
    "mount": ("mount", _MOUNT),
    "import_server": ("mount", _MOUNT),
    **{name: (ours, _RUN) for name, (ours, _) in RUNNING.items()},
    "http_app": ("asgi", _APPLICATION),
    "streamable_http_app": ("asgi", _APPLICATION),
    "sse_app": ("asgi", CallForm()),
    "get_context": ("get_context", CallForm()),
}  # fmt: skip
"""Old method of a server → new method and its arguments."""
SERVER_MEMBERS: Final = frozenset({"name", "instructions"})

_LOGGED: Final = CallForm(("message", "logger_name"), 1, {"message": FIRST, "logger_name": "logger"})
CONTEXT_MEMBERS: Final[Mapping[str, str]] = {
    **{
        name: name
        for name in ("request_id", "debug", "info", "warning", "error", "log", "report_progress", "elicit", "sample",
                     "list_roots")
    },
    "request_context.lifespan_context": "lifespan",
    "request_context.request_id": "request_id",
    "lifespan_context": "lifespan",
    "fastmcp": "server",
    "get_state": "state.get",
    "set_state": "state.set",
    "delete_state": "state.delete",
}  # fmt: skip
"""Old members of the context → new members."""
_PROGRESS: Final = CallForm(("progress", "total", "message"), 3, _same("progress", "total", "message"))
_CONTEXT_SHARED: Final = {
    **dict.fromkeys(("debug", "info", "warning", "error"), _LOGGED),
    "report_progress": _PROGRESS,
    "get_state": CallForm(("key",), 1, {"key": FIRST}),
    "set_state": CallForm(("key", "value"), 2, {"key": FIRST, "value": "value"}),
    "delete_state": CallForm(("key",), 1, {"key": FIRST}),
    "list_roots": CallForm(),
}
CONTEXT_METHODS: Final[Mapping[str, Mapping[str, CallForm]]] = {
    "fastmcp": {
        **_CONTEXT_SHARED,
        "log": CallForm(
            ("message", "level", "logger_name"), 0, {"message": "data", "level": "level", "logger_name": "logger"}
        ),
        "elicit": CallForm(("message", "response_type"), 2, {"message": "message", "response_type": "schema"}),
        "sample": CallForm(
            ("messages",), 1,
            _same("temperature", "max_tokens", "include_context", messages=FIRST, system_prompt="system",
                  model_preferences="model_preferences"),
        ),
    },
    "mcp": {
        **_CONTEXT_SHARED,
        "log": CallForm(
            ("level", "message"), 2, {"level": "level", "message": "data", "logger_name": "logger"}
        ),
        "elicit": CallForm(("message", "schema"), 2, _same("message", "schema")),
    },
}  # fmt: skip
"""Calls of the context that differ between FastMCP and the SDK."""
REQUEST_MEMBERS: Final = {
    "method": "method", "headers": "headers", "query_params": "query", "path_params": "params", "body": "body",
    "json": "json",
}  # fmt: skip

HINTS: Final[Mapping[str, str]] = {
    "fastmcp.server.middleware": "write a Middleware for Server(middleware=[…])",
    "fastmcp.server.auth": "use a verifier of dovetail.auth for Server(auth=…)",
    "mcp.server.auth": "use a verifier of dovetail.auth for Server(auth=…)",
    "mcp.server.stdio": "server.run() serves over stdio",
    "mcp.server.lowlevel": "register each tool with server.add_tool(name=…, input_schema=…, handler=…)",
    "mcp.server.Server": "register each tool with server.add_tool(name=…, input_schema=…, handler=…)",
    "fastmcp.server.dependencies.get_http": "ctx.scope has the headers",
    "fastmcp.server.dependencies.get_access_token": "ctx.principal is the caller",
    "fastmcp.tools.tool.ToolResult": "return dovetail.CallToolResult(content=[…], structured_content=…)",
    "fastmcp.tools.ToolResult": "return dovetail.CallToolResult(content=[…], structured_content=…)",
    "fastmcp.tools": "pass the function to server.add_tool",
    "fastmcp.exceptions": "raise an exception of dovetail",
    "mcp.server.fastmcp.exceptions": "raise an exception of dovetail",
    "mcp.server.mcpserver.exceptions": "raise an exception of dovetail",
    **{
        f"mcp.server.mcpserver.{name}": f"request it in the handler: await ctx.{ours}(…)"
        for name, ours in (
            ("Resolve", "elicit"), ("Elicit", "elicit"), ("Sample", "sample"), ("ListRoots", "list_roots"),
        )
    },
    "mcp.MCPError": "raise dovetail.ProtocolError(kind, message)",
    "mcp.shared.exceptions": "raise dovetail.ProtocolError(kind, message)",
    "fastmcp.Client": "dovetail.Client has other arguments",
    "mcp.client": "dovetail.Client replaces all of them",
    "mcp.types": "dovetail.model has the types of the protocol",
}  # fmt: skip
"""Prefix of a name → what to do by hand."""
