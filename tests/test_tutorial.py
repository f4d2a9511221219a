"""The tutorial as a reader follows it: what belongs into files stands there, the rest is typed at a prompt."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVED = "127.0.0.1:8000"


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, and our command on the path."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def types(words: list[str], folder: Path, typed: str = "") -> str:
    """Run a command to its end; it must not complain."""
    done = subprocess.run(
        words, cwd=folder, input=typed, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, f"{typed}\n{done.stderr}"
    assert "SyntaxError" not in done.stderr, f"{typed}\n{done.stderr}"
    return done.stdout


def at_the_prompt(block: str, folder: Path) -> None:
    """``python -m asyncio`` says what went wrong, and continues."""
    types([sys.executable, "-m", "asyncio"], folder, block + "\n")


def test_every_step_works_as_it_is_told(reader: Path) -> None:
    desk, prompts = reader / "desk.py", 0
    desk.touch()
    for match in BLOCK.finditer(PAGE):
        language, block = match.groups()
        if language == "console":
            for line in block.splitlines():
                if line.startswith("dovetail call desk.py"):
                    assert f"answers `{types(line.split(), reader).strip()}`" in PAGE
        elif "def test_" in block:
            (reader / "test_desk.py").write_text(block)
        elif block.startswith("from desk import"):
            at_the_prompt(block, reader)
            prompts += 1
        else:
            desk.write_text(f"{desk.read_text()}\n\n{block}")
    assert prompts == 6
    assert "1 passed" in types([sys.executable, "-m", "pytest", "-p", "no:cacheprovider"], reader)
    served(reader)


def served(reader: Path) -> None:
    """The step with two terminals, at a port that is free on this machine."""
    [serve] = re.findall(r"^dovetail run desk.py:\w+ .*$", PAGE, re.MULTILINE)
    [call] = re.findall(rf"^dovetail call http://{SERVED}.*$", PAGE, re.MULTILINE)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    words = [*serve.split(), "--port", port]
    child = subprocess.Popen(words, cwd=reader, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        assert any("serving on" in line for line in child.stderr)
        said = types(call.replace(SERVED, f"127.0.0.1:{port}").split(), reader)
    finally:
        child.terminate()
        child.communicate()
    assert f"It answers `{said.strip()}`" in PAGE
