"""Encrypted records of the proxy in the server's store.

The name of an entry is the digest of a secret, and its key is derived from the proxy's key and that secret.
The store cannot be read without the key, nor with the key but without the token. AES-256 in GCM
(cryptography, extra ``auth``). The name is authenticated together with the entry, so entries cannot be
swapped.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from ...extras import missing
from ...stores.base import Store
from ..core.pkce import base64url

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "cryptography":
        raise
    raise missing("joserfc", "the OAuth proxy") from None

R = TypeVar("R", bound=Struct)
_NONCE = 12


class SealedRecords:
    """The records of one proxy. The first of ``keys`` encrypts, all of them decrypt."""

    def __init__(self, keys: Sequence[bytes], store: Store) -> None:
        self._keys = [hmac.digest(key, b"dovetail oauth proxy", "sha256") for key in keys]
        self.store = store

    # --- records
    # --------------------------------------------------------------------------------------------------------

    async def put(
        self, kind: str, secret: str, record: Struct, ttl: float, *, only_new: bool = False
    ) -> bool:
        name = _name(kind, secret)
        return await self.store.put(
            name, self._encrypt(kind, secret, name, record), ttl=ttl, only_new=only_new
        )

    async def get(self, kind: str, secret: str, type: type[R]) -> R | None:
        """Return the record, or None if it does not exist or cannot be decrypted."""
        name = _name(kind, secret)
        data = await self.store.get(name)
        return None if data is None else self._decrypt(kind, secret, name, data, type)

    async def change(
        self, kind: str, secret: str, type: type[R], edit: Callable[[R], R], ttl: float
    ) -> R | None:
        """Change a record with ``edit``, atomically. Return None if it does not exist.

        ``edit`` gets the current record and may be called again. Its exceptions are raised.
        """
        name = _name(kind, secret)
        while (data := await self.store.get(name)) is not None:
            record = self._decrypt(kind, secret, name, data, type)
            if record is None:
                return None
            changed = edit(record)
            if await self.store.put(name, self._encrypt(kind, secret, name, changed), ttl=ttl, expect=data):
                return changed
        return None

    async def delete(self, kind: str, secret: str) -> bool:
        return await self.store.delete(_name(kind, secret))

    # --- sealed text
    # --------------------------------------------------------------------------------------------------------

    def seal(self, purpose: str, record: Struct, bound: str = "") -> str:
        """Return ``record`` as sealed text, valid for ``purpose`` and together with ``bound``."""
        return base64url(self._encrypt(purpose, bound, purpose, record))

    def open(self, purpose: str, text: str, type: type[R], bound: str = "") -> R | None:
        try:
            data = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        except ValueError:
            return None
        # Accept one spelling only: others would be different clients with the same rights.
        return self._decrypt(purpose, bound, purpose, data, type) if base64url(data) == text else None

    def digests(self, purpose: str, text: str) -> list[str]:
        """Derive a secret from ``text``, with the first key and with the others."""
        return [base64url(_derive(key, purpose, text)) for key in self._keys]

    # --- internal
    # -----------------------------------------------------------------------------------------------------------

    def _encrypt(self, kind: str, secret: str, name: str, record: Struct) -> bytes:
        nonce = os.urandom(_NONCE)
        cipher = AESGCM(_derive(self._keys[0], kind, secret))
        return nonce + cipher.encrypt(nonce, msgspec.json.encode(record), name.encode())

    def _decrypt(self, kind: str, secret: str, name: str, data: bytes, type: type[R]) -> R | None:
        for key in self._keys:
            try:
                plain = AESGCM(_derive(key, kind, secret)).decrypt(
                    data[:_NONCE], data[_NONCE:], name.encode()
                )
                return msgspec.json.decode(plain, type=type)
            except (InvalidTag, ValueError):
                continue  # another key, damaged, or another version
        return None


def _name(kind: str, secret: str) -> str:
    return f"oauth/{kind}/{hashlib.sha256(f'{kind} {secret}'.encode()).hexdigest()[:40]}"


def _derive(key: bytes, kind: str, secret: str) -> bytes:
    return hmac.digest(key, f"{kind}\0{secret}".encode(), "sha256")
