"""A resource that returns a link to another resource: ``resource/link`` in erlmcp, a list of one URI elsewhere."""

from typing import Any

import pytest

from dovetail import Client, ResourceLink, Server
from dovetail.wire.revisions import REVISIONS
from tests.client.scripted import Peer as Scripting
from tests.client.scripted import legacy
from tests.support.aio import run
from tests.support.peer import Peer

LINK = {"uri": "shop://2/price", "name": "the new price", "mimeType": "text/plain", "size": 3}
SENT = {"type": "resource/link", **LINK, "text": LINK["uri"]}
ADDRESSES = {"dovetail/resourceLink": LINK}


def shop(dialect: str = "official") -> Server:
    server = Server("shop", "1", dialect=dialect)

    @server.resource("shop://1/price", mime_type="text/plain")
    def old() -> ResourceLink:
        return ResourceLink(uri="shop://2/price", name="the new price", mime_type="text/plain", size=3)

    @server.resource("shop://2/price")
    def new() -> str:
        return "4.2"

    @server.resource("shop://all")
    def everything() -> list[Any]:
        return ["two prices", old()]

    return server


async def contents(server: Server, uri: str, revision: str = "2025-11-25") -> list[dict[str, Any]]:
    return (await Peer(server, revision).result("resources/read", uri=uri))["contents"]


@run
async def test_an_erlmcp_server_sends_a_resource_link() -> None:
    # The address is the text as well, so that an official client can read it.
    assert await contents(shop("erlmcp"), "shop://1/price") == [SENT]
    first, second = await contents(shop("erlmcp"), "shop://all")
    assert first["type"] == "text"
    assert second == SENT


@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
@run
async def test_an_official_server_sends_the_address_as_text(revision: str) -> None:
    # The peer checks the result against the schema of its revision.
    (found,) = await contents(shop(), "shop://1/price", revision)
    meta = found.pop("_meta", None)
    assert found == {"uri": "shop://1/price", "mimeType": "text/uri-list", "text": "shop://2/price"}
    assert meta == (ADDRESSES if revision >= "2025-06-18" else None)


@pytest.mark.parametrize("dialect", ["erlmcp", "official"])
@run
async def test_dovetails_client_reads_the_uri_and_the_link(dialect: str) -> None:
    async with Client(shop(dialect), revision="2025-11-25", dialect=dialect) as client:
        (found,) = (await client.read_resource("shop://1/price")).contents
        assert (found.uri, found.text, found.meta) == ("shop://1/price", "shop://2/price", ADDRESSES)
        (new,) = (await client.read_resource(str(found.text))).contents
        assert new.text == "4.2"


FORMS: dict[str, dict[str, Any]] = {
    "flat": {"type": "resource/link", **LINK},
    "with the address as text": SENT,
    "nested": {
        "type": "resource/link",
        "resource_link": {"uri": LINK["uri"], "name": LINK["name"], "mime_type": LINK["mimeType"], "size": 3},
    },
}


@pytest.mark.parametrize("form", FORMS)
@run
async def test_a_link_of_an_erlmcp_server_is_understood_in_both_forms(form: str) -> None:
    def answer(peer: Scripting, message: dict[str, Any]) -> None:
        peer.result(message, {"contents": [FORMS[form]]})

    async with Client(legacy(answer, "2025-11-25"), revision="2025-11-25") as client:
        (found,) = (await client.read_resource("shop://1/price")).contents
    assert (found.uri, found.text, found.meta) == ("shop://1/price", "shop://2/price", ADDRESSES)


@run
async def test_a_link_without_an_address_stays_what_it_was() -> None:
    def answer(peer: Scripting, message: dict[str, Any]) -> None:
        peer.result(message, {"contents": [{"type": "resource/link", "name": "nowhere", "text": "x"}]})

    async with Client(legacy(answer, "2025-11-25"), revision="2025-11-25") as client:
        (found,) = (await client.read_resource("shop://1/price")).contents
    assert (found.uri, found.text) == ("shop://1/price", "x")


@run
async def test_a_mounted_server_links_to_its_resources_by_their_names_outside() -> None:
    outer = Server("outer", "1", dialect="erlmcp")
    outer.mount(shop(), prefix="mall")
    (found,) = await contents(outer, "shop://mall/1/price")
    assert found == {**SENT, "uri": "shop://mall/2/price", "text": "shop://mall/2/price"}
