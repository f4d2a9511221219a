"""A proxy of ours, with what FastMCP's proxies decide beside it: where users go back to, and whose tokens count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .....auth.core.code_request import parameters
from .....auth.core.denial import Denial
from .....auth.proxy.pages import error_page
from .....auth.proxy.proxy import OAuthProxy
from .....auth.server.pages import Page, PageAnswer, PageRequest
from .....auth.server.verifier import Scope, Verifier
from .....core.principal import Principal
from .....stores.base import Store
from ....common.auth import principal_of
from .redirects import is_allowed


class Proxied(Verifier):
    """``proxy``, which sends users back to ``redirects`` only, and whose users ``token_verifier`` has to know."""

    def __init__(self, proxy: OAuthProxy, redirects: list[str] | None, token_verifier: Any) -> None:
        super().__init__(scopes=proxy.scopes)
        self.proxy = proxy
        self.issuers, self.audience = proxy.issuers, proxy.audience
        self._redirects, self._token_verifier = redirects, token_verifier

    def members(self) -> Iterator[Verifier]:
        yield self

    def attach(self, store: Store | None) -> None:
        self.proxy.attach(store)

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        principal = await self.proxy.verify(token, scope)
        if principal is None or self._token_verifier is None:
            return principal
        # As theirs: what the client holds stands for a token of the provider, and that one is verified each time.
        access = await self._token_verifier.verify_token(await self.proxy.provider_token(principal))
        return None if access is None else principal_of(access)

    def pages(self, path: str) -> Mapping[str, Page]:
        found = dict(self.proxy.pages(path))
        if self._redirects is not None:
            folder = path.rstrip("/").rpartition("/")[0]
            found[f"{folder}/authorize"] = self._guarded(found[f"{folder}/authorize"])
        return found

    def _guarded(self, authorize: Page) -> Page:
        """Every login begins here, whoever registered the client and wherever its description lies."""

        async def guarded(request: PageRequest) -> PageAnswer:
            try:
                given = parameters(request.query).get("redirect_uri")
            except Denial:
                return await authorize(request)  # says what is wrong
            if given is None or not is_allowed(given, self._redirects or ()):
                return error_page("This server does not send users back to the redirect_uri of this client.")
            return await authorize(request)

        return guarded
