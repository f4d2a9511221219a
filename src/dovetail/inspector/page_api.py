"""The routes of the page: one function each, from the inspector and the parameters to JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgspec

from ..client import Client
from ..errors import DovetailError, TransportError
from ..settings import Timeouts
from . import connect_request, recordings, revision_comparison, saved_sessions
from .call_history import perform
from .inspected_server import ConnectRequest, state_of
from .inspector import AppDocument, Inspector
from .messages import ROWS_SENT
from .page_guard import app_policy
from .truncation import truncated

METRICS_SIZE: Final = 4 << 20
"""Bytes read of a server's metrics."""
METRICS_SECONDS: Final = 5.0
"""Seconds that a server has to send its metrics."""


Asked = dict[str, Any]
Handler = Callable[[Inspector, Asked], Awaitable[Any]]


class Download(msgspec.Struct):
    """Bytes to save as a file."""

    data: bytes
    name: str
    kind: str = "application/json"


async def state(inspector: Inspector, asked: Asked) -> Any:
    return inspector.shown()


async def connect(inspector: Inspector, asked: Asked) -> Any:
    """Connect to the given target; a command needs a confirmation first."""
    if "saved" in asked:
        name = str(asked["saved"])
        return {"connections": [inspector.replayed(saved_sessions.read(name), f"session {name}").id]}
    if "recording" in asked:
        return {"connections": [inspector.replayed(asked["recording"], asked.get("label") or "recording").id]}
    if "confirm" in asked:
        found = inspector.confirmed(asked["confirm"])
        return {"connections": [connection.id for connection in inspector.connect(found)]}
    headers = msgspec.convert(asked.get("headers") or {}, dict[str, str])
    found = connect_request.read(
        str(asked.get("target", "")), revision=asked.get("revision") or "auto", headers=headers,
        auth=asked.get("auth") or None,
    )  # fmt: skip
    programs = [request for request in found if request.target.kind == "child"]
    if programs:
        return {
            "confirm": inspector.ask_first(found),
            "commands": [_command(request) for request in programs],
        }
    return {"connections": [connection.id for connection in inspector.connect(found)]}


def _command(request: ConnectRequest) -> dict[str, Any]:
    return {
        "label": request.label,
        "words": list(request.target.command),
        "cwd": request.cwd,
        "env": sorted(request.env or ()),
    }


async def reconnect(inspector: Inspector, asked: Asked) -> Any:
    await inspector.connection(asked.get("connection")).reopen(
        asked.get("revision") or "auto", str(asked.get("auth") or "") or None
    )


async def disconnect(inspector: Inspector, asked: Asked) -> Any:
    await inspector.disconnect(asked.get("connection", 0))


async def restore(inspector: Inspector, asked: Asked) -> Any:
    """Connect again to the server that was removed last."""
    return {"connection": inspector.restore(asked.get("connection", 0)).id}


async def listing(inspector: Inspector, asked: Asked) -> Any:
    return await inspector.connection(asked.get("connection")).listing()


async def call(inspector: Inspector, asked: Asked) -> Any:
    params = msgspec.convert(asked.get("params") or {}, dict[str, Any])
    record = inspector.calls.start(
        inspector.connection(asked.get("connection")), str(asked["method"]), params,
        task=asked.get("task") is True, frame=inspector.frames.last,
    )  # fmt: skip
    return {"call": record.id}


async def cancel(inspector: Inspector, asked: Asked) -> Any:
    inspector.calls.cancel(asked.get("call", 0))


async def result(inspector: Inspector, asked: Asked) -> Any:
    """Return one call with its result; ``whole``: the result as a file."""
    record = inspector.calls.records.get(int(asked.get("id", 0)))
    if record is None:
        raise DovetailError("this call is not in the history any more")
    if asked.get("whole"):
        return Download(record.result, f"result-{record.id}.json")
    return record.detail()


async def complete(inspector: Inspector, asked: Asked) -> Any:
    client = inspector.connection(asked.get("connection")).client
    return msgspec.to_builtins(await perform(client, "completion/complete", asked))


async def subscribe(inspector: Inspector, asked: Asked) -> Any:
    connection, uri = inspector.connection(asked.get("connection")), str(asked["uri"])
    await connection.client.subscribe_resource(uri)
    connection.subscribed.setdefault(uri, 0)
    connection.tell()


async def unsubscribe(inspector: Inspector, asked: Asked) -> Any:
    connection, uri = inspector.connection(asked.get("connection")), str(asked["uri"])
    await connection.client.unsubscribe_resource(uri)
    connection.subscribed.pop(uri, None)
    connection.tell()


async def answer(inspector: Inspector, asked: Asked) -> Any:
    inspector.questions.answer(asked.get("question", 0), asked.get("answer"))


async def settings(inspector: Inspector, asked: Asked) -> Any:
    await inspector.connection(asked.get("connection")).change(asked)


async def ping(inspector: Inspector, asked: Asked) -> Any:
    return {"ms": await inspector.connection(asked.get("connection")).client.ping() * 1000}


async def tasks(inspector: Inspector, asked: Asked) -> Any:
    found = await inspector.connection(asked.get("connection")).client.list_tasks()
    return {"tasks": [state_of(task) for task in found]}


async def cancel_task(inspector: Inspector, asked: Asked) -> Any:
    await inspector.connection(asked.get("connection")).client.task(str(asked["task"])).cancel()


async def frames(inspector: Inspector, asked: Asked) -> Any:
    """Return the rows after a number."""
    found = inspector.frames.since(
        int(asked.get("after", 0)), min(int(asked.get("limit", 20_000)), 4 * ROWS_SENT)
    )
    return {"rows": [frame.row() for frame in found], "last": inspector.frames.last}


async def frame(inspector: Inspector, asked: Asked) -> Any:
    """Return one message, decoded and raw, with its headers; ``whole``: as a file."""
    found = inspector.frames.get(int(asked.get("id", 0)))
    if found is None:
        raise DovetailError("this message is not stored any more")
    if asked.get("whole"):
        return Download(found.data, f"frame-{found.number}.json")
    try:
        decoded = truncated(msgspec.json.decode(found.data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        decoded = truncated(None)
    text = truncated(found.data.decode("utf-8", "replace"))
    return {
        "row": found.row(), "head": found.head, "decoded": decoded.value, "cut": decoded.cut, "raw": text.value,
        "rawCut": bool(text.cut), "size": len(found.data),
    }  # fmt: skip


async def compare(inspector: Inspector, asked: Asked) -> Any:
    params = msgspec.convert(asked.get("params") or {}, dict[str, Any])
    connection = inspector.connection(asked.get("connection"))
    return {"revisions": await revision_comparison.compare(connection, str(asked["method"]), params)}


async def recording(inspector: Inspector, asked: Asked) -> Any:
    """Return a session as a file, without secrets unless ``raw``."""
    id = int(asked.get("connection", 0))
    text = _written(inspector, id, raw=bool(asked.get("raw")))
    return Download(text.encode(), f"session-{id}.txt", "text/plain; charset=utf-8")


def _written(inspector: Inspector, id: int, *, raw: bool) -> str:
    label = inspector.connection(id).request.target.label
    return recordings.write(inspector.frames.of(id), label, raw=raw)


async def keep(inspector: Inspector, asked: Asked) -> Any:
    """Save a session on this machine, without secrets."""
    return {
        "path": saved_sessions.keep(
            str(asked["name"]).strip(), _written(inspector, asked.get("connection", 0), raw=False)
        )
    }


async def sessions(inspector: Inspector, asked: Asked) -> Any:
    return {"sessions": saved_sessions.listed()}


async def metrics(inspector: Inspector, asked: Asked) -> Any:
    """Return the metrics and the readiness of the server, from the origin that the user entered."""
    target = inspector.connection(asked.get("connection")).request.target
    if target.kind != "http":
        raise DovetailError("only servers over HTTP have metrics")
    from ..transports.http.client.connection_pool import HttpFetch

    parts = urlsplit(target.url)
    found: dict[str, Any] = {}
    async with HttpFetch().session() as send:
        for name in ("metrics", "readyz"):
            url = f"{parts.scheme}://{parts.netloc}/{name}"
            try:
                response = await send(
                    "GET", url, {"Accept": "application/json, text/plain"}, None, METRICS_SECONDS
                )
                try:
                    body = await response.read(METRICS_SIZE)
                finally:
                    response.close()
                found[name] = {"status": response.status, "text": body.decode("utf-8", "replace")}
            except TransportError as error:
                found[name] = {"status": 0, "text": error.message}
    return found


async def doctor(inspector: Inspector, asked: Asked) -> Any:
    """Run `dovetail doctor` for the server; it connects again with every revision."""
    connection = inspector.connection(asked.get("connection"))
    target = connection.request.target
    if target.kind not in ("http", "child"):
        raise DovetailError("diagnostics work for URLs, files and commands")
    from ..cli.doctor import examine

    def connect(revision: str | None) -> Client:
        options = connection.options(revision or connection.request.revision)
        return Client(target, **{**options, "reconnect": False, "timeouts": Timeouts()})

    return {"findings": msgspec.to_builtins(await examine(target.url or "", connect))}


async def app(inspector: Inspector, asked: Asked) -> Any:
    """Store the document of an MCP App for its iframe."""
    wanted: Any = asked.get("csp")
    policy = app_policy(cast("Mapping[str, object]", wanted) if isinstance(wanted, dict) else {})
    return {"url": inspector.keep_document(AppDocument(str(asked["html"]).encode(), policy))}


ROUTES: Final[Mapping[tuple[str, str], Handler]] = {
    ("GET", "state"): state,
    ("POST", "connect"): connect,
    ("POST", "reconnect"): reconnect,
    ("POST", "disconnect"): disconnect,
    ("POST", "restore"): restore,
    ("POST", "list"): listing,
    ("POST", "call"): call,
    ("POST", "cancel"): cancel,
    ("GET", "call"): result,
    ("POST", "complete"): complete,
    ("POST", "subscribe"): subscribe,
    ("POST", "unsubscribe"): unsubscribe,
    ("POST", "answer"): answer,
    ("POST", "settings"): settings,
    ("POST", "ping"): ping,
    ("POST", "tasks"): tasks,
    ("POST", "cancel-task"): cancel_task,
    ("GET", "frames"): frames,
    ("GET", "frame"): frame,
    ("POST", "compare"): compare,
    ("GET", "recording"): recording,
    ("POST", "keep"): keep,
    ("GET", "sessions"): sessions,
    ("POST", "metrics"): metrics,
    ("POST", "doctor"): doctor,
    ("POST", "app"): app,
}
