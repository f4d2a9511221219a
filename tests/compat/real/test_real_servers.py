"""Public servers list and answer on Dovetail what they do on their original alone.

Each has a separate environment under ``.peers/real``, which is created on demand.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.compat.comparing import UNKNOWN, Recording, differences, recorded
from tests.compat.originals import REVISIONS, environment, over_http, over_stdio, served
from tests.support.aio import run_limited
from tests.support.waiting import HANG, reached

from .install import HOME, SERVERS, installed

pytestmark = [pytest.mark.peer, pytest.mark.slow]

MOST = 8
"""Tools that are called without the arguments they need, for the text of their refusal."""


def filled(value: Any, **words: str) -> Any:
    """``value`` with what stands in braces in its texts put in."""
    if isinstance(value, dict):
        return {name: filled(one, **words) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, **words) for one in value]
    for word, text in words.items():
        value = value.replace(f"{{{word}}}", text) if isinstance(value, str) else value
    return value


class Server:
    """One public server, on its original or on Dovetail."""

    def __init__(self, name: str, folder: Path) -> None:
        self.python = installed(name)
        self.folder = folder
        self.entry: dict[str, Any] = filled(SERVERS[name], folder=str(folder))
        more = {"HOME": str(HOME / name), "PROOF_FOLDER": str(folder)}
        self.environment = environment(**{**more, **self.entry.get("environment", {})})

    def alone(self, entry: dict[str, Any]) -> list[str]:
        arguments = entry.get("arguments", [])
        if "script" in entry:
            return [str(self.python.parent / entry["script"]), *arguments]
        return [str(self.python), "-m", entry["module"], *arguments]

    def on_dovetail(self, *words: str) -> list[str]:
        name = self.entry.get("script") or self.entry["module"]
        line = [str(self.python), "-m", "dovetail.cli.main", "run", "--compat", "-m", name, *words]
        return [*line, "--log-level", "warning", "--", *self.entry.get("arguments", [])]

    async def recorded(self, client: Any) -> Recording:
        """Lists, refusals of calls without arguments, and the calls of the entry; from an empty folder."""
        await asyncio.to_thread(self.empty)
        async with client:
            tools = await client.list_tools() if client.server_capabilities.has("tools") else []
            wanted = [tool.name for tool in tools if tool.input_schema.get("required")]
            calls = [(name, {}) for name in (*wanted[: self.entry.get("most", MOST)], UNKNOWN)]
            return await recorded(client, [*calls, *self.entry.get("calls", [])] if tools else [], [], [])

    def empty(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    async def over_stdio(self, line: list[str], revision: str) -> Recording:
        return await self.recorded(over_stdio(line, revision, env=self.environment))

    @asynccontextmanager
    async def http_alone(self) -> AsyncIterator[str]:
        """The URL of the server on its original library, whose port is set in the library's way."""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        entry = filled({**self.entry, **self.entry["http"]}, port=str(port))
        child = await asyncio.create_subprocess_exec(
            *self.alone(entry),
            env={**self.environment, **entry.get("environment", {})},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            _, writer = await reached(lambda: asyncio.open_connection("127.0.0.1", port))
            writer.close()
            yield f"http://127.0.0.1:{port}{entry.get('path', '/mcp')}"
        finally:
            child.terminate()
            await child.wait()


async def compared(server: Server) -> list[str]:
    theirs = {one: await server.over_stdio(server.alone(server.entry), one) for one in REVISIONS[:2]}
    # The originals do not know the newest revision, which has to show the same as the one before.
    theirs[REVISIONS[2]] = theirs[REVISIONS[1]]
    found = list[str]()
    for revision in REVISIONS:
        ours = await server.over_stdio(server.on_dovetail(), revision)
        found += [f"stdio {revision}: {one}" for one in differences(theirs[revision], ours)]
    if "http" in server.entry:
        async with server.http_alone() as url:
            theirs = {one: await server.recorded(over_http(url, one)) for one in REVISIONS[:2]}
        theirs[REVISIONS[2]] = theirs[REVISIONS[1]]
    line = server.on_dovetail("--http", "--port", "0")
    async with served(line, **{**os.environ, **server.environment}) as child:
        for revision in REVISIONS:
            ours = await server.recorded(over_http(child.url, revision))
            found += [f"http {revision}: {one}" for one in differences(theirs[revision], ours)]
    return found


@pytest.mark.parametrize("name", SERVERS)
def test_a_public_server_answers_as_on_its_original(name: str, tmp_path: Path) -> None:
    # Some write the path of the folder into what they say: it is the same for both.
    server = Server(name, tmp_path / "folder")
    found = list[str]()

    async def scenario() -> None:
        found.extend(await compared(server))

    run_limited(scenario(), 10 * HANG)
    assert not found, "\n".join(found)
