"""What 2026-07-28 no longer knows: the tasks of the revision before, metadata in questions."""

from ...model import (
    CallToolRequestParams,
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateTaskResult,
    DiscoverResult,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    ServerCapabilities,
    Tool,
)
from .capabilities import on_member, without_capabilities
from .conversions import refuse
from .plans import Edits

_client = without_capabilities("tasks", "roots.listChanged")
_server = without_capabilities("tasks")

EDITS = Edits(
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
