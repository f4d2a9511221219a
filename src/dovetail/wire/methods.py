"""Every method of every revision, one row each.

A row says who may send it, which revisions have it, what its params and result look like, and what must have
been declared for it to be served. Rows of extensions and of other projects stand in the same table;
`extension` names what switches them on. Methods that the author of a server adds are rows too, but of that
server's `Admission` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import msgspec
from msgspec import UNSET, Raw, Struct

from .. import model as m
from ..model.meta import SKILLS_EXTENSION, TASKS_EXTENSION
from .revisions import Revision

Kind = Literal["request", "notification"]
Sender = Literal["client", "server", "both"]
NameHeader = Literal["name", "uri", "taskId"]

STILL = 1 << 30
"""The last revision that has a method, where it has not been removed: whatever comes has it too."""
OWN_EXTENSION = "dovetail"
"""Methods of other projects: only peers that speak a dialect with the method (`Dialect.methods`) may call it."""


class OpenParams(m.InputResponseRequestParams, kw_only=True):
    """Params of a method that no row describes: the protocol's members, and the author's in one piece.

    They travel side by side, see `apart` and `together`.
    """

    arguments: Raw = Raw(b"{}")
    """The author's members, an object; on the legacy revisions an array is possible too."""

    @classmethod
    def apart(cls, raw: bytes | Raw) -> Self:
        """Read params as they came. Raises what msgspec raises."""
        if bytes(raw).lstrip()[:1] == b"[":
            return cls(arguments=Raw(bytes(raw)))
        own, members = _decode_own(raw), _decode_members(raw)
        for name in _OWN:
            members.pop(name, None)
        return cls(
            meta=own.meta,
            input_responses=own.input_responses,
            request_state=own.request_state,
            arguments=Raw(msgspec.json.encode(members)),
        )

    @property
    def positional(self) -> bool:
        """Whether the params are an array, which has no room for the protocol's members."""
        return bytes(self.arguments).lstrip()[:1] == b"["

    def together(self) -> dict[str, Any] | Raw:
        """The params as they travel."""
        if self.positional:
            return self.arguments
        members = _decode_members(self.arguments)
        own = (self.meta, self.input_responses, self.request_state)
        return members | {name: value for name, value in zip(_OWN, own, strict=True) if value is not UNSET}


_OWN = ("_meta", "inputResponses", "requestState")
_decode_own = msgspec.json.Decoder(m.InputResponseRequestParams).decode
_decode_members: Callable[[bytes | Raw], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode


class Reader(Struct, frozen=True, eq=False):
    """Reads what no type alone describes; stands where a row would name one."""

    decode: Callable[[bytes | Raw], Any]
    """Raises what msgspec raises."""


class Method(Struct, frozen=True, kw_only=True):
    """One method."""

    name: str
    kind: Kind
    sender: Sender
    since: int
    """`Revision.index` of the first revision that has it, …"""
    until: int
    """… and of the last."""
    params: Any
    """The Struct of its params, or their `Reader`."""
    result: Any = None
    """The Struct of its result (`Raw` where only the asker knows) or its `Reader`; None for a notification."""
    modern_result: Any = None
    """The Struct of its result from 2026-07-28 on, where that is another."""
    modern_sender: Sender | None = None
    """Who may send it from 2026-07-28 on, where that is somebody else."""
    capability: str | None = None
    """What the receiver must have declared to be sent this request."""
    gated_since: int = 1
    """The first revision that asks for `capability`."""
    cacheable: bool = False
    """From 2026-07-28 on its result carries ``ttlMs`` and ``cacheScope``."""
    may_ask: bool = False
    """From 2026-07-28 on it may be answered with ``input_required``."""
    task: bool = False
    """It may be answered with a task."""
    extension: str | None = None
    """The extension it belongs to from 2026-07-28 on."""
    opt_in: bool = False
    """Only clients that declare the extension on that very request may call it."""
    name_header: NameHeader | None = None
    """The member of its params that is mirrored in ``Mcp-Name``."""
    faults: tuple[tuple[str, str], ...] = ()
    """Members with a kind of failure of their own: where in its params or questions, a regular expression → which."""

    def on(self, revision: Revision) -> bool:
        """Whether the revision has this method."""
        return self.since <= revision.index <= self.until

    def needs(self, revision: Revision) -> str | None:
        """What the receiver must have declared on this revision, as a path into its capabilities."""
        if self.extension is not None and revision.modern:
            return f"extensions.{self.extension}"
        return self.capability if revision.index >= self.gated_since else None


def _request(name: str, since: int, until: int, params: Any, result: Any, **more: Any) -> Method:
    more.setdefault("sender", "client")
    return Method(name=name, kind="request", since=since, until=until, params=params, result=result, **more)


def _notification(
    name: str, since: int, until: int, sender: Sender, params: Any = m.NotificationParams, **more: Any
) -> Method:
    return Method(
        name=name, kind="notification", since=since, until=until, sender=sender, params=params, **more
    )


_SAMPLING = (
    (r"\.modelPreferences\b", "invalid_model_preferences"),
    (r"\.messages\[\d+\]\.content(\[\d+\])?\.type$", "invalid_content_type"),
)

# fmt: off
_ROWS = (
    # Getting to know each other
    _request("initialize", 1, 4, m.InitializeRequestParams, m.InitializeResult),
    _request("server/discover", 5, STILL, m.RequestParams, m.DiscoverResult, cacheable=True),
    _request("ping", 1, 4, m.RequestParams, m.EmptyResult, sender="both"),
    # What a server offers
    _request("tools/list", 1, STILL, m.PaginatedRequestParams, m.ListToolsResult,
             capability="tools", cacheable=True),
    _request("tools/call", 1, STILL, m.CallToolRequestParams, m.CallToolResult,
             capability="tools", may_ask=True, task=True, name_header="name", faults=_SAMPLING),
    _request("resources/list", 1, STILL, m.PaginatedRequestParams, m.ListResourcesResult,
             capability="resources", cacheable=True),
    _request("resources/templates/list", 1, STILL, m.PaginatedRequestParams, m.ListResourceTemplatesResult,
             capability="resources", cacheable=True),
    _request("resources/read", 1, STILL, m.ReadResourceRequestParams, m.ReadResourceResult,
             capability="resources", cacheable=True, may_ask=True, name_header="uri", faults=_SAMPLING),
    _request("resources/subscribe", 1, 4, m.SubscribeRequestParams, m.EmptyResult,
             capability="resources.subscribe"),
    _request("resources/unsubscribe", 1, 4, m.UnsubscribeRequestParams, m.EmptyResult,
             capability="resources.subscribe"),
    _request("subscriptions/listen", 5, STILL, m.SubscriptionsListenRequestParams, m.SubscriptionsListenResult),
    _request("prompts/list", 1, STILL, m.PaginatedRequestParams, m.ListPromptsResult,
             capability="prompts", cacheable=True),
    _request("prompts/get", 1, STILL, m.GetPromptRequestParams, m.GetPromptResult,
             capability="prompts", may_ask=True, name_header="name", faults=_SAMPLING),
    # 2024-11-05 has completion, but no capability for it.
    _request("completion/complete", 1, STILL, m.CompleteRequestParams, m.CompleteResult,
             capability="completions", gated_since=2,
             faults=((r"^\$\.ref\b", "invalid_completion_ref"),
                     (r"^\$\.argument\b", "invalid_completion_argument"))),
    _request("logging/setLevel", 1, 4, m.SetLevelRequestParams, m.EmptyResult, capability="logging"),
    # What a server asks of a client; later these are no messages but entries of an `input_required` result
    _request("sampling/createMessage", 1, 4, m.CreateMessageRequestParams, m.CreateMessageResult,
             sender="server", capability="sampling", task=True, faults=_SAMPLING),
    _request("roots/list", 1, 4, m.RequestParams, m.ListRootsResult, sender="server", capability="roots"),
    _request("elicitation/create", 3, 4, m.ElicitRequestParams, m.ElicitResult,
             sender="server", capability="elicitation", task=True),
    # Tasks: in the core of 2025-11-25, an extension of 2026-07-28
    _request("tasks/get", 4, STILL, m.GetTaskRequestParams, m.GetTaskResult, modern_result=m.DetailedTask,
             sender="both", modern_sender="client", capability="tasks", extension=TASKS_EXTENSION,
             opt_in=True, name_header="taskId"),
    _request("tasks/result", 4, 4, m.GetTaskPayloadRequestParams, Raw, sender="both", capability="tasks"),
    _request("tasks/list", 4, 4, m.PaginatedRequestParams, m.ListTasksResult,
             sender="both", capability="tasks.list"),
    _request("tasks/cancel", 4, STILL, m.CancelTaskRequestParams, m.CancelTaskResult, modern_result=m.EmptyResult,
             sender="both", modern_sender="client", capability="tasks.cancel", extension=TASKS_EXTENSION,
             opt_in=True, name_header="taskId"),
    _request("tasks/update", 5, STILL, m.UpdateTaskRequestParams, m.EmptyResult,
             extension=TASKS_EXTENSION, opt_in=True, name_header="taskId"),
    # Skills
    _request("skills/list", 5, STILL, m.PaginatedRequestParams, m.ListSkillsResult,
             cacheable=True, extension=SKILLS_EXTENSION),
    _request("skills/get", 5, STILL, m.GetSkillRequestParams, m.GetSkillResult,
             cacheable=True, extension=SKILLS_EXTENSION),
    _request("resources/directory/read", 5, STILL, m.ReadDirectoryRequestParams, m.ReadDirectoryResult,
             cacheable=True, extension=SKILLS_EXTENSION),
    # Other projects
    _request("tasks/create", 1, 4, m.ErlmcpCreateTaskRequestParams, m.ErlmcpCreateTaskResult,
             capability="tasks", extension=OWN_EXTENSION),
    _request("shutdown", 1, 4, m.RequestParams, m.EmptyResult, extension=OWN_EXTENSION),
    # Notifications
    _notification("notifications/initialized", 1, 4, "client"),
    _notification("notifications/cancelled", 1, STILL, "both", m.CancelledNotificationParams),
    _notification("notifications/progress", 1, STILL, "both", m.ProgressNotificationParams,
                  modern_sender="server"),
    _notification("notifications/message", 1, STILL, "server", m.LoggingMessageNotificationParams),
    _notification("notifications/tools/list_changed", 1, STILL, "server"),
    _notification("notifications/prompts/list_changed", 1, STILL, "server"),
    _notification("notifications/resources/list_changed", 1, STILL, "server"),
    _notification("notifications/resources/updated", 1, STILL, "server", m.ResourceUpdatedNotificationParams),
    _notification("notifications/roots/list_changed", 1, 4, "client"),
    _notification("notifications/elicitation/complete", 4, 4, "server",
                  m.ElicitationCompleteNotificationParams),
    _notification("notifications/tasks/status", 4, 4, "both", m.TaskStatusNotificationParams),
    _notification("notifications/tasks", 5, STILL, "server", m.DetailedTask, extension=TASKS_EXTENSION),
    _notification("notifications/subscriptions/acknowledged", 5, STILL, "server",
                  m.SubscriptionsAcknowledgedNotificationParams),
)
# fmt: on

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}
FOLLOWING = frozenset(
    ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "notifications/tasks/status")
)
"""What is said of tasks that ``tasks/create`` made; revisions before 2025-11-25 know it from nowhere else."""


def methods_for(revision: Revision, sender: Literal["client", "server"]) -> dict[str, Method]:
    """What ``sender`` may send on this revision. Capabilities and extensions are the caller's to check."""

    def may_send(row: Method) -> bool:
        by = row.modern_sender if revision.modern and row.modern_sender else row.sender
        return row.on(revision) and by in (sender, "both")

    return {name: row for name, row in METHODS.items() if may_send(row)}


class _Peek(Struct, rename="camel"):
    result_type: Any = UNSET
    task: Any = UNSET
    content: Raw | msgspec.UnsetType = UNSET
    action: Raw | msgspec.UnsetType = UNSET


_peek = msgspec.json.Decoder(_Peek).decode


def result_type_of(method: Method, data: bytes, revision: Revision) -> Any:
    """The Struct this very result of ``method`` has: its own, a question back, or a task.

    Raises:
        msgspec.MsgspecError: it is no object, or its ``resultType`` is none that may come here.
    """
    if not revision.modern:
        # 2025-11-25 tells a created task from the result itself by its only member.
        if method.task and b'"task"' in data:
            peek = _peek(data)
            if isinstance(peek.task, dict) and peek.content is UNSET and peek.action is UNSET:
                return m.CreateTaskResult
        return method.result
    kind: Any = _peek(data).result_type
    if kind is UNSET or kind == "complete":  # absent: an older server
        return method.modern_result or method.result
    if kind == "input_required" and method.may_ask:
        return m.InputRequiredResult
    if kind == "task" and method.task:
        return m.ExtensionCreateTaskResult
    raise msgspec.ValidationError("Invalid value - at `$.resultType`")
