"""May this message be served? The one place that decides, before anything runs.

`Admission.admit` turns a frame into a `Call` with its params decoded, a `Notice`, a `Rejection` that is
ready to be written, or a `Violation` to count and drop. It never raises for what a peer sent.

A modern request climbs a ladder, and the first rung that fails is the answer:

====  =============================================================  ==============================  ======
rung  check                                                          answer                          status
====  =============================================================  ==============================  ======
3     ``_meta`` has protocolVersion (string), clientCapabilities     -32602 naming what is missing   400
4     HTTP: version, method and name headers equal the body          -32020                          400
5     the revision is served                                         -32022 {supported, requested}   400
6     the method exists there and its capability is offered          -32601                          404
7     HTTP: ``Mcp-Param-*`` equal the arguments                      -32020                          400
8     params have the shape of the method                            -32602                          200
9     the client declared the extension the method belongs to        -32021                          400
====  =============================================================  ==============================  ======

(1 and 2, JSON and JSON-RPC, are `wire.frames`; unknown names, cursors and the handler itself come later.)
Nearly every request passes, so `admit` first decodes as if everything were in order, and only a request that
turns out not to be goes back to `_climb`, which takes the rungs one by one.

Requests without modern metadata belong to their legacy session; without one, ``initialize`` and ``ping`` may be said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, MsgspecError, Struct

from ..errors import DovetailError, ProtocolError, Refusal, RemoteProtocolError
from ..model import CallToolRequestParams, ClientCapabilities, Implementation, ServerCapabilities
from ..model.capabilities import EXTENSIONS, Capabilities
from ..model.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from ..settings import NAME_ECHO, Limits
from ..wire import headers as routing
from ..wire.codec import Codec
from ..wire.dialects import NAMES, OFFICIAL, Dialect, dialect_of, status_of, strictly
from ..wire.frames import Frame, RequestId
from ..wire.headers import HeaderMap, RoutingHeaders
from ..wire.methods import OWN_EXTENSION, Method
from ..wire.revisions import REVISIONS, Revision, newest
from . import metadata, phases
from .channel import EMPTY, Admitted, Call, Carrier, Notice, Rejection, Session, Violation, Watcher
from .client_metadata_cache import Introduction, Introductions, tool_call
from .input_request_checks import check_question
from .limits import SharedLimits
from .method_registry import Offers, Side
from .principal import Principal

INTRODUCTION_BYTES: Final = 256 << 10
"""Bytes of ``initialize``; what is read of it costs twenty times its size."""

NOTHING: Final = ClientCapabilities()
INITIALIZE: Final = "initialize"
STEPS: Final = {"notifications/initialized": "initialized", "shutdown": "drain"}
"""Notifications that move the session they come in, and the step in `phases.TRANSITIONS` they ask for."""


class _Arrival(Struct, eq=False):
    """A request that did not pass at once, with all that came with it."""

    frame: Frame
    headers: RoutingHeaders | None
    principal: Principal | None
    scope: Mapping[str, Any]

    def call(self, row: Method, params: Any, codec: Codec, declared: ClientCapabilities, **more: Any) -> Call:
        """The call it is after all."""
        return Call(
            id=self.frame.id,
            method=row.name,
            params=params,
            revision=codec.revision,
            codec=codec,
            capabilities=declared,
            principal=self.principal,
            scope=self.scope,
            came=self.frame.params,
            **more,
        )

    @property
    def modern(self) -> bool:
        return metadata.is_modern(self.frame.params, None if self.headers is None else self.headers.version)


class Admission:
    """The rules of one service. Build it once; call `offer` whenever the service's capabilities change.

    ``side`` is ours: a server admits what clients say, a client what servers say. ``param_headers`` are the
    ``x-mcp-header`` maps of the tools that have one, by name, live. ``strict`` switches off aliases and requests
    before ``initialized``.
    """

    watchers: tuple[Watcher, ...] = ()  # told of what is refused or dropped
    carrier: Carrier | None = None
    bends: Callable[[str], bool] = frozenset[
        str
    ]().__contains__  # is this rule bent? `middleware.client_workarounds`

    def __init__(
        self,
        side: Side,
        revisions: Sequence[Revision] = REVISIONS,
        dialect: Dialect = OFFICIAL,
        server_info: Implementation | None = None,
        param_headers: Mapping[str, HeaderMap] = EMPTY,
        *,
        strict: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.shared = SharedLimits(limits or Limits())
        """The limits that all connections share."""
        self.side: Side = side
        self.dialect = strictly(dialect) if strict else dialect
        self.strict = strict
        self.revisions = tuple(sorted(revisions, key=lambda revision: revision.index))
        self.supported = tuple(revision.name for revision in reversed(self.revisions))
        """Modern revisions first: the order of `server/discover` and of -32022."""
        self.codecs: dict[str, Codec] = {
            revision.name: Codec(revision, self.dialect, server_info) for revision in REVISIONS
        }
        """Also of revisions that are not served: their peers are told so in their own words."""
        self._server_info = server_info
        self._foreign: dict[tuple[str, str], Codec] = {}
        self.param_headers = param_headers
        self.newest = self.codecs[self.revisions[-1].name]
        self.modern = {r.name: self.codecs[r.name] for r in self.revisions if r.modern}
        """The modern revisions that are served. A version header found here needs no `metadata.is_modern`."""
        self._introductions = Introductions()
        self._modern = next(reversed(self.modern.values()), self.codecs[newest(modern=True).name])
        """Speaks to modern peers before their own revision is known."""
        legacy = [revision for revision in self.revisions if not revision.modern]
        self._legacy: Codec | None = self.codecs[legacy[-1].name] if legacy else None
        self._unaddressed = self._legacy if self.dialect.null_error_id and self._legacy else self.newest
        self.offers = Offers(side, self.revisions, self.dialect)
        """Which methods there are; of the author's own too."""
        self._decode = self._modern.decode_params
        late = strict or self.dialect.initialized_first
        self._serving = phases.SERVING - {"negotiating"} if late else phases.SERVING
        self.offer(ServerCapabilities() if side == "server" else ClientCapabilities())

    # --- what there is --------------------------------------------------------------------------------------

    def offer(self, capabilities: Capabilities) -> None:
        """Recompute which methods exist: those of each revision whose capability is in ``capabilities``."""
        self.offers.rebuild(capabilities)
        # Where no modern revision is served this table is empty, and no request takes the first branch.
        self._rows: dict[str, Method] = {}
        for name in self.modern:
            self._rows |= self.offers.requests[name]

    def may_send(self, method: str, revision: Revision) -> bool:
        """Whether our side may say ``method`` on ``revision``."""
        return method in self.offers.sayable[revision.name]

    # --- deciding -------------------------------------------------------------------------------------------

    def admit(
        self,
        frame: Frame,
        session: Session | None,
        *,
        headers: RoutingHeaders | None = None,
        principal: Principal | None = None,
        scope: Mapping[str, Any] = EMPTY,
    ) -> Admitted:
        """Decide about one request or notification. ``headers`` are given over HTTP only."""
        if frame.id is UNSET:
            return self._admit_notification(frame, session, principal, scope)
        if session is not None:
            return self._admit_in_session(frame, session, headers, principal, scope)
        members, known, params = None, None, None
        try:
            row = self._rows[frame.method]
            if row.params is CallToolRequestParams and (members := frame.members) is not None:
                known = self._introductions.get(bytes(members["_meta"]))
                params = None if known is None else tool_call(members, known.meta)
            if known is None or params is None:
                params = self._decode(row, frame.params)
                meta = params.meta
                codec, declared = self.modern[meta[PROTOCOL_VERSION]], meta[CLIENT_CAPABILITIES]
                info = meta.get(CLIENT_INFO)  # the third member; few have a fourth
                usual = len(meta) == 2 + (type(info) is dict)
                if type(declared) is not dict or not (usual or metadata.problem(meta) is None):
                    return self._climb(_Arrival(frame, headers, principal, scope))
                known = Introduction(codec, meta, ClientCapabilities(declared), info)  # pyright: ignore[reportUnknownArgumentType]
                if usual and members is not None:
                    self._introductions.keep(bytes(members["_meta"]), known)
            if headers is not None and self.param_headers:
                self._check_arguments(headers, row, params)
        except (RemoteProtocolError, KeyError, TypeError, MsgspecError):
            return self._admit_without_session(_Arrival(frame, headers, principal, scope))
        revision = known.codec.revision
        if (
            row.opt_in
            or self.offers.requests[revision.name].get(frame.method) is not row
            or (headers is not None and not routing.repeat(headers, revision.name, row, params))
        ):
            return self._climb(_Arrival(frame, headers, principal, scope))
        return Call(
            id=frame.id,
            method=row.name,
            params=params,
            revision=revision,
            codec=known.codec,
            capabilities=known.capabilities,
            meta=known.meta,
            client_info=known.client_info,
            principal=principal,
            scope=scope,
            came=frame.params,
        )

    def _admit_notification(
        self, frame: Frame, session: Session | None, principal: Principal | None, scope: Mapping[str, Any]
    ) -> Notice | Violation:
        codec = self._modern if session is None else session.codec
        row = self.offers.notifications[codec.revision.name].get(frame.method)
        if row is None or (row.extension == OWN_EXTENSION and row.name not in codec.dialect.methods):
            return Violation("invalid_notification_type", frame.method[:NAME_ECHO])
        try:
            params = codec.decode_params(row, frame.params)
        except RemoteProtocolError as error:
            return Violation("malformed_notification", f"{row.name}: {error.message}")
        if session is not None and (step := STEPS.get(row.name)) is not None:
            if step not in phases.TRANSITIONS[session.phase]:
                return Violation("unexpected_notification", row.name)
            phases.advance(session, step)
        said = Notice(method=row.name, params=params, revision=codec.revision, session=session, scope=scope)
        said.principal = principal
        return said

    # --- refusing -------------------------------------------------------------------------------------------

    def refuse(
        self,
        error: DovetailError,
        id: RequestId | None = None,
        session: Session | None = None,
        *,
        codec: Codec | None = None,
        status: int | None = None,
    ) -> Rejection:
        """Put ``error`` into the words of the session; without one, of the newest revision served.

        A dialect with words of its own for what nobody can read has them on the legacy revisions only, so
        there the newest of those speaks.
        """
        if codec is None:
            codec = self._unaddressed if session is None else session.codec
        if status is None:
            status = self.status_of(error, codec)
        for watcher in self.watchers:
            watcher.refused(error)
        error.__traceback__ = error.__context__ = error.__cause__ = None  # no circle with the message in it
        return Rejection(id, error, status, codec.encode_error(id, error))

    def violated(self, kind: str, detail: str) -> None:
        """Something was dropped."""
        for watcher in self.watchers:
            watcher.violated(kind, detail)

    def undelivered(self, method: str) -> None:
        """A notification could not be sent: the client does not read, or has disconnected."""
        for watcher in self.watchers:
            watcher.undelivered(method)

    def status_of(self, error: DovetailError, codec: Codec) -> int:
        """The HTTP status for a request that ends in ``error`` before anything was streamed."""
        return status_of(error, codec.revision, codec.dialect)

    def unsupported(self, requested: str) -> ProtocolError:
        """What a peer is told that wants a revision which is not served here."""
        return ProtocolError(
            "unsupported_protocol_version",
            f"unsupported protocol version; supported: {', '.join(self.supported)}",
            data={"supported": list(self.supported), "requested": requested[:NAME_ECHO]},
        )

    def _find(self, method: str, revision: Revision) -> Method:
        row = self.offers.requests[revision.name].get(method)
        if row is None:
            raise self._missing(method, revision)
        return row

    def _missing(self, method: str, revision: Revision) -> ProtocolError:
        known = self.offers.known[revision.name].get(method)
        need = None if known is None or known.kind != "request" else known.needs(revision)
        if need is None or (known is not None and known.extension == OWN_EXTENSION):
            name = method[:NAME_ECHO]
            return ProtocolError("method_not_found", f"method not found: {name}", data={"method": name})
        sampling = need == "sampling" and self.side == "server"  # asked of servers in one dialect alone
        kind = "sampling_not_supported" if sampling else "capability_not_supported"
        reason = f"{method} needs the capability {need!r}, which is not offered here"
        return ProtocolError(kind, reason, data={"method": method, "capability": need})

    # --- modern, rung by rung -------------------------------------------------------------------------------

    def _climb(self, arrival: _Arrival) -> Admitted:
        frame, headers = arrival.frame, arrival.headers
        codec = self._modern
        try:
            routing.once(headers)  # two versions do not even say which era this is
            meta = metadata.read(frame.params)
            if headers is not None:
                routing.check(headers, frame)
            version: str = meta[PROTOCOL_VERSION]
            if version not in self.modern:
                raise self.unsupported(version)
        except ProtocolError as error:
            return self.refuse(error, frame.id, codec=codec, status=400)
        codec = self.modern[version]
        try:
            row = self._find(frame.method, codec.revision)
            if headers is not None:
                self._check_arguments(headers, row, routing.peek(frame))
            params = codec.decode_params(row, frame.params)
            metadata.check(meta)
            declared = ClientCapabilities(meta[CLIENT_CAPABILITIES])
            if row.opt_in:
                metadata.require(row.name, f"extensions.{row.extension}", declared)
        except ProtocolError as error:
            return self.refuse(error, frame.id, codec=codec)
        return arrival.call(row, params, codec, declared, meta=params.meta, client_info=meta.get(CLIENT_INFO))

    def _check_arguments(self, headers: RoutingHeaders, row: Method, params: Any) -> None:
        if row.name == "tools/call" and type(params.name) is str:
            header_map = self.param_headers.get(params.name)
            if header_map:
                routing.check_arguments(headers, params.arguments, header_map)

    # --- legacy, inside a session ---------------------------------------------------------------------------

    def _admit_in_session(
        self,
        frame: Frame,
        session: Session,
        headers: RoutingHeaders | None,
        principal: Principal | None,
        scope: Mapping[str, Any],
    ) -> Admitted:
        row, dialect = self.offers.requests[session.revision.name].get(frame.method), session.codec.dialect
        if (
            row is None
            or row.name == INITIALIZE
            or (row.extension == OWN_EXTENSION and row.name not in dialect.methods)
            or (row.opt_in and _is_hidden(row, session))
            or (dialect.server_capabilities and dialect.denies(row.needs(session.revision)))
            or (headers is not None and headers.version not in (None, session.revision.name))
        ):
            return self._refuse_in_session(_Arrival(frame, headers, principal, scope), session)
        try:
            params = session.codec.decode_params(row, frame.params)
            meta = params.meta
            if meta is UNSET:
                meta = EMPTY
            elif PROTOCOL_VERSION in meta:
                return self._climb(_Arrival(frame, headers, principal, scope))
            else:
                metadata.check(meta)
            if self.side == "client":
                check_question(row.name, params, session.capabilities)
            if session.phase not in self._serving:
                phases.check(row.name, session)
        except (ProtocolError, Refusal) as error:
            return self._refuse_in_session(_Arrival(frame, headers, principal, scope), session, error)
        return Call(
            id=frame.id,
            method=row.name,
            params=params,
            revision=session.revision,
            codec=session.codec,
            capabilities=session.capabilities,
            meta=meta,
            client_info=session.client_info,
            session=session,
            principal=principal,
            scope=scope,
            came=frame.params,
        )

    def _refuse_in_session(
        self, arrival: _Arrival, session: Session, error: DovetailError | None = None
    ) -> Admitted:
        """Nothing a session admits: a modern request beside it, or something to refuse."""
        frame = arrival.frame
        if self.side == "client":
            if session.revision.modern:
                # 2026-07-28: only servers respond, so there is no answer we could give.
                return Violation("unexpected_request", frame.method[:NAME_ECHO])
        elif arrival.modern:
            return self._climb(arrival)
        if error is not None and session.phase not in self._serving:
            # That the session is not open comes before what is wrong with the params.
            try:
                phases.check(frame.method, session)
            except (ProtocolError, Refusal) as early:
                error = early
        return self.refuse(error or self._reason(arrival, session), frame.id, session)

    def _reason(self, arrival: _Arrival, session: Session) -> DovetailError:
        """Why the session has no such request."""
        name, headers = session.revision.name, arrival.headers
        if headers is not None and headers.version not in (None, name):
            text = f"MCP-Protocol-Version differs from the negotiated {name}: {str(headers.version)[:NAME_ECHO]!r}"
            return ProtocolError("invalid_request", text)
        if arrival.frame.method == INITIALIZE:
            return ProtocolError("invalid_request", "this session is already initialized")
        return self._missing(arrival.frame.method, session.revision)

    # --- legacy, before there is a session ------------------------------------------------------------------

    def _admit_without_session(self, arrival: _Arrival) -> Admitted:
        frame = arrival.frame
        if arrival.modern:
            return self._climb(arrival)
        legacy = self._legacy
        if legacy is None:
            return self._refuse_legacy(arrival)
        row = self.offers.requests[legacy.revision.name].get(frame.method)
        if row is None or row.name not in (INITIALIZE, "ping"):
            error = ProtocolError(
                "not_initialized",
                f"send {INITIALIZE} first, or put {PROTOCOL_VERSION} and {CLIENT_CAPABILITIES} in _meta",
                data={"supported": list(self.supported)},
            )
            return self.refuse(error, frame.id, codec=legacy, status=400)
        try:
            if frame.params is not UNSET and memoryview(frame.params).nbytes > INTRODUCTION_BYTES:
                raise ProtocolError("invalid_params", f"{row.name} exceeds {INTRODUCTION_BYTES} bytes")
            params = legacy.decode_params(row, frame.params)
            metadata.check(params.meta or EMPTY)
            if row.name != INITIALIZE:
                return arrival.call(row, params, legacy, NOTHING)
            revision = phases.negotiate(params.protocol_version, self.revisions)
            codec = self.codec_for(revision or legacy.revision, phases.wished_dialect(params))
            session = phases.open_session(params, codec, arrival.principal)
        except ProtocolError as error:
            return self.refuse(error, frame.id, codec=legacy)
        known = {"client_info": session.client_info, "meta": params.meta or EMPTY}
        return arrival.call(row, params, codec, session.capabilities, session=session, **known)

    def _refuse_legacy(self, arrival: _Arrival) -> Admitted:
        """A request of the legacy era where only the modern one is served."""
        frame, headers = arrival.frame, arrival.headers
        if headers is not None and headers.version is None:
            error = ProtocolError("header_mismatch", "the header MCP-Protocol-Version is missing")
        elif frame.method == INITIALIZE:
            # Legacy clients can only show the message, so it names the versions too.
            error = self.unsupported(phases.proposal(frame.params))
        else:
            return self._climb(arrival)
        return self.refuse(error, frame.id, status=400)

    def codec_for(self, revision: Revision, dialect: str | None) -> Codec:
        """How to speak ``revision`` in the dialect of that name; in our own if there is none."""
        if dialect is None or dialect == self.dialect.name or dialect not in NAMES:
            return self.codecs[revision.name]
        codec = self._foreign.get((revision.name, dialect))
        if codec is None:
            codec = Codec(revision, dialect_of(dialect), self._server_info)
            self._foreign[revision.name, dialect] = codec
            codec.keeps = self.newest.keeps
        return codec


def _is_hidden(row: Method, session: Session) -> bool:
    """Whether a legacy client has not declared the extension that a method belongs to."""
    need = row.needs(session.revision)
    return need is not None and need.startswith(EXTENSIONS) and not session.capabilities.has(need)
