"""Tokens that leave us, come back, and are believed only if nobody touched them.

The state of a call that waits for an answer (``requestState``), the position in a list (``cursor``) and
session ids are sealed: encrypted, because they may carry a user's answers, and authenticated together with
what they are
*bound* to (who asks, which method, which arguments, which question), which is not inside. Every reason to
refuse one gives the same error. The construction and why it is not a dependency: ``docs/design/seal.md``.

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
"""Sealed tokens, and their characters, that the process which made them knows again without opening them."""
SHORTEST_KEY: Final = 16
"""Bytes that a secret to seal with has at least."""

Purpose = Literal["state", "cursor", "session", "dpop"]
"""What a token is for. A token of one purpose never opens as another: the keys differ."""

_VERSION: Final = "v2"
_NONCE: Final = 16
_HEAD: Final = _NONCE + 8
"""The nonce, and when the token expires."""
_TAG: Final = 32
_LATEST: Final = (1 << 64) - 1
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")

_NOTHING: Final = blake2b(b"{}", digest_size=32).digest()
"""The digest of no arguments."""
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_write_parts = msgspec.msgpack.Encoder().encode


class Key:
    """One secret, the name tokens call it by, and the keys derived from it."""

    __slots__ = ("_secret", "id")

    def __init__(self, secret: bytes | str) -> None:
        secret = secret.encode() if isinstance(secret, str) else bytes(secret)
        if len(secret) < SHORTEST_KEY:
            raise ValueError(f"a key needs at least {SHORTEST_KEY} bytes; use secrets.token_bytes(32)")
        self._secret = secret
        self.id = self._derive("name")[:6].hex()

    def for_purpose(self, purpose: str) -> tuple[bytes, bytes]:
        """The keys to encrypt and to authenticate with."""
        return self._derive(f"encrypt {purpose}"), self._derive(f"authenticate {purpose}")

    def _derive(self, label: str) -> bytes:
        return hmac.digest(self._secret, b"dovetail seal v2 " + label.encode(), "sha256")

    def __repr__(self) -> str:
        return f"Key({self.id})"


class Keys:
    """The key to seal with, and older ones that still open. Give all workers the same ones.

    To rotate: put the new secret first and keep the old one until everything sealed with it has expired.
    """

    __slots__ = ("_by_id", "current")

    def __init__(self, current: bytes | str, *older: bytes | str) -> None:
        self.current = Key(current)
        self._by_id = {key.id: key for key in (*map(Key, older), self.current)}

    @classmethod
    def random(cls) -> Keys:
        """Keys that live as long as this process: fine for one worker, useless for two."""
        return cls(os.urandom(32))

    def find(self, id: str) -> Key | None:
        return self._by_id.get(id)

    def __repr__(self) -> str:
        return f"Keys({', '.join(self._by_id)})"


class Expired(ProtocolError):
    """The token is ours and untouched, and was good once. Peers are told what they are told of any other."""


class Seal:
    """Seals and opens tokens of at most ``limit`` characters. The caller says what time it is.

    ``owner`` is the name of the server: another one with the same keys opens none of its tokens.
    """

    __slots__ = ("_keys_for", "_limit", "_own", "_owner", "keys")

    def __init__(self, keys: Keys, limit: int = Limits().max_request_state_bytes, *, owner: str = "") -> None:
        self.keys = keys
        self._limit = limit
        self._owner = f" of {owner}" if owner else ""
        # Derivations cost more than short payloads do.
        self._keys_for = functools.lru_cache(maxsize=SEAL_KEYS_KEPT)(Key.for_purpose)
        self._own: dict[str, tuple[str, bytes, int, bytes]] = {}
        """Short tokens that were made here and have not come back yet: they prove themselves."""

    def seal(self, purpose: Purpose, payload: bytes, *, expires: float, bound: bytes = b"") -> str:
        """Return the token for ``payload``, good until the time ``expires`` and for this ``bound`` alone.

        Raises:
            LocalProtocolError: the token would exceed the limit.
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
            if len(self._own) >= OWN_TOKENS_KEPT:
                self._own.clear()
            self._own[token] = (purpose, bound, moment, payload)
        return token

    def open(self, purpose: Purpose, token: str, *, now: float, bound: bytes = b"") -> bytes:
        """Return the payload of a token we sealed for this purpose and ``bound``.

        Raises:
            ProtocolError: (``invalid_request_state``) it is not ours, was changed, is bound to something else or has
                expired. What we sealed ourselves and has only expired is `Expired`.
        """
        own = self._own.pop(token, None)
        if own is not None and own[0] == purpose and own[1] == bound:
            if own[2] < now:
                raise Expired("invalid_request_state")
            return own[3]
        if len(token) > self._limit:
            _refuse()
        try:
            version, key_id, text = token.split(".")
            data = a2b_base64(text.encode("ascii").translate(_FROM_URL) + b"=" * (-len(text) % 4))
        except ValueError:  # and its subclass for what is no base64
            _refuse()
        key = self.keys.find(key_id)
        # One token, one spelling: padding bits and skipped characters would make others that open too.
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
    """What a token is bound to, as bytes that no other parts give. ``None`` and the empty string differ."""
    return _write_parts(parts)


def digest(value: Any) -> bytes:
    """A digest of JSON, the same whatever the order of keys and the white space. Absent is an empty object.

    Raises:
        RemoteProtocolError: (``invalid_params``) the raw bytes hold what no value can be made of.
    """
    try:
        if type(value) is Raw or type(value) is bytes:
            value = UNSET if bytes(value) == b"{}" else msgspec.json.decode(value)
        if value is UNSET:
            return _NOTHING
        return blake2b(_encode_sorted(value), digest_size=32).digest()
    except UNREADABLE:
        raise RemoteProtocolError("invalid_params", "the arguments cannot be read") from None


def _mask(data: bytes, key: bytes, nonce: bytes) -> bytes:
    """Encrypt or decrypt: exclusive or with the output of a keyed sponge."""
    stream = shake_256(key + nonce).digest(len(data))
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


def _tag(key: bytes, body: bytes, bound: bytes) -> bytes:
    # The length in front keeps a byte from moving between what is bound and what is sealed.
    return blake2b(len(bound).to_bytes(8, "big") + bound + body, key=key, digest_size=_TAG).digest()


def _text(data: bytes) -> str:
    return b2a_base64(data, newline=False).translate(_TO_URL).rstrip(b"=").decode()


def _refuse() -> NoReturn:
    raise ProtocolError("invalid_request_state") from None
