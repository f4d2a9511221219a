"""The first ten minutes of somebody who has only the docs: each step is a command they name."""

import json
import os
import pty
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOVETAIL = [sys.executable, "-m", "dovetail.cli.main"]


class Newcomer:
    """An empty home, and what is typed there."""

    def __init__(self, home: Path) -> None:
        self.folder = home
        self.environ = {**os.environ, "HOME": str(home), "NO_COLOR": "1"}
        self.environ.pop("XDG_CONFIG_HOME", None)

    def types(self, *words: str, status: int = 0) -> str:
        command = words[1:] if words[0] == "python" else words
        done = subprocess.run(
            [sys.executable, *command] if words[0] == "python" else [*DOVETAIL, *command],
            cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def answers(self, answer: str, *words: str) -> str:
        """Type a command at a terminal, and ``answer`` to what it asks."""
        main, end = pty.openpty()
        child = subprocess.Popen(
            [*DOVETAIL, *words], cwd=self.folder, env=self.environ, stdin=end, stdout=end, stderr=end
        )
        os.close(end)
        shown = b""
        try:
            while data := os.read(main, 65536):
                shown += data
                if b"Delete the note" in shown and answer:
                    os.write(main, answer.encode() + b"\n")
                    answer = ""
        except OSError:
            pass  # so Linux says that the other end is closed
        os.close(main)
        assert child.wait(30) == 0, shown.decode()
        return shown.decode()

    @contextmanager
    def leaves_running(self, *words: str) -> Iterator[None]:
        child = subprocess.Popen(
            [*DOVETAIL, *words], cwd=self.folder, env=self.environ, stderr=subprocess.DEVNULL
        )
        try:
            yield
        finally:
            child.terminate()
            child.wait(30)


def within(seconds: float, look: Callable[[], Any]) -> Any:
    """What ``look`` finds, once it finds something."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "it took too long"
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.mark.slow
def test_from_nothing_to_a_server_in_a_client(tmp_path: Path) -> None:
    you = Newcomer(tmp_path)
    assert "is ready" in you.types("new", "my-notes")
    you.folder = tmp_path / "my-notes"
    assert "4 passed" in you.types("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"

    def tools() -> str:
        done = subprocess.run(
            [*DOVETAIL, "list", url], env=you.environ, capture_output=True, text=True, check=False
        )
        return done.stdout if done.returncode == 0 else ""

    with you.leaves_running("dev", "server.py", "--port", str(port), "--no-browser"):
        assert "add_note(title, text)" in within(60, tools)
        server = you.folder / "server.py"
        edited = server.read_text().replace(
            "async def find_notes(word: str)", "async def search_notes(word: str)"
        )
        server.write_text(edited)
        within(60, lambda: "search_notes(word)" in tools())
        assert "1 notes" in you.types("call", url, "add_note", "title=Tea", "text=Green")
        assert json.loads(you.types("call", url, "search_notes", "word=green", "--json"))["content"]
        assert "deleted" in you.answers("yes", "call", url, "delete_note", "title=Tea")
    assert "0 broken" in you.types("doctor", "server.py")
    you.types("install", "server.py", "--into", "cursor", "--name", "my-notes")
    assert "my-notes" in json.loads((tmp_path / ".cursor" / "mcp.json").read_text())["mcpServers"]
    assert "my-notes" in you.types("discover")
    assert "written" in you.types("lock", "server.py")
    server.write_text(edited.replace("word: str) -> list", "word: str, limit: int) -> list"))
    assert "input.limit: is required now" in you.types("diff", "mcp.lock", "server.py", status=1)


def test_the_docs_name_every_step() -> None:
    told = (ROOT / "docs" / "cli.md").read_text() + (ROOT / "docs" / "install.md").read_text()
    for command in ("new", "dev", "call", "inspect", "doctor", "install", "lock", "discover"):
        assert f"dovetail {command} " in told or f"dovetail {command}\n" in told
