"""`Server.transform`: exactly the listed tools can be called."""

import asyncio
import json
import threading
from typing import Annotated, Any

import msgspec
import pytest

from dovetail import Client, Context, ProtocolError, RegistrationError, Server
from dovetail.gateway import Proxy
from dovetail.middleware import Policy
from dovetail.model import ResourceLink
from dovetail.stores import MemoryStore
from tests.support.aio import run
from tests.support.waiting import until, wait_until
from tests.support.web import served

REGION = {"x-mcp-header": "Region"}


def shop() -> Server:
    server = Server("shop", "1")

    @server.tool
    def add(item: str, count: int = 1, key: str = "") -> str:
        return f"{item} {count} {key}"

    server.add_tool(lambda: "b", name="buy", description="d")
    server.add_tool(lambda: "l", name="look", description="d")
    return server


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("mounted", [False, True])
@run
async def test_what_is_shown_is_what_can_be_called(revision: str, mounted: bool) -> None:
    server = shop()
    server.transform(include=["add", "look"], rename={"add": "cart_add"}, describe={"add": "new words"})
    server.transform(
        exclude=["look"], preset_arguments={"cart_add": {"key": "secret"}}, hide={"cart_add": ["count"]}
    )
    prefix = ""
    if mounted:
        child, server, prefix = server, Server("parent", "1"), "s_"
        server.mount(child, prefix="s")
    async with Client(server, revision=revision) as client:
        (tool,) = await client.list_tools()
        assert (tool.name, tool.description) == (f"{prefix}cart_add", "new words")
        assert set(tool.input_schema["properties"]) == {"item"}
        assert (await client.call_tool(f"{prefix}cart_add", {"item": "x"})).text == "x 1 secret"
        for name in ("add", "buy", "look"):
            with pytest.raises(ProtocolError, match="Unknown tool"):
                await client.call_tool(prefix + name, {"item": "x"})
        with pytest.raises(ProtocolError, match="key"):
            await client.call_tool(f"{prefix}cart_add", {"item": "x", "key": "mine"})


@run
async def test_a_view_sends_list_changed() -> None:
    server = shop()
    async with Client(server, revision="2025-06-18") as client:
        assert len(await client.list_tools()) == 3
        server.transform(exclude=["buy"])
        assert len(await client.list_tools()) == 2


def test_two_tools_cannot_get_one_name() -> None:
    with pytest.raises(RegistrationError, match="the same name"):
        shop().transform(rename={"add": "x", "buy": "x"})
    with pytest.raises(RegistrationError, match="two arguments of 'add'"):
        shop().transform(rename_arguments={"add": {"item": "x", "key": "x"}})


def test_a_name_that_is_taken_cannot_be_given() -> None:
    words = r"cannot rename 'add' of server 'shop' to 'buy': the name is used by server 'shop'"
    with pytest.raises(RegistrationError, match=words):
        shop().transform(rename={"add": "buy"})
    twice = shop()
    twice.transform(rename={"buy": "cart"})
    with pytest.raises(RegistrationError, match=r"cannot rename 'add'"):
        twice.transform(rename={"add": "cart"})
    around = Server("parent", "1")
    around.add_tool(lambda: "", name="own", description="d")
    around.mount(shop(), prefix="s")
    with pytest.raises(RegistrationError, match=r"'own' of server 'parent' .* by server 'shop'"):
        around.transform(rename={"own": "s_buy"})
    with pytest.raises(RegistrationError, match=r"'s_add' of server 'shop' .* by server 'parent'"):
        around.transform(rename={"s_add": "own"})
    with pytest.raises(RegistrationError, match=r"cannot rename 'later' to 'own'"):
        around.transform(rename={"later": "own"})


@run
async def test_a_name_may_be_given_when_the_one_that_has_it_goes_or_is_of_another_kind() -> None:
    exchanged, replaced, apart = shop(), shop(), shop()
    exchanged.transform(rename={"look": "buy", "buy": "look"})
    replaced.transform(rename={"look": "buy"}, exclude=["buy"])
    apart.add_prompt(lambda: "as it was", name="sell")
    apart.transform(rename={"buy": "sell"})
    apart.transform(exclude=["look"])
    apart.transform(rename={"sell": "look"})
    for server, name in ((exchanged, "buy"), (replaced, "buy"), (apart, "look")):
        async with Client(server) as client:
            assert (await client.call_tool(name)).text == ("b" if server is apart else "l")
    async with Client(apart) as client:
        assert [one.name for one in await client.list_prompts()] == ["look"]
        assert (await client.get_prompt("look")).messages[0].content.text == "as it was"


@pytest.mark.parametrize("where", ["registered", "behind"])
@run
async def test_what_gets_a_taken_name_later_is_left_out_and_reported(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("front", "1")
    server.add_tool(lambda: "own", name="own", description="d")
    server.transform(rename={"own": "buy"})
    if where == "registered":
        server.add_tool(lambda: "b", name="buy", description="d")
    else:
        server.mount(Proxy(shop(), "other"))
    async with Client(server) as client:
        assert [one.name for one in await client.list_tools()].count("buy") == 1
        await client.list_tools()
        assert (await client.call_tool("buy")).text == "own"
    (line,) = [one.getMessage() for one in caplog.records if "left out" in one.getMessage()]
    theirs = "front" if where == "registered" else "other"
    assert (
        line
        == f"'buy' of server {theirs!r} is left out of the list: 'own' of server 'front' was renamed to its name"
    )


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("where", ["own", "mounted", "behind", "around"])
@run
async def test_arguments_have_other_names_and_defaults(revision: str, where: str) -> None:
    server = child = shop()
    if where == "around":
        server = Server("parent", "1")
        server.mount(Proxy(child))
    server.transform(
        rename={"add": "put"},
        rename_arguments={"add": {"item": "count", "count": "item"}},
        default={"add": {"item": "pear", "key": "k"}},
    )
    server.transform(rename_arguments={"put": {"item": "how_many"}}, hide={"put": ["key"]})
    if where in ("mounted", "behind"):
        server = Server("parent", "1")
        server.mount(child if where == "mounted" else Proxy(child))
    async with Client(server, revision=revision) as client:
        tool = next(one for one in await client.list_tools() if one.name == "put")
        members = tool.input_schema["properties"]
        assert {name: one["type"] for name, one in members.items()} == {
            "count": "string",
            "how_many": "integer",
        }
        assert (members["count"]["default"], tool.input_schema.get("required", [])) == ("pear", [])
        assert (await client.call_tool("put")).text == "pear 1 k"
        assert (await client.call_tool("put", {"count": "fig", "how_many": 3})).text == "fig 3 k"
        for name in ("item", "key"):
            with pytest.raises(ProtocolError, match=f"Unknown argument: {name}"):
                await client.call_tool("put", {name: 1})


@pytest.mark.parametrize("profile", ["spec", "inline", "openai-strict", "gemini"])
@pytest.mark.parametrize("where", ["own", "mounted", "behind"])
@run
async def test_shaped_arguments_are_read_as_they_were_shown_in_every_profile(
    profile: str, where: str
) -> None:
    server = shop()
    server.transform(rename_arguments={"add": {"count": "how_many"}}, default={"add": {"key": "k"}})
    if where != "own":
        child, server = server, Server("parent", "1")
        server.mount(Proxy(child) if where == "behind" else child)
    server.transform(schemas=profile)
    async with Client(server) as client:
        tool = next(one for one in await client.list_tools() if one.name == "add")
        assert set(tool.input_schema["properties"]) == {"item", "how_many", "key"}
        given: dict[str, Any] = {"item": "fig", "how_many": 3}
        if profile == "openai-strict":
            assert set(tool.input_schema["required"]) == {"item", "how_many", "key"}
            given["key"] = None
        assert (await client.call_tool("add", given)).text == "fig 3 k"


@run
async def test_a_header_repeats_no_argument_that_has_another_name() -> None:
    server = Server("shop", "1")

    @server.tool
    def add(region: Annotated[str, msgspec.Meta(extra_json_schema=REGION)], item: str) -> str:
        return f"{region} {item}"

    server.transform(rename_arguments={"add": {"region": "where"}})
    async with served(server) as site, Client(f"http://127.0.0.1:{site.port}/mcp") as client:
        (tool,) = await client.list_tools()
        assert "x-mcp-header" not in tool.input_schema["properties"]["where"]
        assert (await client.call_tool("add", {"where": "north", "item": "fig"})).text == "north fig"


def tagged() -> Server:
    server = Server("shop", "1")
    for name, tags, version in (
        ("look", ["read"], None),
        ("buy", ["write"], None),
        ("price", ["read"], "1.0"),
        ("price", ["read", "new"], "2.0"),
    ):
        text = name if version is None else f"{name} {version}"
        server.add_tool(lambda text=text: text, name=name, description=text, tags=tags, version=version)
    return server


async def both(client: Client) -> tuple[dict[str, str], dict[str, str]]:
    """The listed tools by name, and their results."""
    listed = {tool.name: tool.description or "" for tool in await client.list_tools(fresh=True)}
    return listed, {name: (await client.call_tool(name)).text for name in listed}


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"include": ["tag:read"]}, {"look": "look", "price": "price 2.0"}),
        ({"exclude": ["tag:write"]}, {"look": "look", "price": "price 2.0"}),
        ({"exclude": ["tag:new"]}, {"look": "look", "buy": "buy", "price": "price 1.0"}),
        ({"include": ["version:<2"]}, {"price": "price 1.0"}),
        ({"include": ["version:>=2", "buy"]}, {"buy": "buy", "price": "price 2.0"}),
        ({"include": ["price@1"]}, {"price": "price 1.0"}),
        (
            {"exclude": ["price@2.0"], "rename": {"price": "cost"}},
            {"look": "look", "buy": "buy", "cost": "price 1.0"},
        ),
    ],
)
@pytest.mark.parametrize("where", ["own", "mounted", "around"])
@run
async def test_tools_are_chosen_by_tag_and_version(options: Any, shown: dict[str, str], where: str) -> None:
    """In the server itself, in one that is mounted, and in the server around it."""
    server = tagged()
    if where == "around":
        child, server = server, Server("parent", "1")
        server.mount(child)
    server.transform(**options)
    if where == "mounted":
        child, server = server, Server("parent", "1")
        server.mount(child)
    async with Client(server, revision="2025-06-18") as client:
        listed, called = await both(client)
        assert listed == called == shown
        everything = ["look", "buy", "price", "cost", "price@1.0", "price@2.0", "cost@1.0", "cost@2.0"]
        for name in everything:
            try:
                text = (await client.call_tool(name)).text
            except ProtocolError:
                continue
            assert text in {*shown.values(), "price 1.0"}
            assert name.partition("@")[0] in shown


@pytest.mark.parametrize("back", ["2025-06-18", "2026-07-28"])
@run
async def test_tags_and_versions_of_upstream_definitions_apply(back: str) -> None:
    proxy = Proxy(tagged(), revision=back)
    proxy.transform(include=["tag:read", "version:<2"])
    async with Client(proxy) as client:
        listed, called = await both(client)
        assert listed == called == {"look": "look", "price": "price 2.0"}
        assert (await client.call_tool("price", version="1.0")).text == "price 1.0"
        with pytest.raises(ProtocolError, match="Unknown tool"):
            await client.call_tool("buy")


@pytest.mark.parametrize("wrong", ["version:", "version:>> 2", "version:> "])
def test_a_choice_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(RegistrationError, match="not a valid version selector"):
        shop().transform(include=[wrong])
    with pytest.raises(RegistrationError, match="a list of names"):
        shop().transform(include="add")


@run
async def test_a_store_that_comes_later_changes_nothing_of_what_is_shown() -> None:
    server = shop()
    server.transform(include=["buy"])
    server.lifecycle.use_store(MemoryStore())
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["buy"]
        with pytest.raises(ProtocolError, match="Unknown tool"):
            await client.call_tool("look")


@run
async def test_layers_see_the_names_that_clients_use() -> None:
    server = Server("shop", "1", middleware=[Policy(disabled=["other"])])
    server.add_tool(lambda: "b", name="buy", description="d")
    server.add_tool(lambda: "l", name="look", description="d")
    server.transform(rename={"buy": "other", "look": "buy"})
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["buy"]
        assert (await client.call_tool("buy")).text == "l"
        with pytest.raises(ProtocolError):
            await client.call_tool("other")


@run
async def test_what_is_hidden_is_no_task_and_completes_nothing() -> None:
    server = Server("shop", "1", dialect="erlmcp")

    @server.tool(task="optional")
    async def secret(key: str) -> str:
        """Keeps something."""
        return key

    @server.completion(ref="secret", argument="key")
    def keys(value: str) -> list[str]:
        return ["one"]

    ref = {"type": "ref/tool", "name": "secret"}
    ask = {"ref": ref, "argument": {"name": "key", "value": ""}}
    async with Client(server, revision="2025-11-25", dialect="erlmcp") as client:
        assert await client.create_task("secret", {"key": "x"})
        assert (await client.request("completion/complete", ask)).completion.values == ["one"]
        server.transform(exclude=["secret"])
        with pytest.raises(ProtocolError, match="Tool not found"):
            await client.create_task("secret", {"key": "x"})
        with pytest.raises(ProtocolError, match="Completion not found"):
            await client.request("completion/complete", ask)


@pytest.mark.parametrize("where", ["own", "mounted", "behind"])
@run
async def test_a_result_beyond_the_budget_is_given_in_pages(where: str) -> None:
    server = Server("shop", "1")

    @server.tool
    def much() -> list[str]:
        return ["x" * 100] * 50

    if where != "own":
        child, server = server, Server("around", "1")
        server.mount(Proxy(child) if where == "behind" else child)
    server.transform(max_bytes=2_000)
    async with Client(server) as client:
        result = await client.call_tool("much")
        assert len(msgspec.json.encode(result.raw)) < 2_100  # with the metadata of the envelope
        link = result.content[-1]
        assert isinstance(link, ResourceLink)
        page = json.loads((await client.read_resource(link.uri)).text)
        assert page["items"][0] == "x" * 100
        with pytest.raises(ProtocolError):
            await client.read_resource("dovetail://rest/other")


@pytest.mark.parametrize("where", ["renamed", "mounted", "found"])
@run
async def test_a_plain_function_learns_that_the_client_gave_up(where: str) -> None:
    server = Server("slow", "1")
    begun, gave_up = threading.Event(), threading.Event()

    @server.tool
    def work(ctx: Context) -> str:
        begun.set()
        wait_until(lambda: ctx.cancelled)
        gave_up.set()
        return ""

    name, arguments = "work", None
    if where == "renamed":
        server.transform(rename={"work": "labour"})
        name = "labour"
    elif where == "found":
        server.search()
        name, arguments = "call_tool", {"name": "work"}
    else:
        child, server = server, Server("around", "1")
        server.mount(child, prefix="c")
        name = "c_work"
    async with Client(server, revision="2025-06-18") as client:
        call = asyncio.create_task(client.call_tool(name, arguments))
        await until(begun.is_set)
        call.cancel()
        await until(gave_up.is_set)
