"""Import the program of the Modal page with Modal's library, and serve one request with the function it makes.

usage: modal_check.py — reads the headers and the body of the request from stdin, in a folder with the program.
"""

import asyncio
import json
import sys
from typing import Any

sys.path.insert(0, "")
import modal_app

app = modal_app.web.local()
headers, body = json.load(sys.stdin)


async def ask() -> list[Any]:
    sent: list[Any] = []
    parts = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> Any:
        if parts:
            return parts.pop()
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "https",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("198.51.100.7", 4711),
        "server": ("127.0.0.1", 8000),
    }
    await app(scope, receive, send)
    return sent


first, *rest = asyncio.run(ask())
print(json.dumps([modal_app.app.name, first["status"], b"".join(one["body"] for one in rest).decode()]))
