"""The storage of a program of SDK 1.x as the one our flows ask.

Theirs keeps the tokens of one server and who the client is there; ours keeps these by issuer. What theirs has no place
for (which issuer a secret was shown to) lives as long as the process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from .....auth.client.storage import Key, MemoryTokens
from .....auth.core.flow import Binding
from .....auth.core.registration import NONE, SECRET_BASIC, Identity, Registration
from .....auth.core.tokens import Tokens
from ...shared.auth import OAuthClientInformationFull, OAuthToken

_UNKNOWN: Final = ""
"""The issuer of tokens that were stored by somebody who did not write it down."""


class Kept:
    """Reads what the program's storage has, and writes through to it; ``context`` is told what is held."""

    def __init__(self, context: Any, identity: Identity, redirect_uri: str | None) -> None:
        self._context = context
        self._identity = identity
        self._redirect_uri = redirect_uri
        self._entries = MemoryTokens()
        self._dropped = False

    @property
    def unbound(self) -> bool:
        """Whether tokens of an unknown issuer are in use: they are good for requests, and for nothing else."""
        return self._unbound and not self._dropped

    _unbound = False

    def drop(self) -> None:
        """Use nothing more of what was stored before."""
        self._dropped = True
        self._entries = MemoryTokens()

    async def get(self, key: Key) -> bytes | None:
        found = await self._entries.get(key)
        if found is None and key[0] == "client":
            found = await self._registration(key[1])
        elif found is None and key[0] == "server" and not self._dropped:
            found = await self._binding(key[1])
        elif found is None and key[0] == "token" and not self._dropped:
            found = await self._tokens()
        return found

    async def _binding(self, url: str) -> bytes | None:
        tokens: OAuthToken | None = await self._context.storage.get_tokens()
        if tokens is None:
            return None
        info: OAuthClientInformationFull | None = await self._context.storage.get_client_info()
        self._context.current_tokens, self._context.client_info = tokens, info
        issuer = self._identity.issuer or (info.issuer if info is not None else None)
        self._unbound = issuer is None
        client = self._identity.client_id or (info.client_id if info is not None else None)
        return msgspec.json.encode(
            Binding(
                issuer=issuer or _UNKNOWN,
                client_id=client or "",
                resource=url,
                requested=tuple((tokens.scope or "").split()),
            )
        )

    async def _tokens(self) -> bytes | None:
        found: OAuthToken | None = await self._context.storage.get_tokens()
        if found is None:
            return None
        # When they were stored is not known, so neither is when they end: the server will say so.
        return msgspec.json.encode(Tokens(access_token=found.access_token, refresh_token=found.refresh_token))

    async def _registration(self, issuer: str) -> bytes | None:
        info: OAuthClientInformationFull | None = await self._context.storage.get_client_info()
        if info is None or info.client_id is None or info.issuer not in (None, issuer):
            return None
        self._context.client_info = info
        by_secret = SECRET_BASIC if info.client_secret else NONE
        return msgspec.json.encode(
            Registration(
                issuer=issuer,
                client_id=info.client_id,
                client_secret=info.client_secret,
                method=info.token_endpoint_auth_method or by_secret,
                redirect_uri=self._redirect_uri,
                secret_expires_at=info.client_secret_expires_at or 0,
            )
        )

    async def put(self, key: Key, value: bytes) -> None:
        await self._entries.put(key, value)
        if key[0] == "token":
            await self._put_tokens(msgspec.json.decode(value, type=Tokens))
        elif key[0] == "client":
            await self._put_registration(msgspec.json.decode(value, type=Registration))

    async def _put_tokens(self, made: Tokens) -> None:
        tokens = self._context.current_tokens = OAuthToken(
            access_token=made.access_token,
            expires_in=int(made.lifetime) or None,
            scope=None if made.scopes is None else " ".join(made.scopes),
            refresh_token=made.refresh_token,
        )
        await self._context.storage.set_tokens(tokens)

    async def _put_registration(self, made: Registration) -> None:
        said = self._context.client_metadata.model_dump(exclude={"token_endpoint_auth_method"})
        info = self._context.client_info = OAuthClientInformationFull(
            **said,
            token_endpoint_auth_method=made.method,
            client_id=made.client_id,
            client_secret=made.client_secret,
            client_secret_expires_at=int(made.secret_expires_at) or None,
            issuer=made.issuer,
        )
        await self._context.storage.set_client_info(info)

    async def delete(self, key: Key) -> None:
        await self._entries.delete(key)

    @asynccontextmanager
    async def lock(self, key: Key) -> AsyncGenerator[None]:
        async with self._entries.lock(key):
            yield
