"""Token storage: files of the user, the system keyring, memory, or a custom store.

Entries are bytes under keys of several strings, such as ``("token", issuer, client, resource)``.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from ...extras import missing
from ...settings import check_kinds
from ...settings.parameter_kinds import PATH, TEXT, Kind, or_none
from ..core.auth_errors import AuthError
from ..core.steps import Quiet

STORE_LOCK_POLL: Final = 0.05
"""Polling interval in seconds while another process renews a token."""


Key = tuple[str, ...]
_NO_LINK = 0 if sys.platform == "win32" else os.O_NOFOLLOW
_NO_WAIT = 0 if sys.platform == "win32" else os.O_NONBLOCK


@runtime_checkable
class TokenStorage(Protocol):
    """A token store. Its content is secret."""

    async def get(self, key: Key) -> bytes | None: ...

    async def put(self, key: Key, value: bytes) -> None:
        """Replace the entry atomically: a partly written refresh token is lost."""
        ...

    async def delete(self, key: Key) -> None:
        """Remove the entry, if it exists."""
        ...

    def lock(self, key: Key) -> AbstractAsyncContextManager[None]:
        """Lock a renewal across processes that share the store; within one process it is locked already."""
        ...


class _Entry(Quiet, frozen=True):
    key: Key
    value: msgspec.Raw


def data_directory() -> Path:
    """Return the folder of tokens: ``$XDG_DATA_HOME/dovetail``, or the system's folder for user data."""
    given = os.environ.get("XDG_DATA_HOME")
    if given:
        return Path(given) / "dovetail"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "dovetail"
    return Path.home() / ".local" / "share" / "dovetail"


STORAGE: Final[Kind] = (TokenStorage | None, "an object with the methods of TokenStorage, or None")


class TokenStore:
    """Tokens in files that only their owner may read, one per entry.

    They are in ``folder``, by default below the user's data directory.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        """Set the folder.

        Args:
            folder: The folder of the files; by default ``dovetail`` below ``$XDG_DATA_HOME``.
        """
        check_kinds(
            {
                "folder": or_none(PATH),
            },
            locals(),
        )
        self._given = None if folder is None else Path(folder)

    @property
    def folder(self) -> Path:
        return self._given or data_directory() / "tokens"

    def has(self, key: Key) -> bool:
        """Return whether the entry exists, without blocking."""
        return self._path(key).exists()

    async def get(self, key: Key) -> bytes | None:
        return await asyncio.to_thread(self._get, key)

    async def put(self, key: Key, value: bytes) -> None:
        await asyncio.to_thread(self._put, key, value)

    async def delete(self, key: Key) -> None:
        await asyncio.to_thread(self._delete, key)

    @asynccontextmanager
    async def lock(self, key: Key) -> AsyncGenerator[None]:
        if sys.platform == "win32":
            yield
            return
        import fcntl

        self._prepare()
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW
        handle = os.open(self._path(key).with_suffix(".lock"), flags, 0o600)
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:  # another process renews or logs in
                    await asyncio.sleep(STORE_LOCK_POLL)
            yield
        finally:
            os.close(handle)

    def _path(self, key: Key) -> Path:
        name = hashlib.sha256(msgspec.json.encode(key)).hexdigest()[:40]
        return self.folder / f"{name}.json"

    def _prepare(self) -> None:
        """Create the folder with private permissions.

        Raises:
            AuthError: it belongs to another user.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if sys.platform == "win32":
            return
        found = self.folder.stat()
        if not _is_ours(found):
            raise AuthError(f"the token folder {self.folder} belongs to another user", fault="client")
        if found.st_mode & 0o077:
            self.folder.chmod(0o700)

    def _get(self, key: Key) -> bytes | None:
        try:
            # Another user with earlier write access may have left a link or a blocking pipe.
            handle = os.open(self._path(key), os.O_RDONLY | _NO_LINK | _NO_WAIT)
            with os.fdopen(handle, "rb") as file:
                found = os.fstat(handle)
                data = file.read() if _is_ours(found) and stat.S_ISREG(found.st_mode) else b""
            entry = msgspec.json.decode(data, type=_Entry)
        except (OSError, msgspec.MsgspecError):
            return None
        return bytes(entry.value) if entry.key == key else None

    def _put(self, key: Key, value: bytes) -> None:
        self._prepare()
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=".new-")  # created with mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.encode(_Entry(key, msgspec.Raw(value))))
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self._path(key))
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def _delete(self, key: Key) -> None:
        self._path(key).unlink(missing_ok=True)


class MemoryTokens:
    """Tokens in memory, lost when the process ends."""

    def __init__(self) -> None:
        self._entries: dict[Key, bytes] = {}

    async def get(self, key: Key) -> bytes | None:
        return self._entries.get(key)

    async def put(self, key: Key, value: bytes) -> None:
        self._entries[key] = value

    async def delete(self, key: Key) -> None:
        self._entries.pop(key, None)

    @asynccontextmanager
    async def lock(self, key: Key) -> AsyncGenerator[None]:
        yield


class KeyringStore:
    """Tokens in the system keyring (extra ``keyring``)."""

    def __init__(self, service: str = "dovetail", *, backend: Any = None) -> None:
        """Set the keyring.

        Args:
            service: The name under which entries are stored.
            backend: The keyring backend; by default that of the system.
        """
        check_kinds(
            {
                "service": TEXT,
            },
            locals(),
        )
        self._service = service
        if backend is None:
            try:
                import keyring
            except ModuleNotFoundError:
                raise missing("keyring", "KeyringStore") from None
            backend = keyring.get_keyring()
        self._keyring = backend
        self._files = TokenStore()

    async def get(self, key: Key) -> bytes | None:
        found: str | None = await asyncio.to_thread(self._keyring.get_password, self._service, _name(key))
        return None if found is None else found.encode()

    async def put(self, key: Key, value: bytes) -> None:
        await asyncio.to_thread(self._keyring.set_password, self._service, _name(key), value.decode())

    async def delete(self, key: Key) -> None:
        if await self.get(key) is not None:
            await asyncio.to_thread(self._keyring.delete_password, self._service, _name(key))

    def lock(self, key: Key) -> AbstractAsyncContextManager[None]:
        return self._files.lock(("keyring", self._service, *key))


def _is_ours(found: os.stat_result) -> bool:
    """Return whether this user owns the file. Root accepts any owner: volumes of containers differ."""
    return sys.platform == "win32" or os.geteuid() in (0, found.st_uid)


def _name(key: Key) -> str:
    return msgspec.json.encode(key).decode()
