"""``dovetail login URL``, ``logout URL`` and ``whoami URL``: tokens of this user, stored for other commands."""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from ...client import Client
from ...client.auth import AuthRequest
from ...client.http_client import Send
from ...command_parser import CommandParser
from ...errors import DovetailError
from ...settings import Reconnect
from ...telemetry.terminal_sanitizer import log_to_stderr, printable
from ...transports.http.client.connection_pool import HttpFetch
from ...transports.http.client.guarded_fetch import AddressGuard
from ..client.authorizer import Authorizer
from ..client.browser import open_browser
from ..client.device_code import DeviceCode
from ..client.flow_runner import FlowRunner
from ..client.oauth import OAuth
from ..client.storage import MemoryTokens
from ..core import combined_challenge as demands
from ..core.combined_challenge import NOTHING, Demand
from ..core.discovery import discover
from ..core.flow import HeldTokens
from .auth_option import TOKEN, read_headers

_HELP = {
    "login": "log in to a server and keep the tokens",
    "logout": "forget the tokens for a server, and have them revoked",
    "whoami": "show as whom the other commands talk to a server",
}
SECRET = "DOVETAIL_CLIENT_SECRET"


def main(command: str, arguments: Sequence[str]) -> int:
    """Run one of the three commands. Return the exit status."""
    options = _parser(command).parse_args(list(arguments))
    log_to_stderr()
    if not options.url.startswith(("http://", "https://")):
        sys.stderr.write(f"dovetail {command}: {options.url!r} is not an http or https URL\n")
        return 2
    work = {"login": _log_in, "logout": _log_out, "whoami": _who_am_i}[command]
    try:
        return asyncio.run(work(options))
    except ValueError as error:
        sys.stderr.write(f"dovetail {command}: {printable(str(error))}\n")
        return 2


def _parser(command: str) -> argparse.ArgumentParser:
    parser = CommandParser(command, _HELP[command])
    parser.add_argument("url", metavar="URL")
    if command == "login":
        add_login_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    return parser


def add_login_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a login."""
    parser.add_argument("--client-id", help="a client that was registered by hand")
    parser.add_argument("--client-secret", help=f"its secret; better given as {SECRET}")
    parser.add_argument("--client-metadata-url", help="where a Client ID Metadata Document lies")
    parser.add_argument("--scope", action="append", help="ask for this scope; may be repeated")
    parser.add_argument("--port", type=int, default=0, help="where the browser comes back to on 127.0.0.1")
    parser.add_argument(
        "--no-browser", action="store_true", help="show the page to visit instead of opening it"
    )
    parser.add_argument("--device", action="store_true", help="log in with a browser on another device")
    parser.add_argument("--allow-private", action="store_true", help="trust addresses in private networks")
    parser.add_argument(
        "--header", action="append", default=[], metavar="NAME: VALUE", help="sent with every request"
    )


def authorizer(options: argparse.Namespace) -> Authorizer:
    """Return the login that the options select."""
    secret = options.client_secret or os.environ.get(SECRET)
    if options.device:
        return DeviceCode(
            options.client_id,
            secret,
            scopes=options.scope,
            show=_to_stderr,
            allow_private=options.allow_private,
        )
    return OAuth(
        options.client_id,
        secret,
        options.client_metadata_url,
        options.scope,
        redirect_port=options.port,
        open_browser=None if options.no_browser else open_browser,
        allow_private=options.allow_private,
    )


def _to_stderr(text: str) -> None:
    """Show a page on stderr; stdout is reserved for the result."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


async def challenge_of(url: str, headers: dict[str, str]) -> Demand | None:
    """Return the challenge of a server, or None if it needs no login.

    Raises:
        DovetailError: it cannot be reached.
    """
    asked = _Asked()
    try:
        async with Client(url, headers=headers, auth=asked, reconnect=Reconnect(enabled=False)):
            return None
    except DovetailError:
        if asked.demand is None:
            raise
        return asked.demand


class _Asked:
    """Sends no token and records the challenge."""

    demand: Demand | None = None

    async def authorize(self, request: AuthRequest) -> Mapping[str, str]:
        return {}

    async def answered(
        self, request: AuthRequest, sent: Mapping[str, str], status: int, headers: Mapping[str, str]
    ) -> bool:
        if status == 401:
            self.demand = demands.read(headers.get("WWW-Authenticate"))
        return False


async def _log_in(options: argparse.Namespace) -> int:
    demand = await challenge_of(options.url, read_headers(options.header))
    if demand is None:
        _print(options, {"needed": False}, f"{options.url} answers without authorization: no login is needed")
        return 0
    if demand == NOTHING and not await _has_oauth(options, demand):
        raise DovetailError(
            f"{options.url} answers 401 without OAuth: its challenge and well-known URLs name no "
            f"authorization server. Ask its operator for a token and pass it with --auth TOKEN or {TOKEN}"
        )
    async with HttpFetch().session() as send:
        held = await authorizer(options).log_in(options.url, send, demand)
    said = f"logged in to {held.binding.resource} by {held.issuer}"
    _print(options, {"needed": True, **described(held)}, said)
    return 0


async def _has_oauth(options: argparse.Namespace, demand: Demand) -> bool:
    """Return whether an authorization server can be found without a challenge that names it."""
    guard = AddressGuard(options.url, allow_private=options.allow_private)
    async with HttpFetch().session() as send:
        place = await FlowRunner(send, MemoryTokens(), guard).run(discover(options.url, demand))
        if not place.assumed or place.server.authorization_endpoint is None:
            return True
        # Without metadata the endpoints of 2025-03-26 are a guess: most servers with static tokens have none.
        answer = await send("GET", place.server.authorization_endpoint, {})
        answer.close()
        return answer.status != 404


def _print(options: argparse.Namespace, found: dict[str, Any], said: str) -> None:
    shown = msgspec.json.format(msgspec.json.encode(found), indent=2).decode() if options.json else said
    sys.stdout.write(f"{printable(shown)}\n")


async def _log_out(options: argparse.Namespace) -> int:
    async with HttpFetch().session() as send:
        revoked = await OAuth().log_out(options.url, send)
    if revoked is None:
        said = "not logged in"
    else:
        said = (
            "logged out"
            if revoked
            else "logged out; the tokens could not be revoked and remain valid until they expire"
        )
    _print(options, {"revoked": revoked}, said)
    return 0


async def _who_am_i(options: argparse.Namespace) -> int:
    given = os.environ.get(TOKEN)
    if given:
        token = given.removeprefix("Bearer ")
        found = {"subject": subject_of(token), "resource": options.url, "source": TOKEN}
        _print(options, found, _lines(found))
        return 0
    async with HttpFetch().session() as send:
        held = await current(options.url, send)
    if held is None:
        raise DovetailError(f"not logged in; run: dovetail login {options.url}")
    found = described(held)
    _print(options, found, _lines(found))
    return 0


def _lines(found: dict[str, Any]) -> str:
    return "\n".join(f"{name:10} {value}" for name, value in found.items() if value is not None)


async def current(url: str, send: Send) -> HeldTokens | None:
    """Return the stored tokens for a server, renewed if needed."""
    return await OAuth().current(AuthRequest("POST", url, url, send))


def described(held: HeldTokens) -> dict[str, Any]:
    """Return what may be shown of tokens: no secrets."""
    tokens = held.tokens
    left = None if tokens.expires_at is None else max(0, round(tokens.expires_at - time.time()))
    scopes = held.binding.requested if tokens.scopes is None else tokens.scopes
    return {
        "subject": subject_of(tokens.access_token),
        "resource": held.binding.resource,
        "issuer": held.issuer,
        "client": held.binding.client_id,
        "scopes": " ".join(scopes) or None,
        "expires_in": left,
        "renewable": tokens.refresh_token is not None,
    }


def subject_of(token: str) -> str | None:
    """Return the subject claim of a JWT, unverified."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims: Any = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, msgspec.MsgspecError):
        return None
    subject = cast("dict[str, Any]", claims).get("sub") if isinstance(claims, dict) else None
    return subject if isinstance(subject, str) and subject.isprintable() else None
