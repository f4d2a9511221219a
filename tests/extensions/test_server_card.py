"""`ServerCard`: the card and the catalogue, over HTTP, for strangers and for pages of other sites."""

import json
import re
from typing import Any

import pytest

from dovetail import RegistrationError, Server
from dovetail.extensions import ServerCard
from tests.support.aio import run
from tests.support.events import tokens
from tests.support.web import Response, Site, Web, modern, modern_headers, served

URL = "https://example.com/mcp"
CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET",
    "access-control-allow-headers": "Content-Type, If-None-Match",
    "access-control-expose-headers": "ETag",
}


def build(card: ServerCard | None = None, **options: Any) -> Server:
    given = {"title": "The weather", "description": "Forecasts for cities.", **options}
    return Server("weather", "1.2.0", extensions=[card or ServerCard("com.example/weather", URL)], **given)


async def get(site: Site, path: str, method: str = "GET", **headers: str) -> Response:
    return await Web(site).ask(method, headers, None, path)


@run
async def test_the_card_is_made_from_the_server() -> None:
    icons = [{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}]
    card = ServerCard(
        "com.example/weather",
        URL,
        repository={"url": "https://example.com/code", "source": "other"},
        headers=[{"name": "X-Key", "isRequired": True, "isSecret": True}],
        sse_url="https://example.com/sse",
        meta={"com.example/tier": "free"},
    )
    server = build(card, icons=icons, website_url="https://example.com/", instructions="secret words")
    headers = [{"name": "X-Key", "isRequired": True, "isSecret": True}]
    async with served(server) as site:
        found = await get(site, "/mcp/server-card", Accept="application/mcp-server-card+json")
        assert found.status == 200
        assert found.headers["content-type"] == "application/mcp-server-card+json"
        legacy = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
        assert json.loads(found.body) == {
            "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
            "name": "com.example/weather",
            "version": "1.2.0",
            "description": "Forecasts for cities.",
            "title": "The weather",
            "websiteUrl": "https://example.com/",
            "repository": {"url": "https://example.com/code", "source": "other"},
            "icons": icons,
            "remotes": [
                {
                    "type": "streamable-http",
                    "url": URL,
                    "supportedProtocolVersions": [*legacy, "2026-07-28"],
                    "headers": headers,
                },
                {
                    "type": "sse",
                    "url": "https://example.com/sse",
                    "supportedProtocolVersions": legacy,
                    "headers": headers,
                },
            ],
            "_meta": {"com.example/tier": "free"},
        }


@run
async def test_the_catalogue_leads_to_the_card() -> None:
    other = {
        "identifier": "urn:air:example.com:mcp:other",
        "type": "application/json",
        "url": "https://x.example/",
    }
    async with served(build(ServerCard("com.example/weather", URL, entries=[other]))) as site:
        found = await get(site, "/.well-known/ai-catalog.json")
        assert found.headers["content-type"] == "application/ai-catalog+json"
        assert json.loads(found.body) == {
            "specVersion": "1.0",
            "entries": [
                {
                    "identifier": "urn:air:example.com:mcp:weather",
                    "type": "application/mcp-server-card+json",
                    "url": "https://example.com/mcp/server-card",
                },
                other,
            ],
        }


@run
async def test_the_card_says_what_the_server_says() -> None:
    server = build()
    async with served(server) as site:
        card = json.loads((await get(site, "/mcp/server-card")).body)
        said = (await Web(site).modern("server/discover")).message["result"]
    info = next(value for key, value in {**said, **said["_meta"]}.items() if key.endswith("serverInfo"))
    assert (card["version"], card["title"]) == (info["version"], info["title"])
    assert set(said["supportedVersions"]) <= set(card["remotes"][0]["supportedProtocolVersions"])
    assert said["capabilities"]["extensions"] == {"io.modelcontextprotocol/server-card": {}}


@run
async def test_without_the_extension_there_is_neither() -> None:
    async with served(Server("plain")) as site:
        for path in ("/mcp/server-card", "/.well-known/ai-catalog.json"):
            assert (await get(site, path)).status == 404
    async with served(build(ServerCard("com.example/weather", URL, catalog=False))) as site:
        assert (await get(site, "/mcp/server-card")).status == 200
        assert (await get(site, "/.well-known/ai-catalog.json")).status == 404


@run
async def test_a_stranger_reads_the_card_of_a_protected_server_and_nothing_else() -> None:
    async with served(build(auth=tokens)) as site:
        assert (await get(site, "/mcp/server-card")).status == 200
        assert (await get(site, "/.well-known/ai-catalog.json")).status == 200
        message = modern("tools/list")
        refused = await Web(site).ask("POST", modern_headers(message), json.dumps(message).encode())
        assert refused.status == 401


@pytest.mark.parametrize("options", [{}, {"cors": True, "allowed_origins": ["https://good.example"]}])
@run
async def test_pages_of_all_origins_may_read_it_but_not_call_the_endpoint(options: Any) -> None:
    async with served(build(), **options) as site:
        for origin in ("https://evil.example", "https://good.example"):
            found = await get(site, "/mcp/server-card", Origin=origin, **{"Sec-Fetch-Site": "cross-site"})
            assert found.status == 200
            assert {name: found.headers[name] for name in CORS} == CORS
            asked = await get(
                site, "/mcp/server-card", "OPTIONS", Origin=origin, **{"Access-Control-Request-Method": "GET"}
            )
            assert asked.status == 204
            assert {name: asked.headers[name] for name in CORS} == CORS
        message = modern("tools/list")
        headers = modern_headers(message) | {"Origin": "https://evil.example"}
        refused = await Web(site).ask("POST", headers, json.dumps(message).encode())
        assert refused.status == 403


@run
async def test_a_strange_host_is_refused_as_everywhere() -> None:
    """DNS rebinding: a page of another site must not read a server on this machine under its own name."""
    async with served(build()) as site:
        assert (await get(site, "/mcp/server-card", Host="evil.example")).status == 403


@run
async def test_a_client_that_has_the_card_is_told_that_it_is_current() -> None:
    async with served(build()) as site:
        first = await get(site, "/mcp/server-card")
        etag = first.headers["etag"]
        assert first.headers["cache-control"] == "public, max-age=3600"
        assert re.fullmatch('"[0-9a-f]{32}"', etag)
        for given in (etag, f'"x", {etag}', f"W/{etag}", "*"):
            again = await get(site, "/mcp/server-card", **{"If-None-Match": given})
            assert (again.status, again.body) == (304, b"")
            assert again.headers["etag"] == etag
        assert (await get(site, "/mcp/server-card", **{"If-None-Match": '"x"'})).status == 200
        head = await get(site, "/mcp/server-card", "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert (await get(site, "/mcp/server-card", "POST")).status == 405


@run
async def test_the_path_follows_the_url() -> None:
    async with served(build(ServerCard("com.example/weather", "https://example.com/v1/mcp/"))) as site:
        assert (await get(site, "/v1/mcp/server-card")).status == 200
    card = ServerCard("com.example/weather", URL, path="/card.json")
    async with served(build(card)) as site:
        assert (await get(site, "/card.json")).status == 200
        catalog = json.loads((await get(site, "/.well-known/ai-catalog.json")).body)
        assert catalog["entries"][0]["url"] == "https://example.com/card.json"


@pytest.mark.parametrize(
    "name", ["weather", "com.example", "a/b/c", "com.example/", "/x", "com example/x", "x/" + "y" * 300]
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(RegistrationError, match="the name of a server card"):
        ServerCard(name, URL)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/mcp", "example.com", "", "https://", "https://user:pass@example.com/mcp",
        "https://example.com/mcp?token=1", "https://example.com/#x", "ftp://example.com/", "https://a b/", "https://[/",
    ],
)  # fmt: skip
def test_a_url_that_may_not_be_published_is_refused(url: str) -> None:
    with pytest.raises(RegistrationError, match="the URL on a server card"):
        ServerCard("com.example/weather", url)
    with pytest.raises(RegistrationError, match="the URL on a server card"):
        ServerCard("com.example/weather", URL, sse_url=url)


def test_a_card_that_the_schema_would_refuse_is_refused() -> None:
    with pytest.raises(RegistrationError, match="1 to 100 characters"):
        build(description="x" * 101)
    with pytest.raises(RegistrationError, match="1 to 100 characters"):
        build(description=None)
    assert build(ServerCard("com.example/weather", URL, description="Short."), description="x" * 101)
    for version in ("^1.2.3", "1.x", ">=1", "1.*", ""):
        with pytest.raises(RegistrationError, match="one version"):
            Server("s", version, extensions=[ServerCard("com.example/weather", URL, description="d")])
    with pytest.raises(RegistrationError, match="'url' and 'source'"):
        ServerCard("com.example/weather", URL, repository={"url": "https://example.com/"})
    with pytest.raises(RegistrationError, match="has a 'name'"):
        ServerCard("com.example/weather", URL, headers=[{"value": "x"}])
    for entry in ({"identifier": "x", "type": "y"}, {"identifier": "x", "type": "y", "url": "u", "data": {}}):
        with pytest.raises(RegistrationError, match="each entry of the catalogue"):
            ServerCard("com.example/weather", URL, entries=[entry])
    with pytest.raises(RegistrationError, match="at most 262144 bytes"):
        build(ServerCard("com.example/weather", URL, meta={"a/b": "x" * 300_000}))


def test_a_card_belongs_to_one_server() -> None:
    card = ServerCard("com.example/weather", URL)
    build(card)
    with pytest.raises(RegistrationError, match="belongs to the server 'weather'"):
        build(card)
    assert ServerCard("com.example/weather", "http://127.0.0.1:8000/mcp")
