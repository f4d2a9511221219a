"""What came with 2025-11-25: icons, tasks, URL questions, tools and several blocks in sampling."""

from ...model import (
    CallToolRequestParams,
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateTaskResult,
    ElicitRequestParams,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    Metadata,
    SamplingMessage,
    ServerCapabilities,
    Tool,
    ToolResultContent,
    ToolUseContent,
)
from .capabilities import on_member, plain_elicitation, without_capabilities
from .conversions import refuse
from .elicitation import plain_form
from .plans import Edits
from .sampling import one_block_messages, one_block_result

_drop_client = without_capabilities("tasks", "sampling.context", "sampling.tools")
_drop_server = without_capabilities("tasks")
_tools_refused = refuse("tools in sampling exist since 2025-11-25", "capability_not_supported")


def _client(capabilities: dict[str, object]) -> dict[str, object]:
    return plain_elicitation(_drop_client(capabilities))


INTRODUCED = Edits(
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
        ClientCapabilities: _client,
        ServerCapabilities: _drop_server,
        InitializeRequestParams: on_member("capabilities", _client),
        InitializeResult: on_member("capabilities", _drop_server),
        CreateTaskResult: refuse("tasks exist since 2025-11-25"),
        ElicitRequestParams: plain_form,
        CreateMessageRequestParams: one_block_messages,
        CreateMessageResult: one_block_result,
        ToolUseContent: _tools_refused,
        ToolResultContent: _tools_refused,
    },
)
