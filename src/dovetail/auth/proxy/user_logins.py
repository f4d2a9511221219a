"""The logins of each user, of limited number, and the latest one for background work."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from .login_records import Login, Reference, UserLogins
from .sealed_records import SealedRecords

LOGINS_OF_USER: Final = 32
"""Logins of one user; beyond that, the least recently used one ends."""
REFRESH_SECONDS: Final = 30 * 86400.0
"""Seconds after its last use at which a login ends."""


class Users:
    """The users of one proxy, in its vault."""

    def __init__(self, vault: SealedRecords) -> None:
        self._vault = vault

    async def used(self, id: str, login: Login) -> list[str]:
        """Record that a login was created or renewed. Return logins beyond the limit."""
        mine = Reference(id, digest_of(login.client_id))
        while True:
            over: list[str] = []

            def move(held: UserLogins, over: list[str] = over) -> UserLogins:
                logins = (*(one for one in held.logins if one.login != id), mine)
                over[:] = [one.login for one in logins[:-LOGINS_OF_USER]]
                return UserLogins(logins[-LOGINS_OF_USER:])

            key = _key(login.issuer, login.subject)
            if await self._vault.change("user", key, UserLogins, move, REFRESH_SECONDS) is not None:
                return over
            if await self._vault.put("user", key, UserLogins((mine,)), REFRESH_SECONDS, only_new=True):
                return []

    async def ended(self, id: str, login: Login) -> None:
        """Record that a login has ended."""
        key = _key(login.issuer, login.subject)
        left = await self._vault.change(
            "user",
            key,
            UserLogins,
            lambda held: UserLogins(tuple(one for one in held.logins if one.login != id)),
            REFRESH_SECONDS,
        )
        if left is not None and not left.logins:
            # A concurrent login may be missing in the list; it is valid nevertheless.
            await self._vault.delete("user", key)

    async def last(self, issuer: str, subject: str, client_id: str) -> str | None:
        """Return the most recently used login of a user with a client."""
        held = await self._vault.get("user", _key(issuer, subject), UserLogins)
        client = digest_of(client_id)
        logins = [] if held is None else [one.login for one in held.logins if one.client == client]
        return logins[-1] if logins else None


def _key(issuer: str, subject: str) -> str:
    return digest_of(issuer, subject)


def digest_of(*parts: str) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
