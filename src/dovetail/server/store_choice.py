"""Which store and which keys a server has: what its author gave, or the environment names.

What a server does with a store is `cluster/store_lifecycle.py`.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from typing import Final

from ..stores.base import Store
from ..wire.seal import Keys

STORE: Final = "DOVETAIL_STORE"
SEAL_KEYS: Final = "DOVETAIL_SEAL_KEYS"
STORE_PROBE_INTERVAL: Final = 5.0
"""Seconds between two probes of the store of a server."""


def store_of(given: Store | str | None) -> Store | None:
    """The store an author gave, or names by its URL, or that the environment names.

    Raises:
        TypeError: what was given is neither.
    """
    if given is None:
        given = os.environ.get(STORE) or None
    if not isinstance(given, str):
        if given is not None and not all(hasattr(given, verb) for verb in vars(Store) if verb[0] != "_"):
            raise TypeError(f"store is a store such as SqliteStore(...), or its URL, not {given!r}")
        return given
    from ..stores.store_urls import from_url  # stores stand to the right of servers

    return from_url(given)


def memory(clock: Callable[[], float]) -> Store:
    """A store that lives as long as this process."""
    from ..stores.memory_store import MemoryStore

    return MemoryStore(clock=clock)


def keys_of(given: Keys | bytes | str | Sequence[bytes | str] | None) -> Keys | None:
    """The keys an author gave, or that the environment names. Raises: as `environment_keys`."""
    if given is None or isinstance(given, Keys):
        return given or environment_keys()
    return Keys(given) if isinstance(given, bytes | str) else Keys(*given)


def environment_keys() -> Keys | None:
    """The keys of ``DOVETAIL_SEAL_KEYS``: hex or base64url of 32 bytes each, comma-separated, the first one seals.

    Raises:
        ValueError: one of them is no such key.
    """
    text = os.environ.get(SEAL_KEYS, "")
    keys = [_key(part.strip()) for part in text.split(",") if part.strip()]
    return Keys(*keys) if keys else None


def _key(text: str) -> bytes:
    try:
        key = (
            bytes.fromhex(text)
            if len(text) == 64
            else base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        )
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ValueError(f"{SEAL_KEYS} wants keys of 32 bytes in hex or base64url")
    return key
