"""`Tracing`: spans of OpenTelemetry (extra ``otel``, only its API), with the semantic conventions for MCP.

Servers and clients are traced automatically if the program has set a tracer or meter provider before they start
(`auto_instrument.py`). ``middleware=[Tracing(…)]`` sets the position in the middleware, or the providers.

- A client has a span of kind CLIENT around each call and around its handshake; so has a server around a
  server-to-client request. A server has a span of kind SERVER around each request, and a task one around its work.
- The context travels in ``params._meta`` (``traceparent``, ``tracestate``, ``baggage``) of every request on every
  transport, including server-to-client requests, and is stored with a task for the worker that runs it.
- No argument, result, token or session id becomes an attribute; the session has a hash.

Errors in this module or in an exporter are logged once and do not affect calls.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from time import perf_counter
from typing import Any, Final, cast

from msgspec import Raw, Struct

from ..core.channel import Call, Channel
from ..core.endpoint import STREAMS
from ..core.trace_context import trace_members
from ..drivers.middleware_chain import Middleware, Next, Request, Respond, admission_of
from ..errors import DovetailError
from ..extras import missing
from ..middleware.call_outcome import code_of, of_error, of_result
from .metric_definitions import BUCKETS

try:
    from opentelemetry import context as contexts
    from opentelemetry import metrics, propagate, trace
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "opentelemetry":
        raise
    raise missing("opentelemetry", "tracing") from None

NAME_LENGTH: Final = 128
"""Characters of a label."""
URI_LENGTH: Final = 1024
"""Characters of an address in a span."""


log = logging.getLogger("dovetail.tracing")

SCOPE: Final = "dovetail"
_NETWORK: Final[Mapping[str, Mapping[str, str]]] = {
    "http": {"network.transport": "tcp", "network.protocol.name": "http"},
    "sse": {"network.transport": "tcp", "network.protocol.name": "http"},
    "websocket": {"network.transport": "tcp", "network.protocol.name": "websocket"},
    "stdio": {"network.transport": "pipe"},
    "tcp": {"network.transport": "tcp"},
}
_TARGETS: Final = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
_ADDRESSED: Final = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})
_HANDSHAKE: Final = frozenset({"initialize", "server/discover"})
_asking: ContextVar[trace.Span | None] = ContextVar("dovetail_asking_span", default=None)
"""The client span of the request that is being sent."""

_inside: ContextVar[bool] = ContextVar("dovetail_inside_span", default=False)
"""The span of the request that is being served; work of mounted servers belongs to it."""


class Tracing(Middleware):
    """Creates spans around every call, by default with the providers of the program."""

    observes = True

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        """Set the providers.

        Args:
            tracer_provider: The OpenTelemetry tracer provider; by default that of the program.
            meter_provider: The OpenTelemetry meter provider; by default that of the program.
        """
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        self._meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        self._kind = trace.SpanKind.SERVER
        self._known: Callable[[str, str], bool] = lambda method, name: True
        self._complained = False
        self._own: trace.Span | None = None
        """The span of a request without a call, until the request has its id."""

    def attach(self, service: Any) -> None:
        admission = admission_of(service)
        side, admission.meta_provider = admission.side, self
        self._seconds = self._meter.create_histogram(
            f"mcp.{side}.operation.duration", "s", explicit_bucket_boundaries_advisory=BUCKETS
        )
        if side == "client":
            self._kind = trace.SpanKind.CLIENT
            peer = service.connections
            vars(peer)["respond"] = self._traced(peer.respond)
        else:
            entries = {"tools/call": service.registry.tools, "prompts/get": service.registry.prompts}
            self._known = lambda method, name: name in entries[method]

    # --- the carrier of an `Admission` ------------------------------------------------------------------

    def request_meta(self, method: str | None = None) -> Mapping[str, Any]:
        """Return the trace context for the ``_meta`` of a request."""
        carried: dict[str, str] = {}
        with self._harmless():
            context = contexts.get_current()
            if method is not None and (self._kind is trace.SpanKind.SERVER or method in _HANDSHAKE):
                # It is outside of a call, so it has a separate span.
                attributes = {"mcp.method.name": method}
                span = self._tracer.start_span(method, context, trace.SpanKind.CLIENT, attributes)
                context = trace.set_span_in_context(span, context)
                self._own = span
            propagate.inject(carried, context)
        return carried

    def sent(self, id: int | str) -> Callable[[BaseException | None], None] | None:
        """Set the id of the request; a separate span ends with it."""
        own, self._own = self._own, None
        span = _asking.get() if own is None else own
        if own is None:
            _asking.set(None)
        if span is not None:
            span.set_attribute("jsonrpc.request.id", str(id))
        return None if own is None else partial(self._over, own)

    def _over(self, span: trace.Span, error: BaseException | None) -> None:
        self._finish(span, {} if error is None else _failure(error))

    # --- spans -----------------------------------------------------------------------------------------------

    def wrap(self, call_next: Next) -> Next:
        def traced(request: Request) -> Awaitable[Struct | Raw]:
            if request.call.method in STREAMS:  # a span of hours is not useful
                return call_next(request)
            return self._run(request, call_next)

        return traced

    def _traced(self, respond: Respond) -> Respond:
        """Trace requests of a server to the client."""

        async def execute(request: Request) -> Struct | Raw:
            return await respond(request.call, request.channel)

        def traced(call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
            return self._run(Request(call, channel), execute, trace.SpanKind.SERVER)

        return traced

    async def _run(
        self, request: Request, call_next: Next, kind: trace.SpanKind | None = None
    ) -> Struct | Raw:
        call, kind = request.call, kind or self._kind
        if request.resumed:
            kind = trace.SpanKind.INTERNAL
        name = self._task_name(call) if request.resumed else self._name(call)
        attributes = _attributes(call, kind)
        span, tokens = self._begin(call, name, kind, attributes)
        begun, ended = perf_counter(), dict[str, Any]()

        def became_task(id: str) -> None:
            """End the span of the request; the work of the task has a child span."""
            nonlocal span, tokens, kind
            self._record(perf_counter() - begun, attributes, {})
            kind = trace.SpanKind.INTERNAL
            work, inner = self._begin(call, self._task_name(call), kind, _attributes(call, kind), inside=True)
            if span is not None:
                self._finish(span, {})
            span, tokens = work, (*inner, *tokens)

        if not request.resumed:
            request.on_task(became_task)
        try:
            result = await call_next(request)
            if of_result(result) != "ok":
                ended["error.type"] = "tool_error"
            return result
        except BaseException as error:
            ended = _failure(error)
            raise
        finally:
            if kind is not trace.SpanKind.INTERNAL:
                self._record(perf_counter() - begun, attributes, ended)
            self._end(span, tokens, ended)

    @staticmethod
    def _task_name(call: Call) -> str:
        return f"task {call.params.name[:NAME_LENGTH]}"

    def _begin(
        self,
        call: Call,
        name: str,
        kind: trace.SpanKind,
        attributes: dict[str, Any],
        *,
        inside: bool = False,
    ) -> tuple[trace.Span | None, tuple[Any, ...]]:
        """Start and enter a span; None on failure: the call continues without it."""
        with self._harmless():
            outer, links = contexts.get_current(), list[trace.Link]()
            inside = inside or (kind is trace.SpanKind.SERVER and _inside.get())
            if kind is not trace.SpanKind.CLIENT and not inside:
                # Conventions for MCP: the context of `_meta` is the parent, and the current context is linked.
                ambient = trace.get_current_span(outer).get_span_context()
                outer = propagate.extract(trace_members(call.meta), outer)
                parent = trace.get_current_span(outer).get_span_context()
                if ambient.is_valid and parent.span_id != ambient.span_id:
                    links.append(trace.Link(ambient))
            span = self._tracer.start_span(name, outer, kind, attributes, links)
            token = contexts.attach(trace.set_span_in_context(span, outer))
            if kind is trace.SpanKind.CLIENT:
                _asking.set(span)
            return span, ((token, _inside.set(kind is trace.SpanKind.SERVER)),)
        return None, ()

    def _end(self, span: trace.Span | None, tokens: tuple[Any, ...], ended: Mapping[str, Any]) -> None:
        with self._harmless():
            for token, inside in tokens:
                contexts.detach(token)
                _inside.reset(inside)
        if span is not None:
            self._finish(span, ended)

    def _finish(self, span: trace.Span, ended: Mapping[str, Any]) -> None:
        with self._harmless():
            if ended:
                shown = {name: value for name, value in ended.items() if name != "message"}
                span.set_attributes(shown)
                if shown["error.type"] != "cancelled":
                    span.set_status(trace.StatusCode.ERROR, cast("str | None", ended.get("message")))
            span.end()

    def _record(self, seconds: float, attributes: Mapping[str, Any], ended: Mapping[str, Any]) -> None:
        labels = {name: attributes[name] for name in _LABELS if name in attributes}
        labels |= {name: ended[name] for name in ("error.type", "rpc.response.status_code") if name in ended}
        name = labels.get("gen_ai.tool.name", labels.get("gen_ai.prompt.name"))
        if name is not None and not self._known(cast("str", labels["mcp.method.name"]), cast("str", name)):
            labels = {key: value for key, value in labels.items() if key not in _TARGETS.values()}
        with self._harmless():
            self._seconds.record(seconds, labels)

    def _name(self, call: Call) -> str:
        if call.method in _TARGETS and self._known(call.method, call.params.name):
            return f"{call.method} {call.params.name[:NAME_LENGTH]}"
        return call.method

    @contextmanager
    def _harmless(self) -> Generator[None]:
        """Log an exception of OpenTelemetry once, and continue the call."""
        try:
            yield
        except Exception:
            if not self._complained:
                self._complained = True
                text = "OpenTelemetry failed; calls continue without it, and further failures are not logged"
                log.warning(text, exc_info=True)


_LABELS: Final = (
    "mcp.method.name", "mcp.protocol.version", "network.transport", "network.protocol.name", "gen_ai.operation.name",
    *_TARGETS.values(),
)  # fmt: skip


def _attributes(call: Call, kind: trace.SpanKind) -> dict[str, Any]:
    method = call.method
    found: dict[str, Any] = {"mcp.method.name": method, "mcp.protocol.version": call.revision.name}
    if kind is not trace.SpanKind.CLIENT:
        found["jsonrpc.request.id"] = str(call.id)[:NAME_LENGTH]
    if method in _TARGETS:
        found[_TARGETS[method]] = call.params.name[:NAME_LENGTH]
    elif method in _ADDRESSED:
        found["mcp.resource.uri"] = call.params.uri[:URI_LENGTH]
    if method == "tools/call":
        found["gen_ai.operation.name"] = "execute_tool"
    session = None if call.session is None else call.session.id
    if session is not None:  # the session id is a credential
        found["mcp.session.id"] = hashlib.sha256(session.encode()).hexdigest()[:32]
    found |= _NETWORK.get(call.scope.get("transport", ""), {})
    return found


def _failure(error: BaseException) -> dict[str, Any]:
    """Return the error type of a span: the code for the peer, or the class of the exception; never its message."""
    code = code_of(error)
    if code is not None and isinstance(error, DovetailError):
        return {"error.type": str(code), "rpc.response.status_code": str(code), "message": error.message}
    outcome = of_error(error)
    return {"error.type": outcome if outcome == "cancelled" else type(error).__name__}


def is_set(provider: Any) -> bool:
    """Return whether the program has set the provider; the default one of the API does not count."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def providers() -> Iterable[Any]:
    """Return the providers that the program has set."""
    return filter(is_set, (trace.get_tracer_provider(), metrics.get_meter_provider()))
