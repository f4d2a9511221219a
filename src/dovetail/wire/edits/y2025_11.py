"""What 2025-11-25 does not know yet: members of modern results, rounds, output of any type."""

from ...model import (
    CacheableResult,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequestParams,
    ExtensionCreateTaskResult,
    GetPromptRequestParams,
    InputRequiredResult,
    ReadResourceRequestParams,
    Result,
    Tool,
    ToolResultContent,
)
from .conversions import refuse
from .elicitation import with_elicitation_id
from .plans import Edits
from .schemas import with_object_output, with_object_schema

_ROUNDS = ("input_responses", "request_state")

EDITS = Edits(
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
        InputRequiredResult: refuse("this revision asks with requests of the server, not with results"),
        ExtensionCreateTaskResult: refuse("this revision tells a created task with a CreateTaskResult"),
    },
)
