"""What came with 2026-07-28, and what went: modern results, rounds, output of any type; the core's tasks."""

from ...model import (
    CacheableResult,
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateTaskResult,
    DiscoverResult,
    ElicitRequestParams,
    ElicitResult,
    ExtensionCreateTaskResult,
    GetPromptRequestParams,
    InitializeResult,
    InputRequiredResult,
    ListRootsResult,
    ReadResourceRequestParams,
    Result,
    ServerCapabilities,
    Tool,
    ToolResultContent,
)
from .capabilities import extensions_to_experimental, on_member, without_capabilities
from .conversions import refuse
from .elicitation import with_elicitation_id
from .plans import Edits
from .schemas import with_object_output, with_object_schema

_ROUNDS = ("input_responses", "request_state")
_client = without_capabilities("tasks", "roots.listChanged")
_server = without_capabilities("tasks")

INTRODUCED = Edits(
    without={
        Result: ("result_type",),
        CacheableResult: ("ttl_ms", "cache_scope"),
        CallToolRequestParams: _ROUNDS,
        GetPromptRequestParams: _ROUNDS,
        ReadResourceRequestParams: _ROUNDS,
    },
    convert={
        CallToolResult: with_object_output,
        ToolResultContent: with_object_output,
        Tool: with_object_schema,
        ElicitRequestParams: with_elicitation_id,
        ServerCapabilities: extensions_to_experimental,
        InitializeResult: on_member("capabilities", extensions_to_experimental),
        InputRequiredResult: refuse("this revision asks with requests of the server, not with results"),
        ExtensionCreateTaskResult: refuse("this revision tells a created task with a CreateTaskResult"),
    },
)

REMOVED = Edits(
    without={
        Tool: ("execution",),
        CallToolRequestParams: ("task",),
        CreateMessageRequestParams: ("task", "meta"),
        ElicitRequestParams: ("task", "meta", "elicitation_id"),
        ElicitResult: ("meta",),
        ListRootsResult: ("meta",),
    },
    convert={
        ClientCapabilities: _client,
        ServerCapabilities: _server,
        DiscoverResult: on_member("capabilities", _server),
        CreateTaskResult: refuse("this revision tells a created task with an ExtensionCreateTaskResult"),
    },
)
