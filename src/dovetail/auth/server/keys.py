"""Keys that verify token signatures: given, or fetched and cached, with one refresh at a time.

An unknown key id triggers a refresh, because keys rotate. Unknown key ids are remembered and refreshes are
limited, so tokens with unknown keys cannot cause many requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from ...extras import missing
from ...transports.http.client.guarded_fetch import AddressGuard
from ..core import oauth_urls
from .authenticate import LONGEST_TOKEN
from .json_documents import fetch
from .verified_tokens import REFUSED_SECONDS
from .verifier import Unavailable

try:
    from joserfc import jws
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
    from joserfc.jws import JWSRegistry
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("joserfc", "cryptography"):
        raise
    raise missing("joserfc", "verifying tokens") from None

KEYS_SECONDS: Final = 600.0
"""Seconds after which a key set is fetched again."""
KEY_REFRESH_WAIT_SECONDS: Final = 1.0
"""Seconds that a caller waits for newer keys if there are older ones."""
KEYS_READ: Final = 64
"""Keys that are read of one set."""
KEYS_TRIED: Final = 8
"""Keys that are tried on a token without a key id."""
KEY_REFRESHES: Final = 5
"""Consecutive fetches because of unknown keys; then one per `REFUSED_SECONDS`."""


Key = ECKey | RSAKey | OKPKey | OctKey
_TYPES: dict[str, type[ECKey] | type[RSAKey] | type[OKPKey] | type[OctKey]] = {
    "EC": ECKey, "RSA": RSAKey, "OKP": OKPKey, "oct": OctKey,
}  # fmt: skip


class KeySet:
    """Keys by id. An algorithm is only used with keys of its type."""

    def __init__(self, document: Mapping[str, Any] | str | bytes) -> None:
        if isinstance(document, str | bytes):
            document = cast("Mapping[str, Any]", msgspec.json.decode(document))
        listed: Any = document.get("keys") if "keys" in document else [document]
        if not isinstance(listed, list):
            raise ValueError("a key set must be an object with a list of keys")
        found = [_import(one) for one in cast("list[Any]", listed)[:KEYS_READ]]
        self._keys = [pair for pair in found if pair is not None]

    def find(self, algorithm: str, kid: str | None) -> list[Key]:
        """Return the keys that may have signed a token with this header."""
        wanted = kty_of(algorithm)
        fitting = [
            key
            for key, jwk in self._keys
            if jwk["kty"] == wanted
            and (kid is None or jwk.get("kid") == kid)
            and jwk.get("alg") in (None, algorithm)
        ]
        return fitting[:KEYS_TRIED]

    def names(self) -> frozenset[str]:
        return frozenset(key.thumbprint() for key, _ in self._keys)


class FetchedKeys:
    """The keys at ``jwks_uri``, or at the URL in the metadata of ``issuer``."""

    def __init__(
        self, issuer: str, jwks_uri: str | None, clock: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        self._issuer = issuer
        self._uri = jwks_uri
        self._guard = AddressGuard(jwks_uri or issuer, allow_private=False)
        self._clock = clock
        self._changed = changed
        self._keys: KeySet | None = None
        self._fetched = 0.0
        self._failed = 0.0
        self._budget = float(KEY_REFRESHES)
        self._spent = 0.0
        self._refused: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    async def find(self, algorithm: str, kid: str | None) -> list[Key]:
        """Return the keys for this header; empty if unknown.

        Raises:
            Unavailable: they cannot be fetched now.
        """
        now = self._clock()
        if self._keys is None or now - self._fetched >= KEYS_SECONDS:
            await self._refresh(now)
        assert self._keys is not None
        found = self._keys.find(algorithm, kid)
        if found or kid is None or self._refused.get(kid, 0.0) > now or not self._may_look(now):
            return found
        await self._refresh(now)
        found = self._keys.find(algorithm, kid)
        if not found:
            if len(self._refused) >= KEYS_READ:
                self._refused.clear()
            self._refused[kid] = now + REFUSED_SECONDS
        return found

    def _may_look(self, now: float) -> bool:
        """Use one of the limited fetches for unknown keys."""
        self._budget = min(KEY_REFRESHES, self._budget + (now - self._spent) / REFUSED_SECONDS)
        self._spent = now
        if self._budget < 1:
            return False
        self._budget -= 1
        return True

    async def _refresh(self, now: float) -> None:
        """Fetch the keys, or wait for a running fetch. Old keys stay valid if it fails."""
        if self._task is None:
            if now < self._failed:
                if self._keys is not None:
                    return
                raise Unavailable("the authorization server is unavailable")
            self._task = asyncio.get_running_loop().create_task(self._fetch())
            self._task.add_done_callback(self._done)
        task = self._task
        # Do not wait long for an unresponsive server if older keys are available.
        await asyncio.wait((task,), timeout=None if self._keys is None else KEY_REFRESH_WAIT_SECONDS)
        if self._keys is None:
            task.result()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            self._failed = self._clock() + REFUSED_SECONDS

    async def _fetch(self) -> None:
        if self._uri is None:
            self._uri = await self._discover()
        document = await fetch(self._uri, guard=self._guard)
        try:
            keys = KeySet(document)
        except ValueError:
            raise Unavailable("the authorization server has no readable keys") from None
        if self._keys is not None and not self._keys.names() <= keys.names():
            self._changed()  # a key was removed: tokens signed with it are no longer valid
        self._keys, self._fetched = keys, self._clock()

    async def _discover(self) -> str:
        for place in oauth_urls.server_metadata(self._issuer):
            try:
                document = await fetch(place, guard=self._guard)
            except Unavailable:
                continue
            uri = document.get("jwks_uri")
            # RFC 8414, 3.3: the issuer returned MUST be identical to the one the URL was made of.
            if document.get("issuer") == self._issuer and isinstance(uri, str):
                return uri
        raise Unavailable("the metadata of the authorization server names no keys")


class _Registry(JWSRegistry):
    max_header_length = LONGEST_TOKEN  # it may contain a key; the size of the whole token is limited already


def payload_of(token: str, key: Key, algorithm: str) -> bytes | None:
    """Return the payload signed by ``key``, or None. Unknown header members are ignored (RFC 7515, 4)."""
    registry = _Registry(algorithms=[algorithm], strict_check_header=False)
    try:
        return jws.deserialize_compact(token, key, registry=registry).payload or b""
    except (JoseError, ValueError, TypeError, RecursionError):
        return None


def kty_of(algorithm: str) -> str:
    """Return the key type of ``algorithm``."""
    if algorithm.startswith(("RS", "PS")):
        return "RSA"
    if algorithm.startswith("ES"):
        return "EC"
    return "oct" if algorithm.startswith("HS") else "OKP"


def import_key(jwk: dict[str, Any]) -> Key | None:
    """Return a public verification key, or None."""
    found = _import(jwk)
    return None if found is None else found[0]


def _import(jwk: Any) -> tuple[Key, dict[str, Any]] | None:
    """Return a verification key, or None for others: a set may contain keys for other uses."""
    if not isinstance(jwk, dict):
        return None
    members = cast("dict[str, Any]", jwk)
    kind = _TYPES.get(str(members.get("kty")))
    operations = members.get("key_ops")
    unfit = members.get("use") not in (None, "sig") or (
        isinstance(operations, list) and "verify" not in operations
    )
    if kind is None or unfit:
        return None
    try:
        return kind.import_key(members), members
    except (JoseError, ValueError, TypeError, KeyError):
        return None
