"""Names that one public server each uses, and what they do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import AnyUrl

from dovetail.compat.fastmcp import Client, FastMCP
from dovetail.compat.fastmcp.server.auth import ssrf
from dovetail.compat.fastmcp.server.auth.oauth_proxy.models import ProxyDCRClient
from dovetail.compat.fastmcp.server.event_store import EventStore
from dovetail.compat.fastmcp.server.providers.proxy import FastMCPProxy, ProxyProvider
from dovetail.compat.fastmcp.server.providers.skills import SkillsDirectoryProvider
from dovetail.compat.mcp import types
from dovetail.compat.mcp.shared.auth import InvalidRedirectUriError
from dovetail.compat.mcp.shared.exceptions import McpError
from tests.support.aio import run


@pytest.mark.parametrize(
    ("address", "allowed"),
    [("10.0.0.1", False), ("8.8.8.8", True), ("::1", False), ("169.254.169.254", False),
     ("2001:4860:4860::8888", True), ("::ffff:10.0.0.1", False), ("nonsense", False)],
)  # fmt: skip
def test_private_addresses_are_not_asked(address: str, allowed: bool) -> None:
    assert ssrf.is_ip_allowed(address) is allowed


@run
async def test_a_host_has_addresses_or_is_refused() -> None:
    assert ssrf.format_ip_for_url("::1") == "[::1]"
    assert "127.0.0.1" in await ssrf.resolve_hostname("localhost")
    with pytest.raises(ssrf.SSRFError):
        await ssrf.resolve_hostname("no-such-host.invalid")


def test_a_client_of_a_proxy_goes_back_where_a_pattern_fits() -> None:
    client = ProxyDCRClient(
        client_id="c", redirect_uris=[AnyUrl("https://a.example/cb")],
        allowed_redirect_uri_patterns=["http://localhost:*"],
    )  # fmt: skip
    assert client.validate_redirect_uri(AnyUrl("http://localhost:5000/x")) == AnyUrl(
        "http://localhost:5000/x"
    )
    with pytest.raises(InvalidRedirectUriError):
        client.validate_redirect_uri(AnyUrl("https://evil.example/"))


@run
async def test_an_event_store_replays_what_came_after() -> None:
    store, seen = EventStore(max_events_per_stream=2), list[Any]()

    async def send(event: Any) -> None:
        seen.append(event.event_id)

    message = types.JSONRPCMessage.model_validate({"jsonrpc": "2.0", "method": "ping", "id": 1})
    first, second, third = [await store.store_event("s", message) for _ in range(3)]
    assert await store.replay_events_after(second, send) == "s"
    assert seen == [third]
    assert await store.replay_events_after(first, send) is None


def skills(folder: Path) -> Path:
    (folder / "pdf" / "ref").mkdir(parents=True)
    (folder / "pdf" / "SKILL.md").write_text("---\nname: pdf\ndescription: Work with PDF\n---\n# PDF\n")
    (folder / "pdf" / "ref" / "a.md").write_text("more\n")
    (folder / "pdf" / "x.bin").write_bytes(b"\0\xff")
    (folder / "plain").mkdir()
    (folder / "plain" / "SKILL.md").write_text("# Title\n\ntext\n")
    (folder / "secret").write_text("not yours")
    os.symlink(folder / "secret", folder / "pdf" / "leak")
    return folder


@run
async def test_skills_are_resources(tmp_path: Path) -> None:
    mcp = FastMCP("s")
    mcp.add_provider(SkillsDirectoryProvider(skills(tmp_path)))
    async with Client(mcp) as client:
        listed = {str(one.uri): one.description for one in await client.list_resources()}
        assert listed["skill://pdf/SKILL.md"] == "Work with PDF"
        assert listed["skill://plain/SKILL.md"] == "Title"
        assert [one.uriTemplate for one in await client.list_resource_templates()] == [
            "skill://pdf/{path*}", "skill://plain/{path*}",
        ]  # fmt: skip
        manifest: Any = (await client.read_resource("skill://pdf/_manifest"))[0]
        assert [one["path"] for one in json.loads(manifest.text)["files"]] == [
            "SKILL.md",
            "ref/a.md",
            "x.bin",
        ]
        text: Any = (await client.read_resource("skill://pdf/ref/a.md"))[0]
        blob: Any = (await client.read_resource("skill://pdf/x.bin"))[0]
        assert (text.text, blob.blob) == ("more\n", "AP8=")
        for outside in ("leak", "..%2Fsecret", "nope.md"):
            with pytest.raises(McpError, match="File not found"):
                await client.read_resource(f"skill://pdf/{outside}")


@run
async def test_skills_may_be_listed_file_by_file_and_found_anew(tmp_path: Path) -> None:
    mcp = FastMCP("s")
    mcp.add_provider(SkillsDirectoryProvider(skills(tmp_path), reload=True, supporting_files="resources"))
    async with Client(mcp) as client:
        assert "skill://pdf/ref/a.md" in {str(one.uri) for one in await client.list_resources()}
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "SKILL.md").write_text("hello")
        assert "skill://new/SKILL.md" in {str(one.uri) for one in await client.list_resources()}


def counted(ttl: float | None) -> tuple[FastMCP[Any], list[int]]:
    behind, asked = FastMCP("behind"), [0]

    @behind.tool
    def shout(text: str) -> str:
        return text.upper()

    def factory() -> Any:
        asked[0] += 1
        return Client(behind)

    front = FastMCP("front")
    front.add_provider(ProxyProvider(factory, cache_ttl=ttl))
    return front, asked


@pytest.mark.parametrize(
    ("ttl", "connections"), [(60, 5), (0, 7)]
)  # once the client reads the tools' schemas
@run
async def test_a_proxy_knows_lists_for_as_long_as_it_is_told(ttl: float, connections: int) -> None:
    front, asked = counted(ttl)
    async with Client(front) as client:
        for _ in range(3):
            assert (await client.call_tool("shout", {"text": "a"})).data == "A"
    assert asked[0] == connections


@run
async def test_a_proxy_may_fail_with_the_server_behind() -> None:
    def factory() -> Any:
        raise ConnectionError("away")

    async with Client(FastMCPProxy(client_factory=factory)) as client:
        assert await client.list_tools() == []
    async with Client(FastMCPProxy(client_factory=factory, provider_error_strategy="raise")) as client:
        with pytest.raises(McpError):
            await client.list_tools()
