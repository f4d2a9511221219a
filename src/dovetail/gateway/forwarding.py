"""`ForwardedCall`: one call that a proxy forwards, between any two revisions.

A modern upstream answers a call with input requests. A modern downstream client gets them unchanged, with the
upstream's request state inside the proxy's. A legacy client gets them as requests on the stream of its call.
A legacy upstream sends requests during the call. A legacy downstream client gets them unchanged. For a modern
client the upstream call is suspended (`suspended_calls`) until the client sends its responses. A task sends
its own input requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from .. import model as m
from ..auth.core.auth_errors import AuthError
from ..client.calling.calls import SHED_SECONDS
from ..core.channel import Call, Channel, ServerRequestsNotSupported
from ..core.input_rounds import InputRounds, prepare_input, prepare_input_for
from ..core.metadata import tool_version_meta
from ..drivers.requests import SendOptions
from ..errors import (
    NAME_ECHO,
    CapabilityError,
    DovetailError,
    ProtocolError,
    Refusal,
    RemoteProtocolError,
    RequestTimeout,
    SessionLost,
    StateError,
    TransportError,
)
from ..kinds import KINDS
from ..model.meta import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROGRESS_TOKEN,
    PROTOCOL_VERSION,
    RELATED_TASK,
    SERVER_INFO,
    SUBSCRIPTION_ID,
    TASKS_EXTENSION,
    VIA,
)
from ..server.input_requests.client_requests import PlainQuestion
from ..server.registry.tool_versions import split
from ..server.server import Server
from ..wire.codec import decoder_for
from ..wire.frames import UNREADABLE
from ..wire.methods import METHODS, CustomParams, Method, Reader, result_type_of
from ..wire.unknown_fields import encode_with_original, has_unknown, original_meta, without_original
from .upstream_failures import cause_of

if TYPE_CHECKING:
    from .suspended_calls import SuspendedCall
    from .upstream import Upstream

LONGEST_NAME: Final = 1_000
"""Characters of a name or URI of an upstream component; longer ones are left out."""


log = logging.getLogger("dovetail.gateway")

_T = TypeVar("_T")

_OURS: Final = frozenset({PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, PROGRESS_TOKEN, LOG_LEVEL})
"""Members of ``_meta`` that belong to one connection and are not forwarded."""
_MODERN_META: Final = frozenset({
    PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, SERVER_INFO, LOG_LEVEL, SUBSCRIPTION_ID,
})  # fmt: skip
"""Members of ``_meta`` that only 2026-07-28 defines."""
_MODERN_META_SIGN: Final = b'"io.modelcontextprotocol/'
_HARMLESS: Final = frozenset({"resources/read", "prompts/get", "completion/complete"})
"""Methods that may be repeated."""

current: ContextVar[ForwardedCall | None] = ContextVar("dovetail_passing", default=None)
"""The call whose exchange received a server-to-client request of the upstream."""


class ForwardedCall:
    """A call of a downstream client that an upstream answers."""

    held: SuspendedCall | None = None
    """The upstream call while it waits for the client's next request."""
    _detached = False
    _detaching: asyncio.Lock | None = None

    def __init__(self, server: Server, upstream: Upstream, call: Call, channel: Channel) -> None:
        self.server = server
        self.upstream = upstream
        self.call = call
        self.channel = channel

    def beside(self, call: Call, channel: Channel) -> ForwardedCall:
        """Return a forwarded call to the same upstream for another call."""
        return ForwardedCall(self.server, self.upstream, call, channel)

    @property
    def own_row(self) -> Method | None:
        """The method, if it is an extension method."""
        return self.upstream.added.get(self.call.method)

    def take_over(self, other: ForwardedCall) -> None:
        """Continue with the call of ``other``, which the client sent next."""
        self.call, self.channel = other.call, other.channel

    async def run(self) -> Struct | Raw:
        """Return the result, or the input requests.

        Raises:
            DovetailError: the error of the upstream, or the reason why it did not respond.
        """
        call, params = self.call, self.call.params
        if call.revision.modern and params.__class__ in _MAY_ASK and params.request_state is not UNSET:
            rounds = self.rounds()
            state: Any = rounds.state
            if state is not UNSET and "held" in state:
                return await self.upstream.held.resume(state["held"], self, rounds)
            params = replace(params, request_state=UNSET if state is UNSET else state.get("state", UNSET))
        if not self.upstream.modern:
            if LOG_LEVEL in call.meta and call.revision.modern:
                with suppress(DovetailError):
                    await self.upstream.set_level(call.meta[LOG_LEVEL])
            if call.revision.modern and self.channel.asking is None:
                return await self.upstream.held.run(self, params)
            return await self.open_to_questions(self.send(params))
        result = await self.send(params)
        return await self._go_on(params, result) if type(result) is m.InputRequiredResult else result

    async def _go_on(self, params: Any, result: Struct | Raw) -> Struct | Raw:
        """Continue after a modern upstream has requested input."""
        for count in range(self.server.limits.max_input_rounds):
            if type(result) is not m.InputRequiredResult:
                return result
            if self.call.revision.modern and not self._detached:
                return self._ask_in_front(result)
            requests = result.input_requests or {}
            if not requests:  # load shedding of the upstream: retry later
                await asyncio.sleep(min(SHED_SECONDS, 0.1 * 2**count))
            answers = {key: await self._answer(request) for key, request in requests.items()}
            params = replace(params, input_responses=answers or UNSET, request_state=result.request_state)
            # The server may have been replaced, more than once, while the user was thinking.
            while (successor := self.upstream.successor) is not None and successor.modern:
                self.upstream = successor
            result = await self.send(params)
        raise Refusal(1004, message="the upstream server requested input too many times")

    def rounds(self) -> InputRounds:
        """Return the input rounds of the downstream call."""
        server = self.server
        lifetime = server.dispatcher.settings.state_lifetime
        return InputRounds(
            self.call,
            server.dispatcher.seal,
            now=server.dispatcher.clock(),
            limits=server.limits,
            lifetime=lifetime,
            row=self.own_row,
        )

    def _ask_in_front(self, result: m.InputRequiredResult) -> m.InputRequiredResult:
        rounds = self.rounds()
        rounds.state = {} if result.request_state is UNSET else {"state": result.request_state}
        for key, request in (result.input_requests or {}).items():
            rounds.record(prepare_input(request), key)
        return rounds.result()

    async def _answer(self, request: m.InputRequest) -> Raw:
        question = prepare_input(request)
        answer = await self.ask(question.method, question.params)
        return Raw(msgspec.json.encode(encode_with_original(answer)))

    async def ask(self, method: str, params: Any) -> Struct:
        """Send a server-to-client request of the upstream to the downstream client.

        Raises:
            ProtocolError: the client does not support it, or rejected it.
        """
        question = prepare_input_for(method, params)
        if not self.call.capabilities.has(question.need):
            reason = f"the downstream client does not support this request: it lacks {question.need}"
            raise ProtocolError("method_not_found", reason)
        if self.held is not None:
            return await self.held.ask(question)
        asking = self.channel.asking
        if asking is not None:
            if self.call.revision.modern:
                # the upstream call cannot be repeated with the response: the task requests input
                await self._detach()
            question = prepare_input_for(method, without_original(params))
            (answer,) = await asking.ask([PlainQuestion(question.request, "")])
            return msgspec.convert(answer, METHODS[method].result)
        try:
            return await self.channel.request(method, params or m.RequestParams())
        except ServerRequestsNotSupported as error:
            raise ProtocolError(
                "method_not_found", "the downstream client cannot receive requests here"
            ) from error

    # --- sending ------------------------------------------------------------------------------------------------------

    async def open_to_questions(self, work: Awaitable[_T]) -> _T:
        """Wait for ``work``. Meanwhile, a server-to-client request without a related call may belong to this
        client.
        """
        active = self.upstream.active
        active[self] = None
        try:
            return await work
        except asyncio.CancelledError:
            self.upstream.abandon()
            raise
        finally:
            active.pop(self, None)

    async def send(self, params: Any) -> Struct | Raw:
        """Send a request upstream and return its result; raw if both sides use the same revision."""
        call, upstream, channel = self.call, self.upstream, self.channel
        name, params, meta = self._passed_on(params)
        own = upstream.added.get(call.method)
        raw = (
            own is None
            and call.codec.dialect.name == "official"
            and channel.asking is None
            and upstream.plain
        )
        asking: SendOptions = {"meta": meta, "raw": raw, "released": channel.close_stream}
        if own is not None:
            asking["row"] = own
        elif call.raw_params is not UNSET and has_unknown(params.__class__, call.raw_params):
            asking["came"] = call.raw_params
        if PROGRESS_TOKEN in call.meta:
            asking["pass_progress"] = self._progress
        if upstream.forward_headers:
            asking["headers"] = upstream.headers(call)
        timeout = upstream.unhurried if self._may_become_task() else upstream.timeout
        repeat = name in upstream.harmless if name is not None else call.method in _HARMLESS
        token = current.set(self)
        logs = LOG_LEVEL in meta
        if logs:
            upstream.active[self] = None  # on a stream of messages a log message does not say whose it is
        try:
            result = await upstream.client.forward(
                call.method, params, asking, timeout=timeout, repeat=repeat
            )
        except (TransportError, RequestTimeout, AuthError, StateError) as error:
            if isinstance(error, RequestTimeout):
                upstream.abandon()
            raise _unreachable(error, upstream) from error
        except RemoteProtocolError as error:
            raise _malformed(error, upstream.name) from error
        except ProtocolError as error:
            return self._refused(error)
        finally:
            current.reset(token)
            if logs:
                upstream.active.pop(self, None)
        if raw:
            try:
                result = self._passed_back(result)
            except RemoteProtocolError as error:
                raise _malformed(error, upstream.name) from error
        elif own is not None and isinstance(result, dict):
            result = call.codec.prepare(result)
        if isinstance(result, m.CreateTaskResult | m.ExtensionCreateTaskResult):
            result = await self._finish(result)
        if upstream.modern and not call.revision.modern and not isinstance(result, Raw):
            _drop_modern_meta(result)
        return result if channel.asking is None else without_original(result)

    def _refused(self, error: ProtocolError) -> Struct:
        """Return a tool error if the client lacks a capability and its revision has no protocol error for
        that.

        Raises:
            ProtocolError: any other error of the upstream, with the code of the downstream revision.
        """
        call = self.call
        called = call.method == "tools/call" and not call.revision.modern
        if called and error.kind == "missing_required_client_capability":
            missing = CapabilityError("", error.message)
            return self.server.dispatcher.failures.of_tool(missing, call.params.name, call)
        raise _in_front(error, modern=self.upstream.modern) from error

    def _passed_back(self, result: Raw) -> Struct | Raw:
        """Return a result unchanged or converted to the downstream revision, without decoding if possible."""
        call, codec, data = self.call, self.upstream.codec, bytes(result)
        row = METHODS[call.method]
        assert codec is not None
        try:
            kind = result_type_of(row, data, codec.revision)
            modern_meta = codec.revision.modern and not call.revision.modern and _MODERN_META_SIGN in data
            if (kind is row.result or kind is row.modern_result) and not modern_meta:
                try:
                    shape: Any = kind
                    (shape if isinstance(shape, Reader) else decoder_for(shape)).decode(data)
                except UNREADABLE:
                    codec.decode_result(
                        row, result
                    )  # it accepts new kinds of blocks, and raises for the rest
                passed = result if codec.revision is call.revision else call.codec.convert_encoded(kind, data)
                if passed is not None:
                    return passed
        except UNREADABLE:
            pass  # decoding below reports the error
        return codec.decode_result(row, result)

    def _passed_on(self, params: Any) -> tuple[str | None, Any, dict[str, Any]]:
        """Return the tool name (if any), the params and the metadata for the upstream."""
        meta = self._meta()
        if self.call.method != "tools/call":
            return None, replace(params, meta=UNSET), meta
        name, upstream = params.name, self.upstream
        if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise ProtocolError("tool_not_found", f"Unknown tool: {name[:NAME_ECHO]!a}")
        if "@" in name and name not in upstream.traits:
            name, params, meta = _versioned(name, params, meta, upstream)
        task = m.TaskMetadata() if name in upstream.may_be_task and self._as_task(name) else UNSET
        return name, replace(params, meta=UNSET, task=task), meta

    async def _finish(self, created: Any) -> Struct:
        """Follow a task that the upstream created, as a task of the downstream client if it supports tasks."""
        await self._detach()
        handle = self.upstream.client.follow_task(created)
        try:
            result = await self.open_to_questions(handle.within(None))
            if result.meta and RELATED_TASK in result.meta:  # a task id of the upstream
                del result.meta[RELATED_TASK]
            return result
        except asyncio.CancelledError:
            await handle.abandon()
            raise
        except (TransportError, RequestTimeout, StateError) as error:
            raise _unreachable(error, self.upstream) from error

    async def _detach(self) -> None:
        """Turn the downstream call into a task, once for concurrent input requests."""
        self._detaching = self._detaching or asyncio.Lock()
        async with self._detaching:
            if not self._detached:
                await self.channel.continue_as_task()
                self._detached = self.channel.asking is not None

    def _may_become_task(self) -> bool:
        """Return whether the upstream may create a task: a modern one does not for calls with a progress
        token.
        """
        modern = self.upstream.modern and "extensions" in self.call.capabilities
        return modern and PROGRESS_TOKEN not in self.call.meta and self._takes_tasks()

    def _takes_tasks(self) -> bool:
        """Return whether a modern downstream client accepts tasks."""
        call = self.call
        return call.revision.modern and TASKS_EXTENSION in (call.capabilities.get("extensions") or ())

    def _as_task(self, name: str) -> bool:
        """Return whether to request a task from an upstream of 2025-11-25, where the client decides."""
        return name in self.upstream.as_task or (self.channel.asking is not None and self._takes_tasks())

    def _meta(self) -> dict[str, Any]:
        """Return the metadata for the upstream, with the capabilities of the downstream client."""
        call = self.call
        meta: dict[str, Any] = {name: value for name, value in call.meta.items() if name not in _OURS}
        via = meta.get(VIA)
        meta[VIA] = [*via, self.upstream.mark] if isinstance(via, list) else [self.upstream.mark]
        if (carrier := self.server.dispatcher.admission.meta_provider) is not None:
            meta |= carrier.request_meta()  # trace context: upstream calls are children of this one
        if self.upstream.modern:
            front = call.capabilities
            if call.revision.modern:
                meta[CLIENT_CAPABILITIES] = front
                level = call.meta.get(LOG_LEVEL)
            else:
                meta[CLIENT_CAPABILITIES] = self.upstream.declared_for(front)
                level = self._legacy_level()
            if level is not None:
                meta[LOG_LEVEL] = level
        return meta

    def _legacy_level(self) -> str:
        """The level of a legacy client; one that has not set any gets what the server logs by default."""
        session = self.call.session
        level = None if session is None else session.log_level
        return self.server.dispatcher.settings.log_level if level is None else level

    def log_level(self) -> Any:
        """Return the log level of the downstream client; None for no log messages."""
        call = self.call
        if call.revision.modern:
            return call.meta.get(LOG_LEVEL)
        return None if call.session is None else call.session.log_level

    def _progress(self, params: m.ProgressNotificationParams) -> None:
        if PROGRESS_TOKEN not in self.call.meta:
            return  # the client's next request did not ask for progress
        token = self.call.meta[PROGRESS_TOKEN]
        self.tell("notifications/progress", replace(params, progress_token=token, meta=original_meta(params)))

    def tell(self, method: str, params: Struct) -> None:
        """Send a notification on the stream of this call. A closed stream is ignored."""
        if self.channel.asking is not None:
            params = without_original(params)  # a task stores it in another form
        try:
            self.channel.notify(method, params)
        except DovetailError:
            pass


_MAY_ASK: Final = frozenset(
    {m.CallToolRequestParams, m.GetPromptRequestParams, m.ReadResourceRequestParams, CustomParams}
)


def _in_front(error: ProtocolError, *, modern: bool) -> ProtocolError:
    """Return an error of the upstream with the code of the downstream revision."""
    row = KINDS.get(error.kind)
    usual = None if row is None else row.modern if modern else row.legacy
    return ProtocolError(error.kind, error.message, data=error.data) if error.code == usual else error


def _versioned(
    name: str, params: Struct, meta: dict[str, Any], upstream: Upstream
) -> tuple[str, Struct, dict[str, Any]]:
    """Convert a call of ``name@version``: other servers expect the version in ``_meta``."""
    base, version = split(name)
    if version is None or base not in upstream.traits:
        return name, params, meta
    return base, replace(params, name=base), {**meta, **tool_version_meta(version)}


def no_access(error: AuthError, label: str) -> ProtocolError:
    """Return the error for a failed upstream authorization, without internal details."""
    log.warning("%s: %s", label, error.message)
    settings = "its configuration was rejected" if error.fault == "client" else None
    why = error.error or settings or "the authorization server failed"
    return ProtocolError(
        "dependency_failed", f"no access token for {label}: {why}", data={"maybeExecuted": False}
    )


def _malformed(error: RemoteProtocolError, label: str) -> ProtocolError:
    """Return the error for a response that is not what its revision defines: the request was not at fault."""
    log.warning("upstream sent a malformed response name=%s: %s", label, error.message)
    return ProtocolError(
        "dependency_failed", f"{label} sent a malformed response", data={"maybeExecuted": True}
    )


def _drop_modern_meta(result: Any) -> None:
    """Remove what 2026-07-28 adds to the ``_meta`` of results: older revisions do not define it."""
    meta = getattr(result, "meta", None)
    if meta:
        for name in _MODERN_META & meta.keys():
            del meta[name]
        if not meta:
            result.meta = UNSET


def _unreachable(
    error: TransportError | RequestTimeout | AuthError | StateError, upstream: Upstream
) -> ProtocolError:
    label = upstream.name
    if isinstance(error, AuthError):
        return no_access(error, label)
    maybe = isinstance(error, RequestTimeout) or (isinstance(error, SessionLost) and error.maybe_executed)
    # The message contains paths and commands: log it, and send its category downstream.
    log.warning("upstream failed name=%s: %s", label, error.message)
    if isinstance(error, RequestTimeout):
        what = "timed out"
    elif isinstance(error, StateError):
        what = "is not connected"
    else:
        what = f"went away: {cause_of(error, upstream.target)}"
    return ProtocolError("dependency_failed", f"{label} {what}", data={"maybeExecuted": maybe})
