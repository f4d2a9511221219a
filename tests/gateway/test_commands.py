"""``dovetail bridge`` and ``dovetail gateway`` as they are typed, over HTTP."""

import json
import os
import select
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, DovetailError, Principal, ProtocolError, Server
from dovetail.auth import StaticTokens
from tests.http.children import started
from tests.support.aio import run
from tests.support.process import CLI
from tests.support.waiting import HANG, found
from tests.support.web import Web, served, text

PIDS = """
import os
from dovetail import Server
server = Server("pids")

@server.tool
def pid() -> int:
    return os.getpid()
"""
ASKS = """
from dataclasses import dataclass
from dovetail import Context, Server
server = Server("asks")

@dataclass
class Day:
    day: str

@server.tool
async def trip(ctx: Context) -> str:
    leave = await ctx.elicit("leave?", Day)
    back = await ctx.elicit("return?", Day)
    return f"{leave.data.day} to {back.data.day}"
"""


@asynccontextmanager
async def command(*words: str) -> AsyncIterator[Any]:
    async with started(*CLI, *words, "--http", "--port", "0") as child:
        yield child


def url(child: Any) -> str:
    return f"http://127.0.0.1:{child.address[1]}/mcp"


@run
async def test_a_bridge_authenticates_upstream_forwards_named_headers_and_serves_the_chosen_revisions() -> (
    None
):
    behind = Server("behind", "1")

    @behind.tool
    def who(ctx: Context) -> list[str]:
        heads = {name.decode(): value.decode() for name, value in ctx.scope["headers"]}
        return [heads["authorization"], heads["mcp-protocol-version"], heads.get("x-tenant", "")]

    async with served(behind, auth=StaticTokens({"ours": Principal("bridge")})) as site:
        target = f"http://127.0.0.1:{site.port}/mcp"
        options = ("--auth", "ours", "--forward-header", "X-Tenant", "--revision", "2025-06-18")
        async with command("bridge", target, *options, "--serve-revision", "2025-11-25") as child:
            heads = {"X-Tenant": "t", "Authorization": "Bearer theirs"}
            async with Client(url(child), headers=heads) as client:
                assert client.revision == "2025-11-25"
                assert (await client.call_tool("who")).data == ["Bearer ours", "2025-06-18", "t"]
            with pytest.raises(ProtocolError, match="no common revision"):
                async with Client(url(child), revision="2026-07-28"):
                    pass


async def pid_of(client: Client) -> int | None:
    try:
        return (await client.call_tool("pid")).data
    except DovetailError:
        return None  # it is being started again


@pytest.mark.parametrize(("more", "apart"), [((), False), (("--shared",), False), (("--per-session",), True)])
@run
async def test_a_child_of_a_bridge_is_shared_or_not_and_started_again(
    tmp_path: Path, more: tuple[str, ...], apart: bool
) -> None:
    path = tmp_path / "pids.py"
    path.write_text(PIDS)
    async with (
        command("bridge", str(path), *more) as child,
        Client(url(child), revision="2025-06-18") as one,
        Client(url(child), revision="2025-06-18") as two,
    ):
        mine, theirs = await found(partial(pid_of, one)), await found(partial(pid_of, two))
        assert (mine != theirs) == apart
        os.kill(mine, signal.SIGKILL)
        assert await found(partial(pid_of, one)) != mine
        assert (await found(partial(pid_of, two)) == theirs) == apart


@run
async def test_the_answer_to_a_legacy_server_reaches_it_on_whichever_worker_it_lands(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(ASKS)
    entry = {
        "command": CLI[0],
        "args": [*CLI[1:], "run", str(tmp_path / "asks.py")],
        "revision": "2025-06-18",
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"old": {**entry, "prefix": "old"}}}))
    words = ("gateway", str(tmp_path / "mcp.json"), "--yes", "--workers", "3")
    async with command(*words, "--store", str(tmp_path / "store.db")) as child:
        web = Web(child)
        for _ in range(5):  # each request and each response uses a new connection
            params: dict[str, Any] = {"name": "old_trip", "arguments": {}}
            for day in ("monday", "friday"):
                asked = (await web.modern("tools/call", params)).message["result"]
                answer = {"action": "accept", "content": {"day": day}}
                params["inputResponses"] = dict.fromkeys(asked["inputRequests"], answer)
                params["requestState"] = asked["requestState"]
            assert text((await web.modern("tools/call", params)).message["result"]) == "monday to friday"


def at_a_terminal(folder: Path, answers: list[str]) -> str:
    """What a gateway says at a terminal until it serves."""
    ours, its = os.openpty()
    words = [*CLI, "gateway", str(folder / "mcp.json"), "--http", "--port", "0"]
    told = {**os.environ, "XDG_DATA_HOME": str(folder)}
    child = subprocess.Popen(words, stdin=its, stdout=its, stderr=its, env=told, start_new_session=True)
    os.close(its)
    said, waiting = "", list(answers)
    try:
        while "serving on" not in said and select.select([ours], [], [], HANG)[0]:
            said += os.read(ours, 4096).decode()
            if waiting and said.count("[y/N]") > len(answers) - len(waiting):
                os.write(ours, f"{waiting.pop(0)}\n".encode())
    finally:
        child.terminate()
        child.wait(HANG)
        os.close(ours)
    return said


def test_a_command_is_confirmed_once_and_a_refused_one_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "pids.py").write_text(PIDS)
    servers = {
        "no": {"command": "touch", "args": [str(tmp_path / "ran")]},
        "yes": {"command": CLI[0], "args": [*CLI[1:], "run", str(tmp_path / "pids.py")]},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    first = at_a_terminal(tmp_path, ["n", "y"])
    again = at_a_terminal(tmp_path, ["n"])
    assert (first.count("[y/N]"), again.count("[y/N]")) == (2, 1)
    assert all("entry left out name='no'" in said and "serving on" in said for said in (first, again))
    assert not (tmp_path / "ran").exists()
