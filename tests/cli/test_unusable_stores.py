"""A store that cannot be used: one line that says which and why, and status 1, before anything is served."""

import os
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.errors import DovetailError
from dovetail.stores import RedisStore
from tests.support.process import CLI
from tests.support.redis import free_port

SERVER = 'from dovetail import Server\nserver = Server("small")\n'
HTTP = ("--http", "--workers", "2", "--port")


def newer(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        connection.execute("create table entries (name)")
        connection.execute(f"pragma application_id = {0x444F5645}")
        connection.execute("pragma user_version = 99")
    connection.close()
    return "newer version"


def something_else(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        connection.execute("create table mine (name)")
    connection.close()
    return "another application"


def damaged(path: Path) -> str:
    something_else(path)
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 300)
    return "damaged"


def no_database(path: Path) -> str:
    path.write_text("Dear diary, " * 100)
    return "restore it from a backup (file is not a database)"


def a_folder(path: Path) -> str:
    path.mkdir()
    return "unable to open database file"


UNUSABLE = (newer, something_else, damaged, no_database, a_folder)


def refused(
    folder: Path, *words: str, command: str = "run", env: dict[str, str] | None = None, status: int = 1
) -> str:
    """The one line that is said."""
    file = folder / "small.py"
    file.write_text(SERVER)
    done = subprocess.run(
        [*CLI, command, str(file), *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=120,
        env={**os.environ, **(env or {})},
    )  # fmt: skip
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, len(lines), done.stdout) == (status, 1, b""), done.stderr.decode()
    assert lines[0].startswith(f"dovetail {command}: ")
    return lines[0]


@pytest.mark.parametrize("make", UNUSABLE)
def test_several_workers_say_once_why_their_store_cannot_be_used(
    tmp_path: Path, make: Callable[[Path], str]
) -> None:
    path = tmp_path / "state.db"
    reason = make(path)
    said = refused(tmp_path, *HTTP, str(free_port()), "--store", str(path))
    assert reason in said
    assert str(path) in said


def test_a_folder_that_takes_no_files_is_named_once(tmp_path: Path) -> None:
    said = refused(tmp_path, *HTTP, str(free_port()), "--store", "/proc/state.db")
    assert "'/proc/state.db'" in said
    assert "unable to open" in said


def test_an_unresponsive_redis_is_reported_once_without_its_password(tmp_path: Path) -> None:
    port = free_port()
    url = f"redis://user:hush@127.0.0.1:{port}/0"
    said = refused(tmp_path, *HTTP, str(free_port()), "--store", url)
    assert str(port) in said
    assert "cannot be reached" in said
    assert "hush" not in said


@pytest.mark.parametrize("way", ["stdio", "http", "tcp", "unix", "worker"])
def test_the_same_is_said_of_every_way_to_serve_and_nothing_of_serving(tmp_path: Path, way: str) -> None:
    path = tmp_path / "state.db"
    newer(path)
    words = {
        "stdio": (), "http": ("--http", "--port", "0"), "tcp": ("--tcp", "127.0.0.1:0"),
        "unix": ("--unix", str(tmp_path / "socket")), "worker": (),
    }[way]  # fmt: skip
    command = "worker" if way == "worker" else "run"
    assert "newer version" in refused(tmp_path, *words, "--store", str(path), command=command)


WRONG = (
    "redis://127.0.0.1:abc/0", "redis://127.0.0.1:6379/zero", "redis+sentinel://127.0.0.1:xx/main/0",
    "redis+sentinel://127.0.0.1/main/zero", "redis+cluster://127.0.0.1:7000,127.0.0.1:x", "redis+other://x",
)  # fmt: skip


@pytest.mark.parametrize("url", WRONG)
def test_a_url_of_redis_that_is_none_is_refused_before_anything_is_opened(url: str) -> None:
    with pytest.raises(DovetailError, match="store"):
        RedisStore(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost", "redis://localhost:6379/", "rediss://user:se:cret@h:1/2?ssl_cert_reqs=none",
        "redis+sentinel://a:1,b/main", "redis+cluster://[::1]:7000,b", "unix:///run/redis.sock",
    ],
)  # fmt: skip
def test_urls_of_redis_that_are_well(url: str) -> None:
    assert RedisStore(url).url == url


def test_a_wrong_url_in_the_environment_is_no_fault_of_the_file(tmp_path: Path) -> None:
    said = refused(
        tmp_path, *HTTP, str(free_port()), env={"DOVETAIL_STORE": "redis://127.0.0.1:abc/0"}, status=2
    )
    assert said == "dovetail run: not a valid Redis store URL; use redis://HOST:PORT/DB"
