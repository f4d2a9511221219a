"""Runs authorization flows: executes their steps with HTTP requests, the token store and the user."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast
from urllib.parse import parse_qsl

from ...client.http_client import Send
from ...errors import TransportError
from ...transports.http.client.guarded_fetch import (
    NETWORK_CAUSES,
    REDIRECTS,
    AddressGuard,
    BlockedAddress,
    guarded_fetch,
)
from ..core import oauth_urls
from ..core.auth_errors import AuthError
from ..core.steps import Answer, Ask, Browse, Flow, Listen, Load, Pause, Progress, Save, Show, Step, Supply
from .storage import TokenStorage

METADATA_SIZE: Final = 256 << 10
"""Size limit of a metadata document, and of any other response of an authorization server."""
AUTHORIZATION_SECONDS: Final = 20.0
"""Timeout of one request of a flow, in seconds."""


T = TypeVar("T")
log = logging.getLogger("dovetail.auth")

_SECRETS = frozenset(
    {"assertion", "client_assertion", "client_secret", "code", "code_verifier", "device_code", "refresh_token",
     "subject_token", "token"}
)  # fmt: skip


class User(Protocol):
    """The user of a flow: opens pages and shows codes."""

    async def listen(self, known: str | None) -> str:
        """Start to wait for a browser. Return the redirect URI."""
        ...

    async def browse(self, url: str, redirect_uri: str, state: str) -> str:
        """Let the user visit ``url``. Return the URL of the redirect."""
        ...

    async def show(self, page: Show) -> None:
        """Show the user where to enter a code."""
        ...

    async def close(self) -> None:
        """Stop waiting for the user."""
        ...


class FlowRunner:
    """Runs flows for one server."""

    def __init__(
        self,
        send: Send,
        store: TokenStorage,
        guard: AddressGuard,
        user: User | None = None,
        follow: Callable[[Progress], None] | None = None,
    ) -> None:
        self._send = send
        self._store = store
        self._guard = guard
        self._user = user
        self._follow = follow
        self._secrets: set[str] = set()
        self.asked_user = False
        """Whether the user was sent to a page."""

    async def run(self, flow: Flow[T]) -> T:
        """Run ``flow`` to its end.

        Raises:
            AuthError: it failed. The message contains no secret.
        """
        given: Any = None
        try:
            while True:
                step = flow.send(given)
                given = await self._carry_out(step)
        except StopIteration as end:
            return cast("T", end.value)
        except AuthError as error:
            raise self._scrubbed(error) from None
        finally:
            flow.close()
            if self._user is not None:
                await self._user.close()

    async def _carry_out(self, step: Step) -> Any:
        match step:
            case Ask():
                return await self._ask(step)
            case Load(key=key):
                return await self._store.get(key)
            case Save(key=key, value=None):
                return await self._store.delete(key)
            case Save(key=key, value=bytes() as value):
                return await self._store.put(key, value)
            case Pause(seconds=seconds):
                return await asyncio.sleep(seconds)
            case Supply(source=source, what=what):
                return await _supplied(source, what)
            case Progress():
                log.debug("%s: %s", step.step, step.detail)
                return self._follow(step) if self._follow is not None else None
            case _:
                return await self._with_user(step)

    async def _with_user(self, step: Step) -> Any:
        user = self._user
        if user is None:
            raise AuthError("this login needs a user, but none is available", fault="client")
        match step:
            case Listen(known=known):
                return await user.listen(known)
            case Browse(url=url, redirect_uri=redirect_uri, state=state):
                self._secrets.add(state)
                self.asked_user = True
                return await user.browse(url, redirect_uri, state)
            case Show():
                self.asked_user = True
                return await user.show(step)
            case _:
                raise AssertionError(step)

    # --- requests -------------------------------------------------------------------------------------------------

    async def _ask(self, request: Ask) -> Answer:
        if request.method == "POST" and request.body is not None:
            self._remember(request)
        what, fault = request.what, request.fault

        def check(url: str) -> None:
            if not request.configured:
                oauth_urls.secure(url, what, fault)

        try:
            found = await guarded_fetch(
                request.url,
                guard=None if request.configured else self._guard,
                max_bytes=METADATA_SIZE,
                timeout=AUTHORIZATION_SECONDS,
                method=request.method,
                headers=request.headers,
                body=request.body,
                max_redirects=REDIRECTS,
                check=check,
                send=self._send,
            )
        except BlockedAddress as error:
            raise AuthError(
                f"{what}: {error.message}, and the server that names it does not",
                fault=fault,
                advice="give allow_private=True if that is meant to be",
            ) from None
        except TransportError as error:
            raise AuthError(
                f"{what} ({oauth_urls.origin(request.url)}): {error.message}",
                fault="network" if error.cause in NETWORK_CAUSES else fault,
            ) from None
        return Answer(found.status, found.headers, found.body)

    def _remember(self, request: Ask) -> None:
        form = dict(parse_qsl((request.body or b"").decode(errors="replace")))
        self._secrets.update(value for name, value in form.items() if name in _SECRETS and value)

    def _scrubbed(self, error: AuthError) -> AuthError:
        """Remove what was sent from a response: an authorization server may repeat secrets."""
        text = error.plain
        for secret in self._secrets:
            text = text.replace(secret, "…")
        if text == error.plain:
            return error
        return AuthError(text, fault=error.fault, advice=error.advice, error=error.error)


async def _supplied(source: Callable[[], Any], what: str) -> str:
    found = source()
    if inspect.isawaitable(found):
        found = await found
    if not isinstance(found, str) or not found:
        raise AuthError(f"there is no token: {what} is not given as a text", fault="client")
    return found
