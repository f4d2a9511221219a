"""The method table: every method of every revision, one row each.

A row states who may send the method, which revisions have it, the types of its params and result, and the
capability it requires. Methods of extensions and of other projects are in the same table; `extension` names
what enables them. Custom methods of a server are rows too, in its `Admission` only.
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

NOT_REMOVED = 1 << 30
"""The ``until`` of a method that no revision has removed."""
OWN_EXTENSION = "dovetail"
"""Methods of other projects: only peers whose dialect has the method (`Dialect.methods`) may call it."""


class CustomParams(m.InputResponseRequestParams, kw_only=True):
    """Params of a method without a row: the protocol's members, and the custom members in one piece.

    Both are encoded in one object, see `split` and `merged`.
    """

    arguments: Raw = Raw(b"{}")
    """The custom members, an object; on legacy revisions an array is possible too."""

    @classmethod
    def split(cls, raw: bytes | Raw) -> Self:
        """Decode params. Raises the exceptions of msgspec."""
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
        """Whether the params are an array, which cannot contain the protocol's members."""
        return bytes(self.arguments).lstrip()[:1] == b"["

    def merged(self) -> dict[str, Any] | Raw:
        """Return the params as they are encoded."""
        if self.positional:
            return self.arguments
        members = _decode_members(self.arguments)
        own = (self.meta, self.input_responses, self.request_state)
        return members | {name: value for name, value in zip(_OWN, own, strict=True) if value is not UNSET}


_OWN = ("_meta", "inputResponses", "requestState")
_decode_own = msgspec.json.Decoder(m.InputResponseRequestParams).decode
_decode_members: Callable[[bytes | Raw], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode


class Reader(Struct, frozen=True, eq=False):
    """A decoder for params or results that one type cannot describe; used where a row names a type."""

    decode: Callable[[bytes | Raw], Any]
    """Raises the exceptions of msgspec."""


class Method(Struct, frozen=True, kw_only=True):
    """One method."""

    name: str
    kind: Kind
    sender: Sender
    since: int
    """`Revision.index` of the first revision that has it."""
    until: int
    """`Revision.index` of the last revision that has it."""
    params: Any
    """The Struct of its params, or their `Reader`."""
    result: Any = None
    """The Struct of its result (`Raw` if only the caller knows it) or its `Reader`; None for a notification.
    """
    modern_result: Any = None
    """The Struct of its result from 2026-07-28 on, if different."""
    modern_sender: Sender | None = None
    """The sender from 2026-07-28 on, if different."""
    capability: str | None = None
    """The capability that the receiver must have declared."""
    gated_since: int = 1
    """The first revision that requires `capability`."""
    cacheable: bool = False
    """From 2026-07-28 on its result has ``ttlMs`` and ``cacheScope``."""
    may_request_input: bool = False
    """From 2026-07-28 on its result may be ``input_required``."""
    task: bool = False
    """Its result may be a created task."""
    extension: str | None = None
    """The extension that it belongs to from 2026-07-28 on."""
    opt_in: bool = False
    """Only clients that declare the extension in the same request may call it."""
    name_header: NameHeader | None = None
    """The member of its params that is mirrored in ``Mcp-Name``."""
    error_kinds: tuple[tuple[str, str], ...] = ()
    """Members with their own error kind: a regular expression for the path in params or input requests →
    kind."""

    def on(self, revision: Revision) -> bool:
        """Whether the revision has this method."""
        return self.since <= revision.index <= self.until

    def needs(self, revision: Revision) -> str | None:
        """Return the capability path that the receiver must have declared on this revision."""
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
    # Initialization
    _request("initialize", 1, 4, m.InitializeRequestParams, m.InitializeResult),
    _request("server/discover", 5, NOT_REMOVED, m.RequestParams, m.DiscoverResult, cacheable=True),
    _request("ping", 1, 4, m.RequestParams, m.EmptyResult, sender="both"),
    # Server features
    _request("tools/list", 1, NOT_REMOVED, m.PaginatedRequestParams, m.ListToolsResult,
             capability="tools", cacheable=True),
    _request("tools/call", 1, NOT_REMOVED, m.CallToolRequestParams, m.CallToolResult,
             capability="tools", may_request_input=True, task=True, name_header="name", error_kinds=_SAMPLING),
    _request("resources/list", 1, NOT_REMOVED, m.PaginatedRequestParams, m.ListResourcesResult,
             capability="resources", cacheable=True),
    _request("resources/templates/list", 1, NOT_REMOVED, m.PaginatedRequestParams, m.ListResourceTemplatesResult,
             capability="resources", cacheable=True),
    _request("resources/read", 1, NOT_REMOVED, m.ReadResourceRequestParams, m.ReadResourceResult,
             capability="resources", cacheable=True, may_request_input=True, name_header="uri", error_kinds=_SAMPLING),
    _request("resources/subscribe", 1, 4, m.SubscribeRequestParams, m.EmptyResult,
             capability="resources.subscribe"),
    _request("resources/unsubscribe", 1, 4, m.UnsubscribeRequestParams, m.EmptyResult,
             capability="resources.subscribe"),
    _request("subscriptions/listen", 5, NOT_REMOVED, m.SubscriptionsListenRequestParams, m.SubscriptionsListenResult),
    _request("prompts/list", 1, NOT_REMOVED, m.PaginatedRequestParams, m.ListPromptsResult,
             capability="prompts", cacheable=True),
    _request("prompts/get", 1, NOT_REMOVED, m.GetPromptRequestParams, m.GetPromptResult,
             capability="prompts", may_request_input=True, name_header="name", error_kinds=_SAMPLING),
    # 2024-11-05 has completion, but no capability for it.
    _request("completion/complete", 1, NOT_REMOVED, m.CompleteRequestParams, m.CompleteResult,
             capability="completions", gated_since=2,
             error_kinds=((r"^\$\.ref\b", "invalid_completion_ref"),
                     (r"^\$\.argument\b", "invalid_completion_argument"))),
    _request("logging/setLevel", 1, 4, m.SetLevelRequestParams, m.EmptyResult, capability="logging"),
    # Requests from servers to clients; from 2026-07-28 on they are entries of an `input_required` result
    _request("sampling/createMessage", 1, 4, m.CreateMessageRequestParams, m.CreateMessageResult,
             sender="server", capability="sampling", task=True, error_kinds=_SAMPLING),
    _request("roots/list", 1, 4, m.RequestParams, m.ListRootsResult, sender="server", capability="roots"),
    _request("elicitation/create", 3, 4, m.ElicitRequestParams, m.ElicitResult,
             sender="server", capability="elicitation", task=True),
    # Tasks: in the core of 2025-11-25, an extension of 2026-07-28
    _request("tasks/get", 4, NOT_REMOVED, m.GetTaskRequestParams, m.GetTaskResult, modern_result=m.DetailedTask,
             sender="both", modern_sender="client", capability="tasks", extension=TASKS_EXTENSION,
             opt_in=True, name_header="taskId"),
    _request("tasks/result", 4, 4, m.GetTaskPayloadRequestParams, Raw, sender="both", capability="tasks",
             extension=TASKS_EXTENSION),
    _request("tasks/list", 4, 4, m.PaginatedRequestParams, m.ListTasksResult,
             sender="both", capability="tasks.list", extension=TASKS_EXTENSION),
    _request("tasks/cancel", 4, NOT_REMOVED, m.CancelTaskRequestParams, m.CancelTaskResult, modern_result=m.EmptyResult,
             sender="both", modern_sender="client", capability="tasks.cancel", extension=TASKS_EXTENSION,
             opt_in=True, name_header="taskId"),
    _request("tasks/update", 5, NOT_REMOVED, m.UpdateTaskRequestParams, m.EmptyResult,
             extension=TASKS_EXTENSION, opt_in=True, name_header="taskId"),
    # Skills
    _request("skills/list", 5, NOT_REMOVED, m.PaginatedRequestParams, m.ListSkillsResult,
             cacheable=True, extension=SKILLS_EXTENSION),
    _request("skills/get", 5, NOT_REMOVED, m.GetSkillRequestParams, m.GetSkillResult,
             cacheable=True, extension=SKILLS_EXTENSION),
    _request("resources/directory/read", 5, NOT_REMOVED, m.ReadDirectoryRequestParams, m.ReadDirectoryResult,
             cacheable=True, extension=SKILLS_EXTENSION),
    # Methods of other projects
    _request("tasks/create", 1, 4, m.ErlmcpCreateTaskRequestParams, m.ErlmcpCreateTaskResult,
             capability="tasks", extension=OWN_EXTENSION),
    _request("shutdown", 1, 4, m.RequestParams, m.EmptyResult, extension=OWN_EXTENSION),
    # Notifications
    _notification("notifications/initialized", 1, 4, "client"),
    _notification("notifications/cancelled", 1, NOT_REMOVED, "both", m.CancelledNotificationParams),
    _notification("notifications/progress", 1, NOT_REMOVED, "both", m.ProgressNotificationParams,
                  modern_sender="server"),
    _notification("notifications/message", 1, NOT_REMOVED, "server", m.LoggingMessageNotificationParams),
    _notification("notifications/tools/list_changed", 1, NOT_REMOVED, "server"),
    _notification("notifications/prompts/list_changed", 1, NOT_REMOVED, "server"),
    _notification("notifications/resources/list_changed", 1, NOT_REMOVED, "server"),
    _notification("notifications/resources/updated", 1, NOT_REMOVED, "server", m.ResourceUpdatedNotificationParams),
    _notification("notifications/roots/list_changed", 1, 4, "client"),
    _notification("notifications/elicitation/complete", 4, 4, "server",
                  m.ElicitationCompleteNotificationParams),
    _notification("notifications/tasks/status", 4, 4, "both", m.TaskStatusNotificationParams),
    _notification("notifications/tasks", 5, NOT_REMOVED, "server", m.DetailedTask, extension=TASKS_EXTENSION),
    _notification("notifications/subscriptions/acknowledged", 5, NOT_REMOVED, "server",
                  m.SubscriptionsAcknowledgedNotificationParams),
)
# fmt: on

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}
TASK_NOTIFICATIONS = frozenset(
    ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "notifications/tasks/status")
)
"""Notifications about tasks of ``tasks/create``; revisions before 2025-11-25 know them only from this
dialect."""


def methods_for(revision: Revision, sender: Literal["client", "server"]) -> dict[str, Method]:
    """Return the methods that ``sender`` may send on this revision.

    The caller checks capabilities and extensions.
    """

    def may_send(row: Method) -> bool:
        by = row.modern_sender if revision.modern and row.modern_sender else row.sender
        return row.on(revision) and by in (sender, "both")

    return {name: row for name, row in METHODS.items() if may_send(row)}


class _ResultShape(Struct, rename="camel"):
    result_type: Any = UNSET
    task: Any = UNSET
    content: Raw | msgspec.UnsetType = UNSET
    action: Raw | msgspec.UnsetType = UNSET


_peek = msgspec.json.Decoder(_ResultShape).decode


def result_type_of(method: Method, data: bytes, revision: Revision) -> Any:
    """Return the Struct for this particular result of ``method``: its own, an input request, or a task.

    Raises:
        msgspec.MsgspecError: it is not an object, or its ``resultType`` is not allowed here.
    """
    if not revision.modern:
        # In 2025-11-25 a created task differs from the result itself by its only member.
        if method.task and b'"task"' in data:
            peek = _peek(data)
            if isinstance(peek.task, dict) and peek.content is UNSET and peek.action is UNSET:
                return m.CreateTaskResult
        return method.result
    kind: Any = _peek(data).result_type
    if kind is UNSET or kind == "complete":  # absent: an older server
        return method.modern_result or method.result
    if kind == "input_required" and method.may_request_input:
        return m.InputRequiredResult
    if kind == "task" and method.task:
        return m.ExtensionCreateTaskResult
    raise msgspec.ValidationError("Invalid value - at `$.resultType`")
