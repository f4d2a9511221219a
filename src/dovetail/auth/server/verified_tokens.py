"""What was found out about tokens, for as long as that is good: bounded, and without the tokens themselves."""

from __future__ import annotations

import hashlib
import secrets

from ...core.principal import Principal


class VerifiedTokens:
    """Principals by token. Of two that do not fit together the older makes room."""

    __slots__ = ("_kept", "_key", "_limit")

    def __init__(self, limit: int) -> None:
        self._key = secrets.token_bytes(32)
        self._limit = limit
        self._kept: dict[bytes, tuple[Principal | None, float]] = {}

    def find(self, token: str, now: float) -> tuple[Principal | None, float] | None:
        """What is known of ``token`` and until when; None when nothing is. A principal of None: it is not good."""
        found = self._kept.get(hashlib.blake2b(token.encode(), key=self._key).digest())
        return found if found is not None and found[1] > now else None

    def knew(self, token: str) -> bool:
        """Whether anything was ever found out about ``token`` that is not forgotten yet, be it over or not."""
        return hashlib.blake2b(token.encode(), key=self._key).digest() in self._kept

    def keep(self, token: str, principal: Principal | None, until: float) -> None:
        """Remember what was found out, until the time ``until``."""
        kept = self._kept
        kept.pop(digest := hashlib.blake2b(token.encode(), key=self._key).digest(), None)
        if len(kept) >= self._limit:
            del kept[next(iter(kept))]
        kept[digest] = (principal, until)

    def clear(self) -> None:
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)
