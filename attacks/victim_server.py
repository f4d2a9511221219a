"""The server that is attacked: a few tools, and a look at what continues inside."""

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from typing import Any

from stacks import tell_when_asked  # next to this file, which is run as a script

from dovetail import Context, RegistrationError, RouteRequest, Server
from dovetail.middleware import Middleware, RateLimit
from dovetail.settings import Limits


def guards() -> list[Middleware]:
    """Those that an attack asks for."""
    if os.environ.get("VICTIM_RATE"):
        return [RateLimit(per_client="500/s")]
    if os.environ.get("VICTIM_BLOCK"):
        return [RateLimit(per_client="500/s", block_period=300)]
    return []


def doors() -> Any:
    """Who is let in where an attack is its issuer: by tokens of every kind that there is."""
    if not (issuer := os.environ.get("VICTIM_ISSUER")):
        return None
    from dovetail.auth import AnyOf, IntrospectionVerifier, JwtVerifier, OAuthProxy

    audience, secret = f"http://127.0.0.1:{sys.argv[2]}/mcp", "secret-of-the-victim"
    places: dict[str, Any] = {name: f"{issuer}/{name}" for name in ("authorize", "token", "userinfo")}
    return AnyOf(
        OAuthProxy(client_id="victim", client_secret=secret, audience=audience, **places),
        JwtVerifier(issuer=issuer, audience=audience),
        IntrospectionVerifier(
            endpoint=f"{issuer}/introspect", client_id="victim", client_secret=secret, audience=audience
        ),
    )


limits = Limits(max_sessions=int(os.environ.get("VICTIM_SESSIONS", "10000")))
server = Server(
    os.environ.get("VICTIM_NAME", "victim"),
    middleware=guards(),
    limits=limits,
    auth=doors(),
    store=os.environ.get("VICTIM_STORE"),
)
marks: list[str] = []
running = 0


@server.tool
async def mark(word: str) -> str:
    """Leave a trace that an attacker must not be able to leave."""
    marks.append(word)
    return word


@server.tool
async def traces() -> list[str]:
    return marks


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool
async def big(size: int) -> str:
    return "x" * size


@server.tool
async def nap(seconds: float) -> str:
    """Work for a while, and be counted meanwhile."""
    global running
    running += 1
    try:
        await asyncio.sleep(seconds)
    finally:
        running -= 1
    return "rested"


@server.tool
async def linger(seconds: float) -> str:
    """Work until cancelled, and then clean up for as long."""
    global running
    running += 1
    try:
        await asyncio.sleep(600)
    finally:
        await asyncio.sleep(seconds)
        running -= 1
    return "rested"


@server.tool
async def at_work() -> int:
    """How many of those are under way."""
    return running


@server.tool
async def chatter(messages: int, size: int, ctx: Context) -> str:
    """Say much while working."""
    for _ in range(messages):
        await ctx.report_progress(0, None, "x" * size)
        await ctx.info("x" * size)
    return "said"


@server.tool
async def whoami(ctx: Context) -> str:
    return str(ctx.principal)


@server.tool(task="optional")
async def job(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


@server.tool
async def forty(a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> int:
    return a + b + c + d


for _number in range(300):
    server.add_tool(
        name=f"filler_{_number}", input_schema={"type": "object"}, handler=lambda arguments: "filled"
    )


@server.resource("thing://{name}")
def thing(name: str) -> str:
    return name


@server.route("/own")
def own(request: RouteRequest) -> str:
    return "mine"


def principal(scope: Mapping[str, Any]) -> str | None:
    """The principal in a header, which an attacker must not be able to add."""
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


def learn_transcripts() -> None:
    """Serve what the recorded conversations talk about as well."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.support.fixture_servers import MAKERS

    for make in MAKERS.values():
        with suppress(RegistrationError):  # a name that another one has taken
            make(server)
    server.remove_tool("crash")  # it fails on purpose, and we look for what fails otherwise


def asked() -> dict[str, Any]:
    """How an attack wants us to serve HTTP."""
    found: dict[str, Any] = {"principal": principal} if os.environ.get("VICTIM_PRINCIPAL") else {}
    if seconds := os.environ.get("VICTIM_SECONDS"):
        found |= dict.fromkeys(("header_timeout", "body_timeout", "write_timeout"), float(seconds))
    if certificate := os.environ.get("VICTIM_TLS"):
        found["certfile"] = certificate
    if workers := os.environ.get("VICTIM_WORKERS"):
        found["workers"] = int(workers)
    return found


if __name__ == "__main__":
    tell_when_asked()
    if os.environ.get("VICTIM_TRANSCRIPTS"):
        learn_transcripts()
    host, port = sys.argv[1:]
    if host == "stdio":
        sys.exit(server.run())
    if host == "tcp":
        secured: dict[str, Any] = {}
        if certificate := os.environ.get("VICTIM_TLS"):
            secured["ssl"] = SSLContext(PROTOCOL_TLS_SERVER)
            secured["ssl"].load_cert_chain(certificate)
        sys.exit(server.run("tcp", host="127.0.0.1", port=int(port), **secured))
    sys.exit(server.run("http", port=int(port), metrics=True, **asked()))
