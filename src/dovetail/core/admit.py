"""Admission: decide whether one incoming message may be served, before anything runs.

`Admission.admit` turns a frame into a `Call` with its params decoded, a `Notice`, a `Rejection` with the
response to write, or a `Violation` to count and drop. It never raises for what a peer sent.

A modern request passes these checks in this order. The first one that fails decides the error:

====  =============================================================  ==============================  ======
step  check                                                          answer                          status
====  =============================================================  ==============================  ======
3     ``_meta`` has protocolVersion (string), clientCapabilities     -32602 naming what is missing   400
4     HTTP: version, method and name headers equal the body          -32020                          400
5     the revision is served                                         -32022 {supported, requested}   400
6     the method exists there and its capability is offered          -32601                          404
7     HTTP: ``Mcp-Param-*`` equal the arguments                      -32020                          400
8     params have the shape of the method                            -32602                          200
9     the client declared the extension the method belongs to        -32021                          400
====  =============================================================  ==============================  ======

Steps 1 and 2, JSON and JSON-RPC, are `wire.frames`. The handler checks unknown names and cursors later. Most
requests pass, so `admit` decodes first and checks afterwards. A request that fails goes through
`_check_modern`, which takes the steps one by one.

A request without modern metadata belongs to its legacy session. Without a session only ``initialize`` and
``ping`` are admitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, MsgspecError, Struct

from ..errors import NAME_ECHO, DovetailError, ProtocolError, Refusal, RemoteProtocolError
from ..model import CallToolRequestParams, ClientCapabilities, Implementation, ServerCapabilities
from ..model.capabilities import EXTENSIONS, Capabilities
from ..model.meta import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from ..settings import Limits
from ..wire import headers as routing
from ..wire.codec import Codec
from ..wire.dialects import NAMES, OFFICIAL, Dialect, dialect_of, status_of, without_aliases
from ..wire.frames import Frame, RequestId
from ..wire.headers import HeaderMap, RoutingHeaders
from ..wire.methods import OWN_EXTENSION, Method
from ..wire.revisions import REVISIONS, Revision, newest
from . import metadata, phases
from .channel import EMPTY, Admitted, Call, MetaProvider, Notice, Rejection, Session, Violation, Watcher
from .client_metadata_cache import ClientMetadataCache, ValidatedMetadata, tool_call
from .input_request_checks import check_input_request
from .limits import SharedLimits
from .method_registry import MethodRegistry, Side
from .principal import Principal

MAX_INITIALIZE_BYTES: Final = 256 << 10
"""Longest ``initialize`` message in bytes. Decoding it takes about twenty times its size in memory."""

NO_CAPABILITIES: Final = ClientCapabilities()
INITIALIZE: Final = "initialize"
PHASE_EVENTS: Final = {"notifications/initialized": "initialized", "shutdown": "drain"}
"""Notifications that change the phase of their session, with the event in `phases.TRANSITIONS` that they
cause."""


class _Arrival(Struct, eq=False):
    """A request that failed the fast path, with everything that was received with it."""

    frame: Frame
    headers: RoutingHeaders | None
    principal: Principal | None
    scope: Mapping[str, Any]

    def call(self, row: Method, params: Any, codec: Codec, declared: ClientCapabilities, **more: Any) -> Call:
        """Build the `Call` once the request has passed all checks."""
        return Call(
            id=self.frame.id,
            method=row.name,
            params=params,
            revision=codec.revision,
            codec=codec,
            capabilities=declared,
            principal=self.principal,
            scope=self.scope,
            raw_params=self.frame.params,
            **more,
        )

    @property
    def modern(self) -> bool:
        return metadata.is_modern(self.frame.params, None if self.headers is None else self.headers.version)


class Admission:
    """The admission rules of one service.

    Build it once; call `set_capabilities` whenever the capabilities of the service change.

    ``side`` is the local side: a server admits what clients send, a client what servers send.
    ``param_headers`` maps tool names to their ``x-mcp-header`` maps; later changes to it apply. ``strict``
    switches off aliases and refuses requests before ``initialized``.
    """

    watchers: tuple[Watcher, ...] = ()  # notified of refused and dropped messages
    meta_provider: MetaProvider | None = None
    is_check_disabled: Callable[[str], bool] = frozenset[
        str
    ]().__contains__  # whether a check is switched off; set by `middleware.client_workarounds`

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
        self.dialect = without_aliases(dialect) if strict else dialect
        self.strict = strict
        self.revisions = tuple(sorted(revisions, key=lambda revision: revision.index))
        self.supported = tuple(revision.name for revision in reversed(self.revisions))
        """Names of the served revisions, newest first: the order of ``server/discover`` and of error -32022.
        """
        self.codecs: dict[str, Codec] = {
            revision.name: Codec(revision, self.dialect, server_info) for revision in REVISIONS
        }
        """Codecs of all revisions, so that a peer on an unsupported revision still gets an error it can read.
        """
        self._server_info = server_info
        self._foreign: dict[tuple[str, str], Codec] = {}
        self.param_headers = param_headers
        self.newest = self.codecs[self.revisions[-1].name]
        self.modern = {r.name: self.codecs[r.name] for r in self.revisions if r.modern}
        """The modern revisions that are served. A version header found here needs no `metadata.is_modern`."""
        self._introductions = ClientMetadataCache()
        self._modern = next(reversed(self.modern.values()), self.codecs[newest(modern=True).name])
        """Encodes messages to modern peers whose revision is not known yet."""
        legacy = [revision for revision in self.revisions if not revision.modern]
        self._legacy: Codec | None = self.codecs[legacy[-1].name] if legacy else None
        self._unaddressed = self._legacy if self.dialect.null_error_id and self._legacy else self.newest
        self.methods = MethodRegistry(side, self.revisions, self.dialect)
        """The methods that this service offers, including custom methods."""
        self._decode = self._modern.decode_params
        late = strict or self.dialect.initialized_first
        self._serving = phases.SERVING - {"negotiating"} if late else phases.SERVING
        self.set_capabilities(ServerCapabilities() if side == "server" else ClientCapabilities())

    # --- methods --------------------------------------------------------------------------------------------

    def set_capabilities(self, capabilities: Capabilities) -> None:
        """Recompute the offered methods: those of each revision whose capability is in ``capabilities``."""
        self.methods.rebuild(capabilities)
        # If no modern revision is served, this table is empty and no request takes the fast path.
        self._rows: dict[str, Method] = {}
        for name in self.modern:
            self._rows |= self.methods.requests[name]

    def may_send(self, method: str, revision: Revision) -> bool:
        """Whether the local side may send ``method`` on ``revision``."""
        return method in self.methods.sendable[revision.name]

    # --- admitting ------------------------------------------------------------------------------------------

    def admit(
        self,
        frame: Frame,
        session: Session | None,
        *,
        headers: RoutingHeaders | None = None,
        principal: Principal | None = None,
        scope: Mapping[str, Any] = EMPTY,
    ) -> Admitted:
        """Admit or reject one request or notification. ``headers`` are given over HTTP only."""
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
                    return self._check_modern(_Arrival(frame, headers, principal, scope))
                known = ValidatedMetadata(codec, meta, ClientCapabilities(declared), info)  # pyright: ignore[reportUnknownArgumentType]
                if usual and members is not None:
                    self._introductions.store(bytes(members["_meta"]), known)
            if headers is not None and self.param_headers:
                self._check_arguments(headers, row, params)
        except (RemoteProtocolError, KeyError, TypeError, MsgspecError):
            return self._admit_without_session(_Arrival(frame, headers, principal, scope))
        revision = known.codec.revision
        if (
            row.opt_in
            or self.methods.requests[revision.name].get(frame.method) is not row
            or (headers is not None and not routing.headers_match(headers, revision.name, row, params))
        ):
            return self._check_modern(_Arrival(frame, headers, principal, scope))
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
            raw_params=frame.params,
        )

    def _admit_notification(
        self, frame: Frame, session: Session | None, principal: Principal | None, scope: Mapping[str, Any]
    ) -> Notice | Violation:
        codec = self._modern if session is None else session.codec
        row = self.methods.notifications[codec.revision.name].get(frame.method)
        if row is None or (row.extension == OWN_EXTENSION and row.name not in codec.dialect.methods):
            return Violation("invalid_notification_type", frame.method[:NAME_ECHO])
        try:
            params = codec.decode_params(row, frame.params)
        except RemoteProtocolError as error:
            return Violation("malformed_notification", f"{row.name}: {error.message}")
        if session is not None and (step := PHASE_EVENTS.get(row.name)) is not None:
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
        """Encode ``error`` for the session; without a session, for the newest revision that is served.

        A dialect may have its own error codes for unreadable messages. It defines them for legacy revisions
        only, so there the newest legacy revision is used.
        """
        if codec is None:
            codec = self._unaddressed if session is None else session.codec
        if status is None:
            status = self.status_of(error, codec)
        for watcher in self.watchers:
            watcher.refused(error)
        # no reference cycle that holds the message
        error.__traceback__ = error.__context__ = error.__cause__ = None
        return Rejection(id, error, status, codec.encode_error(id, error))

    def violated(self, kind: str, detail: str) -> None:
        """Report a dropped message to the watchers."""
        for watcher in self.watchers:
            watcher.violated(kind, detail)

    def undelivered(self, method: str) -> None:
        """Report a notification that was not sent: the client does not read, or has disconnected."""
        for watcher in self.watchers:
            watcher.undelivered(method)

    def coerced(self, tool: str) -> None:
        """Report a call whose arguments were coerced to their declared types."""
        for watcher in self.watchers:
            watcher.coerced(tool)

    def status_of(self, error: DovetailError, codec: Codec) -> int:
        """Return the HTTP status for a request that fails with ``error`` before anything was streamed."""
        return status_of(error, codec.revision, codec.dialect)

    def unsupported(self, requested: str) -> ProtocolError:
        """Return the error for a revision that this service does not support. It names the supported ones."""
        return ProtocolError(
            "unsupported_protocol_version",
            f"unsupported protocol version; supported: {', '.join(self.supported)}",
            data={"supported": list(self.supported), "requested": requested[:NAME_ECHO]},
        )

    def _find(self, method: str, revision: Revision) -> Method:
        row = self.methods.requests[revision.name].get(method)
        if row is None:
            raise self._missing(method, revision)
        return row

    def _missing(self, method: str, revision: Revision) -> ProtocolError:
        known = self.methods.known[revision.name].get(method)
        need = None if known is None or known.kind != "request" else known.needs(revision)
        if need is None or (known is not None and known.extension == OWN_EXTENSION):
            name = method[:NAME_ECHO]
            return ProtocolError("method_not_found", f"method not found: {name}", data={"method": name})
        # only one dialect lets clients request sampling from a server
        sampling = need == "sampling" and self.side == "server"
        kind = "sampling_not_supported" if sampling else "capability_not_supported"
        reason = f"{method} needs the capability {need!r}, which this {self.side} does not offer"
        return ProtocolError(kind, reason, data={"method": method, "capability": need})

    # --- modern requests, check by check --------------------------------------------------------------------

    def _check_modern(self, arrival: _Arrival) -> Admitted:
        frame, headers = arrival.frame, arrival.headers
        codec = self._modern
        try:
            routing.check_duplicates(headers)  # two version headers leave the era undecided
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

    # --- legacy requests in a session -----------------------------------------------------------------------

    def _admit_in_session(
        self,
        frame: Frame,
        session: Session,
        headers: RoutingHeaders | None,
        principal: Principal | None,
        scope: Mapping[str, Any],
    ) -> Admitted:
        row, dialect = self.methods.requests[session.revision.name].get(frame.method), session.codec.dialect
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
                return self._check_modern(_Arrival(frame, headers, principal, scope))
            else:
                metadata.check(meta)
            if self.side == "client":
                check_input_request(row.name, params, session.capabilities)
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
            raw_params=frame.params,
        )

    def _refuse_in_session(
        self, arrival: _Arrival, session: Session, error: DovetailError | None = None
    ) -> Admitted:
        """Handle a request that the session does not admit: a modern request on the same connection, or an
        error."""
        frame = arrival.frame
        if self.side == "client":
            if session.revision.modern:
                # 2026-07-28: only servers send responses, so a client cannot answer with an error.
                return Violation("unexpected_request", frame.method[:NAME_ECHO])
        elif arrival.modern:
            return self._check_modern(arrival)
        if error is not None and session.phase not in self._serving:
            # An unopened session takes precedence over wrong params.
            try:
                phases.check(frame.method, session)
            except (ProtocolError, Refusal) as early:
                error = early
        return self.refuse(error or self._reason(arrival, session), frame.id, session)

    def _reason(self, arrival: _Arrival, session: Session) -> DovetailError:
        """Return the error that explains why the session does not admit the request."""
        name, headers = session.revision.name, arrival.headers
        if headers is not None and headers.version not in (None, name):
            text = f"MCP-Protocol-Version differs from the negotiated {name}: {str(headers.version)[:NAME_ECHO]!r}"
            return ProtocolError("invalid_request", text)
        if arrival.frame.method == INITIALIZE:
            return ProtocolError("invalid_request", "this session is already initialized")
        return self._missing(arrival.frame.method, session.revision)

    # --- legacy requests before a session exists ------------------------------------------------------------

    def _admit_without_session(self, arrival: _Arrival) -> Admitted:
        frame = arrival.frame
        if arrival.modern:
            return self._check_modern(arrival)
        legacy = self._legacy
        if legacy is None:
            return self._refuse_legacy(arrival)
        row = self.methods.requests[legacy.revision.name].get(frame.method)
        if row is None or row.name not in (INITIALIZE, "ping"):
            error = ProtocolError(
                "not_initialized",
                f"send {INITIALIZE} first, or put {PROTOCOL_VERSION} and {CLIENT_CAPABILITIES} in _meta",
                data={"supported": list(self.supported)},
            )
            return self.refuse(error, frame.id, codec=legacy, status=400)
        try:
            if frame.params is not UNSET and memoryview(frame.params).nbytes > MAX_INITIALIZE_BYTES:
                raise ProtocolError("invalid_params", f"{row.name} exceeds {MAX_INITIALIZE_BYTES} bytes")
            params = legacy.decode_params(row, frame.params)
            metadata.check(params.meta or EMPTY)
            if row.name != INITIALIZE:
                return arrival.call(row, params, legacy, NO_CAPABILITIES)
            revision = phases.negotiate(params.protocol_version, self.revisions)
            codec = self.codec_for(revision or legacy.revision, phases.requested_dialect(params))
            session = phases.open_session(params, codec, arrival.principal)
        except ProtocolError as error:
            return self.refuse(error, frame.id, codec=legacy)
        known = {"client_info": session.client_info, "meta": params.meta or EMPTY}
        return arrival.call(row, params, codec, session.capabilities, session=session, **known)

    def _refuse_legacy(self, arrival: _Arrival) -> Admitted:
        """Refuse a legacy request where only modern revisions are served."""
        frame, headers = arrival.frame, arrival.headers
        if headers is not None and headers.version is None:
            error = ProtocolError("header_mismatch", "the request header MCP-Protocol-Version is missing")
        elif frame.method == INITIALIZE:
            # Legacy clients can only show the message, so it names the supported versions too.
            error = self.unsupported(phases.proposal(frame.params))
        else:
            return self._check_modern(arrival)
        return self.refuse(error, frame.id, status=400)

    def codec_for(self, revision: Revision, dialect: str | None) -> Codec:
        """Return the codec for ``revision`` in the named dialect, else in the dialect of this service."""
        if dialect is None or dialect == self.dialect.name or dialect not in NAMES:
            return self.codecs[revision.name]
        codec = self._foreign.get((revision.name, dialect))
        if codec is None:
            codec = Codec(revision, dialect_of(dialect), self._server_info)
            self._foreign[revision.name, dialect] = codec
            codec.preserves_unknown = self.newest.preserves_unknown
        return codec


def _is_hidden(row: Method, session: Session) -> bool:
    """Whether the method belongs to an extension that the legacy client has not declared."""
    need = row.needs(session.revision)
    return need is not None and need.startswith(EXTENSIONS) and not session.capabilities.has(need)
