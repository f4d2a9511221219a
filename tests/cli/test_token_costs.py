"""``dovetail list --tokens``: what a list costs."""

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.support.aio import run

SERVER = '''
from dovetail import Server
server = Server("costly")

@server.tool
def short() -> str:
    """Short."""
    return ""

@server.tool
def long(city: str) -> str:
    """{words}"""
    return ""

server.add_resource("note://one", lambda: "", name="one")
'''


async def listed(*words: str) -> str:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dovetail.cli.main",
        "list",
        *words,
        env=dict(os.environ),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await child.communicate()
    assert child.returncode == 0
    return out.decode()


@run
async def test_a_list_is_counted_for_people_and_programs(tmp_path: Path) -> None:
    path = tmp_path / "costly.py"
    path.write_text(SERVER.format(words="word " * 400))
    text = await listed(str(path), "--tokens")
    counted = json.loads(await listed(str(path), "--tokens", "--json"))
    assert 500 < counted["entries"]["tools"]["long"] < 600
    assert counted["entries"]["tools"]["short"] < 50
    assert counted["total"] == sum(counted["lists"].values())
    assert text.index("long") < text.index("short")
    assert f"{counted['total']} tokens in total" in text
    assert "note://one" in text
