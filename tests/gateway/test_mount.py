"""A server mounted in another: its components under their prefix, live, with its rights, middleware and lifespan."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail import (
    Accepted,
    App,
    Client,
    Context,
    Principal,
    ProtocolError,
    RegistrationError,
    ResourceLink,
    RouteRequest,
    Server,
)
from dovetail.auth import StaticTokens
from dovetail.gateway import Proxy
from dovetail.gateway.naming import Naming
from dovetail.middleware import Middleware
from dovetail.stores import SqliteStore
from tests.budget.test_handle import MODERN, count, message
from tests.support.aio import run
from tests.support.waiting import HANG, until
from tests.support.web import Web, served

REVISIONS = ("2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28")


@dataclass
class Day:
    day: str


def weather() -> Server:
    server = Server("weather", "1")

    @server.tool
    def forecast(city: str) -> str:
        return f"{city}: sun"

    @server.tool
    def station() -> ResourceLink:
        return ResourceLink(name="oslo", uri="city://oslo")

    @server.resource("city://{name}")
    def city(name: str) -> str:
        return f"about {name}"

    @server.resource("urn:stations")
    def stations() -> str:
        return "all of them"

    @server.prompt
    def ask(city: str) -> str:
        return f"How is {city}?"

    @server.completion(ref="ask", argument="city")
    def cities(value: str) -> list[str]:
        return [name for name in ("oslo", "ostrava") if name.startswith(value)]

    @server.tool
    async def trip(ctx: Context) -> str:
        answer = await ctx.elicit("when?", Day)
        return f"on {answer.data.day}" if isinstance(answer, Accepted) else "never"

    return server


def parent(child: Server, prefix: str | None = "weather") -> Server:
    server = Server("parent", "1")

    @server.tool
    def own() -> str:
        return "mine"

    server.mount(child, prefix=prefix)
    return server


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_everything_of_the_child_is_there_under_its_prefix(revision: str) -> None:
    async with Client(parent(weather()), revision=revision) as client:
        names = {tool.name for tool in await client.list_tools()}
        assert names == {"own", "weather_forecast", "weather_station", "weather_trip"}
        assert (await client.call_tool("own")).text == "mine"
        assert (await client.call_tool("weather_forecast", {"city": "Oslo"})).text == "Oslo: sun"
        assert [one.uri for one in await client.list_resources()] == ["weather+urn:stations"]
        templates = await client.list_resource_templates()
        assert [one.uri_template for one in templates] == ["city://weather/{name}"]
        read = await client.read_resource("city://weather/oslo")
        assert (read.contents[0].uri, read.text) == ("city://weather/oslo", "about oslo")
        assert (await client.read_resource("weather+urn:stations")).text == "all of them"
        assert [one.name for one in await client.list_prompts()] == ["weather_ask"]
        assert (await client.get_prompt("weather_ask", {"city": "Oslo"})).text == "How is Oslo?"
        found = await client.complete("weather_ask", "city", "osl")
        assert found.completion.values == ["oslo"]


@run
async def test_links_in_results_have_the_names_of_the_parent() -> None:
    async with Client(parent(weather()), revision="2025-11-25") as client:
        link = (await client.call_tool("weather_station")).content[0]
        assert isinstance(link, ResourceLink)
        assert (await client.read_resource(link.uri)).text == "about oslo"


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_the_child_asks_through_the_parent(revision: str) -> None:
    def answer(request: Any) -> dict[str, Any]:
        return {"day": "friday"}

    async with Client(parent(weather()), revision=revision, on_elicit=answer) as client:
        assert (await client.call_tool("weather_trip")).text == "on friday"


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_additions_and_removals_of_the_child_are_visible_and_notified(revision: str) -> None:
    child = weather()
    told: list[str] = []
    async with Client(parent(child), revision=revision, on_list_changed=told.append) as client:
        await client.list_tools()
        child.add_tool(lambda: "new", name="late", description="came later")
        await until(lambda: "tools" in told)
        assert "weather_late" in {tool.name for tool in await client.list_tools()}
        assert (await client.call_tool("weather_late")).text == "new"
        child.remove_tool("late")
        await until(lambda: told.count("tools") >= 2)
        assert "weather_late" not in {tool.name for tool in await client.list_tools()}
        with pytest.raises(ProtocolError, match="weather_late"):
            await client.call_tool("weather_late")


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_updates_of_the_child_reach_subscribers_of_the_parent(revision: str) -> None:
    child = weather()
    heard: list[str] = []
    async with Client(parent(child), revision=revision, on_resource_updated=heard.append) as client:
        await client.subscribe_resource("city://weather/oslo")
        await child.notify_resource_updated("city://oslo")
        await until(lambda: heard)
        assert heard == ["city://weather/oslo"]
        await client.unsubscribe_resource("city://weather/oslo")
        await child.notify_resource_updated("city://oslo")
        assert (await client.call_tool("own")).text == "mine"
        assert len(heard) == 1


@run
async def test_mounts_are_nested() -> None:
    middle = parent(weather())
    server = Server("top", "1")
    server.mount(middle, prefix="m")
    async with Client(server, revision="2026-07-28") as client:
        assert {tool.name for tool in await client.list_tools()} >= {"m_own", "m_weather_forecast"}
        assert (await client.call_tool("m_weather_forecast", {"city": "Oslo"})).text == "Oslo: sun"
        assert (await client.read_resource("city://m/weather/oslo")).text == "about oslo"


@run
async def test_without_a_prefix_names_stay() -> None:
    async with Client(parent(weather(), None), revision="2025-11-25") as client:
        assert (await client.call_tool("forecast", {"city": "Oslo"})).text == "Oslo: sun"
        assert (await client.read_resource("city://oslo")).text == "about oslo"
        with pytest.raises(ProtocolError, match="nobody"):
            await client.call_tool("nobody")


def test_a_taken_name_is_refused_with_both_origins() -> None:
    child = Server("other", "1")
    child.add_tool(lambda: "", name="own", description="d")
    with pytest.raises(
        RegistrationError, match=r"'own' of server 'other' is already used by server 'parent'"
    ):
        parent(child, None)
    taken = parent(weather())
    with pytest.raises(
        RegistrationError, match=r"prefix 'weather' of server 'other' is already used by server 'weather'"
    ):
        taken.mount(child, prefix="weather")


def test_a_server_is_not_mounted_in_itself() -> None:
    inner, outer = Server("inner", "1"), Server("outer", "1")
    outer.mount(inner, prefix="a")
    with pytest.raises(RegistrationError, match="itself"):
        inner.mount(outer, prefix="b")
    with pytest.raises(RegistrationError, match="itself"):
        inner.mount(inner, prefix="c")


@pytest.mark.parametrize("prefix", ["_a", "a__b", "a b", "a/b", "ä", "a" * 65, "a\n"])
def test_a_prefix_that_could_not_be_undone_is_refused(prefix: str) -> None:
    with pytest.raises(RegistrationError, match="prefix"):
        Server("outer", "1").mount(Server("inner", "1"), prefix=prefix)


@run
async def test_the_life_of_the_child_is_that_of_the_parent() -> None:
    life: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        life.append("begun")
        yield "database"
        life.append("ended")

    child = Server("child", "1", lifespan=lifespan)

    @child.tool
    def what(ctx: Context) -> str:
        return ctx.lifespan

    async with Client(parent(child, "c"), revision="2026-07-28") as client:
        assert life == ["begun"]
        assert (await client.call_tool("c_what")).text == "database"
    await until(lambda: life == ["begun", "ended"])


@run
async def test_the_layers_of_the_child_stand_around_its_calls_alone() -> None:
    seen: list[str] = []

    def note(call_next: Any) -> Any:
        async def noted(request: Any) -> Any:
            if request.call.method == "tools/call":
                seen.append(request.call.params.name)
            return await call_next(request)

        return noted

    child = Server("child", "1", middleware=[note])
    child.add_tool(lambda: "x", name="x", description="d")
    async with Client(parent(child, "c"), revision="2025-11-25") as client:
        await client.call_tool("own")
        await client.call_tool("c_x")
    assert seen == ["x"]


@run
async def test_a_list_with_others_in_it_is_not_for_shared_caches() -> None:
    child = Server("child", "1")
    child.add_tool(lambda: "secret", name="secret", description="d", scopes=["admin"])
    server = Server("parent", "1", ttl_ms=1000, cache_scope="public")
    server.mount(child, prefix="c")
    listed = await server.handle(message("tools/list", _meta=MODERN))
    assert listed is not None
    assert b'"cacheScope":"private"' in listed


@run
async def test_rights_of_the_child_hold_in_lists_and_calls() -> None:
    child = Server("child", "1")
    child.add_tool(lambda: "secret", name="secret", description="d", scopes=["admin"])
    child.add_resource("x://secret", lambda: "s", name="s", auth=lambda principal: False)
    server = Server("parent", "1", auth=StaticTokens({"t": Principal("ann")}))
    server.mount(child, prefix="c")
    server.add_tool(lambda: "", name="open", description="d")
    anybody = await server.handle(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}', {"revision": "2025-11-25"}
    )
    assert anybody is not None
    assert b"open" in anybody
    assert b"secret" not in anybody
    admin = {"revision": "2025-11-25", "principal": Principal("root", scopes=frozenset({"admin"}))}
    listed = await server.handle(b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}', admin)
    assert listed is not None
    assert b"c_secret" in listed
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"c_secret","arguments":{}}}'
    refused = await server.handle(call, {"revision": "2025-11-25"})
    served = await server.handle(call, admin)
    assert refused is not None
    assert served is not None
    assert b"admin" in refused
    assert b'"secret"' in served
    assert server.registry.scopes() == {"admin"}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_tasks_of_the_child_are_tasks_of_the_parent(revision: str) -> None:
    child = Server("child", "1")

    @child.tool(task="required")
    async def long(n: int) -> int:
        return n + 1

    async with Client(parent(child, "c"), revision=revision) as client:
        await client.list_tools()
        handle = await client.call_tool("c_long", {"n": 1}, task=True)
        assert (await handle.result()).data == 2
        assert (await client.call_tool("c_long", {"n": 2})).data == 3
        if revision == "2025-11-25":
            assert handle.id in {task.task_id for task in await client.list_tasks()}
        with pytest.raises(ProtocolError):
            await client.task("nobody").status()


@given(
    prefix=st.from_regex(r"[a-z][a-z0-9.\-]{0,8}(_[a-z0-9]{1,4}){0,2}", fullmatch=True),
    name=st.text(min_size=1, max_size=20),
)
def test_the_rule_of_addresses_can_be_undone(prefix: str, name: str) -> None:
    naming = Naming(prefix)
    assert naming.name(name) == naming.tool(name) == f"{prefix}_{name}"
    for uri in (f"scheme://{name}", f"scheme://host/{name}", f"urn:{name}"):
        assert naming.inner_uri(naming.uri(uri)) == uri


@pytest.mark.bare("it counts the calls of a mount, and what is mounted would have middleware of its own")
def test_a_hundred_servers_cost_a_call_no_more_than_one() -> None:
    """Python calls, counted: the cost of finding a tool is that of its name."""
    few, many = Server("few", "1"), Server("many", "1")

    async def echo() -> str:
        return "x"

    few.add_tool(echo, name="own", description="d")
    for number in range(100):
        child = Server(f"s{number}", "1")
        for tool in range(10):
            child.add_tool(echo, name=f"t{tool}", description="d")
        many.mount(child, prefix=f"s{number}")
        if number == 0:
            few.mount(child, prefix="s0")

    def cost(server: Server, name: str) -> int:
        return count(server, message("tools/call", name=name, arguments={}, _meta=MODERN))

    assert cost(many, "s99_t5") <= cost(few, "s0_t5")
    assert cost(few, "s0_t5") <= cost(few, "own") + 12


def library(name: str) -> Server:
    server = Server(name, "1")
    server.add_tool(lambda: name, name=f"{name}_who", description="d")
    server.add_resource(f"{name}://one", lambda: f"one of {name}", name="one")

    @server.resource(f"{name}://books/{{title}}")
    def book(title: str) -> str:
        return f"{title} of {name}"

    return server


@run
async def test_several_proxies_without_a_prefix_each_have_their_resources() -> None:
    server = Server("parent", "1")
    for name in ("first", "second", "third"):
        server.mount(Proxy(library(name)))
    async with Client(server) as client:
        for name in ("third", "first", "second"):
            assert (await client.call_tool(f"{name}_who")).text == name
            assert (await client.read_resource(f"{name}://one")).text == f"one of {name}"
            assert (await client.read_resource(f"{name}://books/emma")).text == f"emma of {name}"
        with pytest.raises(ProtocolError, match="not found"):
            await client.read_resource("fourth://one")


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_asgi_application_is_mounted_without_a_socket(revision: str) -> None:
    @run
    async def mounted() -> None:
        child = weather()
        server = Server("parent", "1")
        server.mount(child.asgi(), prefix="weather")
        options: dict[str, Any] = {"on_elicit": lambda request: {"day": "monday"}}
        changed: list[str] = []
        async with Client(server, revision=revision, on_list_changed=changed.append, **options) as client:
            assert (await client.call_tool("weather_forecast", {"city": "Oslo"})).text == "Oslo: sun"
            assert (await client.read_resource("city://weather/oslo")).text == "about oslo"
            if revision >= "2025-06-18":
                assert (await client.call_tool("weather_trip")).text == "on monday"
            child.add_tool(lambda: "new", name="late", description="d")
            await until(lambda: "tools" in changed)
            assert "weather_late" in {tool.name for tool in await client.list_tools()}

    mounted()


@pytest.mark.parametrize("prefix", [None, "team"])
@run
async def test_own_routes_of_the_child_are_below_its_prefix_and_obey_the_parents_guards(
    prefix: str | None,
) -> None:
    child = Server("child")

    @child.route("/hooks/{name}", methods=["POST"])
    def hook(request: RouteRequest) -> str:
        return f"{request.params['name']} by {request.principal}"

    parent = Server("parent", auth=StaticTokens({"t": Principal("ann")}))

    @parent.route("/own", auth=False)
    def own(request: RouteRequest) -> str:
        return "own"

    parent.mount(child, prefix=prefix)
    child.route("/late", auth=False)(lambda request: "late")  # what a child gains later shows, too
    below = f"/{prefix}" if prefix else ""
    async with served(parent) as site:
        web = Web(site)
        assert (
            await web.ask("POST", {"Authorization": "Bearer t"}, b"", f"{below}/hooks/push")
        ).body == b"push by ann"
        assert (await web.ask("POST", {}, b"", f"{below}/hooks/push")).status == 401
        assert (await web.ask("GET", {}, path=f"{below}/late")).body == b"late"
        assert (await web.ask("GET", {}, path="/own")).body == b"own"
        for wrong in ("/other/late", "//late", f"{below}/../late", f"{below}/nothing"):
            assert (await web.ask("GET", {}, path=wrong)).status in (400, 404), wrong


APPS = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}


@pytest.mark.parametrize("way", ["mounted", "mounted without a prefix", "behind"])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_apps_of_the_child_have_their_pages_and_what_is_for_pages_alone_is(
    way: str, revision: str
) -> None:
    child = Server("desk")
    child.add_tool(lambda: 1, name="sales", description="", app=App(html="<p>sales</p>"))
    child.add_tool(lambda: 2, name="more", description="", app=App(html="<p>more</p>", visibility=["app"]))
    parent = Server("parent")
    parent.mount(Proxy(child) if way == "behind" else child, prefix=None if "without" in way else "team")
    async with Client(parent, revision=revision, capabilities=APPS) as host:
        offered = host.server_capabilities.extension("io.modelcontextprotocol/ui")
        assert offered == {"mimeTypes": ["text/html;profile=mcp-app"]}
        tools = await host.list_tools()
        assert [tool.name.removeprefix("team_") for tool in tools] == ["sales", "more"]
        for tool in tools:
            page = await host.read_resource((tool.meta or {})["ui"]["resourceUri"])
            assert (tool.meta or {})["ui/resourceUri"] == (tool.meta or {})["ui"]["resourceUri"]
            assert page.text == f"<p>{tool.name.removeprefix('team_')}</p>"
    async with Client(parent, revision=revision) as plain:
        assert [tool.name.removeprefix("team_") for tool in await plain.list_tools()] == ["sales"]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_what_is_mounted_while_a_list_is_put_together_does_not_disturb_it(revision: str) -> None:
    asked, waiting, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Slow(Middleware):
        async def list_tools(self, request: Any, call_next: Any) -> Any:
            if asked.is_set():
                waiting.set()
                await go_on.wait()
            return await call_next(request)

    behind, late = Server("behind", middleware=[Slow()]), Server("late")
    behind.add_tool(lambda: "", name="one", description="")
    late.add_tool(lambda: "", name="two", description="")
    front = Server("front")
    front.mount(Proxy(behind), prefix="a")
    async with Client(front, revision=revision) as client:
        await client.list_tools()
        asked.set()
        behind.add_tool(lambda: "", name="three", description="")
        listing = asyncio.create_task(client.list_tools(fresh=True))
        await waiting.wait()
        front.mount(late, prefix="b")
        go_on.set()
        assert "a_one" in {tool.name for tool in await listing}
        assert {tool.name for tool in await client.list_tools(fresh=True)} == {"a_one", "a_three", "b_two"}


@pytest.mark.parametrize("prefix", ["c", None])
@pytest.mark.parametrize("behind", [False, True])
@run
async def test_a_call_is_made_once_though_both_servers_have_the_store(
    tmp_path: Path, prefix: str | None, behind: bool
) -> None:
    calls: list[str] = []
    child, parent = Server("child", "1"), Server("parent", "1")

    @child.tool
    def work() -> str:
        calls.append("")
        return str(len(calls))

    if behind:
        child = Proxy(child)
    for server in (child, parent):
        server.lifecycle.use_store(SqliteStore(tmp_path / "store.db"))
    parent.mount(child, prefix=prefix)
    name = "work" if prefix is None else "c_work"
    async with asyncio.timeout(HANG), Client(parent) as client:
        assert [(await client.call_tool(name, idempotency_key="k")).text for _ in range(2)] == ["1", "1"]
        assert (await client.call_tool(name)).text == "2"


@pytest.mark.parametrize("wrong", [3, None, "http://127.0.0.1:9/mcp", Client("http://127.0.0.1:9/mcp")])
def test_what_cannot_be_mounted_is_refused_at_once(wrong: Any) -> None:
    server = Server("x")
    with pytest.raises(RegistrationError, match="mount needs a Server"):
        server.mount(wrong)
    assert server.registry.composition is None
