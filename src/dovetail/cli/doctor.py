"""``dovetail doctor TARGET``: find problems of a server, and how to fix them.

It connects with every revision, checks the lists, measures the latency, and over HTTP sends the requests of a browser,
a proxy and a hostile page. It calls no tool. The exit status is 1 if something is broken, 2 for a wrong command line,
else 0. ``dovetail doctor auth URL`` checks the authorization.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import ssl
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from .. import extras
from ..client import Client
from ..client.conversation import NORMAL
from ..errors import DovetailError, ProtocolError, TransportError
from ..json_schema.problem import SchemaError
from ..json_schema.validation import Validator
from ..middleware.client_workarounds import WORKAROUNDS
from ..telemetry.terminal_sanitizer import log_to_stderr
from ..transports.child import without_stderr
from ..transports.http.client.proxies import proxy_for
from ..transports.http.client.url_parts import address_of
from ..wire.revisions import BY_NAME, REVISIONS, newest
from .call import client_of, client_parser
from .conformance_checks import judge
from .findings import Finding, State, broken, conclude, lines_of, note, ok
from .output import Printer
from .progress_bar import ProgressSteps

SLOW_PING: Final = 0.5
"""Seconds above which a server is reported as slow."""
PINGS: Final = 5
"""The number of pings to measure."""
EXAMINED_SECONDS: Final = 10.0
"""The timeout of one check, in seconds."""
METRICS_BYTES: Final = 1 << 20
"""The largest page of metrics that is read, in bytes."""

Connect = Callable[[str | None], Client]
_BODY: Final = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
_INITIALIZE: Final = json.dumps({
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {
        "protocolVersion": newest(modern=False).name, "capabilities": {},
        "clientInfo": {"name": "doctor", "version": "1"},
    },
}).encode()  # fmt: skip
_BOTH: Final = "application/json, text/event-stream"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def main(command: str, arguments: Sequence[str]) -> int:
    """Check one server; returns the exit status."""
    if arguments[:1] == ["auth"]:
        from .auth_doctor import main as walk

        return walk(arguments[1:])
    parser = client_parser(
        "doctor", "Find problems of a server. `dovetail doctor auth URL` checks its authorization."
    )
    options = parser.parse_args(list(arguments))
    log_to_stderr()
    try:
        with ProgressSteps.of(options, len(BY_NAME) + 3) as steps:
            found = asyncio.run(examine(options.target, partial(_client, options), steps))
    except (ValueError, TypeError) as error:
        sys.stderr.write(f"dovetail doctor: {error}\n")
        return 2
    return conclude(found, Printer(json=options.json), [line for one in found for line in lines_of(one)])


def _client(options: Namespace, revision: str | None) -> Client:
    return client_of(Namespace(**{**vars(options), "revision": revision or options.revision}))


async def examine(target: str, connect: Connect, steps: ProgressSteps | None = None) -> list[Finding]:
    """Return all findings, in the order of the checks. ``connect`` makes a client for a revision (None: default)."""
    found: list[Finding] = []
    steps = steps or ProgressSteps(None, 0)
    steps.begin("connection")
    begun = time.perf_counter()
    try:
        async with connect(None) as client:
            found.append(_connected(client, time.perf_counter() - begun))
            steps.begin("tools and latency")
            found += await _offered(client)
            found.append(await _timing(client))
            wrong = {kind: count for kind, count in client.violations.items() if kind not in NORMAL}
            if wrong:
                kinds = ", ".join(f"{kind} ({count})" for kind, count in wrong.items())
                found.append(
                    broken("conformance", f"it violated the protocol: {kinds}", "see dovetail inspect")
                )
    except DovetailError as error:
        found.append(broken("connection", without_stderr(error), _advice(target, error)))
    reached = not any(one.state == "broken" and one.check == "connection" for one in found)
    if reached:
        found += await _revisions(connect, steps)
    if target.startswith(("http://", "https://")):
        steps.begin("HTTP")
        found += await asyncio.to_thread(_over_http, target, reached)
    return found


_REFUSED: Final = frozenset(
    {
        "authentication_failed",
        "authorization_failed",
        "invalid_token",
        "token_expired",
        "insufficient_permissions",
    }
)
"""The kinds of errors of a server that runs and refuses the caller."""


def _advice(target: str, error: DovetailError) -> str:
    if isinstance(error, TransportError) and error.cause == "tls":
        return "clients refuse it too: see the TLS finding below"
    if error.kind in _REFUSED:
        return "give a token that the server accepts with --auth TOKEN or DOVETAIL_TOKEN, or run: dovetail login URL"
    if "://" in target:
        return "start the server, check its log, and check the URL"
    return "run the command yourself: it must start, and write only messages to stdout"


def _connected(client: Client, seconds: float) -> Finding:
    info = client.server_info
    name = "a server without a name" if info is None else f"{info.name} {info.version}".strip()
    return ok("connection", f"{name}, revision {client.revision}, connected in {seconds * 1000:.0f} ms")


async def _revisions(connect: Connect, steps: ProgressSteps) -> list[Finding]:
    """Check the connection with every revision."""
    spoken: list[str] = []
    found: list[Finding] = []
    for revision in BY_NAME:
        steps.begin(f"revision {revision}")
        try:
            async with asyncio.timeout(EXAMINED_SECONDS):
                async with connect(revision) as client:
                    count, wrong = await judge(client)
            spoken.append(revision)
            about = f"conformance {revision}"
            for one, problem in wrong:
                found.append((broken if one.must else note)(about, problem, one.advice))
            if not wrong:
                found.append(ok(about, f"{count} of {count} checks passed"))
        except (DovetailError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                advice = "clients of this revision wait forever: answer initialize with a supported version"
                found.append(broken(f"revision {revision}", "no answer", advice))
            else:
                found.append(
                    note(
                        f"revision {revision}",
                        error.message,
                        "clients that support only this revision cannot connect",
                    )
                )
    words = ", ".join(spoken) or "none"
    return [Finding("revisions", "ok" if spoken else "broken", f"it uses revision {words}"), *found]


async def _offered(client: Client) -> list[Finding]:
    found: list[Finding] = []
    if not client.server_capabilities.has("tools"):
        return [Finding("tools", "note", "it has none")]
    tools = await client.list_tools()
    if not extras.installed("jsonschema_rs"):
        found.append(note("schemas", "install the extra to check them", extras.install("jsonschema_rs")))
    for tool in tools:
        problem = _problem_of(tool)
        if problem is not None:
            found.append(Finding(f"tool {tool.name}", *problem))
    names = [tool.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        found.append(broken("tools", f"{', '.join(twice)} are listed twice", "give each tool a unique name"))
    return [Finding("tools", "ok", f"{len(tools)}"), *found]


def _problem_of(tool: Any) -> tuple[State, str, str] | None:
    for side in ("input_schema", "output_schema"):
        schema: Any = getattr(tool, side)
        if not isinstance(schema, dict) or not extras.installed("jsonschema_rs"):
            continue
        try:
            Validator(schema)  # pyright: ignore[reportUnknownArgumentType]
        except SchemaError as error:
            return "broken", f"its {side.replace('_', ' ')} cannot be used: {error}", "correct the schema"
    if not tool.description:
        return "note", "it has no description", "write a docstring: models choose tools by their description"
    if not _NAME.fullmatch(tool.name):
        return "note", "some clients reject its name", "use up to 64 of A-Z a-z 0-9 _ -"
    return None


async def _timing(client: Client) -> Finding:
    times: list[float] = []
    for _ in range(PINGS):
        begun = time.perf_counter()
        try:
            await client.ping()
        except ProtocolError:
            return note(
                "timing", "it does not respond to ping", "respond to ping, or clients close the connection"
            )
        times.append(time.perf_counter() - begun)
    middle = statistics.median(times)
    advice = "check for blocking work on the event loop, or a distant proxy" if middle > SLOW_PING else ""
    return Finding(
        "timing", "note" if middle > SLOW_PING else "ok", f"ping takes {middle * 1000:.1f} ms", advice
    )


# --- over HTTP --------------------------------------------------------------------------------------------------


def _over_http(url: str, reached: bool) -> list[Finding]:
    at, proxy = urlsplit(url), proxy_for(address_of(url).origin)
    local = at.hostname in ("localhost", "127.0.0.1", "::1")
    if proxy is not None:  # it would respond instead of the server
        if reached:
            return [
                note(
                    "proxy",
                    f"requests go through the proxy {proxy.name}",
                    f"put {at.hostname} into NO_PROXY to compare",
                )
            ]
        advice = f"permit {at.hostname} in the proxy, or add it to NO_PROXY"
        return [broken("proxy", f"requests go through the proxy {proxy.name}, and none succeeded", advice)]
    found: list[Finding] = []
    if at.scheme == "http" and not local:
        found.append(broken("TLS", "tokens and data are not encrypted", "serve HTTPS: --certfile, --keyfile"))
    elif at.scheme == "https":
        found.append(_tls(at.hostname or "", at.port or 443))
        if found[0].state == "broken":
            return found
    for check in (_foreign_origin, _foreign_host, _media_types, _unknown_session, _workarounds):
        if check is _foreign_host and not local:
            continue
        try:
            found += check(url)
        except (OSError, http.client.HTTPException) as error:
            if not reached:
                break  # already reported when a client connected
            name, detail = check.__name__.strip("_").replace("_", " "), str(error) or "no answer"
            found.append(broken(name, detail, "check that it can be reached from here without a proxy"))
    return found


def _connection(url: str) -> http.client.HTTPConnection:
    at = urlsplit(url)
    make = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
    return make(at.hostname or "", at.port, timeout=EXAMINED_SECONDS)


def _ask(
    url: str, method: str = "POST", body: bytes | None = _BODY, **headers: str
) -> tuple[int, dict[str, str]]:
    connection = _connection(url)
    usual = {
        "Accept": _BOTH,
        "Content-Type": "application/json",
        "MCP-Protocol-Version": newest(modern=False).name,
    }
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, urlsplit(url).path or "/", body, {**usual, **named})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def _tls(host: str, port: int) -> Finding:
    try:
        context = ssl.create_default_context()
        plain = socket.create_connection((host, port), EXAMINED_SECONDS)
        with plain, context.wrap_socket(plain, server_hostname=host) as secure:
            ends = ssl.cert_time_to_seconds(str((secure.getpeercert() or {}).get("notAfter")))
            days = (ends - time.time()) / 86400
            soon = "renew the certificate" if days < 14 else ""
            detail = f"{secure.version()}, the certificate is valid for {days:.0f} days"
            return Finding("TLS", "note" if soon else "ok", detail, soon)
    except (OSError, ValueError) as error:
        return broken(
            "TLS", str(error), "install a certificate that clients can verify, with its whole chain"
        )


def _foreign_origin(url: str) -> list[Finding]:
    status, headers = _ask(url, Origin="https://evil.example")
    open_to_all = headers.get("access-control-allow-origin") in ("*", "https://evil.example")
    if open_to_all or status < 400:
        advice = "check Origin and return 403; send CORS headers only to known pages"
        return [
            Finding("CORS", "broken", f"a request from a page of another site is accepted ({status})", advice)
        ]
    return [Finding("CORS", "ok", f"a request from a page of another site gets {status}")]


def _foreign_host(url: str) -> list[Finding]:
    status, _ = _ask(url, Host="evil.example")
    if status < 400:
        advice = "check the Host header: otherwise web pages can reach the server by DNS rebinding"
        return [Finding("Host", "broken", f"a request with another Host is accepted ({status})", advice)]
    return [Finding("Host", "ok", f"a request with another Host gets {status}")]


def _media_types(url: str) -> list[Finding]:
    status, _ = _ask(url, Content_Type="text/plain")
    if status < 400:
        advice = "return 415: web pages can send it without a CORS preflight"
        return [broken("headers", "text/plain is accepted as JSON", advice)]
    return [Finding("headers", "ok", f"text/plain gets {status}")]


def _unknown_session(url: str) -> list[Finding]:
    status, _ = _ask(url, Mcp_Session_Id="unknown")
    if status in (400, 401, 403, 404):
        return [Finding("sessions", "ok", f"an unknown session gets {status}")]
    advice = "return 404, so that clients create a new session"
    return [Finding("sessions", "note", f"an unknown session gets {status}", advice)]


def _workarounds(url: str) -> list[Finding]:
    """Check which client workarounds the server applies."""
    session, counted = _begin(url), _counted(url)
    older, modern = next(one.name for one in REVISIONS if one.version_header), newest(modern=True).name
    probes: dict[str, Callable[[], tuple[int, dict[str, str]]]] = {
        "accept-without-events": lambda: _ask(url, Accept="application/json"),
        "accept-without-json": lambda: _ask(url, Accept="text/event-stream"),
        "version-not-negotiated": lambda: _ask(url, Mcp_Session_Id=session, MCP_Protocol_Version=older),
        "modern-header-on-legacy": lambda: _ask(url, body=_INITIALIZE, MCP_Protocol_Version=modern),
    }
    found: list[Finding] = []
    for workaround in WORKAROUNDS:
        if workaround.name == "version-not-negotiated" and not session:
            continue  # nothing is negotiated
        status, headers = probes[workaround.name]()
        _end(url, headers.get("mcp-session-id", ""))
        about = f"{workaround.violated_rule}; seen in {', '.join(workaround.seen_in)}"
        if status < 300:
            times = f", applied {counted[workaround.name]} times" if workaround.name in counted else ""
            found.append(Finding("workarounds", "ok", f"{workaround.name}: accepted{times}: {about}"))
        elif status in (400, 406):
            advice = f'to accept them: Server(middleware=[ClientWorkarounds("{workaround.name}")])'
            found.append(
                Finding(
                    "workarounds",
                    "note",
                    f"{workaround.name}: rejected with {status}, as specified: {about}",
                    advice,
                )
            )
    _end(url, session)
    return found


def _begin(url: str) -> str:
    return _ask(url, body=_INITIALIZE)[1].get("mcp-session-id", "")


def _end(url: str, session: str) -> None:
    if session:
        _ask(url, "DELETE", None, Mcp_Session_Id=session)


def _counted(url: str) -> dict[str, str]:
    """Return how often each workaround was applied, if the server has metrics."""
    connection = _connection(url)
    try:
        connection.request("GET", "/metrics", headers={"Accept": "text/plain"})
        text = connection.getresponse().read(METRICS_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return {}
    finally:
        connection.close()
    return dict(re.findall(r'^dovetail_client_workarounds_total\{name="([a-z-]+)"\} (\d+)$', text, re.M))
