"""`Extension` on both sides: registration, negotiation, methods, notifications, middleware, decorators, lifespan."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from msgspec import Struct

from dovetail import CapabilityError, Client, Context, DovetailError, ProtocolError, RegistrationError, Server
from dovetail.extensions import Extension
from dovetail.middleware import Middleware
from tests.support.aio import run
from tests.support.peer import Peer

ID = "com.example/catalog"
BOTH = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


class Search(Struct):
    text: str
    limit: int = 10


class Found(Struct):
    names: list[str]


def catalog(**options: Any) -> Extension:
    extension = Extension(ID, version="1.2", settings={"languages": ["en"], "deep": {"er": 1}}, **options)

    @extension.method("com.example/search")
    async def search(params: Search, ctx: Context) -> Found:  # pyright: ignore[reportUnusedFunction]
        await ctx.notify("notifications/com.example/searched", {"text": params.text})
        return Found([params.text] * params.limit)

    return extension


# --- registration -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", [Server, Client])
@pytest.mark.parametrize(
    ("extensions", "message"),
    [
        (
            [Extension(ID, version="1"), Extension(ID, version="2")],
            "the extension 'com.example/catalog' is registered twice, as Extension('com.example/catalog', version='1') "
            "and Extension('com.example/catalog', version='2'): remove one of them",
        ),
        (
            [Extension("a.b/c", requires=["a.b/d"])],
            "the extension 'a.b/c' requires 'a.b/d', which is not registered: add it to extensions=[…]",
        ),
        (
            [
                Extension("a/1", requires=["a/2"]),
                Extension("a/2", requires=["a/3"]),
                Extension("a/3", requires=["a/1"]),
            ],
            "extensions require each other: 'a/1' → 'a/2' → 'a/3' → 'a/1'; remove one of these requirements",
        ),
        (
            [Extension(ID, methods={"tools/list": lambda: None})],
            "the extension 'com.example/catalog' adds the method 'tools/list', which belongs to the protocol: "
            "choose another name, such as 'com.example/catalog/list'",
        ),
        (
            [Extension(ID, notifications={"notifications/progress": lambda: None})],
            "the extension 'com.example/catalog' adds the method 'notifications/progress', which belongs to the "
            "protocol: choose another name, such as 'com.example/catalog/progress'",
        ),
        (
            [
                Extension("a/1", methods={"x/y": lambda: None}),
                Extension("a/2", methods={"x/y": lambda: None}),
            ],
            "the extensions 'a/1' and 'a/2' both add the method 'x/y': "
            "rename it in one of them, or register only one",
        ),
        (
            [Extension("a/1", decorators={"o": print}), Extension("a/2", decorators={"o": print})],
            "the extensions 'a/1' and 'a/2' both add the option 'o': rename it in one of them, or register only one",
        ),
        (
            [Extension("a/1", decorators={"title": print})],
            "the extension 'a/1' adds the option 'title', which tools have already: rename it",
        ),
        ([Extension], "extensions has the class Extension: write Extension(…)"),
        (["a/1"], "extensions is a list of Extension(…), not of 'a/1'"),
    ],
)
def test_what_cannot_be_registered_is_refused_by_name(service: Any, extensions: Any, message: str) -> None:
    with pytest.raises(RegistrationError) as caught:
        service(["python"] if service is Client else "x", extensions=extensions)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Extension(), "id of Extension must be a prefix and a name"),
        (lambda: Extension("catalog"), "not 'catalog'"),
        (lambda: Extension("a b/c"), "not 'a b/c'"),
        (
            lambda: Extension(ID, settings=["x"]),
            "settings of the extension 'com.example/catalog' must be a mapping",
        ),  # pyright: ignore[reportArgumentType]
        (lambda: Extension(ID, requires="a/b"), "requires of the extension .* must be a list of ids"),
        (lambda: Extension(ID, lifespan=3), "lifespan of the extension"),  # pyright: ignore[reportArgumentType]
        (lambda: Extension(ID).option(cost=1), "has no option 'cost': it has none"),
    ],
)
def test_a_wrong_argument_is_refused_where_it_is_written(make: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        make()


def test_a_method_of_the_server_and_one_of_an_extension_cannot_have_one_name() -> None:
    server = Server("shop")
    server.add_method("com.example/search", lambda: None)
    with pytest.raises(RegistrationError, match="which the server 'shop' has already: rename one of them"):
        server.extensions.add(catalog())
    other = Server("shop", extensions=[catalog()])
    with pytest.raises(RegistrationError, match=r"registered by the extension .com\.example/catalog."):
        other.add_method("com.example/search", lambda: None)


def test_what_is_required_comes_first_and_otherwise_the_order_written() -> None:
    made = [
        Extension("a/last", requires=["a/second", "a/first"]),
        Extension("a/first"),
        Extension("a/third"),
        Extension("a/second", requires=["a/third"]),
    ]
    server = Server("x", extensions=made)
    assert list(server.extensions) == ["a/third", "a/second", "a/first", "a/last"]
    server.extensions.add(Extension("a/later", requires=["a/last"]))
    assert list(server.extensions)[-1] == "a/later"
    with pytest.raises(RegistrationError, match="registered twice"):
        server.extensions.add(Extension("a/first"))


# --- negotiation ------------------------------------------------------------------------------------------------


@BOTH
@run
async def test_settings_reach_both_sides_unchanged(revision: str) -> None:
    heard: list[Any] = []
    server = Server("shop", extensions=[catalog(capabilities={"acme.sub": {"a": [1]}})])

    @server.tool
    async def look(ctx: Context) -> str:
        """What the client declared."""
        heard.append(ctx.client_capabilities)
        return "ok"

    ui = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
    theirs = Extension(ID, settings={"mine": True}, capabilities={"acme.sub": {"b": 2}})
    declared = {"extensions": {**ui, "org.example/old": {"x": [1, {"y": None}]}}}
    async with Client(server, revision=revision, extensions=[theirs], capabilities=declared) as client:
        offered = client.server_capabilities
        assert offered.extension(ID) == {"languages": ["en"], "deep": {"er": 1}}
        assert offered["acme"] == {"sub": {"a": [1]}}
        await client.call_tool("look")
    (told,) = heard
    assert told.extension(ID) == {"mine": True}
    assert told["acme"] == {"sub": {"b": 2}}
    assert told["extensions"]["io.modelcontextprotocol/ui"] == ui["io.modelcontextprotocol/ui"]
    assert told["extensions"]["org.example/old"] == {"x": [1, {"y": None}]}


# --- methods and notifications ----------------------------------------------------------------------------------


@BOTH
@run
async def test_a_method_is_typed_on_both_sides(revision: str) -> None:
    extension = catalog()
    async with Client(
        Server("shop", extensions=[extension]), revision=revision, extensions=[catalog()]
    ) as client:
        found = await client.request("com.example/search", Search("pear", 2))
        assert found == Found(["pear", "pear"])
        plain = await client.request("com.example/search", {"text": "fig", "limit": 1}, result=dict)
        assert plain["names"] == ["fig"]
        with pytest.raises(ProtocolError) as caught:
            await client.request("com.example/search", {"text": 3})
        assert caught.value.code == -32602
        assert "$.text" in str(caught.value)
        with pytest.raises(ProtocolError) as caught:
            await client.request("com.example/search", {})
        assert caught.value.code == -32602


@BOTH
@run
async def test_a_client_checks_the_extension_before_it_sends_a_request(revision: str) -> None:
    async with Client(Server("bare"), revision=revision, extensions=[catalog()]) as client:
        with pytest.raises(CapabilityError, match=r"extensions\.com\.example/catalog"):
            await client.request("com.example/search", Search("pear"))


@run
async def test_clients_that_did_not_negotiate_have_no_such_method() -> None:
    server = Server("shop", extensions=[catalog()])
    params = {"text": "fig", "limit": 1}
    modern = await Peer(server).error("com.example/search", **params)
    assert (modern["code"], modern["data"]["requiredCapabilities"]) == (-32021, {"extensions": {ID: {}}})
    assert (await Peer(server, "2025-11-25").error("com.example/search", **params))["code"] == -32601
    able = {"extensions": {ID: {}}}
    for revision in ("2025-11-25", "2026-07-28"):
        result = await Peer(server, revision, capabilities=able).result("com.example/search", **params)
        assert result["names"] == ["fig"]


@run
async def test_a_method_may_be_open_to_all_clients() -> None:
    extension = Extension(ID)
    extension.method("com.example/open", opt_in=False)(lambda: {"a": 1})
    server = Server("shop", extensions=[extension])
    for revision in ("2025-11-25", "2026-07-28"):
        assert (await Peer(server, revision).result("com.example/open"))["a"] == 1


@BOTH
@run
async def test_notifications_go_both_ways(revision: str) -> None:
    at_server, at_client = asyncio.Queue[Search](), asyncio.Queue[Any]()
    served, used = catalog(), catalog()

    @served.notification("notifications/com.example/closing")
    async def closing(params: Search) -> None:  # pyright: ignore[reportUnusedFunction]
        at_server.put_nowait(params)

    @used.notification("notifications/com.example/searched")
    def searched(params: dict[str, Any]) -> None:  # pyright: ignore[reportUnusedFunction]
        at_client.put_nowait(params)

    async with Client(Server("shop", extensions=[served]), revision=revision, extensions=[used]) as client:
        await client.request("com.example/search", Search("pear"))
        assert await at_client.get() == {"text": "pear"}
        await client.notify("notifications/com.example/closing", Search("now"))
        assert await at_server.get() == Search("now")


# --- middleware, decorators, lifespan ---------------------------------------------------------------------------


class Noting(Middleware):
    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    async def message(self, request: Any, call_next: Any) -> Any:
        if request.method in ("tools/call", "com.example/search"):
            self.seen.append(self.name)
        return await call_next(request)


@run
async def test_middleware_runs_inside_that_of_the_application_in_the_order_of_registration() -> None:
    seen: list[str] = []
    server = Server(
        "shop",
        middleware=[Noting("app", seen)],
        extensions=[
            Extension("a/outer", middleware=[Noting("second", seen)], requires=["a/base"]),
            Extension("a/base", middleware=[Noting("first", seen)]),
            catalog(),
        ],
    )
    mine = Extension("a/client", middleware=[Noting("client", seen)])
    async with Client(
        server, extensions=[mine, catalog()], middleware=[Noting("client app", seen)]
    ) as client:
        await client.request("com.example/search", Search("fig", 1))
    assert seen == ["client app", "client", "app", "first", "second"]


@run
async def test_a_component_decorator_acts_on_tools_resources_and_prompts() -> None:
    extension = Extension(ID)

    @extension.decorator
    def label(component: Any, value: str) -> None:  # pyright: ignore[reportUnusedFunction]
        definition = component.definition
        definition.meta = {**(definition.meta or {}), f"{ID}/label": value}

    server = Server("shop", extensions=[extension])

    @server.tool
    @extension.option(label="fruit")
    def pick() -> str:
        """Pick."""
        return "pear"

    @server.resource("shop://a")
    @extension.option(label="page")
    def page() -> str:
        """A page."""
        return "a"

    server.add_prompt(lambda: "hello", name="greet", label="words")  # pyright: ignore[reportCallIssue]
    async with Client(server) as client:
        (tool,), (resource,) = await client.list_tools(), await client.list_resources()
        (prompt,) = await client.list_prompts()
        assert (prompt.meta or {})[f"{ID}/label"] == "words"
        assert (tool.meta or {})[f"{ID}/label"] == "fruit"
        assert (resource.meta or {})[f"{ID}/label"] == "page"
        assert (await client.call_tool("pick")).text == "pear"
    assert pick() == "pear"
    with pytest.raises(RegistrationError, match="no option 'label'"):
        Server("other").tool(pick)


@BOTH
@run
async def test_a_lifespan_is_entered_once_and_left_in_reverse(revision: str) -> None:
    events: list[str] = []

    def around(name: str) -> Any:
        @asynccontextmanager
        async def lifespan(service: Any) -> AsyncGenerator[None, None]:
            events.append(f"{name} {type(service).__name__}")
            yield
            events.append(f"{name} left")

        return lifespan

    @asynccontextmanager
    async def author(server: Server) -> AsyncGenerator[dict[str, int], None]:
        events.append("author")
        yield {"a": 1}
        events.append("author left")

    server = Server(
        "shop",
        lifespan=author,
        extensions=[
            Extension("a/2", lifespan=around("2"), requires=["a/1"]),
            Extension("a/1", lifespan=around("1")),
        ],
    )

    @server.tool
    def read(ctx: Context) -> int:
        """The value of the author's lifespan."""
        return ctx.lifespan["a"]

    client = Client(server, revision=revision, extensions=[Extension("a/c", lifespan=around("c"))])
    async with client:
        assert (await client.call_tool("read")).data == 1
        assert (await client.call_tool("read")).data == 1
    assert events == [
        "c Client",
        "1 Server",
        "2 Server",
        "author",
        "author left",
        "2 left",
        "1 left",
        "c left",
    ]
    del events[:]
    async with client:
        await client.call_tool("read")
    assert events == [
        "c Client",
        "1 Server",
        "2 Server",
        "author",
        "author left",
        "2 left",
        "1 left",
        "c left",
    ]


@run
async def test_a_client_whose_lifespan_fails_says_so_and_can_be_opened_again() -> None:
    broken = [True]

    @asynccontextmanager
    async def lifespan(client: Client) -> AsyncGenerator[None, None]:
        if broken:
            raise ValueError(broken.pop())
        yield

    client = Client(Server("shop"), extensions=[Extension(ID, lifespan=lifespan)])
    with pytest.raises(DovetailError, match="lifespan of an extension failed: ValueError: True"):
        await client.open()
    async with client:
        assert client.connected


@run
async def test_a_subclass_can_have_everything() -> None:
    class Counter(Extension):
        id = "com.example/counter"
        settings: ClassVar = {"step": 2}

        def __init__(self) -> None:
            super().__init__(methods={"com.example/count": self.count})
            self.value = 0
            self.server: Server | None = None

        def attach(self, server: Server) -> None:
            self.server = server

        @asynccontextmanager
        async def lifespan(self, service: Any) -> AsyncGenerator[None, None]:
            self.value = 10
            yield
            self.value = 0

        async def count(self) -> dict[str, int]:
            self.value += 2
            return {"value": self.value}

    counter = Counter()
    server = Server("x", extensions=[counter])
    assert counter.server is server
    async with Client(server, capabilities={"extensions": {counter.id: {}}}) as client:
        assert client.server_capabilities.extension(counter.id) == {"step": 2}
        assert await client.request("com.example/count") == {"value": 12}
    assert counter.value == 0
