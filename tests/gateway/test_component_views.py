"""`Server.transform` and `Server.hide` for prompts, resources and templates: exactly the listed ones can be
used.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Principal, ProtocolError, RegistrationError, Server
from dovetail.auth import StaticTokens
from dovetail.gateway import Proxy
from dovetail.model import GetPromptResult, PromptMessage, ResourceLink
from tests.support.aio import run
from tests.support.waiting import until
from tests.support.web import served

MODERN, LEGACY = "2026-07-28", "2025-06-18"
BOTH = pytest.mark.parametrize("revision", [MODERN, LEGACY])
STUB = str(Path(__file__).with_name("stub.py"))
WAYS = pytest.mark.parametrize("way", ["alone", "mounted", "behind"])


def atlas(**options: Any) -> Server:
    server = Server("atlas", "1", **options)

    @server.tool
    async def review(ctx: Context) -> str:
        await ctx.show("prompt:secret", "city://hidden", tags=["inner"])
        return "tool"

    @server.prompt(name="review")
    def prompt_review(of: str) -> str:
        return f"review {of}"

    @server.prompt(tags=["inner"])
    def secret() -> str:
        return "secret"

    @server.resource("city://oslo", tags=["capital"])
    def oslo() -> str:
        return "oslo"

    @server.resource("city://hidden", tags=["inner"])
    def hidden() -> str:
        return "hidden"

    @server.resource("land://{name}/{part}")
    def land(name: str, part: str) -> str:
        return f"{name} {part}"

    @server.resource("vault://{name}", tags=["inner"])
    def vault(name: str) -> str:
        return name

    @server.completion(ref="review", argument="of")
    def of(value: str) -> list[str]:
        return ["code"]

    @server.completion(ref="land://{name}/{part}", argument="name")
    def names(value: str) -> list[str]:
        return ["norway"]

    return server


def put(server: Server, way: str) -> Server:
    """The same server, or a downstream one that shows the same."""
    if way == "alone":
        return server
    front = Server("front", "1")
    front.mount(server if way == "mounted" else Proxy(server))
    return front


async def seen(client: Client) -> tuple[set[str], set[str], set[str]]:
    """Prompts, resources and templates that are listed."""
    return (
        {one.name for one in await client.list_prompts(fresh=True)},
        {one.uri for one in await client.list_resources(fresh=True)},
        {one.uri_template for one in await client.list_resource_templates(fresh=True)},
    )


async def unreadable(client: Client, uri: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        await client.read_resource(uri)
    assert caught.value.kind == "resource_not_found"


async def no_prompt(client: Client, name: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        await client.get_prompt(name)
    assert caught.value.kind in ("prompt_not_found", "invalid_params")


@run
@WAYS
@BOTH
async def test_what_is_left_out_by_tag_is_neither_listed_nor_usable(way: str, revision: str) -> None:
    server = atlas()
    server.transform(exclude=["tag:inner"])
    async with Client(put(server, way), revision=revision) as client:
        assert await seen(client) == ({"review"}, {"city://oslo"}, {"land://{name}/{part}"})
        await unreadable(client, "city://hidden")
        await unreadable(client, "vault://gold")
        await no_prompt(client, "secret")
        assert (await client.read_resource("land://norway/north")).contents[0].text == "norway north"
        assert (await client.read_resource("city://oslo")).contents[0].text == "oslo"


@run
@WAYS
@BOTH
async def test_a_renamed_component_has_its_new_name_alone(way: str, revision: str) -> None:
    server = atlas()
    server.transform(
        rename={
            "prompt:review": "check",
            "city://oslo": "city://capital",
            "land://{name}/{part}": "country://of/{name}/{part}",
        },
        describe={"prompt:review": "Looks at it.", "city://oslo": "The capital."},
    )
    async with Client(put(server, way), revision=revision) as client:
        prompts, resources, templates = await seen(client)
        assert prompts == {"check", "secret"}
        assert resources == {"city://capital", "city://hidden"}
        assert templates == {"country://of/{name}/{part}", "vault://{name}"}
        assert {one.name for one in await client.list_tools()} == {"review"}
        described = {one.name: one.description for one in await client.list_prompts()}
        assert described["check"] == "Looks at it."
        (read,) = (await client.read_resource("country://of/norway/north")).contents
        assert (read.uri, read.text) == ("country://of/norway/north", "norway north")
        (read,) = (await client.read_resource("city://capital")).contents
        assert (read.uri, read.text) == ("city://capital", "oslo")
        for gone in ("city://oslo", "land://norway/north"):
            await unreadable(client, gone)
        prompt = await client.get_prompt("check", {"of": "it"})
        assert "review it" in str(prompt)
        await no_prompt(client, "review")
        found = await client.complete("check", "of", "")
        assert found.values == ["code"]
        ref = {"type": "ref/resource", "uri": "country://of/{name}/{part}"}
        found = await client.complete(ref, {"name": "name", "value": ""})
        assert found.values == ["norway"]


@run
@BOTH
async def test_updates_of_a_renamed_resource_are_sent_with_its_new_name(revision: str) -> None:
    server = atlas()
    server.transform(rename={"city://oslo": "city://capital"}, exclude=["city://hidden"])
    parent = Server("parent", "1")
    parent.mount(server, prefix="p")
    for front, uri in ((server, "city://capital"), (parent, "city://p/capital")):
        told: list[str] = []
        async with Client(front, revision=revision, on_resource_updated=told.append) as client:
            await client.subscribe_resource(uri)
            await server.notify_resource_updated("city://oslo")
            await until(lambda told=told, uri=uri: told == [uri])


@run
async def test_hidden_resources_cannot_be_subscribed_to() -> None:
    server = atlas()
    server.transform(exclude=["city://hidden"])
    async with Client(server, revision=LEGACY) as client:
        with pytest.raises(ProtocolError):
            await client.subscribe_resource("city://hidden")
        await client.subscribe_resource("city://oslo")


@run
@WAYS
async def test_only_speaks_of_the_kinds_it_names(way: str) -> None:
    server = atlas()
    server.transform(include=["review", "city://oslo"])
    async with Client(put(server, way)) as client:
        assert await seen(client) == ({"review", "secret"}, {"city://oslo"}, set())
        for gone in ("city://hidden", "land://norway/north", "vault://gold", "city://unlisted"):
            await unreadable(client, gone)
        assert (await client.call_tool("review", check=False)).content


@run
async def test_only_a_prompt_leaves_the_other_prompts_out_and_the_tools_in() -> None:
    server = atlas()
    server.transform(include=["prompt:review"])
    async with Client(server) as client:
        prompts, resources, _ = await seen(client)
        assert (prompts, len(resources)) == ({"review"}, 2)
        assert [tool.name for tool in await client.list_tools()] == ["review"]
        await no_prompt(client, "secret")


@run
async def test_a_hidden_resource_is_not_read_through_a_template_that_matches_it() -> None:
    server = Server("s", "1")
    server.resource("city://{name}", name="city")(lambda name: name)
    server.transform(exclude=["city://oslo"])
    async with Client(server) as client:
        assert (await client.read_resource("city://bergen")).contents[0].text == "bergen"
        await unreadable(client, "city://oslo")


@run
@WAYS
async def test_what_is_shown_to_one_session_can_be_used_there_alone(way: str) -> None:
    server = atlas()
    server.hide("prompt:secret", "city://hidden", tags=["inner"])
    front = put(server, way) if way != "behind" else server
    told: list[str] = []
    async with (
        Client(front, revision=LEGACY, on_list_changed=told.append) as one,
        Client(front, revision=LEGACY) as other,
    ):
        for client in (one, other):
            assert await seen(client) == ({"review"}, {"city://oslo"}, {"land://{name}/{part}"})
            await unreadable(client, "vault://gold")
            await no_prompt(client, "secret")
        await one.call_tool("review")
        await until(lambda: {"prompts", "resources"} <= set(told))
        assert "secret" in (await seen(one))[0]
        assert (await one.read_resource("vault://gold")).contents[0].text == "gold"
        assert (await one.read_resource("city://hidden")).contents[0].text == "hidden"
        await unreadable(other, "city://hidden")
        await unreadable(other, "vault://gold")
        await no_prompt(other, "secret")


@run
async def test_what_is_shown_to_one_principal_is_not_readable_for_another() -> None:
    server = atlas(auth=StaticTokens({"a": Principal("ann"), "b": Principal("bob")}))
    server.hide(tags=["inner"])
    async with (
        served(server) as site,
        Client(f"http://127.0.0.1:{site.port}/mcp", revision=MODERN, auth="a") as ann,
        Client(f"http://127.0.0.1:{site.port}/mcp", revision=MODERN, auth="b") as bob,
    ):
        await unreadable(ann, "city://hidden")
        await ann.call_tool("review")
        assert (await ann.read_resource("city://hidden")).contents[0].text == "hidden"
        await unreadable(bob, "city://hidden")
        assert "secret" not in (await seen(bob))[0]


@run
async def test_links_in_results_lead_to_where_resources_are_now() -> None:
    server = Server("s", "1")
    server.resource("city://oslo", name="oslo")(lambda: "oslo")

    @server.tool
    def where() -> ResourceLink:
        return ResourceLink("city://oslo", "oslo")

    @server.prompt
    def ask() -> GetPromptResult:
        return GetPromptResult([PromptMessage("user", ResourceLink("city://oslo", "oslo"))])

    server.transform(rename={"city://oslo": "city://capital"})
    async with Client(server) as client:
        (link,) = (await client.call_tool("where")).content
        (message,) = (await client.get_prompt("ask")).messages
        assert isinstance(link, ResourceLink)
        assert isinstance(message.content, ResourceLink)
        assert (link.uri, message.content.uri) == ("city://capital", "city://capital")


def test_a_template_is_renamed_as_far_as_its_first_variable() -> None:
    with pytest.raises(RegistrationError, match="first variable"):
        atlas().transform(rename={"land://{name}/{part}": "land://{part}/{name}"})
    with pytest.raises(RegistrationError, match="the same name"):
        atlas().transform(rename={"city://oslo": "city://x", "city://hidden": "city://x"})


def archive() -> Server:
    server = Server("archive", "1")

    @server.resource("page://{number}")
    def page(number: int) -> str:
        return f"page {number}"

    @server.resource("page://{title}", tags=["inner"])
    def titled(title: str) -> str:
        return f"secret {title}"

    @server.resource("city://{name}")
    def city(name: str) -> str:
        return name

    @server.resource("find://all{?q}")
    def found(q: str = "") -> str:
        return q

    return server


SPELLINGS = ("city://oslo", "city://%6Fslo", "city://os%6co", "find://all?q=a", "find://all?q=%61&x=1")


@run
@WAYS
@pytest.mark.parametrize("hidden", [True, False])
async def test_what_is_left_out_is_not_read_under_another_spelling(way: str, hidden: bool) -> None:
    server = archive()
    if hidden:
        server.hide("city://oslo", "find://all?q=a", tags=["inner"])
    else:
        server.transform(rename={"city://{name}": "town://{name}"})
        server.transform(exclude=["town://oslo", "find://all?q=a", "tag:inner"])
    async with Client(put(server, way)) as client:
        for uri in SPELLINGS:
            await unreadable(client, uri if hidden else uri.replace("city:", "town:"))
        kept = "city://bergen" if hidden else "town://bergen"
        assert (await client.read_resource(kept)).contents[0].text == "bergen"
        assert (await client.read_resource("find://all?q=b")).contents[0].text == "b"


@run
@WAYS
async def test_a_template_that_takes_over_from_another_is_hidden_all_the_same(way: str) -> None:
    server = archive()
    server.transform(exclude=["tag:inner"])
    async with Client(put(server, way)) as client:
        assert (await client.read_resource("page://7")).contents[0].text == "page 7"
        await unreadable(client, "page://plans")  # no number: the other template would read it


@run
@pytest.mark.parametrize("way", ["mounted", "behind"])
async def test_a_template_elsewhere_that_is_hidden_reads_nothing_for_others(way: str) -> None:
    front = put(archive(), way)
    front.transform(exclude=["page://{title}"])
    async with Client(front) as client:
        await unreadable(client, "page://plans")
        assert (await client.read_resource("city://oslo")).contents[0].text == "oslo"


@run
async def test_a_hidden_template_of_a_kind_we_do_not_read_reads_nothing() -> None:
    front = Proxy([sys.executable, STUB, "templates"])
    front.transform(exclude=["file://host{/path*}"])
    async with Client(front) as client:
        await unreadable(client, "file://host/etc/passwd")
        assert (await client.read_resource("open://door")).contents[0].text == "read"
