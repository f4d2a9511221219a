"""The first ten minutes of a newcomer: every command and edit is taken from docs/quickstart.md.

The whole way begins with the wheel, an empty folder and an empty home; ``-s`` prints the transcript.
"""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli.main import COMMANDS, main
from tests.inspector.browsing import chromium, open_page, picture
from tests.support.waiting import HANG, wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "quickstart.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def edited(text: str) -> str:
    """``text`` with the edit of the page."""
    [edit] = blocks("diff")
    before, after = edit.splitlines()
    assert text.count(before[1:]) == 1
    return text.replace(before[1:], after[1:])


class Newcomer:
    """A user at a terminal, with a working directory and a PATH without Dovetail."""

    def __init__(self, home: Path, wheel: Path) -> None:
        self.place, self._port = home, free_port()
        bin = home / "bin"
        bin.mkdir()
        (bin / "python").symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
        links = f"{wheel.parent} {os.environ.get('PIP_FIND_LINKS', '')}"  # where the name means this wheel
        self.environ = {name: value for name, value in os.environ.items() if name.startswith("PIP_")} | {
            "PATH": f"{bin}:/usr/bin:/bin", "HOME": str(home), "BROWSER": "true", "PIP_FIND_LINKS": links,
        }  # fmt: skip
        self.transcript: list[str] = []

    def _told(self, block: str) -> str:
        """The typed command, with a free port instead of the default one."""
        block = block.replace("127.0.0.1:8000", f"127.0.0.1:{self._port}")
        return block.replace("dovetail dev server.py", f"dovetail dev server.py --port {self._port}")

    def types(self, block: str) -> str:
        """Type the lines of a block one by one; none of them fails. The terminal stays as they leave it."""
        script = f'set -e\n{self._told(block)}pwd > "$HOME/place"\necho "$PATH" > "$HOME/path"\n'
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.place, env=self.environ, capture_output=True, text=True, timeout=400,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.transcript += [f"$ {line}" for line in self._told(block).splitlines()] + [done.stdout]
        assert done.returncode == 0, "\n".join([*self.transcript, done.stderr])
        home = Path(self.environ["HOME"])
        self.place = Path((home / "place").read_text().strip())
        self.environ["PATH"] = (home / "path").read_text().strip()
        return done.stdout

    @contextmanager
    def leaves_running(self, block: str) -> Iterator[Callable[[str], re.Match[str]]]:
        """Type a command that continues; what it says is waited for."""
        words = shlex.split(self._told(block))
        log = Path(self.environ["HOME"]) / "dev.log"
        with log.open("wb") as out:
            child = subprocess.Popen(words, cwd=self.place, env=self.environ, stdout=out, stderr=out)

        def hears(pattern: str) -> re.Match[str]:
            wait_until(lambda: child.poll() is not None or re.search(pattern, log.read_text()))
            found = re.search(pattern, log.read_text())
            assert found is not None, log.read_text()
            return found

        try:
            yield hears
        finally:
            child.terminate()
            child.wait(HANG)
            self.transcript += [f"$ {shlex.join(words)}", log.read_text()]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def looks_and_answers(page: Any, answer: str) -> None:
    """What the page says to do in the inspector."""
    for tool, values in (("add_note", {"title": "Tea", "text": "Green"}), ("delete_note", {"title": "Tea"})):
        page.click(f'.list li[data-key="{tool}"]')
        page.wait_for_selector(f'.list li[data-key="{tool}"][aria-selected="true"]')
        for name, value in values.items():
            page.locator(".editor-form").get_by_label(name).fill(value)
        page.get_by_role("button", name="Run", exact=True).click()
        if tool == "add_note":
            page.wait_for_selector(".runner .result >> text=notes are kept")
    page.wait_for_selector("dialog .question")
    picture(page, "answer")
    page.locator(".question select").select_option(label=answer)
    page.get_by_role("button", name="Accept").click()
    page.wait_for_selector("dialog", state="detached")
    page.wait_for_selector(".runner .result >> text=deleted")


@pytest.fixture
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    words = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=300)
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.slow
@pytest.mark.browser
def test_from_nothing_to_a_server_in_a_client(tmp_path: Path, wheel: Path) -> None:
    begun = time.monotonic()
    install, project, dev, calls, client, contract = blocks("console")
    you = Newcomer(tmp_path, wheel)
    you.types(install)
    assert "4 passed" in you.types(project)
    server = you.place / "server.py"
    with you.leaves_running(dev) as hears, chromium() as browser:
        page = open_page(browser, hears(r"inspector is at (\S+)")[1])
        page.wait_for_selector('.list li[data-key="add_note"]')
        server.write_text(edited(server.read_text()))
        hears("reloaded in")
        looks_and_answers(page, "yes")
        assert page.problems == []
        assert "1 notes are kept" in you.types(calls)
    said = you.types(client)
    assert "0 broken" in said
    assert "\n  my-notes\n" in said
    assert json.loads((tmp_path / ".cursor" / "mcp.json").read_text())["mcpServers"]
    assert "no changes" in you.types(contract)
    assert (you.place / "mcp.lock").is_file()
    took = time.monotonic() - begun
    print(*you.transcript, f"all of it took {took:.0f} s", sep="\n")
    assert took < 600


def test_the_short_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The same commands without an environment of their own, those that end at once."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    typed = [shlex.split(line) for block in blocks("console") for line in block.splitlines()]
    ours = [words[1:] for words in typed if words[0] == "dovetail"]
    assert {words[0] for words in ours} <= set(COMMANDS)
    assert [words[0] for words in ours[:2]] == ["new", "dev"]
    for words in ours:
        if words[0] in ("dev", "call"):
            continue  # they need a server that runs: the whole way
        assert main(words) == 0, words
        if words[0] == "new":
            monkeypatch.chdir(tmp_path / words[1])
            server = Path("server.py")
            server.write_text(edited(server.read_text()))
    assert json.loads((tmp_path / ".cursor" / "mcp.json").read_text())["mcpServers"]
    assert "no changes" in capsys.readouterr().out
