"""Callbacks for server-to-client requests, one table for all revisions.

A legacy server sends a request and waits; a modern one ends the call with `input_required` and waits for the
next request. Both reach `Answers.answer` with a method name and decoded params. The declared `capabilities`
are derived from the callbacks.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter
from pathlib import Path, PurePath
from typing import Any, Final, Protocol, cast, runtime_checkable

import msgspec
from msgspec import UNSET, Raw, Struct

from ... import model as m
from ...core.input_request_checks import check_input_request
from ...errors import USER_REJECTED, DovetailError, LocalProtocolError, ProtocolError, RequestTimeout
from ...model.meta import IDEMPOTENCY_EXTENSION, SKILLS_EXTENSION, TASKS_EXTENSION
from ...wire.revisions import Revision, downgrade_for
from ..client_config import Callback, ClientConfig
from .form_answers import read_answer

MAX_RUNNING_CALLBACKS: Final = 10_000
"""Concurrent async callbacks; further notifications are dropped."""


log = logging.getLogger("dovetail.client")

_BY_POSITION = frozenset(
    {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL}
)
# The capability that each callback declares, by method.
_DECLARED: dict[str, tuple[str, dict[str, Any]]] = {
    "roots/list": ("roots", {"listChanged": True}),
    "sampling/createMessage": ("sampling", {}),
    "elicitation/create": ("elicitation", {"form": {}, "url": {}}),
}
_TASKS: dict[str, dict[str, Any]] = {
    "sampling/createMessage": {"createMessage": {}},
    "elicitation/create": {"create": {}},
}
"""Requests that 2025-11-25 may send as tasks."""


@runtime_checkable
class ToolSampler(Protocol):
    """An ``on_sample`` that states whether its models can use tools."""

    supports_tools: bool


class Answers:
    """The callbacks of one client. Requests without a callback are not declared and get an error."""

    def __init__(self, config: ClientConfig) -> None:
        self._declared = config.capabilities
        on_roots = config.on_roots
        if on_roots is not None and not callable(on_roots):
            roots = list(on_roots)
            on_roots = lambda: roots  # noqa: E731
        given = {
            "elicitation/create": (config.on_elicit, _elicited),
            "sampling/createMessage": (config.on_sample, sampled),
            "roots/list": (on_roots, _rooted),
        }
        self._callbacks: dict[str, tuple[Callback, Callable[[Any, Any], Struct]]] = {
            method: (with_request(callback), convert)
            for method, (callback, convert) in given.items()
            if callback is not None
        }
        self._sample_tools = isinstance(config.on_sample, ToolSampler) and config.on_sample.supports_tools

    def capabilities(self, revision: Revision) -> m.ClientCapabilities:
        """Return the capabilities for ``revision``: those of callbacks, and those of the application."""
        able = m.ClientCapabilities(_DECLARED[method] for method in self._callbacks)
        if self._sample_tools:
            able["sampling"] = {"tools": {}}
        if requests := {
            _DECLARED[method][0]: task for method, task in _TASKS.items() if method in self._callbacks
        }:
            able["tasks"] = {"list": {}, "cancel": {}, "requests": requests}
        found: dict[str, Any] = downgrade_for(revision).edit(able)
        if revision.modern:
            # The client handles them itself, so every modern server may use them.
            found["extensions"] = {TASKS_EXTENSION: {}, SKILLS_EXTENSION: {}, IDEMPOTENCY_EXTENSION: {}}
        for name, setting in self._declared.items():
            old = found.get(name)
            merge = isinstance(old, dict) and isinstance(setting, dict)
            found[name] = {**cast("dict[str, Any]", old), **setting} if merge else setting
        return m.ClientCapabilities(found)

    def answers(self, method: str) -> bool:
        """Return whether a callback handles the method."""
        return method in self._callbacks

    async def answer(self, method: str, params: Any) -> Struct:
        """Call the application and return the result to send.

        Raises:
            ProtocolError: the callback is missing, or its result cannot be sent.
        """
        known = self._callbacks.get(method)
        if known is None:
            raise ProtocolError("method_not_found", f"this client does not answer {method}")
        callback, convert = known
        try:
            value = callback(params)
            if inspect.isawaitable(value):
                value = await value
        except (TimeoutError, RequestTimeout) as error:
            if convert is not sampled:
                raise
            raise ProtocolError("sampling_timeout", "the model did not answer in time") from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The callback was cancelled from elsewhere: the caller must not take that as its own
            # cancellation.
            text = f"the callback for {method} was cancelled"
            raise ProtocolError("internal_error", text) from error
        try:
            return convert(value, params)
        except DovetailError:
            raise
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise ProtocolError(
                "internal_error", f"the answer to {method} cannot be sent: {error}"
            ) from error

    async def answer_all(
        self, requests: Mapping[str, m.InputRequest], declared: m.ClientCapabilities
    ) -> dict[str, Raw]:
        """Answer the input requests of a modern server concurrently, by key.

        The first failure cancels the others.
        """
        if len(requests) == 1:
            ((key, request),) = requests.items()
            return {key: await self._answer_input(request, declared)}
        tasks = [asyncio.ensure_future(self._answer_input(each, declared)) for each in requests.values()]
        try:
            return dict(zip(requests, await asyncio.gather(*tasks), strict=True))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _answer_input(self, request: m.InputRequest, declared: m.ClientCapabilities) -> Raw:
        method = cast("str", type(request).__struct_config__.tag)
        params: Any = request.params
        check_input_request(method, None if params is UNSET else params, declared)
        try:
            return Raw(msgspec.json.encode(await self.answer(method, params)))
        except DovetailError:
            raise
        except Exception as error:
            # A legacy server gets the error; here the client's own call fails with it.
            text = f"the callback for {method} failed: {type(error).__name__}: {error}"
            raise LocalProtocolError("internal_error", text) from error


def with_request(callback: Callback) -> Callback:
    """Adapt ``callback`` so that it gets the request, unless it takes no argument."""
    parameters = _parameters(callback)
    if parameters is None or any(p.kind in _BY_POSITION for p in parameters):
        return callback

    def without_request(_: Any) -> Any:
        return callback()

    return without_request


def with_metadata(callback: Callback) -> Callback:
    """Adapt ``callback`` so that it gets a URI and, if it accepts it, the metadata of the update.

    Metadata goes to a second parameter without a default, or one named ``metadata``.
    """
    parameters = _parameters(callback) or []
    needed = [p for p in parameters if p.kind in _BY_POSITION and p.default is p.empty]
    if len(needed) > 1 or any(p.kind is p.VAR_POSITIONAL for p in needed):
        return callback
    named = any(p.name == "metadata" for p in parameters)

    def tell(uri: str, metadata: Any) -> Any:
        return callback(uri, metadata=metadata) if named else callback(uri)

    return tell


def _parameters(callback: Callback) -> list[Parameter] | None:
    """Return the parameters of ``callback``, or None if unknown."""
    try:
        return list(inspect.signature(callback).parameters.values())
    except (TypeError, ValueError):
        return None


def _elicited(value: Any, params: Any) -> Struct:
    schema = None if params.mode == "url" else cast("Mapping[str, Any]", params.requested_schema)
    return read_answer(value, schema)


def sampled(value: Any, params: Any) -> m.CreateMessageResult:
    """Return what ``on_sample`` returned as a result.

    Raises:
        ProtocolError: it returned None: the user refused.
    """
    if isinstance(value, m.CreateMessageResult):
        return value
    if value is None:
        raise ProtocolError("user_rejected", "User rejected sampling request", code=USER_REJECTED)
    if isinstance(value, str):
        value = m.TextContent(value)
    if isinstance(value, Mapping) and "content" in value:
        return msgspec.convert({"role": "assistant", "model": "unknown", **value}, m.CreateMessageResult)
    block = msgspec.to_builtins(value)
    return msgspec.convert({"role": "assistant", "content": block, "model": "unknown"}, m.CreateMessageResult)


def _rooted(value: Any, params: Any) -> Struct:
    if isinstance(value, m.ListRootsResult):
        return value
    entries = cast("Mapping[str, Any]", value).get("roots") if isinstance(value, Mapping) else value
    return m.ListRootsResult([_root(entry) for entry in cast("Sequence[Any]", entries or ())])


def _root(entry: Any) -> m.Root:
    if isinstance(entry, m.Root):
        return entry
    if isinstance(entry, Path):
        return m.Root(entry.absolute().as_uri())
    if isinstance(entry, PurePath):
        return m.Root(entry.as_uri())  # pyright: ignore[reportDeprecated]
    if isinstance(entry, str):
        return m.Root(entry, name=UNSET)
    return msgspec.convert(entry, m.Root)


# --- notification callbacks
# -------------------------------------------------------------------------------------------------

_RUNNING: set[asyncio.Task[Any]] = set()


class _Dropped:
    """Notifications dropped because too many callbacks are running: logged once, then counted."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        self._count += 1
        if self._count == 1:
            log.warning(
                "notification dropped running_callbacks=%d: make the callbacks faster", MAX_RUNNING_CALLBACKS
            )

    def report(self) -> None:
        """Log the number once the callbacks have caught up."""
        if self._count and len(_RUNNING) <= MAX_RUNNING_CALLBACKS // 2:
            if self._count > 1:
                log.warning("notifications dropped count=%d", self._count)
            self._count = 0


_dropped = _Dropped()


def call_back(callback: Callback, *arguments: Any) -> bool:
    """Call a callback of the application. Async ones run as tasks; exceptions are logged.

    If too many callbacks are running, the notification is dropped and the result is False. This bounds the
    memory that a fast server can use.
    """
    try:
        outcome = callback(*arguments)
    except (KeyboardInterrupt, SystemExit):
        raise  # the application ends
    except BaseException:
        log.exception("a callback failed")
        return True
    if not asyncio.iscoroutine(outcome):
        return True
    if len(_RUNNING) >= MAX_RUNNING_CALLBACKS:
        outcome.close()
        _dropped.add()
        return False
    task = asyncio.get_running_loop().create_task(outcome)
    _RUNNING.add(task)
    task.add_done_callback(_finished)
    return True


def _finished(task: asyncio.Task[Any]) -> None:
    _RUNNING.discard(task)
    _dropped.report()
    with suppress(asyncio.CancelledError):
        error = task.exception()
        if error is not None:
            log.error("a callback failed", exc_info=error)
