"""`server.asgi()` as a user runs it: on uvicorn, granian and hypercorn, by their own commands."""

import importlib.util
import signal
import sys
from pathlib import Path

import pytest

from tests.http.children import NEWEST, Child, started
from tests.support.aio import run
from tests.support.redis import free_port
from tests.support.waiting import found
from tests.support.web import Web, legacy_headers, text

MODULE = """
from dovetail import Server
server = Server("elsewhere")

@server.tool
async def hi() -> str:
    return "hi"

app = server.asgi()
"""
COMMANDS = {
    "uvicorn": ["uvicorn", "--host", "127.0.0.1", "--port", "{port}", "module:app"],
    "granian": ["granian", "--interface", "asgi", "--host", "127.0.0.1", "--port", "{port}", "module:app"],
    "hypercorn": ["hypercorn", "--bind", "127.0.0.1:{port}", "module:app"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_asgi_server_runs_the_application(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    (tmp_path / "module.py").write_text(MODULE)
    port = free_port()
    command = [word.format(port=port) for word in COMMANDS[name]]

    @run
    async def scenario() -> None:
        async with started(sys.executable, "-m", *command, cwd=tmp_path, announces=False) as served:
            served.address = ("127.0.0.1", port)
            web = Web(served)  # type: ignore[arg-type]

            async def answer() -> str | None:
                try:
                    return text(await web.call("hi"))
                except OSError:
                    return None  # it does not listen yet

            assert await found(answer) == "hi"
            session, _ = await web.initialize(NEWEST)
            reply = await web.legacy(NEWEST, session, "tools/call", {"name": "hi"})
            assert text(reply.message["result"]) == "hi"
            assert (await web.ask("DELETE", legacy_headers(NEWEST, session))).status == 204
            await ends(served)

    scenario()


async def ends(served: Child) -> None:
    """It stops at SIGTERM, and its application has said nothing that went wrong."""
    served.process.send_signal(signal.SIGTERM)
    await served.ended()
    assert "Traceback" not in served.said
