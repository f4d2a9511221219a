"""Who serves a bridge or a gateway over HTTP where nobody says so, and what a WebSocket is told there."""

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Server, TransportError
from dovetail.cli.main import main
from dovetail.gateway import Gateway, Proxy
from dovetail.transports.http.host import serving
from tests.gateway.test_commands import command
from tests.support.aio import run
from tests.support.web import Web, served, text

FILE = """
from dovetail import Server
server = Server("small")

@server.tool
def hi() -> str:
    return "hi"
"""


class Chosen(BaseException):
    """Which host would serve."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def choose(module: str, package: str | None) -> Any:
        raise Chosen(module.strip(".").removesuffix("_host"))

    monkeypatch.setattr(serving, "import_module", choose)
    (tmp_path / "server.py").write_text(FILE)
    entry = {"url": "http://127.0.0.1:9/mcp"}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"one": entry}}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "host"),
    [
        ("gateway mcp.json --http", "asyncio"),
        ("gateway mcp.json --sse", "asyncio"),
        ("gateway mcp.json --ws", "granian"),
        ("gateway mcp.json --http --workers 2", "granian"),
        ("gateway mcp.json --http --server granian", "granian"),
        ("gateway mcp.json --http --server uvicorn", "uvicorn"),
        ("bridge server.py --http", "asyncio"),
        ("bridge server.py --sse", "asyncio"),
        ("bridge server.py --ws", "granian"),
        ("bridge server.py --http --workers 2", "granian"),
        ("bridge server.py --ws --server asyncio", "asyncio"),
        ("run mcp.json --http", "asyncio"),
        ("run http://127.0.0.1:9/mcp --http", "asyncio"),
        ("run server.py --http", "granian"),
        ("run server.py --ws", "granian"),
        ("run server.py --http --server asyncio", "asyncio"),
    ],
)
def test_what_passes_calls_on_is_served_by_the_loop_where_the_loop_can(
    folder: Path, words: str, host: str
) -> None:
    with pytest.raises(Chosen) as chosen:
        main(words.split())
    assert chosen.value.args == (host,)


@pytest.mark.parametrize(
    ("make", "transport", "host"),
    [
        (lambda: Gateway("mcp.json"), "http", "asyncio"),
        (lambda: Gateway("mcp.json"), "ws", "granian"),
        (lambda: Proxy("server.py"), "http", "asyncio"),
        (lambda: Proxy("server.py"), "sse", "asyncio"),
        (lambda: Server("own"), "http", "granian"),
        (lambda: Server("own"), "ws", "granian"),
    ],
)
def test_a_program_is_served_like_its_command(folder: Path, make: Any, transport: Any, host: str) -> None:
    with pytest.raises(Chosen) as chosen:
        make().run(transport, port=0)
    assert chosen.value.args == (host,)


@pytest.mark.parametrize("asked", ["bridge", "gateway", "run"])
def test_the_help_says_who_serves(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([asked, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    usual = "granian" if asked == "run" else "asyncio, or granian with --workers or --ws"
    assert f"(default: {usual})" in said


@run
async def test_a_gateway_says_that_it_has_no_websockets_and_how_to_have_some() -> None:
    behind = Server("behind", "1")

    @behind.tool
    def hi() -> str:
        return "hi"

    async with served(behind) as site, command("bridge", f"http://127.0.0.1:{site.port}/mcp") as child:
        assert text(await Web(child).call("hi")) == "hi"
        with pytest.raises(TransportError, match=r"HTTP 501: text/plain '.*start the server with --ws"):
            async with Client(f"ws://127.0.0.1:{child.address[1]}/mcp"):
                pass
