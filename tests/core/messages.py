"""Bytes as peers send them, and services to send them to."""

import json
from typing import Any

from dovetail.core import phases
from dovetail.core.admit import Admission
from dovetail.core.channel import Call, Rejection, Reply, Session
from dovetail.core.endpoint import Endpoint
from dovetail.model import ClientCapabilities, Implementation, ServerCapabilities
from dovetail.model.meta import TASKS_EXTENSION
from dovetail.wire.dialects import OFFICIAL, Dialect
from dovetail.wire.frames import Frame, decode
from dovetail.wire.headers import RoutingHeaders
from dovetail.wire.revisions import BY_NAME, REVISIONS
from tests.support.schemas import validate

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META: dict[str, Any] = {VERSION: "2026-07-28", CAPABILITIES: {}}
SERVER = Implementation("weather", "1.0")
OFFER = ServerCapabilities(
    tools={"listChanged": True},
    resources={"subscribe": True, "listChanged": True},
    logging={},
    extensions={TASKS_EXTENSION: {}},
)


def request(method: str, params: Any = None, id: Any = 1, **more: Any) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        message["params"] = params
    return json.dumps(message | more).encode()


def notification(method: str, params: Any = None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return json.dumps(message).encode()


def modern(method: str, params: dict[str, Any] | None = None, id: Any = 1, **meta: Any) -> bytes:
    return request(method, {**(params or {}), "_meta": META | meta}, id)


def initialize(version: str = "2025-11-25", capabilities: Any = None, id: Any = 0) -> bytes:
    info = {"name": "peer", "version": "0"}
    params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": info}
    return request("initialize", params, id)


def frame(data: bytes) -> Frame:
    return decode(data)


def server_admission(dialect: Dialect = OFFICIAL, revisions: Any = REVISIONS, **more: Any) -> Admission:
    admission = Admission("server", revisions, dialect, SERVER, **more)
    admission.set_capabilities(OFFER)
    return admission


def client_admission(**capabilities: Any) -> Admission:
    admission = Admission("client")
    admission.set_capabilities(ClientCapabilities(capabilities))
    return admission


def session(version: str = "2025-11-25", phase: str = "ready", **capabilities: Any) -> Session:
    admission = server_admission()
    return Session(
        revision=BY_NAME[version],
        codec=admission.codecs[version],
        capabilities=ClientCapabilities(capabilities),
        phase=phase,
    )


def headers(method: str, name: str | None = None, version: str | None = "2026-07-28") -> RoutingHeaders:
    return RoutingHeaders(version=version, method=method, name=name)


def read(rejected: Any, revision: str | None = "2026-07-28") -> dict[str, Any]:
    """The error in a rejection or reply, after a check against the schema of its revision."""
    assert isinstance(rejected, Rejection | Reply), rejected
    data = rejected.body if isinstance(rejected, Rejection) else rejected.data
    message = json.loads(data)
    readable = message.get("id") is not None
    if revision is not None and (readable or "id" not in message):
        # Until 2025-06-18 the schema has no form for an error without an id; null is what JSON-RPC says.
        validate(data, revision, kind="error")
    return message["error"] | {"id": message.get("id", "absent")}


def connected(version: str = "2025-11-25", dialect: Dialect = OFFICIAL, **more: Any) -> Endpoint:
    """A server's endpoint after a whole handshake."""
    endpoint = Endpoint(server_admission(dialect), **more)
    call = endpoint.receive(initialize(version))
    assert isinstance(call, Call)
    answer = endpoint.send_result(call, phases.handshake(call, OFFER, SERVER))
    assert answer is not None
    if dialect is OFFICIAL:
        validate(answer, version, method="initialize", kind="result")
    endpoint.receive(notification("notifications/initialized"))
    return endpoint
