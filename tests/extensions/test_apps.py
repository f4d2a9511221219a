"""MCP Apps: the page, its permissions, the visibility of its tools, and what clients without apps get."""

from pathlib import Path
from typing import Any

import pytest

from dovetail import App, Client, RegistrationError, Server
from dovetail.extensions.apps import EXTENSION, HTML
from tests.support.aio import run
from tests.support.peer import Peer

SHOWS = {"extensions": {EXTENSION: {"mimeTypes": [HTML]}}}
PAGE = "<!DOCTYPE html><title>Sales</title>"


def sales() -> Server:
    server = Server("sales desk")
    app = App(
        html=PAGE,
        csp={"connectDomains": ["https://api.example.com"], "resourceDomains": ["https://*.example.com"]},
        permissions=["clipboardWrite"],
        prefers_border=True,
        fallback=lambda months: f"{len(months)} months",
    )

    @server.tool(app=app)
    def year() -> list[int]:
        """Sales by month."""
        return [1, 2, 3]

    @server.tool(app=App(uri="ui://sales-desk/year.html", visibility=["app"]))
    def refresh() -> str:
        """For the page."""
        return "fresh"

    return server


async def asked(server: Server, method: str, params: dict[str, Any], capabilities: dict[str, Any]) -> Any:
    """One request of 2026-07-28 from a client with ``capabilities``."""
    import json

    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientCapabilities": capabilities}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    reply = await server.handle(json.dumps(message))
    assert reply is not None
    return json.loads(reply)["result"]


@run
async def test_the_tool_names_its_page_and_the_page_says_what_it_needs() -> None:
    server = sales()
    tools = (await asked(server, "tools/list", {}, SHOWS))["tools"]
    ui = {tool["name"]: tool["_meta"]["ui"] for tool in tools}
    assert ui["year"] == {"resourceUri": "ui://sales-desk/year.html", "visibility": ["model", "app"]}
    assert ui["refresh"]["visibility"] == ["app"]
    # Older hosts read the flat key.
    assert {tool["_meta"]["ui/resourceUri"] for tool in tools} == {"ui://sales-desk/year.html"}
    contents = (await asked(server, "resources/read", {"uri": "ui://sales-desk/year.html"}, SHOWS))[
        "contents"
    ]
    assert contents == [
        {
            "uri": "ui://sales-desk/year.html",
            "mimeType": HTML,
            "text": PAGE,
            "_meta": {
                "ui": {
                    "csp": {
                        "connectDomains": ["https://api.example.com"],
                        "resourceDomains": ["https://*.example.com"],
                    },
                    "permissions": {"clipboardWrite": {}},
                    "prefersBorder": True,
                }
            },
        }
    ]
    listed = (await asked(server, "resources/list", {}, SHOWS))["resources"]
    assert listed[0]["mimeType"] == HTML
    assert listed[0]["_meta"]["ui"]["prefersBorder"] is True


@run
async def test_ping_is_answered_on_every_revision_once_there_is_an_app() -> None:
    parent = Server("parent")
    parent.mount(sales(), prefix="desk")
    for server in (sales(), parent):
        assert (await asked(server, "ping", {}, SHOWS))["resultType"] == "complete"
        assert "result" in await Peer(server, "2025-11-25").ask("ping")
    with pytest.raises(KeyError, match="result"):
        await asked(Server("bare"), "ping", {}, SHOWS)


@run
async def test_the_capability_is_offered_once_there_is_an_app() -> None:
    bare = Server("bare")
    assert EXTENSION not in (await asked(bare, "server/discover", {}, {}))["capabilities"].get(
        "extensions", {}
    )
    found = (await asked(sales(), "server/discover", {}, {}))["capabilities"]["extensions"]
    assert found[EXTENSION] == {"mimeTypes": [HTML]}


@run
async def test_a_client_without_apps_gets_a_text_and_no_tools_of_the_page() -> None:
    server = sales()
    for _ in range(2):  # lists are kept, each for its kind of client
        names = [tool["name"] for tool in (await asked(server, "tools/list", {}, {}))["tools"]]
        assert names == ["year"]
        names = [tool["name"] for tool in (await asked(server, "tools/list", {}, SHOWS))["tools"]]
        assert names == ["year", "refresh"]
    plain = await asked(server, "tools/call", {"name": "year"}, {})
    assert [block["text"] for block in plain["content"]] == ["3 months"]
    assert plain["structuredContent"] == [1, 2, 3]
    shown = await asked(server, "tools/call", {"name": "year"}, SHOWS)
    assert [block["text"] for block in shown["content"]] == ["[1,2,3]"]
    other = {"extensions": {EXTENSION: {"mimeTypes": ["text/x-other"]}}}
    assert (await asked(server, "tools/call", {"name": "year"}, other))["content"][0]["text"] == "3 months"


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@run
async def test_a_session_of_an_older_revision_negotiates_it_too(revision: str) -> None:
    async with Client(sales(), revision=revision) as client:
        assert [tool.name for tool in await client.list_tools()] == ["year"]
        assert (await client.call_tool("year")).text == "3 months"


@run
async def test_a_page_can_be_a_file_or_a_resource_of_the_authors_own(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE)
    server = Server("files")
    server.tool(name="one", app=tmp_path / "page.html", description="d")(lambda: None)

    @server.resource("ui://own/page", mime_type=HTML)
    def page() -> str:
        return "<p>own"

    server.tool(name="two", app="ui://own/page", description="d")(lambda: None)
    async with Client(server) as client:
        assert (await client.read_resource("ui://files/one.html")).contents[0].text == PAGE
        own = (await client.read_resource("ui://own/page")).contents[0]
        assert (own.text, own.mime_type) == ("<p>own", HTML)


@pytest.mark.parametrize(
    ("app", "words"),
    [
        (App(), "needs html"),
        (App(html="x", file="y"), "not both"),
        (App(file="nothing.html"), "does not exist"),
        (App(uri="ui://not/there"), "register the resource"),
        (App(uri="https://example.com"), "ui://"),
        (App(html="x", csp={"scriptDomains": ["https://a"]}), "scriptDomains"),
        (App(html="x", csp={"connectDomains": ["https://a; script-src *"]}), "is not an origin"),
        (App(html="x", csp={"connectDomains": ["*"]}), "is not an origin"),
        (App(html="x", permissions=["usb"]), "usb"),
        (App(html="x", visibility=["admin"]), "visibility"),  # pyright: ignore[reportArgumentType]
        (3, "App, a path"),
    ],
)
def test_an_app_that_no_host_should_take_is_refused(app: Any, words: str) -> None:
    server = Server("wrong")
    with pytest.raises(RegistrationError, match=words):
        server.tool(name="t", app=app, description="d")(lambda: None)
    assert not server.registry.tools
