"""`MethodTools`: tools for clients that read neither resources nor prompts, such as ``read_resource``.

A call of such a tool becomes the request it stands for, ``resources/read``, before middleware runs. Policies, rate
limits, permissions and lists act on the resource or prompt; the result becomes a tool result afterwards. Limits and
circuit breakers of tools count it under the name of the tool: see `tool_standing_for`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call, Channel
from ..drivers.middleware_chain import Component, Middleware, Next, Request
from ..errors import NAME_ECHO, ProtocolError, RegistrationError, ToolError
from ..json_schema.coercion import coerce
from ..model import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    PaginatedRequestParams,
    PaginatedResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourceContents,
    TextContent,
    Tool,
)
from ..server.server import Server
from ..wire.methods import METHODS
from .schema_profiles import restored

Run = Callable[[Call, Channel], Awaitable[Struct | Raw]]

LISTED_MEMBERS: Final = (
    "name",
    "title",
    "uri",
    "uriTemplate",
    "description",
    "mimeType",
    "size",
    "arguments",
)
"""What a list tool shows of a definition. A model needs neither icons nor annotations."""
_ABSENT: Final = frozenset({
    "resource_not_found", "resource_template_not_found", "prompt_not_found", "prompt_argument_missing",
    "invalid_prompt_arguments", "invalid_params", "invalid_cursor", "cursor_expired",
})  # fmt: skip
"""Errors of the request that the model can correct: the tool fails with their text."""


class CursorArguments(Struct, forbid_unknown_fields=True):
    """The arguments of the list tools."""

    cursor: str | None = None


class ReadArguments(Struct, forbid_unknown_fields=True):
    """The arguments of ``read_resource``."""

    uri: str


class PromptArguments(Struct, forbid_unknown_fields=True):
    """The arguments of ``get_prompt``."""

    name: str
    arguments: dict[str, Any] | None = None


class MethodTool(Struct, frozen=True):
    """One tool and the request it stands for."""

    definition: Tool
    method: str
    arguments: type[Struct]


def _tool(
    name: str, description: str, properties: Mapping[str, Any], required: list[str], **hints: bool
) -> Tool:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    annotations = {"readOnlyHint": True, "idempotentHint": True, **hints}
    return Tool(name, schema, description=description, annotations=annotations)


_CURSOR: Final = {"cursor": {"type": "string", "description": "The nextCursor of the page before."}}
_LIST_RESOURCES: Final = MethodTool(
    _tool("list_resources", "List the resources: documents and data that read_resource reads.", _CURSOR, []),
    "resources/list",
    CursorArguments,
)
_LIST_TEMPLATES: Final = MethodTool(
    _tool(
        "list_resource_templates",
        "List the URI templates of resources. Fill in the variables and read the URI with read_resource.",
        _CURSOR,
        [],
    ),
    "resources/templates/list",
    CursorArguments,
)
_READ: Final = MethodTool(
    _tool(
        "read_resource",
        "Read a resource.",
        {"uri": {"type": "string", "description": "A URI of list_resources, or of a filled-in template."}},
        ["uri"],
    ),
    "resources/read",
    ReadArguments,
)
_LIST_PROMPTS: Final = MethodTool(
    _tool("list_prompts", "List the prompts: prepared instructions that get_prompt fills in.", _CURSOR, []),
    "prompts/list",
    CursorArguments,
)
_GET_PROMPT: Final = MethodTool(
    _tool(
        "get_prompt",
        "Get the messages of a prompt.",
        {
            "name": {"type": "string", "description": "A name of list_prompts."},
            "arguments": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "The arguments that list_prompts names.",
            },
        },
        ["name"],
    ),
    "prompts/get",
    PromptArguments,
)
RESOURCES: Final = (_LIST_RESOURCES, _LIST_TEMPLATES, _READ)
PROMPTS: Final = (_LIST_PROMPTS, _GET_PROMPT)


class MethodTools:
    """The tools of one server that stand for requests."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tools: dict[str, MethodTool] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._tools)

    def offer(self, *, resources: bool | None, prompts: bool | None) -> None:
        """Offer the tools of resources or of prompts, or take them back; None changes nothing.

        Raises:
            RegistrationError: the server has a tool with one of their names.
        """
        wishes = ((RESOURCES, resources), (PROMPTS, prompts))
        chosen = [
            tool
            for tools, wish in wishes
            for tool in tools
            if (tool.definition.name in self._tools if wish is None else wish)
        ]
        for tool in chosen:
            name = tool.definition.name
            if name in self._server.registry.tools.entries:
                raise RegistrationError(
                    f"resources_as_tools and prompts_as_tools need the tool name {name!r}, which is already "
                    "registered; rename that tool"
                )
        self._tools = {tool.definition.name: tool for tool in chosen}
        if chosen:
            self._server.dispatcher.add_capability("tools", {"listChanged": True})

    def listed(self) -> list[Tool]:
        """Return the tools that middleware admits."""
        return [tool.definition for tool in self._tools.values() if self._is_admitted(tool.definition)]

    def find(self, call: Call) -> MethodTool | None:
        """Return the tool that ``call`` names, or None."""
        return self._tools.get(call.params.name) if call.method == "tools/call" else None

    def request(self, tool: MethodTool, call: Call, profile: str) -> Call:
        """Return the request that a call of ``tool`` stands for. Its schema was listed in ``profile``.

        Raises:
            ProtocolError: middleware does not admit the tool.
            ToolError: the arguments are wrong.
        """
        name = tool.definition.name
        if not self._is_admitted(tool.definition):
            raise ProtocolError("tool_not_found", data={"tool": name[:NAME_ECHO]})
        schema = tool.definition.input_schema
        given = restored(call.params.arguments, schema, profile)
        try:
            plain = coerce(msgspec.json.decode(b"{}" if given is UNSET else bytes(given)), schema)[0]
            arguments = msgspec.convert(plain, tool.arguments)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ToolError(f"{name}: {error}") from None
        rounds = {
            "meta": call.params.meta,
            "input_responses": call.params.input_responses,
            "request_state": call.params.request_state,
        }
        if isinstance(arguments, ReadArguments):
            params: Struct = ReadResourceRequestParams(arguments.uri, **rounds)
        elif isinstance(arguments, PromptArguments):
            values = {key: _text(value) for key, value in (arguments.arguments or {}).items()}
            params = GetPromptRequestParams(arguments.name, values, **rounds)
        else:
            cursor = cast("CursorArguments", arguments).cursor
            params = PaginatedRequestParams(cursor=cursor or UNSET, meta=call.params.meta)
        return replace(call, method=tool.method, params=params, source=call, raw_params=UNSET)

    async def guard(
        self, tool: MethodTool, call: Call, channel: Channel, middleware: Iterable[Any]
    ) -> tuple[Struct | Raw | None, Channel]:
        """Run the guards that go by the name of a tool. Return their answer, if any, and the channel of the request.

        Raises:
            DovetailError: a guard refuses the call.
        """
        passed: list[Channel] = []

        async def let_through(request: Request) -> Struct | Raw:
            passed.append(request.channel)
            return EmptyResult()

        chain: Next = let_through
        for each in reversed(tuple(middleware)):  # the outermost is the first
            if isinstance(each, Middleware) and each.guards_names:
                chain = partial(each.call_tool, call_next=chain)
        component = Component(tool.definition.name, "tool", definition=tool.definition)
        answer = await chain(Request(call, channel, component.name, lambda _: component))
        return (None, passed[0]) if passed else (answer, channel)

    async def answer(self, tool: MethodTool, call: Call, meant: Call, channel: Channel, run: Run) -> Struct:
        """Run the request ``meant`` and return its result as the one of ``tool``."""
        try:
            result: Any = await run(meant, channel)
        except ProtocolError as error:
            if error.kind not in _ABSENT:
                raise
            failure = ToolError(error.message)
            return self._server.dispatcher.failures.of_tool(failure, tool.definition.name, call)
        if isinstance(result, Raw):
            result = meant.codec.decode_result(METHODS[meant.method], result)
        return as_tool_result(result)

    def _is_admitted(self, tool: Tool) -> bool:
        admits = self._server.dispatcher.pipeline.admits
        return admits is None or admits(Component(tool.name, "tool", definition=tool))


def as_tool_result(result: Any) -> Struct:
    """Return the result of a list, a resource or a prompt as a tool result; a question stays what it is."""
    if isinstance(result, PaginatedResult):
        return _of_list(result)
    if isinstance(result, ReadResourceResult):
        alone = len(result.contents) == 1
        return CallToolResult([_block(one, alone=alone) for one in result.contents])
    if isinstance(result, GetPromptResult):
        written: Any = msgspec.to_builtins(result)
        messages = [{"role": one["role"], "content": one["content"]} for one in written["messages"]]
        told = len({one.role for one in result.messages}) > 1
        content = [_spoken(one.role, one.content) if told else one.content for one in result.messages]
        return CallToolResult(content, structured_content={"messages": messages})
    return result


def _of_list(result: PaginatedResult) -> CallToolResult:
    shown: dict[str, Any] = {}
    written: dict[str, Any] = msgspec.to_builtins(result)
    for member, value in written.items():
        if isinstance(value, list):
            entries = cast("list[dict[str, Any]]", value)
            shown[member] = [{key: one[key] for key in LISTED_MEMBERS if key in one} for one in entries]
        elif member == "nextCursor":
            shown[member] = value
    return CallToolResult([TextContent(msgspec.json.encode(shown).decode())], structured_content=shown)


def _block(contents: ResourceContents, *, alone: bool) -> ContentBlock:
    """Return one entry of a resource; of several each keeps its URI."""
    if not alone:
        return EmbeddedResource(contents)
    if contents.text is not UNSET:
        return TextContent(contents.text)
    kind = "" if contents.mime_type is UNSET else contents.mime_type
    if contents.blob is not UNSET and kind.startswith("image/"):
        return ImageContent(contents.blob, kind)
    if contents.blob is not UNSET and kind.startswith("audio/"):
        return AudioContent(contents.blob, kind)
    return EmbeddedResource(contents)


def _text(value: Any) -> str:
    """Return an argument of a prompt: strings in every revision, though a model may send a number."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _spoken(role: str, content: ContentBlock) -> ContentBlock:
    return replace(content, text=f"{role}: {content.text}") if isinstance(content, TextContent) else content
