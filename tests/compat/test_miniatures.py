"""The miniature servers list and answer on Dovetail what they do on their original alone."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import run

from .comparing import UNKNOWN, differences, recorded
from .originals import REVISIONS, environment, on_dovetail, on_its_own, over_http, over_stdio, python, served

pytestmark = pytest.mark.peer

MINIATURES = Path(__file__).parent / "miniatures"
FASTMCP = ("failures", "masked", "registering", "resources", "returns", "signatures")
SDK = ("failures", "registering", "resources", "returns", "signatures")
CASES = [
    *(
        (original, f"fastmcp/{name}", "mcp")
        for original in ("fastmcp2", "fastmcp3", "fastmcp4")
        for name in FASTMCP
    ),
    *((original, f"sdk/{name}", "mcp") for original in ("mcp1", "mcp2") for name in SDK),
    *((original, "families", name) for original in ("fastmcp2", "fastmcp3") for name in ("new", "old")),
    *((original, "patched", name) for original in ("fastmcp2", "fastmcp3") for name in ("mcp", "sdk")),
]
NEWER = {
    "mcp2": [(r"mcp\.server\.fastmcp", "mcp.server.mcpserver"), (r"\bFastMCP\b", "MCPServer")],
    "fastmcp4": [
        (r"fastmcp\.tools\.tool", "fastmcp.tools"),
        (r"exclude_args=\[\"secret\"\]", ""),
        (r"(?m)^mcp\.remove_tool.*$", ""),
    ],
}
"""What a miniature has to be changed in for an original that has renamed or removed something."""
ASKED = """
import json, runpy, sys
names = runpy.run_path(sys.argv[1])
print("\\n" + json.dumps([names.get(name, []) for name in ("CALLS", "READS", "PROMPTS")]))
"""


def asked(original: str, path: Path) -> tuple[Any, Any, Any]:
    """The calls, reads and prompts that the miniature lists."""
    line = [python(original), "-c", ASKED, str(path)]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=environment())
    calls, reads, prompts = json.loads(done.stdout.splitlines()[-1])
    return [*calls, [UNKNOWN, {}], ["who", {"values": [1, 2]}], ["shout", {"text": "a"}]], reads, prompts


@pytest.mark.parametrize(("original", "miniature", "name"), CASES)
def test_a_miniature_answers_as_on_its_original(
    original: str, miniature: str, name: str, tmp_path: Path
) -> None:
    source = (MINIATURES / f"{miniature}.py").read_text()
    for pattern, text in NEWER.get(original, ()):
        source = re.sub(pattern, text, source)
    path = tmp_path / f"{Path(miniature).name}.py"
    path.write_text(source)
    questions = asked(original, path)
    found: list[str] = []

    @run
    async def scenario() -> None:
        theirs: dict[str, Any] = {}
        for revision in REVISIONS[:2]:
            async with over_stdio(on_its_own(original, path, name), revision) as client:
                theirs[revision] = await recorded(client, *questions)
        theirs[REVISIONS[2]] = theirs[REVISIONS[1]]

        async def stdio(revision: str) -> None:
            async with over_stdio(on_dovetail(original, f"{path}:{name}"), revision) as client:
                differ(f"stdio {revision}", revision, await recorded(client, *questions))

        def differ(where: str, revision: str, ours: dict[str, Any]) -> None:
            found.extend(f"{where}: {one}" for one in differences(theirs[revision], ours))

        for revision in REVISIONS:
            await stdio(revision)
        async with served(on_dovetail(original, f"{path}:{name}", "--http", "--port", "0")) as child:
            for revision in REVISIONS:
                async with over_http(child.url, revision) as client:
                    differ(f"http {revision}", revision, await recorded(client, *questions))

    scenario()
    assert not found, "\n".join(found)


def test_a_low_level_server_of_a_file_with_three_is_chosen_by_name() -> None:
    @run
    async def scenario() -> None:
        path = f"{MINIATURES / 'families.py'}:low"
        async with over_stdio(on_dovetail("fastmcp3", path), "2026-07-28") as client:
            assert (await client.call_tool("who", {"values": [1]})).text == "who [1]"

    scenario()
