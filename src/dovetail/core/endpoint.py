"""One end of a lasting connection: match responses to requests, and encode everything that is sent.

`Endpoint` does no I/O and reads no clock. Pass every received message to it; it returns what each one is. It
encodes every message you send. Only the endpoint creates and compares request ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from msgspec import UNSET, Raw, Struct

from ..errors import (
    DovetailError,
    LocalProtocolError,
    ProtocolError,
    Refusal,
    RemoteProtocolError,
    StateError,
)
from ..model import CancelledNotificationParams, ClientCapabilities, RequestParams
from ..model.meta import PROGRESS_TOKEN
from ..settings import Limits
from ..wire.codec import Codec
from ..wire.frames import Frame, RequestId, decode, decode_entry, is_batch, split_batch
from ..wire.headers import RoutingHeaders
from ..wire.methods import METHODS
from ..wire.revisions import Revision
from . import metadata, phases
from .admit import INITIALIZE, Admission
from .batch import Batch, batches_allowed, problem
from .channel import (
    EMPTY,
    Call,
    Cancel,
    Event,
    LateResponse,
    Notice,
    PeerResponse,
    Rejection,
    Reply,
    Session,
    Violation,
)
from .limits import busy, too_many_requests
from .pending import PendingRequests
from .principal import Principal
from .response_size import oversized_result

CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
LISTEN: Final = "subscriptions/listen"
STREAMS: Final = frozenset({LISTEN, "events/stream"})
"""Requests that last until the client ends them. Their notifications need a stream."""


class Endpoint:
    """The protocol state of one connection. Create one per connection, in a server and in a client.

    Receiving: pass each message to `receive`. It returns an event, a list of events, or None:

    - `Call`: run the service, then pass the call to `send_result` or `send_error` and write the bytes they
        return. They return None if nothing may be written: the call was cancelled, or its batch still waits
        for other calls.
    - `Notice`: pass it to the service. ``notifications/initialized`` has already changed the session phase.
    - `PeerResponse`: complete the pending request with this ``id``; the endpoint has removed it.
    - `Cancel`: cancel ``call``. Its id is free again, and `send_result` will return None.
    - `Reply`: write ``data`` now.
    - `Violation`: a dropped message, counted in ``violations``. Logging it is optional.

    Responses and cancellations take effect inside `receive`, so they never wait for running calls.

    Sending: `send_request` returns an id and bytes; store a future under the id. When you stop waiting, call
        `send_cancel` and write what it returns; a late response is then dropped. `send_notification` returns
        bytes. `close` ends the connection and returns the ids that will get no response: fail their futures.

    In a server, `receive` sets ``session`` on the ``initialize`` call, so requests received together with it
    find their session. If ``initialize`` fails, the session is removed again. ``on_session`` is called with
    each new session: set its ``notify`` there. In a client, call `establish` after negotiation.

    An error response without an id answers no request, even if only one request is pending: it may concern
    another message. It is a `Violation`, and the request runs into its timeout.
    """

    def __init__(
        self,
        admission: Admission,
        limits: Limits | None = None,
        next_id: Callable[[], RequestId] | None = None,
        *,
        principal: Principal | None = None,
        scope: Mapping[str, Any] = EMPTY,
        session: Session | None = None,
        on_session: Callable[[Session], None] | None = None,
    ) -> None:
        self.admission = admission
        self.side = admission.side
        self.limits = Limits() if limits is None else limits
        self.principal = principal
        self.scope = scope
        self.session = session
        self.on_session = on_session
        self.meta: Mapping[str, Any] = EMPTY
        """Merged into the ``_meta`` of every request; `establish` fills it on modern connections."""
        self.violations: dict[str, int] = {}
        """Kind → count. The kinds are a fixed set, so a peer cannot grow this table."""
        self.decoded_any = False
        """The peer has sent at least one message that could be decoded."""
        self.unreadable = 0
        """Number of messages that were not JSON or not JSON-RPC."""
        self.closed = False
        self.in_flight: dict[RequestId, Call] = {}
        """Requests of the peer that are being served."""
        self._max_requests = self.limits.max_requests_per_connection
        self._own = PendingRequests(self.limits, next_id)
        self._sent: dict[str, Codec] = {}
        """Cache: methods that this side may send, with the codec that was checked."""

    @property
    def pending(self) -> dict[RequestId, str]:
        """Outgoing requests that wait for a response, with their methods."""
        return self._own.methods

    # --- receiving ----------------------------------------------------------------------------------------

    def receive(
        self,
        message: bytes,
        *,
        headers: RoutingHeaders | None = None,
        principal: Principal | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> Event | list[Event] | None:
        """Process one message. Never raises for what a peer sent; ``None``: nothing to do.

        ``headers``, ``principal`` and ``scope`` belong to this message only (HTTP). Without them, those of
        the connection apply.
        """
        try:
            frame = decode(message)
        except RemoteProtocolError as error:
            if error.kind == "invalid_request" and is_batch(message):
                return self.receive_batch(message, principal, scope)
            return self._receive_unreadable(error)
        return self.receive_frame(frame, headers, principal, scope)

    def receive_frame(
        self,
        frame: Frame,
        headers: RoutingHeaders | None = None,
        principal: Principal | None = None,
        scope: Mapping[str, Any] | None = None,
        batch: Batch | None = None,
    ) -> Event | list[Event]:
        """Process a decoded message like `receive`. ``batch`` is the batch it belongs to."""
        self.decoded_any = True
        if frame.method is UNSET:
            return self._receive_response(frame)
        admitted = self.admission.admit(
            frame,
            self.session,
            headers=headers,
            principal=self.principal if principal is None else principal,
            scope=self.scope if scope is None else scope,
        )
        if isinstance(admitted, Call):
            in_flight = self.in_flight
            if (
                batch is None
                and admitted.id not in in_flight
                and len(in_flight) < self._max_requests
                and admitted.method != INITIALIZE
            ):
                in_flight[admitted.id] = admitted
                return admitted
            return self._start(admitted, batch)
        if isinstance(admitted, Notice):
            return self._receive_notice(admitted)
        if isinstance(admitted, Rejection):
            return Reply(admitted.body, admitted.status)
        return self._violation(admitted.kind, admitted.detail)

    def refuse(self, error: DovetailError, id: RequestId | None = None, codec: Codec | None = None) -> Reply:
        """Return the error response to a message that was not admitted, for the session unless ``codec`` is
        given."""
        rejection = self.admission.refuse(error, id, self.session, codec=codec)
        return Reply(rejection.body, rejection.status)

    def _start(self, call: Call, batch: Batch | None) -> Event:
        """Add a call to ``in_flight``, or refuse it because of its id, its batch or a limit."""
        in_flight = self.in_flight
        error: DovetailError | None = None
        if call.id in in_flight:
            error = ProtocolError("invalid_request", "a request with this id is still in flight")
        elif len(in_flight) >= self._max_requests:
            error = too_many_requests()
        if error is None and batch is not None:
            error = problem(call)
        if error is not None:
            return self.refuse(error, call.id, call.codec)
        in_flight[call.id] = call
        if batch is not None:
            call.batch = batch
            batch.begin(call.id)
        if call.method == INITIALIZE and call.session is not None:
            self.session = call.session
            if self.on_session is not None:
                self.on_session(call.session)
        return call

    def _receive_notice(self, notice: Notice) -> Event | list[Event]:
        if notice.method == CANCELLED:
            return self._receive_cancel(notice)
        if notice.method == PROGRESS:
            fault = self._own.progress(notice.params.progress_token, notice.params.progress)
            if fault is not None:
                return self._violation(fault, "progress for no pending request")
        return notice

    def _receive_cancel(self, notice: Notice) -> Event | list[Event]:
        id: RequestId = notice.params.request_id
        call = self.in_flight.get(id)
        if call is None:
            if self.pending.get(id) == LISTEN:
                return notice  # a server ends a listen stream by cancelling the client's own request
            return self._violation("unknown_cancel", "no such request is in flight")
        if call.method == INITIALIZE:
            return self._violation("unexpected_cancel", "initialize cannot be cancelled")
        del self.in_flight[id]
        call.cancelled = True
        reason = notice.params.reason
        cancel = Cancel(call, None if reason is UNSET else reason)
        reply = None if call.batch is None else call.batch.settle(call.id, None)
        return cancel if reply is None else [cancel, Reply(reply)]

    def _receive_response(self, frame: Frame) -> Event:
        id = frame.id
        if id is UNSET:
            return self._violation(
                "anonymous_error", self._read_error(cast("Raw", frame.error)).message[:200]
            )
        if frame.error is not UNSET and self.side == "client" and self.codec.dialect.drop_malformed_answers:
            try:
                self.codec.decode_error(frame.error)
            except RemoteProtocolError as error:
                return self._violation("malformed_answer", error.message)
        method = self._own.settle(id)
        if method is None:
            kind = "late_answer" if self._own.ended_recently(id) else "unknown_answer"
            return self._violation(kind, "no request waits for this response", (id, frame.result))
        if frame.error is UNSET:
            return PeerResponse(id=id, method=method, result=frame.result)
        return PeerResponse(id=id, method=method, error=self._read_error(frame.error))

    def _read_error(self, raw: Raw) -> ProtocolError | Refusal:
        try:
            return self.codec.decode_error(raw)
        except RemoteProtocolError as error:
            self._violation("malformed_answer", error.message)
            return error

    def _receive_unreadable(self, error: RemoteProtocolError) -> Event:
        """Respond to a message that cannot be decoded.

        A malformed response fails the request it belongs to.
        """
        self.unreadable += 1
        id = error.id
        if error.answers and self.side == "client" and self.codec.dialect.drop_malformed_answers:
            return self._violation("malformed_answer", error.message)
        # Both sides count their own ids, so a message with a method is not a response, whatever its id.
        method = self._own.settle(id) if id is not None and error.answers else None
        if id is not None and method is not None:
            self._violation("malformed_answer", error.message)
            return PeerResponse(id=id, method=method, error=error)
        if self.side == "client" and (id is None or error.answers or self.codec.revision.modern):
            # Output that a server prints by mistake gets no response, nor does a broken message. Modern
            # clients never respond.
            return self._violation("unreadable", error.message)
        return self.refuse(error, id)

    def receive_batch(
        self, message: bytes, principal: Principal | None = None, scope: Mapping[str, Any] | None = None
    ) -> Event | list[Event] | None:
        """Process a message that is known to be a batch, like `receive`."""
        try:
            if not batches_allowed(self.session):
                raise RemoteProtocolError("invalid_request", "this session does not allow batches")
            entries = split_batch(message, self.limits.max_batch_size)
        except RemoteProtocolError as error:
            return self._receive_unreadable(error)
        batch = Batch(self.admission.shared.buffered_bytes)
        events: list[Event] = []
        for frame in map(decode_entry, entries):
            event: Event | list[Event] = (
                self._receive_unreadable(frame)
                if isinstance(frame, RemoteProtocolError)
                else self.receive_frame(frame, principal=principal, scope=scope, batch=batch)
            )
            if isinstance(event, Reply):
                batch.refuse(event.data)
            else:
                events += event if isinstance(event, list) else [event]
        batch.complete = True
        if (reply := batch.take_encoded()) is not None:
            events.append(Reply(reply))
        return events or None

    def _violation(self, kind: str, detail: str, late: LateResponse | None = None) -> Violation:
        self.violations[kind] = self.violations.get(kind, 0) + 1
        self.admission.violated(kind, detail)
        return Violation(kind, detail, late)

    # --- responding ---------------------------------------------------------------------------------------

    def send_result(self, call: Call, result: Struct | Raw, most: int | None = None) -> bytes | None:
        """Encode the response to ``call``, of at most ``most`` bytes. Write it unless it is None.

        Raises:
            ProtocolError: the revision or the transport cannot carry the result. Respond with this error.
        """
        if self.in_flight.get(call.id) is not call:
            return None
        data = call.codec.encode_result(call.id, result)
        batch = call.batch
        if most is not None and len(data) > most - (0 if batch is None else batch.size):
            data = call.codec.encode_result(call.id, oversized_result(call, result, most))
        del self.in_flight[call.id]
        if batch is None:
            return data
        if not batch.has_room(len(data), most or self.limits.max_message_bytes):
            data = call.codec.encode_error(call.id, busy("responses in one batch"))
        return batch.settle(call.id, data)

    def send_error(self, call: Call, error: DovetailError) -> bytes | None:
        """Encode the error response to ``call``. Write it unless it is None."""
        if self.in_flight.get(call.id) is not call:
            return None
        data = call.codec.encode_error(call.id, error)
        del self.in_flight[call.id]
        if call.method == INITIALIZE and self.session is call.session:
            self._end_session()
        return data if call.batch is None else call.batch.settle(call.id, data)

    def abandon(self, call: Call) -> None:
        """Drop ``call``, which ended without a response. Its id is free again."""
        call.cancelled = True
        if self.in_flight.get(call.id) is call:
            del self.in_flight[call.id]

    # --- sending requests ---------------------------------------------------------------------------------

    @property
    def codec(self) -> Codec:
        """The codec for messages that belong to no call."""
        return self.admission.newest if self.session is None else self.session.codec

    def establish(
        self,
        revision: Revision,
        capabilities: Mapping[str, Any],
        client_info: Mapping[str, Any] | None = None,
        codec: Codec | None = None,
    ) -> Session:
        """Store the result of a client's negotiation: from now on every message uses ``revision``.

        On a modern revision each later request carries version, capabilities and client info in its ``_meta``.
        """
        session = Session(
            revision=revision,
            codec=self.admission.codecs[revision.name] if codec is None else codec,
            capabilities=ClientCapabilities(capabilities),
            client_info=None if client_info is None else dict(client_info),
            phase="ready",
        )
        self.session = session
        self.meta = metadata.modern_meta(revision, capabilities, client_info) if revision.modern else EMPTY
        if self.on_session is not None:
            self.on_session(session)
        return session

    def send_request(
        self,
        method: str,
        params: Struct | Raw | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        progress: bool = False,
        codec: Codec | None = None,
        came: Raw | None = None,
    ) -> tuple[RequestId, bytes]:
        """Create a request: return its id and the bytes to write.

        ``meta`` is merged into ``_meta`` and takes precedence over that of params and endpoint. ``progress``
        adds the id as progress token. ``codec`` is for probes before negotiation. Raw params are sent
        unchanged; for ``came`` see `Codec`.

        Raises:
            LocalProtocolError: the revision has no such request in this direction, or it exceeds
                `Limits.max_response_bytes`.
            Refusal: `Limits.max_outgoing_requests` requests are pending already.
            StateError: the endpoint is closed.
        """
        if self.closed:
            raise StateError("the connection is closed")
        if codec is None:
            codec = self.codec
        if self._sent.get(method) is not codec:
            self._check_sending(method, codec)
        id = self._own.fresh_id()
        whole = {PROGRESS_TOKEN: id, **self.meta} if progress else dict(self.meta)
        if isinstance(params, RequestParams) and params.meta is not UNSET:
            whole |= params.meta
        if meta is not None:
            whole |= meta
        if whole:
            params = metadata.with_meta(method, params, whole)
        data = codec.encode_request(id, method, params, self.limits.max_response_bytes, came)
        self._own.add(id, method, whole.get(PROGRESS_TOKEN))
        return id, data

    def send_notification(
        self, method: str, params: Struct | None = None, *, call: Call | None = None
    ) -> bytes | None:
        """Encode a notification. ``call`` is the request it belongs to: once that has ended, nothing is sent.

        Raises:
            LocalProtocolError: the revision has no such notification in this direction.
        """
        if call is None:
            codec = self.codec
        elif self.in_flight.get(call.id) is call:
            codec = call.codec
        else:
            return None
        self._check_sending(method, codec)
        return codec.encode_notification(method, params, self.limits.max_response_bytes)

    def send_cancel(self, id: RequestId, reason: str | None = None) -> bytes | None:
        """Stop waiting for the response to ``id``.

        Returns None if it has arrived, or for ``initialize``, which cannot be cancelled.
        """
        method = self._own.settle(id)
        if method is None or method == INITIALIZE:
            return None
        return self.codec.encode_notification(
            CANCELLED, CancelledNotificationParams(id, UNSET if reason is None else reason)
        )

    def close(self) -> list[RequestId]:
        """Close the endpoint and return the ids of pending requests: fail them.

        Running calls get no response.
        """
        self.closed = True
        for call in self.in_flight.values():
            call.cancelled = True
        self.in_flight.clear()
        self._end_session()
        return self._own.clear()

    def _end_session(self) -> None:
        session, self.session = self.session, None
        if session is not None and session.phase != "closed":
            phases.advance(session, "close")

    def _check_sending(self, method: str, codec: Codec) -> None:
        # An unknown method is a custom extension. A method that only another revision knows is a mistake.
        if method not in METHODS:
            return
        if not self.admission.may_send(method, codec.revision):
            raise LocalProtocolError(
                "method_not_found", f"a {self.side} cannot send {method} on {codec.revision.name}"
            )
        self._sent[method] = codec
