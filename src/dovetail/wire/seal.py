"""Sealed tokens: encrypted and authenticated values that a client stores and sends back unchanged.

The state of a call that waits for input (``requestState``), the position in a list (``cursor``) and session
ids are sealed. They are encrypted, because they may contain user input. They are authenticated together with
what they are *bound* to (principal, method, arguments), which is not part of the token. Every refusal has the
same error, whatever the reason. The construction, and why it is not a dependency: ``docs/design/seal.md``.

    seal = Seal(Keys(secret))
    token = seal.seal("state", payload, expires=now + 600, bound=bind(principal, method, digest(arguments)))
    payload = seal.open("state", token, now=now, bound=bind(principal, method, digest(arguments)))
"""

from __future__ import annotations

import functools
import hmac
import os
from binascii import a2b_base64, b2a_base64
from hashlib import blake2b, shake_256
from typing import Any, Final, Literal, NoReturn

import msgspec
from msgspec import UNSET, Raw

from ..errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from ..settings import Limits
from .frames import UNREADABLE

SEAL_KEYS_KEPT: Final = 64
"""Derived keys that are cached."""


OWN_TOKENS_KEPT: Final = 1024
OWN_TOKEN_LENGTH: Final = 1024
"""Number and length of recently sealed tokens that this process accepts without decrypting them."""
MIN_KEY_BYTES: Final = 16
"""Minimum length of a sealing key in bytes."""

Purpose = Literal["state", "cursor", "session", "dpop", "upload"]
"""The purpose of a token. A token of one purpose cannot be opened for another: their keys differ."""

_VERSION: Final = "v2"
_NONCE: Final = 16
_HEAD: Final = _NONCE + 8
"""Length of the nonce and the expiry time."""
_TAG: Final = 32
_LATEST: Final = (1 << 64) - 1
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")

_NOTHING: Final = blake2b(b"{}", digest_size=32).digest()
"""The digest of empty arguments."""
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_write_parts = msgspec.msgpack.Encoder().encode


class Key:
    """One secret, its id in tokens, and the keys derived from it."""

    __slots__ = ("_secret", "id")

    def __init__(self, secret: bytes | str) -> None:
        secret = secret.encode() if isinstance(secret, str) else bytes(secret)
        if len(secret) < MIN_KEY_BYTES:
            raise ValueError(
                f"a sealing key needs at least {MIN_KEY_BYTES} bytes; create one with secrets.token_bytes(32)"
            )
        self._secret = secret
        self.id = self._derive("name")[:6].hex()

    def for_purpose(self, purpose: str) -> tuple[bytes, bytes]:
        """Return the keys for encryption and authentication."""
        return self._derive(f"encrypt {purpose}"), self._derive(f"authenticate {purpose}")

    def _derive(self, label: str) -> bytes:
        return hmac.digest(self._secret, b"dovetail seal v2 " + label.encode(), "sha256")

    def __repr__(self) -> str:
        return f"Key({self.id})"


class Keys:
    """The key that seals, and older keys that only open. All workers must use the same keys.

    To rotate: put the new secret first, and keep the old one until everything sealed with it has expired.
    """

    __slots__ = ("_by_id", "current")

    def __init__(self, current: bytes | str, *older: bytes | str) -> None:
        self.current = Key(current)
        self._by_id = {key.id: key for key in (*map(Key, older), self.current)}

    @classmethod
    def random(cls) -> Keys:
        """Create keys that last as long as this process: for one worker only."""
        return cls(os.urandom(32))

    def find(self, id: str) -> Key | None:
        return self._by_id.get(id)

    def __repr__(self) -> str:
        return f"Keys({', '.join(self._by_id)})"


class Expired(ProtocolError):
    """A valid token of this server that has expired. Peers get the same error as for other invalid tokens."""


class Seal:
    """Seals and opens tokens of at most ``limit`` characters. The caller passes the current time.

    ``owner`` is the name of the server. Another server with the same keys cannot open its tokens.
    """

    __slots__ = ("_keys_for", "_limit", "_owner", "_recent", "keys")

    def __init__(self, keys: Keys, limit: int = Limits().max_request_state_bytes, *, owner: str = "") -> None:
        self.keys = keys
        self._limit = limit
        self._owner = f" of {owner}" if owner else ""
        # Key derivation costs more than sealing a short payload.
        self._keys_for = functools.lru_cache(maxsize=SEAL_KEYS_KEPT)(Key.for_purpose)
        self._recent: dict[str, tuple[str, bytes, int, bytes]] = {}
        """Short tokens that this process sealed and that were not used yet. They need no decryption."""

    def seal(self, purpose: Purpose, payload: bytes, *, expires: float, bound: bytes = b"") -> str:
        """Seal ``payload`` in a token that is valid until ``expires`` and for this ``bound`` only.

        Raises:
            LocalProtocolError: the token exceeds the limit.
        """
        key = self.keys.current
        encryption, authentication = self._keys_for(key, purpose + self._owner)
        nonce = os.urandom(_NONCE)
        moment = int(expires if 0 <= expires <= _LATEST else max(0, min(expires, _LATEST)))
        body = nonce + moment.to_bytes(8, "big") + _mask(payload, encryption, nonce)
        token = f"{_VERSION}.{key.id}.{_text(body + _tag(authentication, body, bound))}"
        if len(token) > self._limit:
            raise LocalProtocolError("internal_error", f"the sealed {purpose} exceeds {self._limit} bytes")
        if len(token) <= OWN_TOKEN_LENGTH:
            if len(self._recent) >= OWN_TOKENS_KEPT:
                self._recent.clear()
            self._recent[token] = (purpose, bound, moment, payload)
        return token

    def open(self, purpose: Purpose, token: str, *, now: float, bound: bytes = b"") -> bytes:
        """Return the payload of a token that was sealed for this purpose and ``bound``.

        Raises:
            ProtocolError: (``invalid_request_state``) it was not sealed with these keys, was changed, is
                bound to something else or has expired. If it has only expired, the error is `Expired`.
        """
        own = self._recent.pop(token, None)
        if own is not None and own[0] == purpose and own[1] == bound:
            if own[2] < now:
                raise Expired("invalid_request_state")
            return own[3]
        if len(token) > self._limit:
            _refuse()
        try:
            version, key_id, text = token.split(".")
            data = a2b_base64(text.encode("ascii").translate(_FROM_URL) + b"=" * (-len(text) % 4))
        except ValueError:  # includes the subclass for invalid base64
            _refuse()
        key = self.keys.find(key_id)
        # Accept only the canonical encoding: padding bits and skipped characters would allow several.
        if key is None or version != _VERSION or len(data) < _HEAD + _TAG or _text(data) != text:
            _refuse()
        body = data[:-_TAG]
        encryption, authentication = self._keys_for(key, purpose + self._owner)
        if not hmac.compare_digest(data[-_TAG:], _tag(authentication, body, bound)):
            _refuse()
        if int.from_bytes(body[_NONCE:_HEAD], "big") < now:
            raise Expired("invalid_request_state")
        return _mask(body[_HEAD:], encryption, body[:_NONCE])


def bind(*parts: bytes | str | None) -> bytes:
    """Encode what a token is bound to, unambiguously. ``None`` and the empty string differ."""
    return _write_parts(parts)


def digest(value: Any) -> bytes:
    """Digest JSON, independent of key order and white space. Absent arguments equal an empty object.

    Raises:
        RemoteProtocolError: (``invalid_params``) the raw bytes cannot be decoded.
    """
    try:
        if type(value) is Raw or type(value) is bytes:
            value = UNSET if bytes(value) == b"{}" else msgspec.json.decode(value)
        if value is UNSET:
            return _NOTHING
        return blake2b(_encode_sorted(value), digest_size=32).digest()
    except UNREADABLE:
        raise RemoteProtocolError("invalid_params", "the arguments cannot be decoded") from None


def _mask(data: bytes, key: bytes, nonce: bytes) -> bytes:
    """Encrypt or decrypt: XOR with the output of a keyed hash."""
    stream = shake_256(key + nonce).digest(len(data))
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


def _tag(key: bytes, body: bytes, bound: bytes) -> bytes:
    # The length prefix prevents moving a byte between bound and sealed data.
    return blake2b(len(bound).to_bytes(8, "big") + bound + body, key=key, digest_size=_TAG).digest()


def _text(data: bytes) -> str:
    return b2a_base64(data, newline=False).translate(_TO_URL).rstrip(b"=").decode()


def _refuse() -> NoReturn:
    raise ProtocolError("invalid_request_state") from None
