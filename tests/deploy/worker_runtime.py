"""What a Python Worker finds besides Pyodide: the modules ``workers`` and ``asgi``, and no random numbers at import.

`worker.mjs` runs this file in Pyodide. The two modules do as those of Cloudflare do: the application has a lifespan for
each request, and its scope has neither ``client`` nor ``server``.
"""

import asyncio
import json
import os
import sys
import threading
import types
from typing import Any

sys.path[:0] = ["/project/src", "/dovetail", "/wheels"]
random_allowed = True
urandom = os.urandom


def guarded(size: int) -> bytes:
    if not random_allowed:
        raise OSError("a Worker has random numbers only while it serves a request")
    return urandom(size)


os.urandom = guarded


class WorkerEntrypoint:
    def __init__(self, env: Any) -> None:
        self.env = env


async def fetch(app: Any, request: Any, env: Any) -> Any:
    """Serve one request: start the application, let it respond, and end it."""
    method, url, headers, body = request
    events: asyncio.Queue[Any] = asyncio.Queue()
    started, ended = asyncio.Event(), asyncio.Event()

    async def lifespan_send(message: Any) -> None:
        (started if "startup" in message["type"] else ended).set()

    lifespan = asyncio.ensure_future(
        app({"type": "lifespan", "asgi": {"version": "3.0"}}, events.get, lifespan_send)
    )
    await events.put({"type": "lifespan.startup"})
    await started.wait()
    parts = [{"type": "http.request", "body": body, "more_body": True}, {"type": "http.request", "body": b""}]
    sent: list[Any] = []

    async def receive() -> Any:
        if parts:
            return parts.pop(0)
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    path = "/" + url.split("/", 3)[3]
    scope = {
        "type": "http",
        "asgi": {"spec_version": "2.0", "version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers],
        "env": env,
    }
    await app(scope, receive, send)
    await events.put({"type": "lifespan.shutdown"})
    await ended.wait()
    await lifespan
    whole = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], whole.decode()


workers, asgi = types.ModuleType("workers"), types.ModuleType("asgi")
workers.WorkerEntrypoint, asgi.fetch = WorkerEntrypoint, fetch  # type: ignore[attr-defined]
sys.modules |= {"workers": workers, "asgi": asgi}


async def converse(fetched: Any, requests: str) -> str:
    """Import the Worker without random numbers, then let it serve ``requests``, which ``fetched`` makes of JSON."""
    global random_allowed
    for name in [name for name in sys.modules if name.partition(".")[0] == "dovetail"]:
        del sys.modules[name]  # import it again, under the rules of a Worker
    random_allowed = False
    from entry import Default  # type: ignore[import-not-found]

    random_allowed = True
    worker = Default(types.SimpleNamespace(DOVETAIL_SEAL_KEYS="ab" * 32))
    responses: list[Any] = []
    for method, path, headers, body in json.loads(requests):
        url = f"https://my-notes.example.workers.dev{path}"
        parts = await fetched(method, url, json.dumps(headers), body)
        request = (parts[0], parts[1], json.loads(parts[2]), parts[3].to_bytes())
        responses.append(await worker.fetch(types.SimpleNamespace(js_object=request)))
    return json.dumps(
        {
            "python": sys.platform,
            "responses": responses,
            "threads": threading.active_count(),
            "keys": os.environ["DOVETAIL_SEAL_KEYS"],
            "modules": [name for name in sys.modules if name in ("httptools", "uvloop", "sqlite3")],
        }
    )
