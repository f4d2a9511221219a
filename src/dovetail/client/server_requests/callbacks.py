"""The questions a server may ask: one table of callbacks for both eras.

A legacy server sends a request and waits; a modern one ends the call with `input_required` and waits for the retry.
Either way the question reaches `Answers.answer` as a method name and decoded params, and what it returns goes back
as it is. What we are able to answer is also what we declare: `capabilities` derives it from the callbacks.
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

CALLBACKS_RUNNING: Final = 10_000
"""Async callbacks that run at once; further notifications are dropped."""


log = logging.getLogger("dovetail.client")

_BY_POSITION = frozenset(
    {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL}
)
# What each callback lets us declare, under the method it answers.
_DECLARED: dict[str, tuple[str, dict[str, Any]]] = {
    "roots/list": ("roots", {"listChanged": True}),
    "sampling/createMessage": ("sampling", {}),
    "elicitation/create": ("elicitation", {"form": {}, "url": {}}),
}
_TASKS: dict[str, dict[str, Any]] = {
    "sampling/createMessage": {"createMessage": {}},
    "elicitation/create": {"create": {}},
}
"""The questions that 2025-11-25 may ask as tasks."""


@runtime_checkable
class ToolSampler(Protocol):
    """An ``on_sample`` that says whether its models can use tools; others cannot."""

    supports_tools: bool


class Answers:
    """The callbacks of one client. Absent callbacks are not declared and are answered with an error."""

    def __init__(self, config: ClientConfig) -> None:
        self._declared = config.capabilities
        on_roots = config.on_roots
        if on_roots is not None and not callable(on_roots):
            roots = list(on_roots)
            on_roots = lambda: roots  # noqa: E731
        given = {
            "elicitation/create": (config.on_elicit, _elicited),
            "sampling/createMessage": (config.on_sample, _sampled),
            "roots/list": (on_roots, _rooted),
        }
        self._callbacks: dict[str, tuple[Callback, Callable[[Any, Any], Struct]]] = {
            method: (with_request(callback), convert)
            for method, (callback, convert) in given.items()
            if callback is not None
        }
        self._sample_tools = isinstance(config.on_sample, ToolSampler) and config.on_sample.supports_tools

    def capabilities(self, revision: Revision) -> m.ClientCapabilities:
        """What to declare on ``revision``: the callbacks there are, and what the application added."""
        able = m.ClientCapabilities(_DECLARED[method] for method in self._callbacks)
        if self._sample_tools:
            able["sampling"] = {"tools": {}}
        if requests := {
            _DECLARED[method][0]: task for method, task in _TASKS.items() if method in self._callbacks
        }:
            able["tasks"] = {"list": {}, "cancel": {}, "requests": requests}
        found: dict[str, Any] = downgrade_for(revision).edit(able)
        if revision.modern:
            # They are answered by the client itself, so every modern server may count on them.
            found["extensions"] = {TASKS_EXTENSION: {}, SKILLS_EXTENSION: {}, IDEMPOTENCY_EXTENSION: {}}
        for name, setting in self._declared.items():
            old = found.get(name)
            merge = isinstance(old, dict) and isinstance(setting, dict)
            found[name] = {**cast("dict[str, Any]", old), **setting} if merge else setting
        return m.ClientCapabilities(found)

    def answers(self, method: str) -> bool:
        """Whether somebody answers this question."""
        return method in self._callbacks

    async def answer(self, method: str, params: Any) -> Struct:
        """Ask the application and return the result to send.

        Raises:
            ProtocolError: nobody answers this question, or the answer cannot be sent.
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
            if convert is not _sampled:
                raise
            raise ProtocolError("sampling_timeout", "the model did not answer in time") from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Something it waited for was cancelled, and not we: whoever called must not take it for that.
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
        """Answer the questions a modern server put into a result, all at once, each under its key.

        The first failure ends the others.
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
            # A legacy server would be told that the question failed; here it is our own call that ends with it.
            text = f"the callback for {method} failed: {type(error).__name__}: {error}"
            raise LocalProtocolError("internal_error", text) from error


def with_request(callback: Callback) -> Callback:
    """Call ``callback`` with the request, or without it when it takes no argument."""
    parameters = _parameters(callback)
    if parameters is None or any(p.kind in _BY_POSITION for p in parameters):
        return callback

    def without_request(_: Any) -> Any:
        return callback()

    return without_request


def with_metadata(callback: Callback) -> Callback:
    """Call ``callback`` with a URI and what the server says of its update, if it has a place for both.

    That is a second parameter without a default, or one called ``metadata``; all others get the URI alone.
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
    """What ``callback`` takes; None where it does not say."""
    try:
        return list(inspect.signature(callback).parameters.values())
    except (TypeError, ValueError):
        return None


def _elicited(value: Any, params: Any) -> Struct:
    schema = None if params.mode == "url" else cast("Mapping[str, Any]", params.requested_schema)
    return read_answer(value, schema)


def _sampled(value: Any, params: Any) -> Struct:
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


# --- callbacks that are only told something -------------------------------------------------------------------------

_RUNNING: set[asyncio.Task[Any]] = set()


class _Dropped:
    """Notifications that were dropped because too many callbacks are running: one warning, then their number."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        self._count += 1
        if self._count == 1:
            log.warning(
                "notification dropped running_callbacks=%d: make the callbacks faster", CALLBACKS_RUNNING
            )

    def report(self) -> None:
        """Log the number once the callbacks have caught up."""
        if self._count and len(_RUNNING) <= CALLBACKS_RUNNING // 2:
            if self._count > 1:
                log.warning("notifications dropped count=%d", self._count)
            self._count = 0


_dropped = _Dropped()


def call_back(callback: Callback, *arguments: Any) -> bool:
    """Call an application's callback, an async one beside the connection; what it raises is its own affair, and logged.

    A server that notifies faster than the callbacks end must not fill the memory: beyond a bound, news are lost, and
    the answer is False.
    """
    try:
        outcome = callback(*arguments)
    except Exception:
        log.exception("a callback failed")
        return True
    if not asyncio.iscoroutine(outcome):
        return True
    if len(_RUNNING) >= CALLBACKS_RUNNING:
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
