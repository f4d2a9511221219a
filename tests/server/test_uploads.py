"""Files as arguments: inline, or sent to a one-time URL over real HTTP, within the limits of the server."""

import asyncio
import base64
import json
import os
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

import httpx2
import pytest
from bench.interop import hosts
from bench.processes import free_port
from msgspec import Meta

from dovetail import Client, Context, Limits, Principal, RegistrationError, Server, ToolError, Upload
from dovetail.auth import StaticTokens
from dovetail.server import uploads
from dovetail.stores import SqliteStore
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.process import CLI
from tests.support.web import Response, Site, served

ALL = (*LEGACY, MODERN)
DATA = bytes(range(256)) * 2000
ENCODED = base64.b64encode(DATA).decode()
ANN = {"authorization": "Bearer ann-token"}
BOB = {"authorization": "Bearer bob-token"}
TOKENS = {"ann-token": Principal("ann"), "bob-token": Principal("bob")}


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def build(**options: Any) -> Server:
    server = Server("files", **options)

    @server.tool
    def describe(file: Upload, note: str = "") -> str:
        """Describe a file.

        Args:
            file: What to describe.
        """
        return f"{file.name} {file.mime_type} {file.size} {sum(file.data)}"

    @server.tool
    async def count(files: list[Upload], extra: Upload | None = None) -> int:
        """Count bytes."""
        return sum(file.size for file in files) + (0 if extra is None else extra.size)

    return server


def described(name: str, kind: str, data: bytes = DATA) -> str:
    return f"{name} {kind} {len(data)} {sum(data)}"


async def put(site: Site, url: str, body: bytes, headers: dict[str, str] | None = None) -> Response:
    path = "/" + url.split("/", 3)[3]
    async with await site.connect() as connection:
        return await connection.ask("PUT", path, headers or {}, body)


async def created(client: Client, **arguments: Any) -> dict[str, Any]:
    found = (await client.call_tool("create_upload", arguments)).structured_content
    return cast("dict[str, Any]", found)


def address(site: Site) -> str:
    return f"http://127.0.0.1:{site.port}/mcp"


# --- the schema and the inline file ---------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ALL)
@run
async def test_the_schema_says_how_to_give_a_file(revision: str) -> None:
    tools = {one["name"]: one for one in (await Peer(build(), revision).result("tools/list"))["tools"]}
    assert tools.keys() == {"describe", "count", "create_upload"}
    file = tools["describe"]["inputSchema"]["properties"]["file"]
    assert file["type"] == "string"
    assert file["description"].startswith("What to describe. A file: base64")
    assert "create_upload" in file["description"]
    files = tools["count"]["inputSchema"]["properties"]["files"]
    assert files["items"]["type"] == "string"
    assert files["description"].startswith("A file: base64")


def test_a_server_without_files_offers_no_tool_for_them() -> None:
    server = Server("plain")
    server.add_tool(lambda: "x", name="x", description="d")
    assert set(server.registry.tools.entries) == {"x"}


def test_the_name_of_the_tool_must_be_free() -> None:
    server = Server("taken")
    server.add_tool(lambda: "x", name="create_upload", description="d")

    def take(file: Upload) -> str:
        return file.name

    with pytest.raises(RegistrationError, match="create_upload"):
        server.add_tool(take)


def test_a_list_without_a_type_takes_no_files() -> None:
    server = Server("plain")

    def take(files: Any) -> int:
        return len(files)

    take.__annotations__["files"] = cast("Any", typing).List
    server.add_tool(take)
    assert "create_upload" not in server.registry.tools.entries


def test_a_description_in_the_annotation_is_kept() -> None:
    server = Server("annotated")

    @server.tool
    def take(file: Annotated[Upload, Meta(description="A photo.")]) -> str:
        return file.name

    schema = server.registry.tools.entries["take"].definition.input_schema
    assert schema["properties"]["file"]["description"].startswith("A photo. A file: base64")


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        (ENCODED, "file", "application/octet-stream"),
        (ENCODED.rstrip("=").replace("+", "-").replace("/", "_"), "file", "application/octet-stream"),
        (
            "\n".join(ENCODED[n : n + 76] for n in range(0, len(ENCODED), 76)),
            "file",
            "application/octet-stream",
        ),
        (f"data:text/csv;name=a%20b.csv;base64,{ENCODED}", "a b.csv", "text/csv"),
        (f"data:image/png;name=..%2F..%2Fetc%2Fpasswd;base64,{ENCODED}", "passwd", "image/png"),
        (f"data:;base64,{ENCODED}", "file", "text/plain"),
    ],
)
@run
async def test_a_file_in_the_argument_needs_no_http(revision: str, text: str, name: str, kind: str) -> None:
    assert await Peer(build(), revision).text("describe", file=text) == described(name, kind)


@run
async def test_a_data_url_without_base64_is_a_file_too() -> None:
    text = await Peer(build()).text("describe", file="data:text/plain,a%20b")
    assert text == described("file", "text/plain", b"a b")


@run
async def test_several_files_and_an_absent_one() -> None:
    peer = Peer(build())
    assert await peer.text("count", files=["YWI=", "YWJj"]) == "5"
    assert await peer.text("count", files=[], extra="YWJj") == "3"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("not base64!", "not the base64"),
        ("data:text/plain;base64,%%%", "not the base64"),
        ("abcde", "not the base64"),
        ("http://evil.example/uploads/none", "not valid"),
        ("http://evil.example/secret", "not the base64"),
        ("", "file"),
        (5, "file"),
    ],
)
@run
async def test_what_is_no_file_fails_with_a_reason(file: Any, said: str) -> None:
    result = await Peer(build()).call("describe", file=file)
    assert result["isError"]
    assert said in result["content"][0]["text"]
    assert "file" in result["content"][0]["text"]


@pytest.mark.parametrize("size", [999, 1000, 1001, 1002, 1003, 5000])
@pytest.mark.parametrize("kind", ["base64", "data", "percent"])
@run
async def test_a_file_in_the_argument_has_the_limit_too(size: int, kind: str) -> None:
    data = b"a" * size
    encoded = base64.b64encode(data).decode()
    file = {"base64": encoded, "data": f"data:;base64,{encoded}", "percent": f"data:,{data.decode()}"}[kind]
    result = await Peer(build(limits=Limits(max_upload_bytes=1000))).call("describe", file=file)
    assert bool(result.get("isError")) == (size > 1000)
    if size > 1000:
        assert "larger than 1000 bytes" in result["content"][0]["text"]


@run
async def test_without_http_the_tool_says_to_use_base64() -> None:
    async with Client(build()) as client:
        with pytest.raises(ToolError, match="put the base64 of the file into the argument"):
            await client.call_tool("create_upload")


# --- over HTTP ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ALL)
@run
async def test_a_file_is_sent_once_and_used(revision: str) -> None:
    async with (
        served(build(limits=Limits(max_upload_bytes=1 << 20))) as site,
        Client(address(site), revision=revision) as client,
    ):
        text = (await client.call_tool("create_upload", {"name": "a.csv", "mime_type": "text/csv"})).text
        offer = json.loads(text)
        assert offer["method"] == "PUT"
        assert offer["maxBytes"] == 1 << 20
        assert offer["url"].startswith(f"http://127.0.0.1:{site.port}/uploads/")
        assert f"curl -T FILE '{offer['url']}'" in offer["instructions"]
        reply = await put(site, offer["url"], DATA)
        assert (reply.status, json.loads(reply.body)["size"]) == (201, len(DATA))
        for _ in range(2):  # a handler may run again, and another tool may want the same file
            found = await client.call_tool("describe", {"file": offer["url"]})
            assert found.text == described("a.csv", "text/csv")
        both = await client.call_tool("count", {"files": [offer["url"], "YWI="], "extra": offer["url"]})
        assert both.data == 2 * len(DATA) + 2


@run
async def test_a_call_that_names_one_file_many_times_has_it_in_memory_once() -> None:
    server = build()

    @server.tool
    def copies(files: list[Upload], other: Upload) -> int:
        return len({id(file.data) for file in (*files, other)})

    async with served(server) as site, Client(address(site)) as client:
        url = (await created(client))["url"]
        assert (await put(site, url, DATA)).status == 201
        elsewhere = url.replace("127.0.0.1", "another.example.com")  # the host of the URL does not matter
        found = await client.call_tool("copies", {"files": [url, elsewhere] * 50, "other": url})
        assert found.data == 1


@run
async def test_a_url_takes_one_file() -> None:
    async with served(build()) as site, Client(address(site)) as client:
        url = (await created(client))["url"]
        assert (await put(site, url, b"first")).status == 201
        again = await put(site, url, b"second")
        assert again.status == 409
        assert b"sent to this URL already" in again.body
        assert (await client.call_tool("describe", {"file": url})).text.split()[2] == "5"


@run
async def test_of_many_files_sent_at_once_one_is_taken() -> None:
    async with served(build()) as site, Client(address(site)) as client:
        url = (await created(client))["url"]
        replies = await asyncio.gather(*(put(site, url, b"x" * n) for n in range(1, 9)))
        assert sorted(reply.status for reply in replies) == [201, *[409] * 7]


@run
async def test_a_file_that_is_too_large_is_refused_and_the_url_stays_good() -> None:
    async with (
        served(build(limits=Limits(max_upload_bytes=100_000))) as site,
        Client(address(site)) as client,
    ):
        url = (await created(client))["url"]
        assert (await put(site, url, b"x" * 100_001)).status == 413
        path = "/" + url.split("/", 3)[3]
        async with await site.connect() as connection:  # no length is declared
            headers = {"transfer-encoding": "chunked"}
            connection.request("PUT", path, headers)
            connection.send(b"".join(b"2710\r\n" + b"x" * 10_000 + b"\r\n" for _ in range(11)) + b"0\r\n\r\n")
            assert (await connection.head()).status == 413
        with pytest.raises(ToolError, match="nothing was sent to it"):
            await client.call_tool("describe", {"file": url})
        assert (await put(site, url, b"x" * 100_000)).status == 201
        assert "100000" in (await client.call_tool("describe", {"file": url})).text


@run
async def test_a_body_that_ends_early_leaves_nothing_and_the_url_stays_good() -> None:
    async with served(build()) as site, Client(address(site)) as client:
        url = (await created(client))["url"]
        path = "/" + url.split("/", 3)[3]
        for headers, body in (
            ({"content-length": "1000"}, b"x" * 500),
            ({"transfer-encoding": "chunked"}, b"10\r\n0123456789abcdef\r\n"),
        ):
            async with await site.connect() as connection:
                connection.request("PUT", path, headers)
                connection.send(body)
                connection.writer.write_eof()
                assert b"201" not in (await connection.reader.read())[:20]
            with pytest.raises(ToolError, match="nothing was sent to it"):
                await client.call_tool("describe", {"file": url})
        assert (await put(site, url, b"whole")).status == 201


@run
async def test_an_expired_url_takes_nothing() -> None:
    clock = Clock()
    async with served(build(clock=clock)) as site, Client(address(site)) as client:
        url = (await created(client))["url"]
        clock.now += uploads.URL_LIFETIME + 2
        reply = await put(site, url, b"late")
        assert reply.status == 410
        assert b"expired" in reply.body
        with pytest.raises(ToolError, match="has expired"):
            await client.call_tool("describe", {"file": url})


@run
async def test_a_stored_file_expires() -> None:
    clock = Clock()
    async with served(build(clock=clock)) as site, Client(address(site)) as client:
        url = (await created(client))["url"]
        assert (await put(site, url, b"data")).status == 201
        clock.now += uploads.FILE_LIFETIME - 1
        assert (await client.call_tool("describe", {"file": url})).text
        clock.now += 2
        with pytest.raises(ToolError, match="has expired"):
            await client.call_tool("describe", {"file": url})
        assert (await put(site, url, b"data")).status == 410


@pytest.mark.parametrize("change", ["letter", "short", "other key", "word", "folder"])
@run
async def test_a_url_that_this_server_has_not_made_is_not_found(change: str) -> None:
    async with served(build(seal_keys=b"k" * 32)) as site, Client(address(site)) as client:
        url = (await created(client))["url"]
        if change == "other key":
            async with served(build(seal_keys=b"x" * 32)) as other, Client(address(other)) as stranger:
                token = (await created(stranger))["url"].rpartition("/")[2]
                url = f"{url.rpartition('/')[0]}/{token}"
        else:
            last = "A" if url[-5] != "A" else "B"
            url = {
                "letter": url[:-5] + last + url[-4:],
                "short": url[:-10],
                "word": url.rpartition("/")[0] + "/nonsense",
                "folder": url + "/more",
            }[change]
        assert (await put(site, url, b"data")).status == 404


@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH"])
@run
async def test_a_url_only_takes_files(method: str) -> None:
    async with served(build()) as site, Client(address(site)) as client:
        url = (await created(client))["url"]
        async with await site.connect() as connection:
            reply = await connection.ask(method, "/" + url.split("/", 3)[3], {})
        assert reply.status == 405
        assert reply.headers["allow"] == "POST, PUT"


# --- whose file it is -----------------------------------------------------------------------------------------


@run
async def test_a_file_needs_the_authentication_of_the_server() -> None:
    async with (
        served(build(auth=StaticTokens(TOKENS))) as site,
        Client(address(site), auth="ann-token") as ann,
        Client(address(site), auth="bob-token") as bob,
    ):
        offer = await created(ann)
        url = offer["url"]
        assert "Authorization" in offer["instructions"]
        assert (await put(site, url, DATA)).status == 401
        assert (await put(site, url, DATA, {"authorization": "Bearer wrong"})).status == 401
        stolen = await put(site, url, DATA, BOB)
        assert stolen.status == 403
        assert b"another caller" in stolen.body
        assert (await put(site, url, DATA, ANN)).status == 201
        with pytest.raises(ToolError, match="belongs to another caller"):
            await bob.call_tool("describe", {"file": url})
        assert (await ann.call_tool("describe", {"file": url})).text == described(
            "file", "application/octet-stream"
        )


@run
async def test_the_files_of_one_caller_are_limited_and_do_not_use_up_those_of_others() -> None:
    limits = Limits(max_upload_bytes=200_000)
    async with (
        served(build(auth=StaticTokens(TOKENS), limits=limits)) as site,
        Client(address(site), auth="ann-token") as ann,
        Client(address(site), auth="bob-token") as bob,
    ):
        body, statuses, url = b"x" * 200_000, list[int](), ""
        for _ in range(uploads.FILES_PER_OWNER + 1):
            url = (await created(ann))["url"]
            statuses.append((await put(site, url, body, ANN)).status)
        assert statuses == [*[201] * uploads.FILES_PER_OWNER, 507]
        assert (await put(site, (await created(bob))["url"], body, BOB)).status == 201
        # The refused URL has not been used up, and nothing of its file is left.
        assert (await put(site, url, b"", ANN)).status == 507


@run
async def test_a_handler_that_asks_the_user_has_the_file_in_every_round() -> None:
    server = Server("asking")

    @server.tool
    async def import_file(file: Upload, ctx: Context) -> str:
        """Import a file."""
        sure = await ctx.elicit(f"Import {file.name}?", bool)
        return f"{sure.data} {file.size}" if sure.action == "accept" else "no"

    async def agree(request: Any) -> bool:
        return True

    for revision in ("2025-06-18", MODERN):
        async with (
            served(server) as site,
            Client(address(site), revision=revision, on_elicit=agree) as client,
        ):
            url = (await created(client, name="../a\n.csv"))["url"]
            assert (await put(site, url, b"1,2")).status == 201
            assert (await client.call_tool("import_file", {"file": url})).text == "True 3"


# --- other servers around -------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["far", None])
@run
async def test_the_files_of_a_mounted_server_go_through_its_parent(prefix: str | None) -> None:
    whole = Server("whole", auth=StaticTokens(TOKENS))
    whole.mount(build(), prefix=prefix)
    other = Server("other")
    whole.mount(other, prefix="other")
    name: Callable[[str], str] = lambda tool: f"{prefix}_{tool}" if prefix else tool  # noqa: E731
    async with served(whole) as site, Client(address(site), auth="ann-token") as ann:
        found = await ann.call_tool(name("create_upload"), {"name": "a.txt"})
        url = found.structured_content["url"]  # type: ignore[index]
        assert (await put(site, url, b"data")).status == 401
        assert (await put(site, url, b"data", BOB)).status == 403
        assert (await put(site, url, b"data", ANN)).status == 201
        assert "a.txt" in (await ann.call_tool(name("describe"), {"file": url})).text


@run
async def test_a_server_that_is_mounted_as_uploads_keeps_its_routes() -> None:
    whole, other = Server("whole"), Server("other")
    other.route("/status")(lambda request: "well")
    whole.mount(other, prefix="uploads")
    async with served(whole) as site, await site.connect() as connection:
        reply = await connection.ask("GET", "/uploads/status", {})
        assert (reply.status, reply.body) == (200, b"well")


@run
async def test_every_worker_with_the_same_store_takes_and_has_the_file(tmp_path: Path) -> None:
    def worker() -> Server:
        return build(store=SqliteStore(tmp_path / "state.db"), seal_keys=b"k" * 32)

    async with served(worker()) as first, served(worker()) as second, served(worker()) as third:
        async with Client(address(first)) as client:
            url = (await created(client))["url"]
        assert (await put(second, url, DATA)).status == 201
        assert (await put(first, url, DATA)).status == 409
        async with Client(address(third)) as client:
            found = await client.call_tool("describe", {"file": url})
            assert found.text == described("file", "application/octet-stream")


SHOP = """
from dovetail import Server, Upload

server = Server("files")


@server.tool
def size(file: Upload) -> int:
    \"\"\"The size of a file.\"\"\"
    return file.size
"""


def called(http: httpx2.Client, port: int, name: str, arguments: dict[str, Any]) -> Any:
    """The structured result of a tool, on a connection that is closed: the next one meets any worker."""
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": name,
        "connection": "close",
    }
    params = {"name": name, "arguments": arguments, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    reply = http.post(f"http://127.0.0.1:{port}/mcp", json=message, headers=headers)
    return reply.json()["result"]["structuredContent"]


def test_worker_processes_share_uploads(tmp_path: Path) -> None:
    file, port = tmp_path / "files.py", free_port()
    file.write_text(SHOP)
    command = [*CLI, "run", str(file), "--http", "--port", str(port), "--workers", "2"]
    with hosts.running(command, port), httpx2.Client() as http:
        for _ in range(6):
            url = called(http, port, "create_upload", {})["url"]
            assert http.put(url, content=DATA, headers={"connection": "close"}).status_code == 201
            assert called(http, port, "size", {"file": url}) == len(DATA)


def test_a_server_without_files_does_not_load_the_module() -> None:
    code = (
        "import sys\nfrom dovetail import Server\nserver = Server('x')\n"
        "server.add_tool(lambda: 'x', name='x', description='d')\n"
        "print('dovetail.server.uploads' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, env=os.environ
    )
    assert done.stdout.strip() == "False"
