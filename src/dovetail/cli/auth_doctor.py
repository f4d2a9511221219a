"""``dovetail doctor auth URL``: run the authorization flow step by step, and report which side breaks it.

It stops before the login page; ``--login`` opens the page and tries the token.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from ..auth.client.authorizer import Authorizer
from ..auth.client.flow_runner import FlowRunner
from ..auth.client.storage import MemoryTokens
from ..auth.commands.auth_option import read_headers
from ..auth.commands.login import add_login_options, authorizer, challenge_of
from ..auth.core.auth_errors import AuthError, Fault
from ..auth.core.combined_challenge import NOTHING, Demand
from ..auth.core.login_check import STEPS, examine
from ..auth.core.registration import Identity
from ..auth.core.steps import Progress
from ..client import Client
from ..client.http_client import StatusError
from ..command_parser import CommandParser
from ..errors import DovetailError, ProtocolError, TransportError
from ..settings import Reconnect
from ..telemetry.terminal_sanitizer import log_to_stderr, printable
from ..transports.http.client.connection_pool import HttpFetch
from ..transports.http.client.guarded_fetch import AddressGuard
from ..transports.http.client.http_requests import refusal_reason
from .findings import Finding, broken, conclude, lines_of, ok
from .output import Printer


def main(arguments: Sequence[str]) -> int:
    """Check the authorization of one server; the exit status is 1 if a step fails."""
    parser = CommandParser("doctor auth", __doc__ or "")
    parser.add_argument("url", metavar="URL")
    parser.add_argument(
        "--login", action="store_true", help="open the login page in a browser, and try the token"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_login_options(parser)
    options = parser.parse_args(list(arguments))
    log_to_stderr()
    if not options.url.startswith(("http://", "https://")):
        sys.stderr.write(f"dovetail doctor: {options.url!r} is not an http or https URL\n")
        return 2
    walk = Walk(options)
    try:
        asyncio.run(walk.run())
    except ValueError as error:
        sys.stderr.write(f"dovetail doctor: {printable(str(error))}\n")
        return 2
    return conclude(walk.findings, Printer(json=options.json))


class Walk:
    """One run of the authorization flow; `findings` has its steps."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._url: str = options.url
        self._printer = Printer(json=False)
        self._quiet: bool = options.json
        self.findings: list[Finding] = []

    async def run(self) -> None:
        try:
            challenge = await self._challenge()
            if challenge is not None:
                await self._examine(challenge)
                if self._options.login:
                    await self._log_in(challenge)
        except AuthError as error:
            self._found(broken(self._next(), error.plain, error.advice or "", error.fault))
        except DovetailError as error:
            fault: Fault = "network" if isinstance(error, TransportError) else "server"
            self._found(broken(self._next(), error.message, "", fault))

    async def _challenge(self) -> Demand | None:
        challenge = await challenge_of(self._url, read_headers(self._options.header))
        if challenge is None:
            self._found(ok("challenge", "the server responds without authorization"))
        elif challenge == NOTHING:
            detail = "HTTP 401 without a Bearer challenge; using the well-known metadata URLs"
            self._found(ok("challenge", detail, _NAME_IT))
        else:
            named = challenge.resource_metadata or "no resource_metadata"
            scopes = "no scope" if challenge.scopes is None else " ".join(challenge.scopes)
            self._found(ok("challenge", f"HTTP 401, naming {named}, requiring {scopes}"))
        return challenge

    async def _examine(self, challenge: Demand) -> None:
        options = self._options
        identity = Identity(client_id=options.client_id, client_metadata_url=options.client_metadata_url)
        guard = AddressGuard(self._url, allow_private=options.allow_private)
        async with HttpFetch().session() as send:
            driver = FlowRunner(send, MemoryTokens(), guard, follow=self._follow)
            authorization = await driver.run(examine(self._url, challenge, identity))
        url = authorization.server.authorization_endpoint
        if options.device:
            named = "device_authorization_endpoint"
            url = authorization.endpoint(named, authorization.server.device_authorization_endpoint)
        if not options.login:
            detail = f"the login page is {url}; --login opens it"
            self._found(ok("authorization", detail))

    async def _log_in(self, challenge: Demand) -> None:
        auth: Authorizer = authorizer(self._options)
        auth.follow = self._follow
        async with HttpFetch().session() as send:
            await auth.log_in(self._url, send, challenge)
        try:
            async with Client(self._url, auth=auth, reconnect=Reconnect(enabled=False)) as client:
                self._found(
                    ok("accepted", f"the server accepted the token and uses revision {client.revision}")
                )
        except (StatusError, ProtocolError) as error:
            response = error.message
            if isinstance(error, StatusError):
                reason = refusal_reason(error.status, error.challenge)
                response = f"HTTP {error.status}" + ("" if reason is None else f" ({reason})")
            detail = f"the server responded {response} to a token that was issued for it"
            self._found(broken("accepted", detail, _ACCEPT, "server"))

    def _follow(self, progress: Progress) -> None:
        # The login repeats discovery; report it once.
        if progress.step not in {finding.check for finding in self.findings}:
            self._found(ok(progress.step, progress.detail))

    def _next(self) -> str:
        """Return the step that failed: the first without success."""
        done = {finding.check for finding in self.findings}
        return next((step for step in ("challenge", *STEPS) if step not in done), "token")

    def _found(self, finding: Finding) -> None:
        """Store a finding and print it at once: the next step may wait for the user."""
        self.findings.append(finding)
        if not self._quiet:
            for line in lines_of(finding):
                self._printer.line(line)


_NAME_IT = 'answer with WWW-Authenticate: Bearer resource_metadata="…", so that clients find the metadata'
_ACCEPT = "accept tokens whose audience is the resource in the metadata and whose issuer is in authorization_servers"
