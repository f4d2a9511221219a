"""Every example does what its first line says, and refuses what it should."""

from __future__ import annotations

import asyncio
import http.server
import json
import sqlite3
import subprocess
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail import Client, Refusal, Server, ToolError
from dovetail.extensions import EventsClient
from tests.examples.loading import EXAMPLES, example
from tests.support.aio import run
from tests.support.waiting import HANG
from tests.support.web import served

MODERN = "2026-07-28"
ASKING = ("2025-06-18", "2025-11-25", MODERN)


def test_every_example_has_a_test() -> None:
    tested = Path(__file__).read_text() + (Path(__file__).parent.parent / "test_docs.py").read_text()
    names = [path.stem for path in EXAMPLES.glob("*.py") if path.stem != "quickstart"]
    assert [name for name in names if f'example("{name}")' not in tested] == []


async def said(client: Client, tool: str, **arguments: object) -> str:
    """What the tool's error says."""
    with pytest.raises(ToolError) as caught:
        await client.call_tool(tool, arguments)
    return str(caught.value)


# --- files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "one.txt").write_text("tea\ncoffee\n")
    (root / "picture.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "secret.txt").write_text("tea for nobody")
    (root / "way_out").symlink_to(tmp_path)
    monkeypatch.setenv("FILES_ROOT", str(root))
    return root


@run
async def test_files_are_listed_read_searched_and_written(folder: Path) -> None:
    async with Client(example("files").server) as client:
        listed = (await client.call_tool("list_files")).data
        assert [entry["path"] for entry in listed] == ["notes", "picture.bin", "way_out"]
        assert (await client.call_tool("read_file", {"path": "notes/one.txt"})).text == "tea\ncoffee\n"
        found = (await client.call_tool("search", {"word": "tea"})).data
        assert found == [{"path": "notes/one.txt", "number": 1, "text": "tea"}]
        await client.call_tool("write_file", {"path": "new/two.txt", "text": "milk"})
        assert (folder / "new" / "two.txt").read_text() == "milk"
        [contents] = (await client.read_resource("files:///new/two.txt")).contents
        assert contents.text == "milk"


@pytest.mark.parametrize(
    "path", ["../secret.txt", "way_out/secret.txt", "/etc/passwd", "notes/../../secret.txt"]
)
@run
async def test_files_outside_of_the_folder_stay_there(folder: Path, path: str) -> None:
    async with Client(example("files").server) as client:
        assert "outside" in await said(client, "read_file", path=path)
        assert "outside" in await said(client, "write_file", path=path, text="x")
        assert (await client.call_tool("search", {"word": "nobody", "pattern": "**/*"})).data == []
    assert (folder.parent / "secret.txt").read_text() == "tea for nobody"


@run
async def test_a_file_that_is_not_text_is_refused_with_a_message(folder: Path) -> None:
    async with Client(example("files").server) as client:
        assert "is no text" in await said(client, "read_file", path="picture.bin")
        assert "no file" in await said(client, "read_file", path="notes")


# --- SQLite ------------------------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, photo BLOB)")
        connection.executemany("INSERT INTO orders (item, photo) VALUES (?, x'00ff')", [("tea",), ("milk",)])
    connection.close()
    monkeypatch.setenv("SQLITE_FILE", str(path))
    return path


@run
async def test_a_database_is_looked_at_and_asked(database: Path) -> None:
    async with Client(example("sqlite").server) as client:
        [table] = (await client.call_tool("tables")).data
        assert (table["name"], table["rows"]) == ("orders", 2)
        asked = {"sql": "SELECT item, photo FROM orders WHERE item = ?", "values": ["tea"]}
        answer = (await client.call_tool("query", asked)).data
        assert answer == {"columns": ["item", "photo"], "rows": [["tea", "2 bytes"]], "more": False}
        [contents] = (await client.read_resource("table://orders")).contents
        assert contents.text is not None
        assert contents.text.startswith("CREATE TABLE orders")
        assert (await client.complete("table://{name}", "name", "o")).completion.values == ["orders"]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM orders",
        "DROP TABLE orders",
        "PRAGMA query_only = OFF",
        "ATTACH DATABASE '/tmp/elsewhere.db' AS other",
        "SELECT 1; DELETE FROM orders",
        "SELECT * FROM nothing",
    ],
)
@run
async def test_a_database_is_not_changed(database: Path, sql: str) -> None:
    async with Client(example("sqlite").server) as client:
        assert "SQLite says" in await said(client, "query", sql=sql)
        assert (await client.call_tool("tables")).data[0]["rows"] == 2


@run
async def test_a_query_without_end_is_stopped(database: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    async with Client(example("sqlite").server) as client:
        assert "interrupted" in await said(client, "query", sql=endless)


# --- git ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org")):
        monkeypatch.setenv(f"GIT_AUTHOR_{variable}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{variable}", value)
    monkeypatch.setenv("GIT_ROOT", str(tmp_path))
    (tmp_path / "one.txt").write_text("tea\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


@pytest.mark.parametrize("revision", ASKING)
@run
async def test_a_commit_is_made_once_and_after_an_input_request(repository: Path, revision: str) -> None:
    answers = iter([False, True])
    questions: list[str] = []

    async def on_elicit(request: object) -> bool:
        questions.append(str(request))
        return next(answers)

    (repository / "one.txt").write_text("coffee\n")
    async with Client(example("git").server, revision=revision, on_elicit=on_elicit) as client:
        assert "one.txt" in (await client.call_tool("status")).text
        assert "+coffee" in (await client.call_tool("diff")).text
        arguments = {"message": "second", "paths": ["one.txt"]}
        assert (await client.call_tool("commit", arguments)).text == "Nothing was committed."
        await client.call_tool("commit", arguments)
        log = (await client.call_tool("log")).data
        assert [entry["subject"] for entry in log] == ["second", "first"]
        assert len(questions) == 2


@run
async def test_no_argument_of_git_is_an_option(repository: Path) -> None:
    async with Client(example("git").server) as client:
        assert "option" in await said(client, "diff", commit="--output=stolen")
        assert "revision" in await said(client, "diff", commit="nowhere")
        await client.call_tool("log", {"path": "--all"})
    assert not (repository / "stolen").exists()


# --- an HTTP API -------------------------------------------------------------------------------------------------


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A service of exchange rates; the paths it was asked for."""
    asked: list[str] = []

    class Rates(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = json.dumps({"base": "EUR", "rates": {"NOK": 11.5, "JPY": 160}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Rates) as listener:
        monkeypatch.setenv("RATES_URL", f"http://127.0.0.1:{listener.server_port}/latest")
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        yield asked
        listener.shutdown()
        thread.join()


@run
async def test_a_rate_is_fetched_once(service: list[str]) -> None:
    async with Client(example("http_api").server) as client:
        for _ in range(3):
            amount = (await client.call_tool("convert", {"value": 2, "source": "eur", "target": "NOK"})).data
            assert amount == {"value": 23.0, "currency": "NOK"}
        assert service == ["/latest?base=EUR"]
        assert "no currency" in await said(client, "rates", base="../admin")
        assert "no rate" in await said(client, "convert", value=1, source="EUR", target="XXX")


@run
async def test_a_service_that_is_down_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATES_URL", "http://127.0.0.1:1/latest")
    async with Client(example("http_api").server) as client:
        for number in range(5):
            code = "".join(chr(ord("A") + number) for _ in range(3))
            assert "incident" in await said(client, "rates", base=code)
        with pytest.raises(Refusal, match="circuit breaker of this tool is open"):
            await client.call_tool("rates", {"base": "XYZ"})


# --- a calendar --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ASKING)
@run
async def test_two_appointments_at_one_time_are_asked_about(revision: str) -> None:
    answers = iter([False, True])

    async def on_elicit(request: object) -> bool:
        return next(answers)

    lunch = {"title": "Lunch", "begin": "2026-03-02T12:00:00Z", "end": "2026-03-02T13:00:00Z"}
    call = {"title": "Call", "begin": "2026-03-02T12:30:00Z", "end": "2026-03-02T14:00:00Z"}
    async with Client(example("appointments").server, revision=revision, on_elicit=on_elicit) as client:
        assert "Lunch: 02 March, 12:00" in (await client.call_tool("add", lunch)).text
        assert (await client.call_tool("add", call)).text == "Nothing was added."
        assert "Call" in (await client.call_tool("add", call)).text
        day = (await client.call_tool("agenda", {"day": "2026-03-02"})).data
        assert [one["title"] for one in day] == ["Lunch", "Call"]
        gaps = (await client.call_tool("free", {"day": "2026-03-02", "minutes": 60})).data
        assert [gap["begin"][11:16] for gap in gaps] == ["08:00", "14:00"]
        await client.call_tool("remove", {"title": "Call", "begin": "2026-03-02T12:30:00Z"})
        assert "no Call" in await said(client, "remove", title="Call", begin="2026-03-02T12:30:00Z")
        assert "ends after" in await said(client, "add", **{**lunch, "end": lunch["begin"]})


# --- images ------------------------------------------------------------------------------------------------------


@run
async def test_a_chart_is_a_picture_and_a_line_of_text() -> None:
    values = [{"name": "tea", "value": 3}, {"name": "milk", "value": 1.5}]
    async with Client(example("images").server) as client:
        result = await client.call_tool("bars", {"values": values, "height": 40})
        text, image = result.content
        assert text.text == "tea 3, milk 1.5"
        assert image.mime_type == "image/png"
        assert image.data.startswith("iVBORw0KGgo")  # as browsers know a PNG
        assert "no colour" in await said(client, "swatch", colour="red")
        assert "1 to 64 bars" in await said(client, "bars", values=[])


# --- long work ---------------------------------------------------------------------------------------------------


@run
async def test_a_long_job_reports_progress_and_can_be_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOB_ROOT", str(tmp_path))
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    expected = [{"path": name, "crc": f"{zlib.crc32(name.encode()):08x}"} for name in ("a", "b")]
    heard: list[tuple[float, float | None, str | None]] = []
    async with Client(example("long_job").server) as client:
        progress = {"on_progress": lambda *told: heard.append(told)}
        assert (await client.call_tool("checksums", {"pattern": "*"}, **progress)).data == expected
        assert heard == [(1, 2, "a"), (2, 2, "b")]
        task = await client.create_task("checksums", {"pattern": "*"})
        assert (await asyncio.wait_for(task.result(), HANG)).data == expected
        assert "No file" in await said(client, "checksums", pattern="*.iso")


# --- questions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ASKING)
@run
async def test_every_kind_of_input_request_is_asked(revision: str) -> None:
    module = example("questions")
    visited: list[str] = []

    async def on_elicit(request: object) -> object:
        url = getattr(request, "url", None)
        if url:
            visited.append(url)
            return "accept"
        return True if "paid" in str(request) else {"days": 3, "travel": "ship"}

    async def on_sample(request: object) -> str:
        return "Rain. Come soon."

    async def on_roots() -> list[str]:
        return ["file:///home/ada"]

    async with Client(
        module.server, revision=revision, on_elicit=on_elicit, on_sample=on_sample, on_roots=on_roots
    ) as client:
        assert (await client.call_tool("book", {"city": "Oslo"})).text == "3 days in Oslo by ship, paid."
        assert module.booked == ["Oslo"]
        assert (await client.call_tool("postcard", {"city": "Oslo"})).text == "Rain. Come soon."
        assert (await client.call_tool("projects")).data == ["file:///home/ada"]
        if revision != "2025-06-18":  # pages came with 2025-11-25
            assert (await client.call_tool("pay", {"amount": 3})).text == "Paid."
            assert visited == ["https://bank.example/pay?amount=3.00"]


# --- a page ------------------------------------------------------------------------------------------------------


@run
async def test_a_poll_has_a_page_and_a_text_fallback() -> None:
    async with Client(example("app").server) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        page = tools["ask"].meta["ui"]["resourceUri"]
        [contents] = (await client.read_resource(page)).contents
        assert contents.mime_type == "text/html;profile=mcp-app"
        assert contents.text.startswith("<!DOCTYPE html>")
        asked = await client.call_tool("ask", {"question": "Tea?", "choices": ["yes", "no"]})
        assert asked.text == "Tea? yes: 0, no: 0"
        voted = await client.call_tool("vote", {"choice": "yes"})
        assert voted.data == {"question": "Tea?", "votes": {"yes": 1, "no": 0}}
        assert "no choice" in await said(client, "vote", choice="perhaps")
        assert "two to ten" in await said(client, "ask", question="?", choices=["a", "a"])


# --- events ------------------------------------------------------------------------------------------------------


@run
async def test_a_watched_folder_reports_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCH_ROOT", str(tmp_path))
    monkeypatch.setenv("WATCH_SECONDS", "0.01")
    (tmp_path / "old.txt").write_text("old")
    events = EventsClient()
    async with (
        Client(example("events").server, extensions=[events]),
        events.subscribe("file.changed", {"pattern": "*.txt"}) as changes,
    ):
        (tmp_path / "picture.png").write_text("no text")
        (tmp_path / "new.txt").write_text("new")
        assert (await anext(changes)).data == {"path": "new.txt", "kind": "new"}
        (tmp_path / "old.txt").unlink()
        assert (await anext(changes)).data == {"path": "old.txt", "kind": "removed"}


# --- many users --------------------------------------------------------------------------------------------------


@run
async def test_callers_do_not_see_the_notes_or_tools_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_TOKENS", "s1=ada:read,write;s2=bob:read,write;s3=eve:read")
    server: Server = example("multi_user").server
    async with served(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with (
            Client(url, auth="s1") as ada,
            Client(url, auth="s2") as bob,
            Client(url, auth="s3") as eve,
        ):
            await ada.call_tool("write", {"text": "tea"})
            assert (await ada.call_tool("read")).data == [{"number": 0, "text": "tea"}]
            assert (await bob.call_tool("read")).data == []
            assert "users_known" in [tool.name for tool in await ada.list_tools()]
            assert [tool.name for tool in await eve.list_tools()] == ["read"]
            assert "no note" in await said(bob, "erase", number=0)
