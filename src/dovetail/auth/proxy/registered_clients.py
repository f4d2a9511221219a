"""The clients of the proxy. Registrations are not stored: the client id contains the sealed metadata.

Registrations therefore cannot fill the store, and ids survive restarts. The secret of a confidential client
is derived from its id. A client id that is an https URL refers to a Client ID Metadata Document.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from ...transports.http.client.guarded_fetch import AddressGuard
from ..core.auth_errors import AuthError
from ..core.client_metadata import ProxyClient, read_document, read_registration
from ..core.code_request import PARAMETER_LENGTH, basic_credentials
from ..core.oauth_error import Denial, Unrecognised
from ..core.registration import NONE, SECRET_BASIC, check_document_url
from ..server.json_documents import fetch
from ..server.verifier import Unavailable
from .login_records import SealedClient
from .sealed_records import SealedRecords

REFUSED_SECONDS: Final = 10.0
"""Seconds for which a refusal is remembered, so that repeated requests do not reach other servers."""
CLIENT_DOCUMENT_BYTES: Final = 16 << 10
"""Size limit of a Client ID Metadata Document in bytes."""
CLIENT_DOCUMENTS: Final = 1000
"""Cached Client ID Metadata Documents, and as many URLs without one."""
CLIENT_DOCUMENT_SECONDS: Final = 300.0
"""Seconds for which a Client ID Metadata Document is cached."""
CLIENT_DOCUMENT_FETCHES: Final = 64
"""Concurrent fetches of Client ID Metadata Documents; further logins are refused for the moment."""
CLIENT_DOCUMENT_FETCHES_OF_HOST: Final = 4
"""Concurrent fetches from one host."""


T = TypeVar("T")
_PREFIX = "dt-"


class ProxyClients:
    """The clients that may request codes."""

    def __init__(
        self, vault: SealedRecords, guard: AddressGuard, schemes: Collection[str], clock: Callable[[], float]
    ) -> None:
        self._vault = vault
        self._guard = guard
        self._schemes = frozenset(schemes)
        self._clock = clock
        self._documents: dict[str, tuple[ProxyClient, float]] = {}
        self._refused: dict[str, tuple[Denial, float]] = {}
        self._fetching: dict[str, asyncio.Task[ProxyClient]] = {}
        self._hosts: Counter[str] = Counter()

    def register(self, body: bytes) -> dict[str, Any]:
        """Register a client and return the response (RFC 7591, 3.2.1).

        Raises:
            Denial: such clients are not accepted.
        """
        found = read_registration(body, self._schemes)
        # RFC 7591, 2: a client has a secret by default.
        method = found.token_endpoint_auth_method or SECRET_BASIC
        named = SealedClient(found.redirect_uris, found.client_name, method, secrets.token_urlsafe(8))
        client_id = _PREFIX + self._vault.seal("client", named)
        told: dict[str, Any] = {
            "client_id": client_id,
            "client_id_issued_at": int(self._clock()),
            "redirect_uris": found.redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        }
        if found.client_name is not None:
            told["client_name"] = found.client_name
        if method != NONE:
            told |= {
                "client_secret": self._vault.digests("client secret", client_id)[0],
                "client_secret_expires_at": 0,
            }
        return told

    async def find(self, client_id: str | None) -> ProxyClient:
        """Return the client with this id.

        Raises:
            Unrecognised: it does not exist.
            Unavailable: its metadata document is not available.
        """
        if client_id is None or len(client_id) > PARAMETER_LENGTH:
            raise Unrecognised("invalid_client", "the client_id is missing")
        if client_id.startswith(_PREFIX):
            named = self._vault.open("client", client_id.removeprefix(_PREFIX), SealedClient)
            if named is not None:
                return ProxyClient(client_id, named.redirect_uris, named.name, named.method)
        elif client_id.startswith("https://"):
            return await self._described(client_id)
        raise Unrecognised("invalid_client", "unknown client; register again")

    async def authenticated(self, form: Mapping[str, str], header: str | None) -> ProxyClient:
        """Return the authenticated client of a token request.

        Raises:
            Denial: the authentication failed.
        """
        basic = basic_credentials(header)
        claimed, secret = basic or (form.get("client_id"), form.get("client_secret"))
        if basic is not None and form.get("client_id") not in (None, claimed):
            raise Denial("invalid_client", "the header and the form contain different clients", 401)
        try:
            client = await self.find(claimed)
        except Unrecognised as error:
            raise Denial("invalid_client", error.description, 401) from None
        if client.method != NONE:
            known = self._vault.digests("client secret", client.client_id)
            given = (secret or "").encode()
            if not any(hmac.compare_digest(one.encode(), given) for one in known):
                raise Denial("invalid_client", "the client_secret is wrong", 401)
        return client

    async def _described(self, url: str) -> ProxyClient:
        now = self._clock()
        known = self._documents.get(url)
        if known is not None and known[1] > now:
            return known[0]
        refused = self._refused.get(url)
        if refused is not None and refused[1] > now:
            raise refused[0]
        task = self._fetching.get(url)
        if task is None:
            try:
                host = urlsplit(check_document_url(url)).hostname or ""
            except AuthError:
                raise Unrecognised(
                    "invalid_client", "the client_id is not a URL of a metadata document"
                ) from None
            if (
                len(self._fetching) >= CLIENT_DOCUMENT_FETCHES
                or self._hosts[host] >= CLIENT_DOCUMENT_FETCHES_OF_HOST
            ):
                if known is not None:
                    return known[0]  # requests for other clients must not block known ones
                raise Unavailable("too many client metadata documents are being fetched")
            self._hosts[host] += 1
            task = self._fetching[url] = asyncio.get_running_loop().create_task(self._fetch(url))
            task.add_done_callback(lambda done: self._fetched(url, host, done))
        return await asyncio.shield(task)

    async def _fetch(self, url: str) -> ProxyClient:
        try:
            document = await fetch(url, guard=self._guard, limit=CLIENT_DOCUMENT_BYTES)
        except Unavailable:
            raise Unrecognised("invalid_client", "the client metadata document is not available") from None
        return read_document(document, url, self._schemes)

    def _fetched(self, url: str, host: str, task: asyncio.Task[ProxyClient]) -> None:
        del self._fetching[url]
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]
        if task.cancelled():
            return
        failure = task.exception()
        if failure is None:
            _remember(self._documents, url, (task.result(), self._clock() + CLIENT_DOCUMENT_SECONDS))
        elif isinstance(failure, Denial):
            _remember(self._refused, url, (failure, self._clock() + REFUSED_SECONDS))


def _remember(table: dict[str, T], url: str, found: T) -> None:
    table.pop(url, None)
    if len(table) >= CLIENT_DOCUMENTS:
        del table[next(iter(table))]
    table[url] = found
