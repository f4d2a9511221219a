"""Components are registered, listed, changed at run time, and changes are reported to subscribers."""

import asyncio
import json
from typing import Any

import pytest

from dovetail import Context, Limits, RegistrationError, Server
from dovetail.wire.codec import Codec
from tests.support.aio import run
from tests.support.held import held
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.schemas import REVISIONS, validate

every_revision = pytest.mark.parametrize("revision", REVISIONS)
KEY = b"k" * 32


def numbered(count: int, **options: Any) -> Server:
    server = Server("x", "1", seal_keys=KEY, **options)
    for index in range(count):
        add(server, f"tool_{index}")
    return server


def add(server: Server, name: str) -> None:
    async def tool(a: int) -> int:
        """Count."""
        return a

    server.add_tool(tool, name=name)


@every_revision
@run
async def test_pages_follow_the_order_of_registration_and_end(revision: str) -> None:
    peer = Peer(numbered(25, page_size=10), revision)
    names: list[str] = []
    cursor: dict[str, Any] = {}
    pages = 0
    while True:
        page = await peer.result("tools/list", **cursor)
        names += [tool["name"] for tool in page["tools"]]
        pages += 1
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert names == [f"tool_{index}" for index in range(25)]
    assert pages == 3


@every_revision
@run
async def test_a_foreign_cursor_or_one_from_before_a_change_is_refused(revision: str) -> None:
    server = numbered(25, page_size=10)
    peer = Peer(server, revision)
    cursor = (await peer.result("tools/list"))["nextCursor"]
    good = await peer.result("tools/list", cursor=cursor)
    assert good["tools"][0]["name"] == "tool_10"
    for bad in ("", "10", cursor[:-1] + "x", cursor + "="):
        assert (await peer.error("tools/list", cursor=bad))["code"] == -32602
    other = Peer(numbered(25, page_size=10), revision)
    assert (await other.result("tools/list", cursor=cursor))["tools"][0]["name"] == "tool_10"
    server.remove_tool("tool_3")
    expired = await peer.error("tools/list", cursor=cursor)
    assert (expired["code"], expired["data"]["kind"]) == (-32602, "cursor_expired")
    erlmcp = numbered(25, page_size=10, dialect="erlmcp")
    cursor = (await Peer(erlmcp, "2025-06-18").result("tools/list"))["nextCursor"]
    erlmcp.remove_tool("tool_3")
    assert (await Peer(erlmcp, "2025-06-18").error("tools/list", cursor=cursor))["code"] == -32072


@every_revision
@run
async def test_a_cursor_is_valid_for_its_caller_and_its_list_only(revision: str) -> None:
    server = numbered(25, page_size=10)
    for index in range(25):
        server.add_prompt(lambda: "x", name=f"prompt_{index}")
    people = {name: Peer(server, revision, principal=name) for name in ("ann", "bob", None)}
    cursors = {name: (await peer.result("tools/list"))["nextCursor"] for name, peer in people.items()}
    for owner, cursor in cursors.items():
        for name, peer in people.items():
            for _ in range(2):  # a cached response is not used for another caller
                if name == owner:
                    assert (await peer.result("tools/list", cursor=cursor))["tools"][0]["name"] == "tool_10"
                else:
                    error = await peer.error("tools/list", cursor=cursor)
                    assert error["data"]["kind"] == "invalid_cursor"
        assert "error" in await people[owner].ask("prompts/list", cursor=cursor)


@run
async def test_another_server_with_the_same_keys_opens_no_cursor() -> None:
    cursor = (await Peer(numbered(25, page_size=10)).result("tools/list"))["nextCursor"]
    other = Server("y", "1", seal_keys=KEY, page_size=10)
    for index in range(25):
        add(other, f"tool_{index}")
    assert (await Peer(other).error("tools/list", cursor=cursor))["data"]["kind"] == "invalid_cursor"


@run
async def test_a_wished_page_size_is_an_upper_bound_and_nonsense_is_ignored() -> None:
    peer = Peer(numbered(25, page_size=10), "2025-06-18")
    assert len((await peer.result("tools/list", limit=3))["tools"]) == 3
    assert len((await peer.result("tools/list", limit=3000))["tools"]) == 10
    for odd in (0, -1, "x", None, 2.5):
        assert len((await peer.result("tools/list", limit=odd))["tools"]) == 10
    strict = Peer(numbered(25, page_size=10, dialect="erlmcp"), "2025-06-18")
    assert (await strict.error("tools/list", limit=0))["code"] == -32075
    assert (await strict.error("tools/list", limit=11))["code"] == -32074


def test_pages_are_encoded_once_and_dropped_when_the_list_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []
    prepare = Codec.prepare

    def counted(self: Codec, result: Any) -> Any:
        encoded.append(result)
        return prepare(self, result)

    monkeypatch.setattr(Codec, "prepare", counted)

    @run
    async def scenario() -> None:
        server = numbered(3)
        peer = Peer(server)
        before = await peer.result("tools/list")
        assert await peer.result("tools/list") == before
        assert len(encoded) == 1
        add(server, "late")
        after = await peer.result("tools/list")
        assert [tool["name"] for tool in after["tools"]] == [*(t["name"] for t in before["tools"]), "late"]
        assert len(encoded) == 2

    scenario()


@run
async def test_asking_for_every_page_size_does_not_grow_the_cache() -> None:
    server = numbered(3, page_size=5000)
    peer = Peer(server, "2025-06-18")
    sizes: list[int] = []
    for limit in range(1, 2000):
        await peer.send("tools/list", limit=limit)
        if limit % 100 == 0:
            sizes.append(held(server))
    assert max(sizes[10:]) <= max(sizes[:10])


@run
async def test_caching_hints_are_the_servers_to_give() -> None:
    server = numbered(1, ttl_ms=5000, cache_scope="public")

    @server.resource("x://a", ttl_ms=7, cache_scope="private")
    async def a() -> str:
        return "a"

    @server.resource("x://b")
    async def b() -> str:
        return "b"

    peer = Peer(server)
    page = await peer.result("tools/list")
    assert (page["ttlMs"], page["cacheScope"]) == (5000, "public")
    own = await peer.result("resources/read", uri="x://a")
    assert (own["ttlMs"], own["cacheScope"]) == (7, "private")
    assert (await peer.result("resources/read", uri="x://b"))["ttlMs"] == 5000


@every_revision
@run
async def test_definitions_carry_what_was_said_about_them(revision: str) -> None:
    server = Server("x", "1")
    icon = {"src": "https://example.com/i.png", "mimeType": "image/png"}

    @server.tool(
        "named",
        title="T",
        icons=[icon],
        annotations={"readOnlyHint": True},
        meta={"com.example/a": 1},
        version="2",
        deprecated="gone soon",
        tags={"b", "a"},
        task="optional",
    )
    async def tool() -> int:
        """Does it."""
        return 1

    (listed,) = (await Peer(server, revision).result("tools/list"))["tools"]
    assert (listed["name"], listed["description"]) == ("named", "Does it.")
    assert ("title" in listed) is (revision >= "2025-06-18")
    assert ("icons" in listed) is (revision >= "2025-11-25")
    assert ("annotations" in listed) is (revision >= "2025-03-26")
    assert ("execution" in listed) is (revision == "2025-11-25")
    if revision >= "2025-06-18":
        assert listed["_meta"] == {
            "com.example/a": 1,
            "dovetail/version": "2",
            "dovetail/deprecated": "gone soon",
            "dovetail/tags": ["a", "b"],
        }
    assert server.registry.tools["named"].tags == {"a", "b"}


@run
async def test_erlmcp_sees_version_and_deprecation_at_the_top_level() -> None:
    server = Server("x", "1", dialect="erlmcp")

    @server.tool(version="2", deprecated=True)
    async def old() -> str:
        """Old."""
        return ""

    (listed,) = (await Peer(server, "2025-11-25").result("tools/list"))["tools"]
    assert (listed["version"], listed["deprecated"]) == ("2", True)
    with pytest.raises(RegistrationError, match="10000"):
        server.add_tool(in_module, name="long", description="x" * 10_001)


@every_revision
@run
async def test_a_raw_schema_survives_untouched_and_its_handler_gets_a_dict_or_keywords(revision: str) -> None:
    server = Server("x", "1")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"n": {"type": "integer", "exclusiveMinimum": 0}},
        "required": ["n"],
        "patternProperties": {"^x-": True},
        "additionalProperties": False,
    }

    async def handler(arguments: dict[str, Any], ctx: Context) -> str:
        return f"{arguments} {ctx.revision}"

    server.add_tool(name="raw", input_schema=schema, handler=handler, description="Raw")
    peer = Peer(server, revision)
    assert (await peer.result("tools/list"))["tools"][0]["inputSchema"] == schema
    assert await peer.text("raw", n=1) == f"{{'n': 1}} {revision}"
    reply = await peer.ask("tools/call", name="raw", arguments={"n": 0})
    assert "error" in reply or reply["result"]["isError"] is True

    async def spread(ctx: Context, **arguments: Any) -> str:
        return f"{arguments} {ctx.revision}"

    server.add_tool(name="spread", input_schema=schema, handler=spread, description="Spread", limit=1)
    assert await peer.text("spread", n=1) == f"{{'n': 1}} {revision}"
    server.add_tool(
        name="plain", input_schema={"type": "object"}, handler=lambda **all: sorted(all), description="Plain"
    )
    assert await peer.text("plain", function=1, what=2, ctx=3) == '["ctx","function","what"]'


@pytest.mark.parametrize("revision", LEGACY)
@run
async def test_a_session_is_notified_of_changes_to_its_declared_capabilities(revision: str) -> None:
    server = numbered(1)
    peer = Peer(server, revision)
    add(server, "more")
    server.remove_tool("more")

    @server.prompt
    async def late() -> str:
        return ""

    # Prompts were not offered when this session began, so it hears nothing of them.
    assert [note["method"] for note in peer.notes] == ["notifications/tools/list_changed"] * 2
    assert peer.session is not None
    server.dispatcher.session_closed(peer.session)
    add(server, "after")
    assert len(peer.notes) == 2


@pytest.mark.parametrize("revision", LEGACY)
@run
async def test_a_session_is_notified_of_its_subscribed_resources(revision: str) -> None:
    server = Server("x", "1", limits=Limits(max_subscriptions=2))

    @server.resource("x://{name}")
    async def read(name: str) -> str:
        return name

    peer = Peer(server, revision)
    assert await peer.result("resources/subscribe", uri="x://a") == {}
    assert await peer.result("resources/subscribe", uri="x://b") == {}
    assert "error" in await peer.send("resources/subscribe", uri="x://c")
    await server.notify_resource_updated("x://a")
    await server.notify_resource_updated("x://c")
    assert await peer.result("resources/unsubscribe", uri="x://a") == {}
    await server.notify_resource_updated("x://a")
    assert [note["params"] for note in peer.notes] == [{"uri": "x://a"}]


@run
async def test_a_listen_stream_is_acknowledged_first_and_completed_when_the_server_stops() -> None:
    server = numbered(1)

    @server.resource("x://{name}")
    async def read(name: str) -> str:
        return name

    peer = Peer(server)
    wish = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourceSubscriptions": ["x://a"],
    }
    task = asyncio.create_task(peer.send("subscriptions/listen", notifications=wish))
    await peer.told.wait()
    add(server, "more")
    await server.notify_resource_updated("x://a", {"why": "new"})
    await server.notify_resource_updated("x://b")
    await server.lifecycle.stop()
    reply = await task
    subscription = "io.modelcontextprotocol/subscriptionId"
    assert [note["method"] for note in peer.notes] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ]
    # No prompts are registered, so that part of the wish is not honoured.
    assert peer.notes[0]["params"]["notifications"] == {
        "toolsListChanged": True,
        "resourceSubscriptions": ["x://a"],
    }
    assert all(note["params"]["_meta"][subscription] == 1 for note in peer.notes)
    assert reply["result"]["_meta"][subscription] == 1
    add(server, "unheard")
    assert len(peer.notes) == 3


@run
async def test_subscribing_where_notifications_are_impossible_is_refused() -> None:
    peer = Peer(numbered(1))
    await peer.result("tools/list")
    params = {"notifications": {"toolsListChanged": True}, "_meta": peer.meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    reply = await peer.server.handle(json.dumps(message).encode())
    assert reply is not None
    validate(reply, MODERN)
    assert json.loads(reply)["error"]["data"]["kind"] == "subscription_failed"


@run
async def test_a_listen_stream_its_client_gave_up_is_forgotten() -> None:
    server = numbered(1)
    peer = Peer(server)
    task = asyncio.create_task(peer.send("subscriptions/listen", notifications={"toolsListChanged": True}))
    await peer.told.wait()
    task.cancel()
    await asyncio.wait([task])
    add(server, "unheard")
    assert len(peer.notes) == 1


def test_mistakes_are_said_at_registration() -> None:
    server = numbered(1)
    with pytest.raises(RegistrationError, match="already registered"):
        add(server, "tool_0")
    with pytest.raises(RegistrationError, match="no tool 'nope'"):
        server.remove_tool("nope")
    with pytest.raises(RegistrationError, match="did you mean 'timeout'"):
        server.tool(timeot=3)(in_module)  # pyright: ignore
    with pytest.raises(RegistrationError, match="more than 0"):
        server.tool(timeout=0)(in_module)
    with pytest.raises(RegistrationError, match="at least 1"):
        server.tool(limit=0)(in_module)
    with pytest.raises(RegistrationError, match="https: or data:"):
        server.tool(icons=[{"src": "javascript:alert(1)"}])(in_module)
    with pytest.raises(RegistrationError, match="parameters"):
        server.resource("x://{name}")(in_module)
    with pytest.raises(RegistrationError, match="needs a function"):
        server.add_tool(name="x")
    assert list(server.registry.tools) == ["tool_0"]


def in_module() -> str:
    return ""


@run
async def test_the_same_function_may_serve_two_servers() -> None:
    first, second = Server("a", "1"), Server("b", "1")
    for server in (first, second):
        server.tool(in_module)
        assert (await Peer(server).text("in_module")) == ""
        await server.lifecycle.stop()


@every_revision
@run
async def test_every_message_of_a_busy_server_is_valid(revision: str) -> None:
    """The peer validates all it sees; here the shapes most likely to break an older schema."""
    from dovetail import Audio, Image, ResourceLink

    server = Server(
        "x", "1", title="X", website_url="https://example.com", icons=[{"src": "https://e.com/i"}]
    )

    @server.tool
    async def blocks() -> list[str | Image | Audio | ResourceLink]:
        """Many kinds."""
        return [
            "text",
            Image(b"\x89PNG", format="png"),
            Audio(b"RIFF", format="wav"),
            ResourceLink("x://a", "a", title="A"),
        ]

    @server.tool
    async def numbers() -> list[int]:
        """An array at the root."""
        return [1, 2]

    @server.tool
    async def nothing() -> None:
        """Nothing."""

    peer = Peer(server, revision)
    assert len((await peer.call("blocks"))["content"]) == 4
    numbers_result = await peer.call("numbers")
    assert json.loads(numbers_result["content"][0]["text"]) == [1, 2]
    assert (await peer.call("nothing"))["content"] == []
    listed = await peer.result("tools/list")
    assert len(listed["tools"]) == 3
    if revision == MODERN:
        reply = await server.handle(
            json.dumps(
                {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": peer.meta}}
            ).encode()
        )
        validate(reply, revision, method="server/discover")


def test_missing_or_null_required_options_are_reported() -> None:
    server = Server("x")
    with pytest.raises(RegistrationError, match="needs its URI"):
        server.resource(lambda: "text")  # pyright: ignore[reportArgumentType]  # the parentheses were forgotten
    with pytest.raises(RegistrationError, match="are a list of words"):
        server.add_tool(lambda: "text", name="a", scopes=None)  # pyright: ignore[reportArgumentType]
    server.add_tool(lambda: "text", name="a", tags=None)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"priority": 2}, "<= 1.0"),
        ({"audience": ["king"]}, "king"),
        ({"readOnlyHint": "yes"}, "bool"),
        ({"lastModified": None}, "null"),
    ],
)
def test_annotations_that_the_specification_forbids_are_refused(
    annotations: dict[str, Any], said: str
) -> None:
    with pytest.raises(RegistrationError, match=f"annotations of 'mine': .*{said}"):
        Server("x").add_tool(lambda: "", name="mine", annotations=annotations)
    with pytest.raises(RegistrationError, match=f"annotations of 'mine': .*{said}"):
        Server("x").resource("a://b", name="mine", annotations=annotations)(in_module)


def test_annotations_of_an_authors_own_are_his() -> None:
    Server("x").add_tool(lambda: "", name="mine", annotations={"example.com/priority": 2, "priority": 1})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"timeout": "3"}, "the timeout of a tool must be a number, not '3'"),
    ({"timeout": True}, "the timeout of a tool must be a number, not True"),
    ({"tags": "x"}, "the tags of a tool must be a list of strings, not 'x'"),
    ({"tags": [1]}, "the tags of a tool must be a list of strings"),
    ({"limit": "2"}, "the limit of a tool must be a whole number, not '2'"),
    ({"queue": 1.5}, "the queue of a tool must be a whole number, not 1.5"),
    ({"title": 5}, "the title of a tool must be a string, not 5"),
    ({"meta": []}, "the meta of a tool must be a mapping"),
    ({"annotations": "readOnly"}, "the annotations of a tool must be a mapping"),
    ({"annotations": {"readonly": True}}, "there is no 'readonly'; did you mean 'readOnlyHint'?"),
    ({"annotations": {"read_only_hint": True}}, "did you mean 'readOnlyHint'?"),
    ({"annotations": {"readOnlyHint": "yes"}}, "annotations"),
    ({"structured": "no"}, "the structured of a tool must be True or False, not 'no'"),
    ({"resume": 1}, "the resume of a tool must be True or False, not 1"),
    ({"version": 2}, "the version of a tool must be a string, not 2"),
    ({"deprecated": 1}, "the deprecated of a tool must be True or a sentence, not 1"),
    ({"icons": "https://x.example/a.png"}, "the icons of a tool must be a list of icons"),
    ({"icons": [5]}, "the icons of a tool must be a list of icons"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_an_option_of_the_wrong_type_is_refused_at_registration_by_its_name(
    options: dict[str, Any], words: str
) -> None:
    server = Server("x", "1")

    def work() -> str:
        """Work."""
        return ""

    with pytest.raises(RegistrationError) as caught:
        server.tool(**options)(work)
    assert words in str(caught.value)
    with pytest.raises(RegistrationError):
        server.add_tool(work, **options)


def test_options_of_resources_and_prompts_have_types_too() -> None:
    server = Server("x", "1")

    def work() -> str:
        return ""

    wrong: dict[str, Any]
    for wrong in ({"timeout": "3"}, {"tags": "x"}, {"mime_type": 3}, {"size": "big"}, {"cache_scope": "x"}):
        with pytest.raises(RegistrationError, match=f"the {next(iter(wrong))} of"):
            server.resource("x://y", **wrong)(work)
    with pytest.raises(RegistrationError, match="the tags of"):
        server.prompt(tags="x")(work)


def test_only_the_right_to_a_resource_may_ask_for_its_address() -> None:
    server = Server("s")

    def owns(principal: Any, uri: str, arguments: Any) -> bool:
        return True

    with pytest.raises(RegistrationError, match="only a resource has a URI"):

        @server.tool(auth=owns)
        def tool() -> str:
            """A tool."""
            return "x"
