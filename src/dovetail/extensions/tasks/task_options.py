"""The options that a client can set for a task, and the task created from them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ...core.channel import Call
from ...core.principal import key_of
from ...core.task_machine import TaskCaller, TaskDesign, TaskMachine
from ...errors import ProtocolError
from ...model import ErlmcpCreateTaskRequestParams, ErlmcpTaskMetadata
from ...model.meta import PROGRESS_TOKEN
from ...settings import TaskOptions
from .owner_index import checked

SHORTEST_TASK_TTL_MS: Final = 1000
"""The minimum lifetime of a task in milliseconds, so that its creator can still read it."""
TASK_DEPENDENCIES: Final = 32
"""The maximum number of tasks that one task can depend on."""


class TaskRequest(Struct, frozen=True):
    """The client's options of a task. Times are milliseconds."""

    ttl: int | None = None
    timeout: int | None = None
    label: str | None = None
    """The client's own name for the task."""
    depends_on: Sequence[str] = ()
    """Tasks that must complete first, by the client's names."""
    metadata: dict[str, Any] | UnsetType = UNSET
    progress_token: Any = UNSET


def erlmcp_task_request(params: ErlmcpCreateTaskRequestParams) -> TaskRequest:
    """The options in ``tasks/create``.

    Raises:
        ProtocolError: ``invalid_params``.
    """
    label = None if params.task_id is UNSET else checked(params.task_id)
    if params.metadata is UNSET:
        return TaskRequest(label=label)
    try:
        metadata = msgspec.json.decode(params.metadata, type=dict[str, Any])
        known = msgspec.convert(metadata, ErlmcpTaskMetadata)
    except msgspec.ValidationError as error:
        raise ProtocolError("invalid_params", f"metadata: {error}") from None
    timeout = None if known.timeout is UNSET else known.timeout
    if timeout is not None and timeout < 1:
        raise ProtocolError("invalid_params", "timeout must be at least 1 millisecond")
    depends_on = () if known.depends_on is UNSET else known.depends_on
    if len(depends_on) > TASK_DEPENDENCIES:
        raise ProtocolError("invalid_params", f"a task depends on at most {TASK_DEPENDENCIES} others")
    return TaskRequest(None, timeout, label, depends_on, metadata, known.progress_token)


def task_for(
    call: Call,
    face: TaskDesign,
    wish: TaskRequest,
    options: TaskOptions,
    now: float,
    caller: TaskCaller | None,
) -> TaskMachine:
    """Create the task of a ``tools/call``; the server's limits bound the client's options."""
    ttl = round(options.ttl * 1000) if wish.ttl is None else max(wish.ttl, SHORTEST_TASK_TTL_MS)
    limit = None if options.timeout is None else round(options.timeout * 1000)
    arguments = call.params.arguments
    return TaskMachine(
        id=f"{round(now * 1000):011x}{secrets.token_hex(16)}",
        design=face,
        created=now,
        updated=now,
        principal=key_of(call.principal),
        name=call.params.name,
        parameters=arguments if arguments is UNSET else Raw(bytes(arguments)),
        ttl=min(ttl, round(options.max_ttl * 1000)),
        poll_interval=round(options.poll_interval * 1000),
        timeout=wish.timeout if limit is None else min(limit, wish.timeout or limit),
        progress_token=call.meta.get(PROGRESS_TOKEN),
        label=wish.label,
        metadata=wish.metadata,
        caller=caller,
    )
