"""A bounded cache of verified tokens, without the tokens themselves."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

import msgspec

from ...core.principal import Principal

REFUSED_SECONDS: Final = 10.0
"""Seconds for which a refusal is remembered, so that repeated requests cost the other side nothing."""
TOKENS_VERIFIED: Final = 10_000
"""Verified tokens that one verifier caches."""
TOKENS_VERIFIED_BYTES: Final = 32 << 20
"""Bytes, as JSON, of the claims of all cached tokens."""


class VerifiedTokens:
    """Principals by token digest. The oldest are evicted."""

    __slots__ = ("_kept", "_key", "_limit", "_size")

    def __init__(self, limit: int) -> None:
        self._key = secrets.token_bytes(32)
        self._limit = limit
        self._kept: dict[bytes, tuple[Principal | None, float, int]] = {}
        self._size = 0

    def find(self, token: str, now: float) -> tuple[Principal | None, float, int] | None:
        """Return the principal, expiry and size of a cached token; None if unknown. No principal: not valid."""
        found = self._kept.get(hashlib.blake2b(token.encode(), key=self._key).digest())
        return found if found is not None and found[1] > now else None

    def knew(self, token: str) -> bool:
        """Return whether ``token`` is in the cache, expired or not."""
        return hashlib.blake2b(token.encode(), key=self._key).digest() in self._kept

    def keep(self, token: str, principal: Principal | None, until: float) -> None:
        """Cache the result until the time ``until``."""
        kept = self._kept
        digest = hashlib.blake2b(token.encode(), key=self._key).digest()
        # The size of claims is controlled by the authorization server.
        size = 0 if principal is None else len(msgspec.json.encode(principal.claims))
        self._forget(digest)
        while kept and (len(kept) >= self._limit or self._size + size > TOKENS_VERIFIED_BYTES):
            self._forget(next(iter(kept)))
        kept[digest] = (principal, until, size)
        self._size += size

    def _forget(self, digest: bytes) -> None:
        found = self._kept.pop(digest, None)
        self._size -= 0 if found is None else found[2]

    def clear(self) -> None:
        self._kept.clear()
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)
