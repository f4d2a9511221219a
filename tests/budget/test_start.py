"""The modules that are imported at the start: as many as in 0.1.0, and no more."""

import subprocess
import sys

import pytest

LOADED = """
import sys
before = set(sys.modules)
{code}
sys.stderr.write(" ".join(set(sys.modules) - before))
"""
HELP = "from dovetail.cli.main import main; main(['--help'])"


def loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(code=code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(("code", "ours", "all_of_them"), [("import dovetail", 1, 30), (HELP, 5, 68)])
def test_importing_the_package_and_asking_for_help_load_little(
    code: str, ours: int, all_of_them: int
) -> None:
    found = loaded(code)
    assert sum(name.partition(".")[0] == "dovetail" for name in found) <= ours, sorted(found)
    strangers = {name.partition(".")[0] for name in found} - sys.stdlib_module_names - {"dovetail"}
    assert strangers <= {"msgspec", "typing_extensions"}
    if sys.version_info[:2] == (3, 11):  # the standard library of another one loads more or less of itself
        assert len(found) <= all_of_them, sorted(found)


SERVING = """
import asyncio, logging
from dovetail import Server
from dovetail.transports.bind_address import BindAddress
from dovetail.transports.http.http_serving import HttpApp, HttpServer
from dovetail.settings import HttpOptions

server = Server("small")

@server.tool
async def echo(text: str) -> str:
    return text

@server.resource("small://text")
async def text() -> str:
    return "text"

BODY = (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}')
HEAD = (b"POST /mcp HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nContent-Type: application/json\\r\\nConnection: close\\r\\n"
    b"Accept: application/json, text/event-stream\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(BODY))

async def main():
    address = BindAddress(port=0)
    bound = address.listen()
    http = HttpServer(HttpApp(server.dispatcher, HttpOptions()), address, bound)
    async def talk():
        reader, writer = await asyncio.open_connection(*bound.getsockname()[:2])
        writer.write(HEAD + BODY)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        http.stop.request(0.0)
    talking = []
    await http.run(ready=lambda: talking.append(asyncio.ensure_future(talk())))
    await talking[0]

asyncio.run(main())
"""


def test_a_process_that_serves_http_loads_only_what_it_needs() -> None:
    found = loaded(SERVING)
    assert not found & {"http", "json", "pathlib", "random", "secrets", "urllib.parse"}
    unneeded = ("drivers.duplex", "telemetry.scraping", "transports.stream", "cluster.message_bus")
    assert not found & {f"dovetail.{name}" for name in unneeded}
    assert sum(name.partition(".")[0] == "dovetail" for name in found) <= 165
