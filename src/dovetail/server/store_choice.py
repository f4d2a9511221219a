"""Chooses the store and the seal keys of a server: options of the author, or environment variables.

`cluster/store_lifecycle.py` opens, probes and closes the store.
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
"""Seconds between two health checks of the store."""


def store_of(given: Store | str | None) -> Store | None:
    """The store of the option: an object or a URL; by default the one in the environment variable.

    Raises:
        TypeError: the option is neither a store nor a URL.
    """
    if given is None:
        given = os.environ.get(STORE) or None
    if not isinstance(given, str):
        if given is not None and not all(hasattr(given, verb) for verb in vars(Store) if verb[0] != "_"):
            raise TypeError(f"store must be a store such as SqliteStore(...), or its URL, not {given!r}")
        return given
    from ..stores.store_urls import from_url  # an import at module level would be circular

    return from_url(given)


def memory(clock: Callable[[], float]) -> Store:
    """A store in the memory of this process."""
    from ..stores.memory_store import MemoryStore

    return MemoryStore(clock=clock)


def keys_of(given: Keys | bytes | str | Sequence[bytes | str] | None) -> Keys | None:
    """The keys of the option, or of the environment variable. Raises: as `environment_keys`."""
    if given is None or isinstance(given, Keys):
        return given or environment_keys()
    return Keys(given) if isinstance(given, bytes | str) else Keys(*given)


def environment_keys() -> Keys | None:
    """The keys in ``DOVETAIL_SEAL_KEYS``: hex or base64url of 32 bytes each, comma-separated; the first one seals.

    Raises:
        ValueError: one of them is not such a key.
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
        raise ValueError(f"{SEAL_KEYS} must have keys of 32 bytes in hex or base64url, separated by commas")
    return key
