"""The edit tables of each revision, referenced by its row in `revisions`.

Members that a revision added are removed or converted for all earlier revisions. Members that it dropped are
removed from then on.
"""

from ... import model as m
from .capability_edits import on_member, plain_elicitation, without_capabilities
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
from .downgrade import Edits
from .schema_edits import with_object_output, with_object_schema, with_text_content

# --- 2025-03-26: audio, tool annotations, progress messages, completions ------------------------------------

_without_completions = without_capabilities("completions")

ADDED_2025_03 = Edits(
    without={m.Tool: ("annotations",), m.ProgressNotificationParams: ("message",)},
    convert={
        m.ServerCapabilities: _without_completions,
        m.InitializeResult: on_member("capabilities", _without_completions),
        m.AudioContent: audio_to_resource,
        m.SamplingMessage: audio_message_to_text,
        m.CreateMessageResult: audio_message_to_text,
    },
)

# --- 2025-06-18: titles, nested metadata, structured output, links ------------------------------------------

_without_elicitation = without_capabilities("elicitation")

ADDED_2025_06 = Edits(
    without={
        m.Metadata: ("title", "meta"),
        m.Implementation: ("title",),
        m.PromptArgument: ("title",),
        m.PromptReference: ("title",),
        m.Tool: ("output_schema",),
        m.CallToolResult: ("structured_content",),
        m.CompleteRequestParams: ("context",),
        m.TextContent: ("meta",),
        m.ImageContent: ("meta",),
        m.AudioContent: ("meta",),
        m.EmbeddedResource: ("meta",),
        m.ResourceContents: ("meta",),
        m.Root: ("meta",),
    },
    convert={
        m.CallToolResult: with_text_content,
        m.ClientCapabilities: _without_elicitation,
        m.InitializeRequestParams: on_member("capabilities", _without_elicitation),
        m.Tool: title_to_annotations,
        m.ResourceLink: link_to_text,
        m.TextContent: without_last_modified,
        m.ImageContent: without_last_modified,
        m.AudioContent: without_last_modified,
        m.EmbeddedResource: without_last_modified,
        m.Resource: without_last_modified,
        m.ResourceTemplate: without_last_modified,
    },
)

# --- 2025-11-25: icons, tasks, URL elicitation, sampling with tools and several blocks ----------------------

_unknown_to_clients = without_capabilities("tasks", "sampling.context", "sampling.tools")
_without_tasks = without_capabilities("tasks")
_no_tools = refuse("tools in sampling require revision 2025-11-25 or later", "capability_not_supported")


def _older_client(capabilities: dict[str, object]) -> dict[str, object]:
    return plain_elicitation(_unknown_to_clients(capabilities))


ADDED_2025_11 = Edits(
    without={
        m.Implementation: ("description", "icons", "website_url"),
        m.Metadata: ("icons",),
        m.Tool: ("execution",),
        m.CallToolRequestParams: ("task",),
        m.CreateMessageRequestParams: ("task",),
        m.ElicitRequestParams: ("task", "mode", "elicitation_id"),
        m.SamplingMessage: ("meta",),
    },
    convert={
        m.ClientCapabilities: _older_client,
        m.ServerCapabilities: _without_tasks,
        m.InitializeRequestParams: on_member("capabilities", _older_client),
        m.InitializeResult: on_member("capabilities", _without_tasks),
        m.CreateTaskResult: refuse("tasks require revision 2025-11-25 or later"),
        m.ElicitRequestParams: plain_form,
        m.CreateMessageRequestParams: one_block_messages,
        m.CreateMessageResult: one_block_result,
        m.ToolUseContent: _no_tools,
        m.ToolResultContent: _no_tools,
    },
)

# --- 2026-07-28: modern results, input rounds, output of any type; core tasks are removed -------------------

_ROUNDS = ("input_responses", "request_state")
_modern_client = without_capabilities("tasks", "roots.listChanged")

ADDED_2026_07 = Edits(
    without={
        m.Result: ("result_type",),
        m.CacheableResult: ("ttl_ms", "cache_scope"),
        m.CallToolRequestParams: _ROUNDS,
        m.GetPromptRequestParams: _ROUNDS,
        m.ReadResourceRequestParams: _ROUNDS,
    },
    convert={
        m.CallToolResult: with_object_output,
        m.ToolResultContent: with_object_output,
        m.Tool: with_object_schema,
        m.ElicitRequestParams: with_elicitation_id,
        m.InputRequiredResult: refuse(
            "this revision has no input_required results; the server sends requests"
        ),
        m.ExtensionCreateTaskResult: refuse("this revision returns a created task as a CreateTaskResult"),
    },
)

REMOVED_2026_07 = Edits(
    without={
        m.Tool: ("execution",),
        m.CallToolRequestParams: ("task",),
        m.CreateMessageRequestParams: ("task", "meta"),
        m.ElicitRequestParams: ("task", "meta", "elicitation_id"),
        m.ElicitResult: ("meta",),
        m.ListRootsResult: ("meta",),
    },
    convert={
        m.ClientCapabilities: _modern_client,
        m.ServerCapabilities: _without_tasks,
        m.DiscoverResult: on_member("capabilities", _without_tasks),
        m.CreateTaskResult: refuse("this revision returns a created task as an ExtensionCreateTaskResult"),
    },
)
