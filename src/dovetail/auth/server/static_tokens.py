"""Static tokens and API keys: stored as digests, looked up without a timing leak."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping

from ...core.principal import Principal, as_principal
from ...settings import check_kinds
from ...settings.parameter_kinds import MAPPING, NAMES, SCOPES, TEXT, or_none
from .verifier import InvalidToken, Scope, Verifier


class StaticTokens(Verifier):
    """Accepts these bearer tokens: ``StaticTokens({"s3cret": Principal("ci")})``; for tests, scripts and
    small teams.

    ``issuers`` are only published in the metadata.
    """

    def __init__(
        self,
        tokens: Mapping[str, Principal | str],
        *,
        scopes: str | Iterable[str] = (),
        issuers: Iterable[str] = (),
        audience: str | None = None,
    ) -> None:
        """Set the tokens.

        Args:
            tokens: The principal, or its name, of each token.
            scopes: Scopes that every caller needs.
            issuers: URLs of authorization servers that the metadata names to clients.
            audience: The resource identifier in the metadata.
        """
        check_kinds(
            {
                "tokens": MAPPING,
                "scopes": SCOPES,
                "issuers": NAMES,
                "audience": or_none(TEXT),
            },
            locals(),
        )
        super().__init__(scopes=scopes)
        self.issuers, self.audience = tuple(issuers), audience
        # A keyed digest is unpredictable, so the lookup time reveals nothing about a guess.
        self._key = secrets.token_bytes(32)
        self._known = {self._digest(token): _principal(who) for token, who in tokens.items()}
        if self._digest("") in self._known:
            raise ValueError("a token must not be empty")

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        found = self._known.get(self._digest(token))
        if found is None:
            raise InvalidToken(f"the {self.what} is unknown", kind=self.unknown)
        return found

    what = "token"
    unknown = "invalid_token"
    """The error kind of an unknown token."""

    def _digest(self, token: str) -> bytes:
        return hashlib.blake2b(token.encode("utf-8", "surrogateescape"), key=self._key).digest()


class ApiKeys(StaticTokens):
    """Accepts these keys in a separate header: ``ApiKeys({"k3y": Principal("ci")}, header="X-API-Key")``."""

    what = "API key"
    unknown = "invalid_credentials"

    def __init__(
        self,
        keys: Mapping[str, Principal | str],
        *,
        header: str = "X-API-Key",
        scopes: str | Iterable[str] = (),
    ) -> None:
        """Set the keys.

        Args:
            keys: The principal, or its name, of each key.
            header: The HTTP header that contains the key.
            scopes: Scopes that every caller needs.
        """
        check_kinds(
            {
                "keys": MAPPING,
                "header": TEXT,
                "scopes": SCOPES,
            },
            locals(),
        )
        super().__init__(keys, scopes=scopes)
        self.header = header.lower()


def _principal(who: Principal | str) -> Principal:
    found = as_principal(who)
    assert found is not None
    return found
