"""The Worker of the Cloudflare page, in Pyodide under Node."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bench.peers import PEERS, interpreter

from tests.deploy.projects import ROOT, create, files, initialize, legacy, modern
from tests.peers.environment import need

CORE_IMPORT_SECONDS = 1.0
"""The limit for the import of Dovetail's core in Pyodide, msgspec included."""


def run(folder: Path, requests: list[Any]) -> dict[str, Any]:
    """Serve requests in a fresh Pyodide."""
    need("node")
    need("pyodide")
    project = folder / "my-notes"
    (project / "requests.json").write_text(json.dumps(requests))
    words = [
        interpreter("node"),
        str(Path(__file__).with_name("worker.mjs")),
        str(PEERS / "node" / "node_modules" / "pyodide"),
        str(PEERS / "pyodide"),
        str(ROOT / "src"),
        str(project),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def post(parts: tuple[dict[str, str], Any]) -> list[Any]:
    return ["POST", "/mcp", parts[0], json.dumps(parts[1])]


@pytest.mark.peer
def test_a_worker_serves_plain_and_async_tools_without_a_thread(tmp_path: Path) -> None:
    project = create(tmp_path, "workers", "workers")
    server = project / "src" / "server.py"
    server.write_text(
        server.read_text() + "\n\n@server.tool\ndef shout(text: str) -> str:\n    return text.upper()\n"
    )
    found = run(
        tmp_path,
        [
            post(modern("add_note", title="Tea", text="Green")),
            post(modern("shout", text="tea")),
            post(initialize()),
            post(legacy("tools/list")),
            ["GET", "/readyz", {}, None],
        ],
    )
    note, loud, opened, listed, ready = found["responses"]
    assert [status for status, _ in found["responses"]] == [200] * 5
    assert json.loads(note[1])["result"]["content"][0]["text"] == "1 notes"
    assert json.loads(loud[1])["result"]["content"][0]["text"] == "TEA"
    assert json.loads(opened[1])["result"]["protocolVersion"] == "2025-11-25"
    assert len(json.loads(listed[1])["result"]["tools"]) == 4
    assert ready[1] == "ready\n"
    assert (found["python"], found["threads"], found["modules"]) == ("emscripten", 1, [])
    assert found["keys"] == "ab" * 32
    print(f"Dovetail's core was imported in {found['seconds']:.2f} s")
    assert found["seconds"] < CORE_IMPORT_SECONDS


def test_the_worker_runs_where_python_is_that_of_the_wheels_of_msgspec() -> None:
    shown = files("workers")
    configuration = json.loads(re.sub(r"^ *//.*$", "", shown["wrangler.jsonc"], flags=re.MULTILINE))
    assert configuration["main"] in shown
    assert "python_workers" in configuration["compatibility_flags"]
    assert configuration["compatibility_date"] >= "2026-09-08"  # Python 3.14
