"""`Server.transform(resources_as_tools=True, prompts_as_tools=True)`: every guard sees the resource or the prompt."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Image, Principal, RegistrationError, Server
from dovetail.gateway import Proxy
from dovetail.middleware import (
    Audit,
    CircuitBreaker,
    ConcurrencyLimit,
    Middleware,
    Policy,
    RateLimit,
    Redaction,
)
from dovetail.stores import SqliteStore
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.waiting import until

ALL = (*LEGACY, MODERN)
NAMES = {"list_resources", "list_resource_templates", "read_resource", "list_prompts", "get_prompt"}
PIXEL = b"\x89PNG\r\n\x1a\n"
SECRET = "ghp_" + "a1B2" * 10


class Library:
    """A server with resources and prompts, and what ran there."""

    def __init__(self, *guards: Any, offered: bool = True, **options: Any) -> None:
        self.ran: list[str] = []
        self.server = server = Server("library", middleware=guards, **options)

        @server.tool
        def count() -> int:
            """Count the books."""
            return 2

        @server.resource("book://open", mime_type="text/plain")
        def open_book() -> str:
            """A book for all."""
            self.ran.append("book://open")
            return f"once upon a time {SECRET}"

        @server.resource("book://cover", mime_type="image/png")
        def cover() -> bytes:
            self.ran.append("book://cover")
            return PIXEL

        @server.resource("book://secret", scopes=["admin"])
        def secret() -> str:
            self.ran.append("book://secret")
            return "the end"

        @server.resource("page://{number}")
        def page(number: int) -> str:
            """One page."""
            self.ran.append(f"page://{number}")
            return f"page {number}"

        @server.prompt
        def review(book: str, stars: str = "5") -> str:
            """Write a review."""
            self.ran.append("review")
            return f"Review {book} with {stars} stars"

        @server.prompt(scopes=["admin"])
        def ban(book: str) -> str:
            self.ran.append("ban")
            return f"Ban {book}"

        if offered:
            server.transform(resources_as_tools=True, prompts_as_tools=True)


def structured(result: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a list tool, which older revisions have as text only."""
    found = json.loads(result["content"][0]["text"])
    assert result.get("structuredContent", found) == found
    return found


@pytest.mark.parametrize("revision", ALL)
@run
async def test_resources_and_prompts_are_tools_on_every_revision(revision: str) -> None:
    library = Library()
    peer = Peer(library.server, revision)
    tools = {tool["name"] for tool in (await peer.result("tools/list"))["tools"]}
    assert tools == {"count", *NAMES}
    listed = structured(await peer.call("list_resources"))
    assert {one["uri"] for one in listed["resources"]} == {"book://open", "book://cover"}
    templates = structured(await peer.call("list_resource_templates"))
    assert [one["uriTemplate"] for one in templates["resourceTemplates"]] == ["page://{number}"]
    assert (await peer.text("read_resource", uri="book://open")).startswith("once upon a time")
    assert await peer.text("read_resource", uri="page://7") == "page 7"
    block = (await peer.call("read_resource", uri="book://cover"))["content"][0]
    assert (block["type"], base64.b64decode(block["data"])) == ("image", PIXEL)
    prompts = structured(await peer.call("list_prompts"))["prompts"]
    assert [one["name"] for one in prompts] == ["review"]
    assert [one["name"] for one in prompts[0]["arguments"]] == ["book", "stars"]
    assert await peer.text("get_prompt", name="review", arguments={"book": "Emma"}) == (
        "Review Emma with 5 stars"
    )


@pytest.mark.parametrize("revision", ALL)
@run
async def test_what_the_caller_may_not_use_does_not_exist_for_the_tools_either(revision: str) -> None:
    library = Library()
    peer = Peer(library.server, revision)
    for name, arguments in (
        ("read_resource", {"uri": "book://secret"}),
        ("get_prompt", {"name": "ban", "arguments": {"book": "Emma"}}),
    ):
        refused = await peer.error("tools/call", name=name, arguments=arguments)
        assert refused["data"]["requiredScopes"] == ["admin"]
    assert library.ran == []
    peer.principal = Principal("ann", scopes=frozenset({"admin"}))
    uris = {one["uri"] for one in structured(await peer.call("list_resources"))["resources"]}
    assert "book://secret" in uris
    assert await peer.text("read_resource", uri="book://secret") == "the end"
    assert await peer.text("get_prompt", name="ban", arguments={"book": "Emma"}) == "Ban Emma"


class Gate(Middleware):
    """Admits no component with one of these names, and writes down what it is asked."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.read: list[str] = []

    def admits(self, component: Any) -> bool:
        return component.name not in self._names

    async def read_resource(self, request: Any, call_next: Any) -> Any:
        self.read.append(request.component.name)
        return await call_next(request)

    async def get_prompt(self, request: Any, call_next: Any) -> Any:
        self.read.append(request.component.name)
        return await call_next(request)

    async def call_tool(self, request: Any, call_next: Any) -> Any:
        self.read.append(f"tool {request.component.name}")
        return await call_next(request)


@pytest.mark.parametrize("revision", ALL)
@run
async def test_middleware_sees_the_resource_and_the_prompt_and_not_the_tool(revision: str) -> None:
    gate = Gate("book://cover")
    library = Library(gate)
    peer = Peer(library.server, revision)
    await peer.call("read_resource", uri="page://7")
    await peer.call("get_prompt", name="review", arguments={"book": "Emma"})
    assert gate.read == ["page://7", "review"]
    assert (await peer.call("read_resource", uri="book://cover"))["isError"]
    uris = {one["uri"] for one in structured(await peer.call("list_resources"))["resources"]}
    assert uris == {"book://open"}
    assert "book://cover" not in library.ran


@pytest.mark.parametrize("revision", ALL)
@run
async def test_the_tools_themselves_can_be_switched_off(revision: str) -> None:
    library = Library(Policy(disabled=["read_resource", "get_*"]))
    peer = Peer(library.server, revision)
    tools = {tool["name"] for tool in (await peer.result("tools/list"))["tools"]}
    assert tools == {"count", *NAMES} - {"read_resource", "get_prompt"}
    reply = await peer.ask("tools/call", name="read_resource", arguments={"uri": "book://open"})
    assert "error" in reply
    assert library.ran == []


@pytest.mark.parametrize("revision", ALL)
@run
async def test_a_policy_that_allows_other_tools_allows_none_of_these(revision: str) -> None:
    library = Library(Policy(allow=["count"]))
    peer = Peer(library.server, revision)
    assert [tool["name"] for tool in (await peer.result("tools/list"))["tools"]] == ["count"]
    for name in NAMES:
        assert "error" in await peer.ask(
            "tools/call", name=name, arguments={"uri": "book://open", "name": "x"}
        )
    assert library.ran == []


@pytest.mark.parametrize("revision", ALL)
@run
async def test_rates_count_the_calls_also_those_with_wrong_arguments(revision: str) -> None:
    library = Library(RateLimit(total="3/d", burst=3))
    peer = Peer(library.server, revision)
    await peer.call("read_resource", uri="book://open")
    assert (await peer.call("read_resource", wrong=1))["isError"]
    await peer.call("list_resources")
    assert "error" in await peer.ask("tools/call", name="read_resource", arguments={"uri": "book://open"})
    assert library.ran == ["book://open"]


@pytest.mark.parametrize("limit", ["per_tool", "per_client_calls"])
@pytest.mark.parametrize("revision", ALL)
@run
async def test_rates_of_tools_count_the_calls(revision: str, limit: str) -> None:
    rates: dict[str, Any] = {limit: "2/d"}
    library = Library(RateLimit(**rates, burst=2))
    peer = Peer(library.server, revision)
    calls = {
        "read_resource": {"uri": "book://open"},
        "get_prompt": {"name": "review", "arguments": {"book": "Emma"}},
        "list_resources": {},
    }
    for name, arguments in calls.items():
        if limit == "per_tool":
            for _ in range(2):
                assert not (await peer.call(name, **arguments)).get("isError")
        else:
            await peer.ask("tools/call", name=name, arguments=arguments)
    for name, arguments in calls.items():
        refused = await peer.error("tools/call", name=name, arguments=arguments)
        assert refused["data"]["scope"] == ("tool" if limit == "per_tool" else "client")
    # A plain request is not a call of a tool.
    assert "result" in await peer.ask("resources/read", uri="book://open")


@run
async def test_rates_of_tools_that_processes_share_count_the_calls(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / "store") for _ in range(2)]
    libraries = [Library(RateLimit(per_tool="2/d", burst=2), store=store) for store in stores]
    try:
        for library in libraries:
            await library.server.lifecycle.start()
        peers = [Peer(library.server) for library in libraries]
        replies = [
            await peer.ask("tools/call", name="read_resource", arguments={"uri": "book://open"})
            for peer in (*peers, *peers)
        ]
        assert ["result" in reply for reply in replies] == [True, True, False, False]
    finally:
        for library in libraries:
            await library.server.lifecycle.stop()
        for store in stores:
            await store.close()


@pytest.mark.parametrize("revision", ALL)
@run
async def test_calls_that_a_policy_refuses_count_against_the_rates(revision: str) -> None:
    rule = {"read_resource": {"uri": "page://.*"}}
    library = Library(RateLimit(total="2/d", burst=2), Policy(arguments=rule))
    peer = Peer(library.server, revision)
    kinds = [
        (await peer.error("tools/call", name="read_resource", arguments={"uri": "book://open"}))["message"]
        for _ in range(3)
    ]
    assert "policy" in kinds[0]
    assert kinds[0] == kinds[1] != kinds[2]
    assert library.ran == []


@pytest.mark.parametrize("revision", ALL)
@run
async def test_a_tool_that_keeps_failing_is_refused_and_recovers(revision: str) -> None:
    now = [0.0]
    breaker = CircuitBreaker(2, 60.0, 1, clock=lambda: now[0])
    library = Library(breaker)
    broken = [True]

    @library.server.resource("book://torn")
    def torn() -> str:
        if broken[0]:
            raise RuntimeError("no page left")
        return "mended"

    peer = Peer(library.server, revision)
    call = {"name": "read_resource", "arguments": {"uri": "book://torn"}}
    for _ in range(2):
        await peer.ask("tools/call", **call)
    assert breaker.states == {"read_resource": "open"}
    refused = await peer.error("tools/call", **call)
    assert refused["data"]["name"] == "read_resource"
    assert "result" in await peer.ask("resources/read", uri="book://open")
    now[0], broken[0] = 61.0, False
    assert await peer.text("read_resource", uri="book://torn") == "mended"
    assert breaker.states == {}


@pytest.mark.parametrize("limit", ["per_tool", "total"])
@run
async def test_calls_wait_for_a_free_place_of_the_tool(limit: str) -> None:
    library = Library(ConcurrencyLimit(**{limit: 1}, queue=1))
    begun, go_on, running = asyncio.Event(), asyncio.Event(), [0, 0]

    @library.server.resource("book://slow/{part}")
    async def slow(part: str) -> str:
        running[0] += 1
        running[1] = max(running)
        begun.set()
        await go_on.wait()
        running[0] -= 1
        return part

    peers = [Peer(library.server) for _ in range(3)]
    async with asyncio.TaskGroup() as group:
        first = group.create_task(peers[0].text("read_resource", uri="book://slow/1"))
        await begun.wait()
        second = group.create_task(peers[1].text("read_resource", uri="book://slow/2"))
        await until(lambda: library.server.dispatcher.pipeline.middleware[0].waiting == 1)  # type: ignore[union-attr]
        arguments = {"uri": "book://slow/3"}
        refused = await peers[2].error("tools/call", name="read_resource", arguments=arguments)
        assert refused["data"]["scope"] == limit.removeprefix("per_")
        go_on.set()
    assert (first.result(), second.result(), running[1]) == ("1", "2", 1)


@run
async def test_secrets_do_not_leave_in_what_is_read(tmp_path: Any) -> None:
    library = Library(Audit(tmp_path / "audit"), Redaction("secrets"))
    async with library.server.running():
        peer = Peer(library.server)
        assert SECRET not in json.dumps(await peer.call("read_resource", uri="book://open"))
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    used = [(line["method"], line["name"]) for line in lines if "method" in line]
    assert used == [("resources/read", "book://open")]


@pytest.mark.parametrize("revision", ALL)
@run
async def test_views_and_visibility_act_on_what_is_read(revision: str) -> None:
    library = Library()
    library.server.transform(exclude=["book://cover"], rename={"book://open": "book://fairy-tale"})
    library.server.hide("prompt:review")
    peer = Peer(library.server, revision)
    uris = {one["uri"] for one in structured(await peer.call("list_resources"))["resources"]}
    assert uris == {"book://fairy-tale"}
    assert (await peer.call("read_resource", uri="book://open"))["isError"]
    assert (await peer.call("read_resource", uri="book://cover"))["isError"]
    assert (await peer.text("read_resource", uri="book://fairy-tale")).startswith("once")
    assert structured(await peer.call("list_prompts"))["prompts"] == []
    assert (await peer.call("get_prompt", name="review", arguments={"book": "x"}))["isError"]
    library.server.hide("tool:read_resource")
    assert "error" in await peer.ask("tools/call", name="read_resource", arguments={"uri": "page://1"})
    assert "read_resource" not in {one["name"] for one in (await peer.result("tools/list"))["tools"]}


@pytest.mark.parametrize("around", ["mount", "proxy", "gateway"])
@pytest.mark.parametrize("revision", ALL)
@run
async def test_the_tools_of_an_outer_server_read_what_it_mounts_and_its_guards_see_it(
    around: str, revision: str
) -> None:
    library, gate = Library(offered=False), Gate("book://far/cover", "book://cover")
    if around == "proxy":
        outer: Server = Proxy(library.server, name="front", middleware=[gate])
    else:
        outer = Server("outer", middleware=[gate])
        child = library.server if around == "mount" else Proxy(library.server, name="inner")
        outer.mount(child, prefix="far")
    outer.transform(resources_as_tools=True, prompts_as_tools=True)
    far = "" if around == "proxy" else "far/"
    async with outer.running():
        peer = Peer(outer, revision)
        uris = {one["uri"] for one in structured(await peer.call("list_resources"))["resources"]}
        # An upstream answers with what its own lists say: the proxy's guard acts on the use.
        assert f"book://{far}open" in uris
        text = await peer.text("read_resource", uri=f"book://{far}open")
        assert text.startswith("once")
        assert (await peer.call("read_resource", uri=f"book://{far}cover"))["isError"]
        assert gate.read[0] == f"book://{far}open"
        prompt = "review" if around == "proxy" else "far_review"
        arguments = {"book": "Emma"}
        assert "Emma" in await peer.text("get_prompt", name=prompt, arguments=arguments)
    assert "book://cover" not in library.ran
    await library.server.lifecycle.stop()


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("searching", [False, True])
@run
async def test_the_tools_of_a_mounted_server_bypass_no_middleware_of_the_parent(
    revision: str, *, searching: bool
) -> None:
    library, gate = Library(), Gate("book://far/open")
    if searching:
        library.server.search()
    outer = Server("outer", middleware=[gate])
    outer.mount(library.server, prefix="far")
    async with outer.running():
        peer = Peer(outer, revision)
        tools = {tool["name"] for tool in (await peer.result("tools/list"))["tools"]}
        assert not {name for name in tools if name.removeprefix("far_") in NAMES}
        for name, arguments in (
            ("far_read_resource", {"uri": "book://open"}),
            ("far_call_tool", {"name": "read_resource", "arguments": {"uri": "book://open"}}),
        ):
            reply = await peer.ask("tools/call", name=name, arguments=arguments)
            assert "error" in reply or reply["result"]["isError"]
    assert library.ran == []


def accept(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": "Ann"}}


@run
async def test_a_handler_that_asks_the_user_gets_its_answer() -> None:
    server = Server("asking")

    @server.resource("note://{topic}")
    async def note(topic: str, ctx: Context) -> str:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        answer = await ctx.elicit("Who are you?", schema)
        assert answer.action == "accept"
        return f"{topic} for {answer.data['name']}"

    server.transform(resources_as_tools=True)
    for revision in ("2025-11-25", MODERN):
        peer = Peer(server, revision, answer=accept)
        assert await peer.text("read_resource", uri="note://tea") == "tea for Ann"
        assert len(peer.questions) == 1


@run
async def test_search_leaves_the_tools_in_the_list() -> None:
    library = Library()
    library.server.search()
    peer = Peer(library.server)
    tools = {tool["name"] for tool in (await peer.result("tools/list"))["tools"]}
    assert tools == {"search_tools", "call_tool", *NAMES}
    assert await peer.text("read_resource", uri="page://3") == "page 3"


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("read_resource", {"uri": "book://none"}, "esource"),
        ("read_resource", {}, "uri"),
        ("read_resource", {"uri": 1}, "uri"),
        ("read_resource", {"uri": "page://1", "more": 2}, "more"),
        ("get_prompt", {"name": "review"}, "book"),
        ("get_prompt", {"name": "none"}, "none"),
        ("list_resources", {"cursor": "made up"}, "cursor"),
    ],
)
@run
async def test_what_the_model_gets_wrong_fails_with_a_reason(
    tool: str, arguments: dict[str, Any], said: str
) -> None:
    library = Library()
    result = await Peer(library.server).call(tool, **arguments)
    assert result["isError"]
    assert said in result["content"][0]["text"]
    assert library.ran == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "review", "arguments": {"book": "Emma", "stars": 4}},
        {"name": "review", "arguments": '{"book": "Emma", "stars": "4"}'},
    ],
)
@run
async def test_arguments_of_a_prompt_may_be_numbers_or_json_in_a_text(arguments: dict[str, Any]) -> None:
    assert await Peer(Library().server).text("get_prompt", **arguments) == "Review Emma with 4 stars"


@run
async def test_the_arguments_of_a_prompt_reach_it_through_a_strict_schema() -> None:
    library = Library()
    library.server.transform(schemas="openai-strict")
    peer = Peer(library.server)
    listed = {tool["name"]: tool["inputSchema"] for tool in (await peer.result("tools/list"))["tools"]}
    assert listed["get_prompt"]["required"] == ["name", "arguments"]
    text = await peer.text("get_prompt", name="review", arguments='{"book": "Emma"}')
    assert text == "Review Emma with 5 stars"
    assert structured(await peer.call("list_resources", cursor=None))["resources"]


@run
async def test_long_lists_have_pages() -> None:
    server = Server("many", page_size=2)
    for number in range(5):
        server.add_resource(f"n://{number}", lambda: "x", name=str(number))
    server.transform(resources_as_tools=True)
    peer, found = Peer(server), list[str]()
    page = structured(await peer.call("list_resources"))
    while True:
        found += [one["uri"] for one in page["resources"]]
        if "nextCursor" not in page:
            break
        page = structured(await peer.call("list_resources", cursor=page["nextCursor"]))
    assert found == [f"n://{number}" for number in range(5)]


@run
async def test_messages_of_several_roles_keep_their_roles_and_several_contents_their_uris() -> None:
    server = Server("talk")

    @server.prompt
    def talk() -> list[Any]:
        return [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]

    server.transform(prompts_as_tools=True)
    result = await Peer(server).call("get_prompt", name="talk")
    assert [block["text"] for block in result["content"]] == ["user: Hello", "assistant: Hi"]
    roles = [message["role"] for message in result["structuredContent"]["messages"]]
    assert roles == ["user", "assistant"]


@run
async def test_a_server_without_tools_offers_them_all_the_same() -> None:
    server = Server("bare")
    server.add_resource("a://b", lambda: "c", name="b")
    server.transform(resources_as_tools=True)
    async with Client(server) as client:
        assert {tool.name for tool in await client.list_tools()} == {
            name for name in NAMES if "resource" in name
        }
        assert (await client.call_tool("read_resource", {"uri": "a://b"})).text == "c"


@run
async def test_each_option_stands_alone_and_can_be_taken_back() -> None:
    server = Library(offered=False).server

    async def names() -> set[str]:
        return {one["name"] for one in (await Peer(server).result("tools/list"))["tools"]} - {"count"}

    server.transform(prompts_as_tools=True)
    assert await names() == {"list_prompts", "get_prompt"}
    server.transform(resources_as_tools=True)
    assert await names() == NAMES
    server.transform(prompts_as_tools=False)
    assert await names() == {name for name in NAMES if "resource" in name}
    reply = await Peer(server).ask("tools/call", name="get_prompt", arguments={"name": "review"})
    assert reply["error"]["message"].startswith("Unknown tool")


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    server = Server("taken")
    server.add_tool(lambda: "x", name=name, description="d")
    with pytest.raises(RegistrationError, match=f"'{name}'"):
        server.transform(resources_as_tools=True, prompts_as_tools=True)


@run
async def test_an_image_of_a_prompt_stays_an_image() -> None:
    server = Server("pictures")

    @server.prompt
    def look() -> list[Any]:
        return ["What is this?", Image(data=PIXEL, format="png")]

    server.transform(prompts_as_tools=True)
    result = await Peer(server).call("get_prompt", name="look")
    assert [block["type"] for block in result["content"]] == ["text", "image"]
