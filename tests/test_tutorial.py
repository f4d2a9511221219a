"""The tutorial as a reader follows it: files are written, edits are made, commands and prompts are run."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"^```(python|console|diff|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVED = "127.0.0.1:8000"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder; the command of Dovetail is on the path."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def run(words: list[str], folder: Path, typed: str = "") -> str:
    """Run a command to its end and return its output; it must not fail."""
    done = subprocess.run(
        words, cwd=folder, input=typed, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, f"{typed}\n{done.stderr}"
    assert "SyntaxError" not in done.stderr, f"{typed}\n{done.stderr}"
    return done.stdout


def edit(file: Path, block: str) -> None:
    """Apply an edit to a text that occurs once."""
    removed = "".join(line[1:] for line in block.splitlines(keepends=True) if line[0] == "-")
    added = "".join(line[1:] for line in block.splitlines(keepends=True) if line[0] == "+")
    text = file.read_text()
    assert text.count(removed) == 1, removed
    file.write_text(text.replace(removed, added))


def test_every_step_of_the_tutorial_works(folder: Path) -> None:
    tracker, prompts, edits = folder / "tracker.py", 0, 0
    tracker.touch()
    printed = ""
    for language, block in BLOCK.findall(PAGE):
        if language == "json":
            assert json.loads(printed) == json.loads(block)
        elif language == "diff":
            edit(tracker, block)
            edits += 1
        elif language == "console":
            for line in block.splitlines():
                if line.startswith("dovetail call tracker.py"):
                    printed = run(shlex.split(line), folder)
        elif "def test_" in block:
            (folder / "test_tracker.py").write_text(block)
        elif "sys.argv" in block:
            (folder / "watch.py").write_text(block)
        elif "from tracker import" in block:
            run([sys.executable, "-m", "asyncio"], folder, block + "\n")
            prompts += 1
        else:
            tracker.write_text(f"{tracker.read_text()}\n\n{block}".lstrip())
    assert (prompts, edits) == (6, 4)
    assert "5 passed" in run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider"], folder)
    serve_and_watch(folder)


def serve_and_watch(folder: Path) -> None:
    """The step with three terminals, on a port that is free on this machine."""
    [serve] = re.findall(r"^dovetail run tracker.py .*$", PAGE, re.MULTILINE)
    [watch] = re.findall(r"^python watch.py .*$", PAGE, re.MULTILINE)
    [call] = re.findall(rf"^dovetail call http://{SERVED}.*$", PAGE, re.MULTILINE)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    server = subprocess.Popen(
        [*shlex.split(serve), "--port", port], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    watcher = None
    try:
        assert server.stderr is not None
        assert any("serving on" in line for line in server.stderr)
        words = shlex.split(watch.replace(SERVED, f"127.0.0.1:{port}"))
        watcher = subprocess.Popen(
            [sys.executable, *words[1:]], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "watching\n"
        run(shlex.split(call.replace(SERVED, f"127.0.0.1:{port}")), folder)
        assert f"`{watcher.stdout.readline().strip()}`" in PAGE
    finally:
        for child in (watcher, server):
            if child is not None:
                child.terminate()
                child.communicate()
