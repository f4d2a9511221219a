"""The official conformance suite at `OAuthProxy`, our authorization server: its scenarios with a browser."""

import asyncio
import json
import re
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest
from bench import peers

from tests.peers.environment import need
from tests.support.aio import run
from tests.support.waiting import HANG

from .oidc import free_port
from .proxied import send
from .visitor import Visitor, visitor

SUITE = peers.PEERS / "node/node_modules/@modelcontextprotocol/conformance/dist/index.js"


async def browse(person: Visitor, url: str) -> None:
    """Do what a person does in the browser: open the page, agree, and follow the redirects to the end."""
    status, _, body = await person.visit(url)
    assert status == 200, body
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', body.decode().replace('value="deny"', "")))
    status, headers, body = await person.answer(fields)
    assert status == 303, body
    state = re.search(r"[?&]state=([^&]+)", headers["location"])
    assert state is not None
    status, headers, body = await person.come_back(state[1])
    assert status == 303, body
    assert (await send("GET", headers["location"]))[0] == 200


def results(folder: Path) -> list[dict[str, str]]:
    """The checks of all scenarios."""
    return [one for path in folder.rglob("checks.json") for one in json.loads(path.read_text())]


@pytest.mark.peer
@run
async def test_the_authorization_scenarios_of_the_conformance_suite_pass(tmp_path: Path) -> None:
    need("node")
    port = free_port()
    async with visitor() as person:
        client_id = await person.register(f"http://127.0.0.1:{port}/callback")
        process = await asyncio.create_subprocess_exec(
            peers.interpreter("node"), str(SUITE), "authorization", "--url", person.base, "--client-id", client_id,
            "--resource", person.url, "--port", str(port), "--output-dir", str(tmp_path), "--verbose",
            stdout=PIPE, stderr=STDOUT,
        )  # fmt: skip
        assert process.stdout is not None
        said: list[str] = []
        visited = False
        async with asyncio.timeout(HANG):
            while line := (await process.stdout.readline()).decode():
                said.append(line)
                found = re.search(rf"{re.escape(person.base)}/authorize\?\S+", line)
                if found is not None and not visited:
                    visited = True
                    await browse(person, found[0])
            await process.wait()
    checks = results(tmp_path)
    assert visited, "".join(said)
    assert {one["status"] for one in checks} == {"SUCCESS"}, "".join(said)
    assert "authorization-code-grant" in {one["id"] for one in checks}
    assert process.returncode == 0
