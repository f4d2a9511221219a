"""Who may call a gateway, as its file or the command line says it; tokens are exchanged without a program."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from dovetail import Client, Context, DovetailError, Server
from dovetail.gateway import ConfigError, Gateway
from tests.auth.documents import Documents, documents
from tests.client.fake_http import serving
from tests.gateway.test_exchange import Bank
from tests.support.aio import run
from tests.support.web import served

AUDIENCE = "https://gate.example/mcp"
KEY = ECKey.generate_key("P-256", {"kid": "ec"})


def token(issuer: str, **claims: Any) -> str:
    whole = {"iss": issuer, "sub": "ann", "aud": AUDIENCE, "exp": int(time.time()) + 600, **claims}
    return jwt.encode({"alg": "ES256", "kid": "ec"}, whole, KEY, algorithms=["ES256"])


@asynccontextmanager
async def issuing() -> AsyncIterator[Documents]:
    """An issuer and its keys."""
    async with documents() as found:
        found.places["/keys"] = {"keys": [KEY.as_dict(private=False)]}
        yield found


@asynccontextmanager
async def behind() -> AsyncIterator[tuple[Bank, dict[str, Any]]]:
    """A server that wants exchanged tokens, as a gateway's file names it."""
    bank = Bank()
    notes = Server("notes", auth=bank.verify)

    @notes.tool
    def who(ctx: Context) -> str:
        return str(ctx.principal)

    async with serving(bank) as (bank.fake, url), served(notes) as site:
        bank.base = url.removesuffix("/mcp")
        exchange = {
            "token_endpoint": bank.endpoint,
            "client_id": "gate",
            "client_secret": "${GATE_SECRET}",
            "audience": "the-notes",
        }
        entry = {"url": f"http://127.0.0.1:{site.port}/mcp", "auth": {"exchange": exchange}}
        yield bank, {"mcpServers": {"notes": entry}}


@asynccontextmanager
async def program(*words: str, **more: str) -> AsyncIterator[str]:
    """The command, serving over HTTP, and where."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "dovetail.cli.main", *words, "--http", "--port", "0"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **more},
    )
    assert child.stderr is not None
    try:
        said = b""
        while b"serving on" not in said:
            said = await asyncio.wait_for(child.stderr.readline(), 60)
            assert said, "it ended"
        yield said.decode().split("serving on ")[1].split()[0]
    finally:
        child.terminate()
        await child.communicate()


async def refused(url: str, auth: str | None) -> None:
    with pytest.raises(DovetailError):
        async with Client(url, auth=auth or "none") as client:
            await client.list_tools()


@run
async def test_the_gateway_as_a_program_exchanges_tokens_its_file_lets_in(tmp_path: Path) -> None:
    async with issuing() as issuer, behind() as (bank, members):
        members["auth"] = {
            "issuer": issuer.url,
            "audience": AUDIENCE,
            "jwks_uri": f"{issuer.url}/keys",
            "algorithms": ["ES256"],
        }
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps(members))
        async with program("gateway", str(path), GATE_SECRET="s3cret") as url:
            proven = token(issuer.url)
            async with Client(url, auth=proven) as client:
                assert [tool.name for tool in await client.list_tools()] == ["who"]
                await client.call_tool("who")
            await refused(url, None)
            await refused(url, token(issuer.url, aud="https://other.example"))
        assert [form["subject_token"] for form in bank.forms] == [proven]


@run
async def test_the_command_line_says_who_may_call(tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    path.write_text('from dovetail import Server\nserver = Server("s")\nserver.tool(name="a")(lambda: "a")\n')
    async with issuing() as issuer:
        words = ["--issuer", issuer.url, "--audience", AUDIENCE, "--jwks-uri", f"{issuer.url}/keys"]
        async with program("bridge", str(path), *words) as url:
            async with Client(url, auth=token(issuer.url)) as client:
                assert (await client.call_tool("a")).text == "a"
            await refused(url, None)


@run
async def test_tokens_that_never_change_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANN_TOKEN", "t-ann")
    monkeypatch.setenv("BOB_TOKEN", "t-bob")
    auth = {"tokens": {"ann": "${ANN_TOKEN}", "bob": {"token": "${BOB_TOKEN}", "scopes": ["write"]}}}
    server = Gateway({"mcpServers": {}, "auth": auth})

    @server.tool(scopes=["write"])
    def who(ctx: Context) -> str:
        return str(ctx.principal)

    async with served(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, auth="t-bob") as client:
            assert (await client.call_tool("who")).text == "bob"
        async with Client(url, auth="t-ann") as client:
            assert await client.list_tools() == []
        for wrong in ("${ANN_TOKEN}", None):
            await refused(url, wrong)


@pytest.mark.parametrize(
    ("auth", "why"),
    [
        ({}, "issuer and the audience"),
        ({"issuer": "https://id.example"}, "issuer and the audience"),
        ({"issuer": "https://id.example", "audience": ""}, "issuer and the audience"),
        ({"tokens": {"ann": " "}}, "contains spaces"),
        ({"issuer": "http://id.example", "audience": AUDIENCE}, "issuer"),
        ({"isuer": "https://id.example"}, "isuer"),
        ({"tokens": {"ann": "${DOVETAIL_NOT_SET}"}}, "DOVETAIL_NOT_SET is not set"),
        ({"tokens": {"ann": "${DOVETAIL_NOT_SET:-}"}}, "empty"),
        ({"tokens": {"ann": "x", "bob": "x"}}, "is used twice"),
        (
            {"introspection": {"endpoint": "https://id.example/i", "client_id": "a", "client_secret": "b"}},
            "audience",
        ),
        ("oauth", "object"),
    ],
)
def test_unusable_options_are_reported_before_any_caller_is_accepted(auth: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Gateway({"mcpServers": {}, "auth": auth})
