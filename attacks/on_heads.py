"""Attacks on the heads of HTTP requests: who may call, and where a request ends."""

from __future__ import annotations

import asyncio
import json

from .report import GotThrough, Scale, attack
from .victim import Victim, call, http, initialize, modern, modern_headers

FOREIGN_ORIGINS = (
    "http://127.0.0.1:8000@evil.example",
    "http://127.0.0.1@evil.example",
    "http://[::1].evil.example",
    "http://localhost:80.evil.example",
    "http://localhost.evil.example",
    "evil://localhost",
    "http://localhost/..",
    "http://localhost#@evil.example",
    "http://localhost\\.evil.example",
    "http://evil.example",
    "file://",
    "null",
)
FOREIGN_HOSTS = (
    "evil.example",
    "localhost:80.evil.example",
    "127.0.0.1:8000@evil.example",
    "[::1].evil.example",
    "127.0.0.1.evil.example",
    "localhost:port",
    "localhost:-1",
    "localhost/evil",
)
TWICE = (
    {"Host": "127.0.0.1\r\nHost: evil.example"},
    {"Host": "evil.example\r\nHost: 127.0.0.1"},
    {"Origin": "http://evil.example\r\nOrigin: http://127.0.0.1"},
)
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
KEY = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}


def _doors(headers: dict[str, str]) -> dict[str, bytes]:
    """The same head at every way in."""
    message = modern("tools/call", {"name": "mark", "arguments": {"word": "stranger"}})
    return {
        "modern": http(headers={**modern_headers(message), **headers}, body=message),
        "legacy": http(headers=headers, body=initialize()),
        "sse": http("GET", "/sse", {**headers, "Content-Type": "", "Content-Length": ""}),
        "messages": http("POST", "/messages?session_id=x", headers, modern("tools/list")),
        "metrics": http("GET", "/metrics", {**headers, "Content-Type": "", "Content-Length": ""}),
        "route": http("GET", "/own", {**headers, "Content-Type": "", "Content-Length": ""}),
        "websocket": http(
            "GET", "/mcp", {**UPGRADE, **KEY, **headers, "Content-Type": "", "Content-Length": ""}
        ),
    }


async def _all_refused(victim: Victim, headers: dict[str, str], target: bytes = b"") -> None:
    for door, data in _doors(headers).items():
        wire = await victim.connect()
        wire.send(data.replace(b" /", b" " + target + b"/", 1))
        status, _, body = await wire.response()
        wire.drop()
        if status not in (0, 400, 403, 404, 421):
            raise GotThrough(f"{headers} at {door}: {status} {body[:80]!r}")


@attack("http")
async def strange_origins(victim: Victim, scale: Scale) -> str:
    """Pages of other sites call, under names that look like ours."""
    for origin in FOREIGN_ORIGINS:
        await _all_refused(victim, {"Origin": origin})
    return f"{len(FOREIGN_ORIGINS)} origins refused at seven doors"


@attack("http")
async def strange_hosts(victim: Victim, scale: Scale) -> str:
    """Names that were made to point at us (DNS rebinding), and two names at once."""
    for host in FOREIGN_HOSTS:
        await _all_refused(victim, {"Host": host})
    for headers in TWICE:
        await _all_refused(victim, headers)
    # A host that puts the name in the target among the headers has as many as came, though one came twice.
    await _all_refused(victim, {**TWICE[-1], "Host": ""}, b"http://127.0.0.1")
    return f"{len(FOREIGN_HOSTS)} hosts and two at once refused at seven doors"


@attack("http")
async def cross_site_requests(victim: Victim, scale: Scale) -> str:
    """A browser says that the request comes from another site, without an Origin."""
    await _all_refused(victim, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})
    for path in ("/livez", "/readyz"):
        wire = await victim.connect()
        wire.send(
            http("GET", path, {"Sec-Fetch-Site": "cross-site", "Content-Type": "", "Content-Length": ""})
        )
        if (await wire.response())[0] != 403:
            raise GotThrough(f"a page of another site may ask {path}")
    return "refused at nine doors"


@attack("http")
async def a_request_inside_an_upgrade(victim: Victim, scale: Scale) -> str:
    """The body of a request with Upgrade looks like a second request."""
    inner = call("mark", word="smuggled")
    for protocol in ("foo", "h2c", "websocket"):
        wire = await victim.connect()
        wire.send(http(headers={"Connection": "Upgrade", "Upgrade": protocol}, body=inner))
        status, _, _ = await wire.response()
        if not (status >= 400 and await wire.closed(1)):
            raise GotThrough(f"Upgrade: {protocol} is answered {status}")
    if "smuggled" in await victim.ask("traces"):
        raise GotThrough("the inner request ran")
    return "three protocols: the inner request did not run"


@attack("http")
async def two_lengths(victim: Victim, scale: Scale) -> str:
    """Content-Length and Transfer-Encoding disagree, or the length comes twice, or is mostly zeros."""
    inner = call("mark", word="smuggled")
    for extra in (
        {"Transfer-Encoding": "chunked"},
        {"Transfer-Encoding": "chunked, identity", "Content-Length": "5"},
        {"Transfer-Encoding": "xchunked"},
        {"Content-Length": "5\r\nContent-Length: 900"},
        {"Content-Length": "+5"},
        {"Content-Length": "0" * 5000 + str(len(inner) + 5)},
    ):
        wire = await victim.connect()
        wire.send(http(headers=extra, body=b"0\r\n\r\n" + inner))
        await wire.closed(1)
    if "smuggled" in await victim.ask("traces"):
        raise GotThrough("the inner request ran")
    if b"Traceback" in victim.said:
        raise GotThrough(f"the log says: {victim.said[-400:].decode(errors='replace')}")
    return "six spellings: the inner request did not run, nothing in the log"


@attack("http", named=True)
async def trailers_as_headers(victim: Victim, scale: Scale) -> str:
    """A trailer after the body claims to be the header that names the caller."""
    message = modern("tools/call", {"name": "whoami"})
    body = json.dumps(message).encode()
    head = http(headers={**modern_headers(message), "Content-Length": "", "Transfer-Encoding": "chunked"})
    wire = await victim.connect()
    wire.send(head + b"%x\r\n%s\r\n0\r\nX-User: root\r\n\r\n" % (len(body), body))
    status, _, answer = await wire.response()
    if b"root" in answer:
        raise GotThrough(f"the trailer became the principal: {answer[:200]!r}")
    return f"answered {status}, not as root"


@attack("http")
async def a_pipeline_without_end(victim: Victim, scale: Scale) -> str:
    """Pipelined requests, and no response is read."""
    before = victim.memory()
    wire = await victim.connect()
    sent = 0
    whole = scale.of(4, 17) << 20
    data = call("echo", text="x" * 10) * 200
    highest = 0
    stuck = 0
    while sent < whole and stuck < 40:
        if wire.writer.transport.get_write_buffer_size() < 1 << 20:
            wire.send(data)
            sent += len(data)
            stuck = 0
        else:
            stuck += 1
        await asyncio.sleep(0.02)
        highest = max(highest, victim.memory() - before)
    if highest > 128 << 20:
        raise GotThrough(f"{sent >> 20} MiB of requests cost {highest >> 20} MiB")
    return f"{sent >> 10} KiB sent until it stopped reading or the end, {highest >> 20} MiB"
