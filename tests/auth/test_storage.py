"""Where tokens are kept: every store keeps the same promises, and files keep them to their owner."""

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail.auth import KeyringStore, MemoryTokens, TokenStorage, TokenStore

KEY = ("token", "https://id.example", "client", "https://server.example/mcp")


class Ring:
    """A separate keyring, with the three methods that the package `keyring` needs of a backend."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.entries.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.entries[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.entries[service, name]


STORES: dict[str, Callable[[Path], TokenStorage]] = {
    "files": TokenStore,
    "memory": lambda _: MemoryTokens(),
    "keyring": lambda _: KeyringStore(backend=Ring()),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenStorage:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return STORES[request.param](tmp_path)


def test_what_was_put_is_there_until_it_is_deleted(store: TokenStorage) -> None:
    async def test() -> None:
        assert await store.get(KEY) is None
        await store.put(KEY, b'{"a":1}')
        await store.put(KEY, b'{"a":2}')
        assert await store.get(KEY) == b'{"a":2}'
        assert await store.get((*KEY, "another")) is None
        await store.delete(KEY)
        await store.delete(KEY)
        assert await store.get(KEY) is None

    asyncio.run(test())


def test_every_store_is_one_by_protocol(store: TokenStorage) -> None:
    assert isinstance(store, TokenStorage)


def test_two_who_share_the_files_take_turns(tmp_path: Path) -> None:
    async def test() -> None:
        first, second = TokenStore(tmp_path), TokenStore(tmp_path)
        order: list[str] = []
        inside, leave = asyncio.Event(), asyncio.Event()

        async def one() -> None:
            async with first.lock(KEY):
                inside.set()
                await leave.wait()
                order.append("first")

        async def other() -> None:
            await inside.wait()
            async with second.lock(KEY):
                order.append("second")

        tasks = [asyncio.create_task(one()), asyncio.create_task(other())]
        await inside.wait()
        async with second.lock(("another",)):
            order.append("not held up")
        leave.set()
        await asyncio.gather(*tasks)
        assert order == ["not held up", "first", "second"]

    asyncio.run(test())


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files")
def test_files_and_their_folder_are_their_owners_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = TokenStore(tmp_path / "a" / "b")
        asyncio.run(store.put(KEY, b"1"))
    finally:
        os.umask(before)
    (file,) = store.folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("spoilt", [b"", b"{", b'{"key": ["x"], "value": 1}', b"\xff"])
def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path, spoilt: bytes) -> None:
    store = TokenStore(tmp_path)
    asyncio.run(store.put(KEY, b"1"))
    (file,) = tmp_path.iterdir()
    file.write_bytes(spoilt)
    assert asyncio.run(store.get(KEY)) is None


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TokenStore(tmp_path)
    asyncio.run(store.put(KEY, b"1"))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        asyncio.run(store.put(KEY, b"2"))
    assert asyncio.run(store.get(KEY)) == b"1"
    assert len(list(tmp_path.iterdir())) == 1


def test_the_folder_follows_the_users_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert TokenStore().folder == tmp_path / "dovetail" / "tokens"


BACKEND = """
import json, os, pathlib
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

class InOneFile(KeyringBackend):
    priority = 1
    path = pathlib.Path(os.environ["RING"])

    def _read(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def get_password(self, service, username):
        return self._read().get(f"{service}|{username}")

    def set_password(self, service, username, password):
        self.path.write_text(json.dumps({**self._read(), f"{service}|{username}": password}))

    def delete_password(self, service, username):
        kept = self._read()
        if kept.pop(f"{service}|{username}", None) is None:
            raise PasswordDeleteError(username)
        self.path.write_text(json.dumps(kept))
"""
USE = """
import asyncio, sys
from dovetail.auth import KeyringStore

async def main():
    store, key = KeyringStore(), ("token", "https://id.example", "client", "https://server.example/mcp")
    async with store.lock(key):
        print((await store.get(key) or b"none").decode())
        if sys.argv[1] == "put":
            await store.put(key, b'{"access_token":"t"}')
        elif sys.argv[1] == "delete":
            await store.delete(key)
            await store.delete(key)

asyncio.run(main())
"""


def test_the_keyring_of_the_system_keeps_tokens_between_programs(tmp_path: Path) -> None:
    """The package `keyring` itself, with a backend set in its configuration, as users set it."""
    (tmp_path / "ringed.py").write_text(BACKEND)
    environment = {
        **os.environ,
        "PYTHON_KEYRING_BACKEND": "ringed.InOneFile",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
        "RING": str(tmp_path / "ring.json"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    said: list[str] = []
    for word in ("put", "get", "delete", "get"):
        found = subprocess.run(
            [sys.executable, "-c", USE, word], env=environment, capture_output=True, timeout=60, check=False
        )
        assert found.returncode == 0, found.stderr.decode()
        said.append(found.stdout.decode().strip())
    assert said == ["none", '{"access_token":"t"}', '{"access_token":"t"}', "none"]
