"""Every example does what it says."""

import base64
import http.server
import importlib.util
import json
import sqlite3
import subprocess
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dovetail import Client, ProtocolError, ToolError
from dovetail.surface.apps import EXTENSION, HTML
from tests.support.aio import run
from tests.support.web import served

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@run
async def test_files_are_found_and_read_and_only_those(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tea.md").write_text("# Tea\nGreen, 80 degrees\n")
    (tmp_path / "secret.md").write_text("green secret")
    monkeypatch.setenv("NOTES_FOLDER", str(tmp_path / "notes"))
    async with Client(load("files").server) as client:
        found = (await client.call_tool("search", {"word": "green"})).data
        assert found == [{"uri": "files://tea.md", "line": "2: Green, 80 degrees"}]
        assert "# Tea" in str((await client.read_resource("files://tea.md")).contents[0].text)
        with pytest.raises(ProtocolError):
            await client.read_resource("files://../secret.md")


@run
async def test_sqlite_is_asked_and_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE", str(tmp_path / "shop.db"))
    made = sqlite3.connect(tmp_path / "shop.db")
    made.execute("CREATE TABLE book (title TEXT, price INT)")
    made.execute("INSERT INTO book VALUES ('Tea', 12)")
    made.commit()
    made.close()
    async with Client(load("sqlite_notes").server) as client:
        assert (await client.call_tool("query", {"sql": "SELECT * FROM book"})).data == [
            {"title": "Tea", "price": 12}
        ]
        assert "CREATE TABLE book" in str((await client.read_resource("schema://tables")).contents[0].text)
        for wrong in ("DELETE FROM book", "SELECT * FROM nothing", "SELECT 1; SELECT 2"):
            with pytest.raises(ToolError, match="SQLite says"):
                await client.call_tool("query", {"sql": wrong})


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=Ada", "-c", "user.email=a@example.com"]
    (tmp_path / "a.txt").write_text("one\n")
    for words in (["init", "-q"], ["add", "a.txt"], ["commit", "-qm", "begin"]):
        subprocess.run([*git, *words], check=True, timeout=30)
    monkeypatch.setenv("REPOSITORY", str(tmp_path))
    return tmp_path


@run
async def test_git_history_is_shown_and_options_are_not_smuggled(repository: Path) -> None:
    async with Client(load("git_history").server) as client:
        (first,) = (await client.call_tool("log")).data
        assert (first["author"], first["subject"]) == ("Ada", "begin")
        assert "+one" in (await client.call_tool("show", {"commit": first["commit"]})).text
        assert (await client.call_tool("log", {"path": "--output=stolen"})).data == []
        for wrong in ("--output=stolen", "-p", "nothing"):
            with pytest.raises(ToolError):
                await client.call_tool("show", {"commit": wrong})
    assert not (repository / "stolen").exists()


@run
async def test_an_http_api_is_asked_and_its_errors_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.startswith("/forecast/S%C3%A3o%20Paulo?days=2")
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"degrees": [20, 21]}).encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as api:
        thread = threading.Thread(target=api.serve_forever)
        thread.start()
        monkeypatch.setenv("API", f"http://127.0.0.1:{api.server_port}")
        try:
            async with Client(load("http_api").server) as client:
                found = await client.call_tool("forecast", {"city": "São Paulo", "days": 2})
                assert found.data == {"degrees": [20, 21]}
                with pytest.raises(ToolError, match="no such city"):
                    await client.call_tool("forecast", {"city": "Atlantis"})
        finally:
            api.shutdown()
            thread.join()


@run
async def test_a_diary_refuses_what_overlaps() -> None:
    async with Client(load("diary").server) as client:
        await client.call_tool("add", {"title": "Dentist", "begins": "2026-11-17T10:00:00"})
        with pytest.raises(ToolError, match="Dentist"):
            await client.call_tool("add", {"title": "Tea", "begins": "2026-11-17T10:30:00"})
        await client.call_tool("add", {"title": "Tea", "begins": "2026-11-17T09:00:00", "minutes": 60})
        found = (await client.call_tool("day", {"when": "2026-11-17"})).data
        assert [one["title"] for one in found] == ["Tea", "Dentist"]
        assert (await client.complete("plan", "when", "2026")).values == ["2026-11-17"]


@run
async def test_a_chart_is_a_picture() -> None:
    async with Client(load("images").server) as client:
        text, picture = (await client.call_tool("bars", {"values": [1, 2, 3], "height": 30})).content
        assert "3 bars" in text.text
        assert base64.b64decode(picture.data)[:4] == b"\x89PNG"
        with pytest.raises(ToolError, match="not negative"):
            await client.call_tool("bars", {"values": [-1]})


@run
async def test_a_long_job_tells_how_far_it_is_and_can_be_a_task() -> None:
    heard: list[float] = []
    async with Client(load("long_job").server) as client:
        arguments = {"frames": 3, "seconds": 0}
        done = await client.call_tool(
            "render", arguments, on_progress=lambda now, total, text: heard.append(now)
        )
        assert done.text == "film of 3 frames"
        assert heard[-1] == 3
        handle = await client.call_tool("render", arguments, task=True)
        assert (await handle.result()).text == "film of 3 frames"


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_questions_are_answered_and_paid_once(revision: str) -> None:
    async def answer(question: Any) -> Any:
        value = {"row": 7, "side": "aisle"} if "seat" in question.message else {"value": "yes"}
        return {"action": "accept", "content": value}

    async with Client(load("questions").server, revision=revision, on_elicit=answer) as client:
        assert (await client.call_tool("book", {"flight": "X1"})).text == "X1, row 7, aisle: paid-X1-7"


@run
async def test_everybody_has_a_list_of_their_own() -> None:
    async with served(load("multi_user").server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, auth="ada-token") as ada, Client(url, auth="root-token") as root:
            await ada.call_tool("add", {"item": "tea"})
            assert (await root.call_tool("add", {"item": "rope"})).data == ["rope"]
            assert (await ada.call_tool("add", {"item": "milk"})).data == ["tea", "milk"]
            assert [tool.name for tool in await ada.list_tools()] == ["add"]
            assert (await root.call_tool("everybody")).data == ["ada", "root"]
        async with await site.connect() as connection:
            assert (await connection.ask("GET", "/me", {})).status == 401
        async with await site.connect() as connection:
            found = await connection.ask("GET", "/me", {"Authorization": "Bearer ada-token"})
            assert json.loads(found.body) == {"user": "ada"}


@run
async def test_a_dashboard_has_a_page_and_a_text_for_the_rest() -> None:
    server = load("dashboard").server
    shows = {"extensions": {EXTENSION: {"mimeTypes": [HTML]}}}
    async with Client(server) as plain, Client(server, capabilities=shows) as rich:
        assert (await plain.call_tool("sales")).text == "January: 12, February: 9, March: 17"
        (tool,) = await rich.list_tools()
        page = (await rich.read_resource(tool.meta["ui"]["resourceUri"])).contents[0]
        assert page.mime_type == HTML
        assert "innerHTML =" not in str(page.text)
        assert (await rich.call_tool("sales")).data["months"][0] == {"name": "January", "sold": 12}
