"""What came and went with each revision: the tables that its row in `revisions` names.

A member that came is left out for all revisions before, or put in an older form by a conversion; what went is
left out from then on.
"""

from ...model import (
    AudioContent,
    CacheableResult,
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    CompleteRequestParams,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateTaskResult,
    DiscoverResult,
    ElicitRequestParams,
    ElicitResult,
    EmbeddedResource,
    ExtensionCreateTaskResult,
    GetPromptRequestParams,
    ImageContent,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    InputRequiredResult,
    ListRootsResult,
    Metadata,
    ProgressNotificationParams,
    PromptArgument,
    PromptReference,
    ReadResourceRequestParams,
    Resource,
    ResourceContents,
    ResourceLink,
    ResourceTemplate,
    Result,
    Root,
    SamplingMessage,
    ServerCapabilities,
    TextContent,
    Tool,
    ToolResultContent,
    ToolUseContent,
)
from .capabilities import extensions_to_experimental, on_member, plain_elicitation, without_capabilities
from .conversions import (
    audio_message_to_text,
    audio_to_resource,
    link_to_text,
    one_block_messages,
    one_block_result,
    plain_form,
    refuse,
    title_to_annotations,
    with_elicitation_id,
    without_last_modified,
)
from .plans import Edits
from .schemas import with_object_output, with_object_schema

# --- 2025-03-26: audio, tool annotations, texts of progress, completions ---

_without_completions = without_capabilities("completions")

CAME_2025_03 = Edits(
    without={
        Tool: ("annotations",),
        ProgressNotificationParams: ("message",),
    },
    convert={
        ServerCapabilities: _without_completions,
        InitializeResult: on_member("capabilities", _without_completions),
        AudioContent: audio_to_resource,
        SamplingMessage: audio_message_to_text,
        CreateMessageResult: audio_message_to_text,
    },
)

# --- 2025-06-18: titles, metadata below the top, structured output, links ---

_without_elicitation = without_capabilities("elicitation")

CAME_2025_06 = Edits(
    without={
        Metadata: ("title", "meta"),
        Implementation: ("title",),
        PromptArgument: ("title",),
        PromptReference: ("title",),
        Tool: ("output_schema",),
        CallToolResult: ("structured_content",),
        CompleteRequestParams: ("context",),
        TextContent: ("meta",),
        ImageContent: ("meta",),
        AudioContent: ("meta",),
        EmbeddedResource: ("meta",),
        ResourceContents: ("meta",),
        Root: ("meta",),
    },
    convert={
        ClientCapabilities: _without_elicitation,
        InitializeRequestParams: on_member("capabilities", _without_elicitation),
        Tool: title_to_annotations,
        ResourceLink: link_to_text,
        TextContent: without_last_modified,
        ImageContent: without_last_modified,
        AudioContent: without_last_modified,
        EmbeddedResource: without_last_modified,
        Resource: without_last_modified,
        ResourceTemplate: without_last_modified,
    },
)

# --- 2025-11-25: icons, tasks, URL questions, tools and several blocks in sampling ---

_unknown_to_clients = without_capabilities("tasks", "sampling.context", "sampling.tools")
_without_tasks = without_capabilities("tasks")
_no_tools = refuse("tools in sampling exist since 2025-11-25", "capability_not_supported")


def _older_client(capabilities: dict[str, object]) -> dict[str, object]:
    return plain_elicitation(_unknown_to_clients(capabilities))


CAME_2025_11 = Edits(
    without={
        Implementation: ("description", "icons", "website_url"),
        Metadata: ("icons",),
        Tool: ("execution",),
        CallToolRequestParams: ("task",),
        CreateMessageRequestParams: ("task",),
        ElicitRequestParams: ("task", "mode", "elicitation_id"),
        SamplingMessage: ("meta",),
    },
    convert={
        ClientCapabilities: _older_client,
        ServerCapabilities: _without_tasks,
        InitializeRequestParams: on_member("capabilities", _older_client),
        InitializeResult: on_member("capabilities", _without_tasks),
        CreateTaskResult: refuse("tasks exist since 2025-11-25"),
        ElicitRequestParams: plain_form,
        CreateMessageRequestParams: one_block_messages,
        CreateMessageResult: one_block_result,
        ToolUseContent: _no_tools,
        ToolResultContent: _no_tools,
    },
)

# --- 2026-07-28: modern results, rounds, output of any type; the tasks of the core are gone ---

_ROUNDS = ("input_responses", "request_state")
_modern_client = without_capabilities("tasks", "roots.listChanged")

CAME_2026_07 = Edits(
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

WENT_2026_07 = Edits(
    without={
        Tool: ("execution",),
        CallToolRequestParams: ("task",),
        CreateMessageRequestParams: ("task", "meta"),
        ElicitRequestParams: ("task", "meta", "elicitation_id"),
        ElicitResult: ("meta",),
        ListRootsResult: ("meta",),
    },
    convert={
        ClientCapabilities: _modern_client,
        ServerCapabilities: _without_tasks,
        DiscoverResult: on_member("capabilities", _without_tasks),
        CreateTaskResult: refuse("this revision tells a created task with an ExtensionCreateTaskResult"),
    },
)
