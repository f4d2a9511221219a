"""`OAuthClientProvider`: OAuth of SDK 1.x's clients, for ours and for ``httpx.AsyncClient(auth=…)``."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

from pydantic import BaseModel, Field

from .....auth.client.authorizer import Authorizer
from .....auth.client.browser import Hook
from .....auth.core.discovery import Place
from .....auth.core.grants import AuthorizationCode, Grant, Obtained
from .....auth.core.pkce import s256
from .....auth.core.problems import AuthError
from .....auth.core.registration import Identity, check_document_url
from .....auth.core.steps import Flow, Sources
from .....client.auth import AuthRequest
from .... import serving
from ...shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from .exceptions import OAuthFlowError, flow_error
from .keeping import Kept
from .relaying import Relay

if TYPE_CHECKING:
    from httpx import Auth as Base
else:
    try:
        from httpx import Auth as Base  # whoever gives it to httpx has that
    except ModuleNotFoundError:
        Base = object

RedirectHandler = Callable[[str], Awaitable[None]]
CallbackHandler = Callable[[], Awaitable[tuple[str, str | None]]]


class PKCEParameters(BaseModel):
    """A verifier and what is said of it beforehand."""

    code_verifier: str = Field(..., min_length=43, max_length=128)
    code_challenge: str = Field(..., min_length=43, max_length=128)

    @classmethod
    def generate(cls) -> PKCEParameters:
        verifier = secrets.token_urlsafe(96)
        return cls(code_verifier=verifier, code_challenge=s256(verifier))


class TokenStorage(Protocol):
    """Where a program keeps the tokens of one server, and who it is there."""

    async def get_tokens(self) -> OAuthToken | None: ...

    async def set_tokens(self, tokens: OAuthToken) -> None: ...

    async def get_client_info(self) -> OAuthClientInformationFull | None: ...

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None: ...


@dataclass
class OAuthContext:
    """What a provider was given, and what it holds."""

    server_url: str
    client_metadata: OAuthClientMetadata
    storage: TokenStorage
    redirect_handler: RedirectHandler | None
    callback_handler: CallbackHandler | None
    timeout: float = 300.0
    client_metadata_url: str | None = None
    client_info: OAuthClientInformationFull | None = None
    current_tokens: OAuthToken | None = None


class _Login(AuthorizationCode):
    """Remembers which issuer the browser was sent to."""

    issuer = ""

    def obtain(self, place: Place, scopes: tuple[str, ...], sources: Sources) -> Flow[Obtained]:
        self.issuer = place.issuer
        return (yield from super().obtain(place, scopes, sources))


class OAuthClientProvider(Base):
    """Logs in where a server wants it, registers and renews; an ``auth=`` for our client and for httpx.

    Raises:
        ValueError: ``client_metadata_url`` is no https URL with a path.
    """

    requires_response_body = True

    def __init__(
        self, server_url: str, client_metadata: OAuthClientMetadata, storage: TokenStorage,
        redirect_handler: RedirectHandler | None = None, callback_handler: CallbackHandler | None = None,
        timeout: float = 300.0, client_metadata_url: str | None = None,
    ) -> None:  # fmt: skip
        if client_metadata_url is not None:
            _check_document(client_metadata_url)
        self.context = OAuthContext(
            server_url,
            client_metadata,
            storage,
            redirect_handler,
            callback_handler,
            timeout,
            client_metadata_url,
        )
        uris = client_metadata.redirect_uris
        self._redirect_uri = str(uris[0]) if uris else None
        self._grant = self._way()
        self._kept = Kept(self.context, self._grant.identity, self._redirect_uri)
        self._authorizer = self._made()

    def _way(self) -> Grant:
        """How tokens are obtained."""
        said = self.context.client_metadata
        identity = Identity(
            client_metadata_url=self.context.client_metadata_url,
            client_name=said.client_name or "Dovetail",
            grant_types=said.grant_types,
            metadata=said.model_dump(mode="json", exclude_none=True),
        )
        return _Login(identity)

    def _made(self) -> Authorizer:
        # Theirs go wherever a server names; ours ask whether that lies in one's own network.
        return Authorizer(
            self._grant,
            scopes=self.context.client_metadata.scope,
            store=self._kept,
            allow_private=not serving.strict(),
            user=None if self._redirect_uri is None else lambda: Hook(self._asked, self._redirect_uri or ""),
        )

    async def _asked(self, url: str) -> str:
        """Have the program send its user to ``url``; where the browser came back to, as the program tells it."""
        context = self.context
        if context.redirect_handler is None or context.callback_handler is None:
            which = "redirect" if context.redirect_handler is None else "callback"
            raise OAuthFlowError(f"No {which} handler provided for authorization code grant", fault="client")
        await context.redirect_handler(url)
        code, state, *issuer = await context.callback_handler()
        answer = {"code": code, "state": state or ""}
        if isinstance(self._grant, _Login):
            # Their handlers give back a code and a state alone, so who has answered cannot be compared.
            answer["iss"] = issuer[0] if issuer else self._grant.issuer
        return f"{self._redirect_uri}?{urlencode(answer)}"

    # --- for our client -----------------------------------------------------------------------------------------

    async def authorize(self, request: AuthRequest) -> Mapping[str, str]:
        """The headers for one request."""
        try:
            return await self._authorizer.authorize(request._replace(url=self.context.server_url))
        except AuthError as error:
            raise flow_error(error) from error

    async def answered(
        self, request: AuthRequest, sent: Mapping[str, str], status: int, headers: Mapping[str, str]
    ) -> bool:
        """The server said 401 or 403; True when there is a better token now."""
        if status == 401 and self._kept.unbound:
            self._kept.drop()
            self._authorizer = self._made()
        try:
            return await self._authorizer.answered(
                request._replace(url=self.context.server_url), sent, status, headers
            )
        except AuthError as error:
            raise flow_error(error) from error

    # --- for httpx ----------------------------------------------------------------------------------------------

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """What httpx asks: requests of the flow go by the client that has this one."""
        relay = Relay(request)
        asked = AuthRequest(request.method, str(request.url), self.context.server_url, relay.send)
        for last in (False, True):
            work = relay.start(self.authorize(asked))
            while (wanted := await relay.next(work)) is not None:
                await relay.answer((yield wanted))
            sent = work.result()
            request.headers.update(sent)
            response = yield request
            if last or response.status_code not in (401, 403):
                return
            await response.aread()
            again = relay.start(self.answered(asked, sent, response.status_code, response.headers))
            while (wanted := await relay.next(again)) is not None:
                await relay.answer((yield wanted))
            if not again.result():
                return


def _check_document(url: str) -> None:
    try:
        check_document_url(url)
    except AuthError:
        raise ValueError(
            f"client_metadata_url must be a valid HTTPS URL with a non-root pathname, got: {url}"
        ) from None
