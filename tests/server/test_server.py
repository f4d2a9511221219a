"""A server on all five revisions, through the bytes of `Server.handle`."""

import json
import re
from typing import Any

import msgspec
import pytest

from dovetail import CallToolResult, Completion, Context, GetPromptResult, Server, TextContent
from dovetail.stores import MemoryStore
from tests.server.weather import build, every_legacy, every_revision
from tests.support.aio import run
from tests.support.peer import MODERN, Peer
from tests.support.schemas import REVISIONS, validate


@every_revision
@run
async def test_every_primitive_answers_on_every_revision(revision: str) -> None:
    peer = Peer(build(), revision)
    tools = await peer.result("tools/list")
    assert [tool["name"] for tool in tools["tools"]] == ["forecast", "shout", "broken"]
    assert tools["tools"][0]["inputSchema"]["properties"]["city"] == {
        "type": "string",
        "description": "Where.",
    }
    called = await peer.call("forecast", city="Oslo")
    assert json.loads(called["content"][0]["text"]) == {"city": "Oslo", "degrees": 23.5}
    if revision >= "2025-06-18":
        assert called["structuredContent"] == {"city": "Oslo", "degrees": 23.5}
    else:
        assert "structuredContent" not in called
    assert await peer.text("shout", text="ja") == "JA"
    read = await peer.result("resources/read", uri="weather://oslo/now")
    assert json.loads(read["contents"][0]["text"]) == {"city": "oslo"}
    assert read["contents"][0]["uri"] == "weather://oslo/now"
    assert (await peer.result("resources/list"))["resources"][0]["uri"] == "weather://about"
    templates = await peer.result("resources/templates/list")
    assert templates["resourceTemplates"][0]["uriTemplate"] == "weather://{city}/now"
    prompts = await peer.result("prompts/list")
    assert [a["name"] for a in prompts["prompts"][0]["arguments"]] == ["city", "days"]
    prompt = await peer.result("prompts/get", name="plan", arguments={"city": "Oslo", "days": "2"})
    assert prompt["messages"][0]["content"]["text"] == "Plan 2 days in Oslo"
    assert prompt["description"] == "Plan a trip."


@every_legacy
@run
async def test_initialize_declares_what_is_registered_and_ping_is_answered(revision: str) -> None:
    server = build()
    request = {
        "jsonrpc": "2.0",
        "id": "a",
        "method": "initialize",
        "params": {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "hand", "version": "1"},
        },
    }
    reply = await server.handle(json.dumps(request).encode())
    assert reply is not None
    validate(reply, revision, method="initialize")
    result = json.loads(reply)["result"]
    assert result["protocolVersion"] == revision
    assert result["serverInfo"]["name"] == "weather"
    assert result["instructions"] == "Ask before you travel."
    capabilities = result["capabilities"]
    assert capabilities["tools"] == {"listChanged": True}
    assert capabilities["resources"] == {"subscribe": True, "listChanged": True}
    assert ("completions" in capabilities) is (revision > "2024-11-05")
    assert (await Peer(server, revision).result("ping")) == {}


@run
async def test_discover_lists_versions_newest_first_and_no_legacy_only_capability() -> None:
    server = build()
    server.dispatcher.add_capability("tasks", {"list": {}})
    server.dispatcher.add_capability("extensions.com.example/x", {"a": 1})
    result = await Peer(server).result("server/discover")
    assert result["supportedVersions"] == list(reversed(REVISIONS))
    assert "tasks" not in result["capabilities"]
    assert result["capabilities"]["extensions"] == {"com.example/x": {"a": 1}}
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


@run
async def test_what_is_not_registered_is_not_offered() -> None:
    server = Server("empty", "1")
    error = await Peer(server).error("tools/list")
    assert error["code"] == -32601
    server.add_tool(lambda: "late", name="late")
    assert len((await Peer(server).result("tools/list"))["tools"]) == 1


@every_revision
@run
async def test_unknown_names_have_their_documented_codes(revision: str) -> None:
    peer = Peer(build(), revision)
    assert (await peer.error("tools/call", name="nope"))["code"] == -32602
    assert (await peer.error("prompts/get", name="nope"))["code"] == -32602
    missing = await peer.error("resources/read", uri="weather://nowhere")
    assert missing["code"] == (-32602 if revision == MODERN else -32002)
    assert missing["data"]["uri"] == "weather://nowhere"


@pytest.mark.parametrize("revision", REVISIONS[1:])  # 2024-11-05 has no completions
@pytest.mark.parametrize("stored", [False, True])
@run
async def test_a_completion_may_have_a_context(stored: bool, revision: str) -> None:
    server = Server("x", "1", store=MemoryStore() if stored else None)

    @server.prompt
    def greet(name: str) -> str:
        """Greet."""
        return name

    @server.completion(ref="greet", argument="name")
    async def names(value: str, ctx: Context) -> list[str]:
        return [value, ctx.revision, str(ctx.request_state), str(dict(ctx.input_responses))]

    @server.prompt
    def ask(name: str) -> str:
        """Ask."""
        return name

    @server.completion(ref="ask", argument="name")
    async def asks(value: str, ctx: Context) -> list[str]:
        await ctx.elicit("Which?", str)
        return [value]

    peer = Peer(server, revision)
    ref = {"type": "ref/prompt", "name": "greet"}
    result = await peer.result("completion/complete", ref=ref, argument={"name": "name", "value": "a"})
    assert result["completion"]["values"] == ["a", revision, "None", "{}"]
    if revision == MODERN:  # a result of completion/complete cannot be input_required
        ref["name"] = "ask"
        refused = await peer.error("completion/complete", ref=ref, argument={"name": "name", "value": "a"})
        assert refused["code"] < 0
        assert "incident" not in json.dumps(refused)
    await server.lifecycle.stop()


@run
async def test_completions_serve_prompts_templates_and_tools() -> None:
    server = build()

    @server.completion(ref="weather://{city}/now", argument="city")
    def for_template(value: str) -> Completion:
        return Completion([value + "!"], total=1)

    @server.completion(ref="forecast", argument="city")
    def many(value: str) -> list[str]:
        return [f"{value}{n}" for n in range(150)]

    peer = Peer(server)
    ref = {"type": "ref/prompt", "name": "plan"}
    result = await peer.result("completion/complete", ref=ref, argument={"name": "city", "value": "Os"})
    assert result["completion"] == {"values": ["Oslo", "Osaka"], "total": 2}
    with_context = await peer.result(
        "completion/complete",
        ref=ref,
        argument={"name": "city", "value": "Ro"},
        context={"arguments": {"days": "2"}},
    )
    assert with_context["completion"]["values"] == ["Rome", "2"]
    nothing = await peer.result("completion/complete", ref=ref, argument={"name": "days", "value": ""})
    assert nothing["completion"]["values"] == []
    template = {"type": "ref/resource", "uri": "weather://{city}/now"}
    result = await peer.result("completion/complete", ref=template, argument={"name": "city", "value": "O"})
    assert result["completion"]["values"] == ["O!"]
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "completion/complete",
        "params": {
            "_meta": peer.meta,
            "ref": {"type": "ref/tool", "name": "forecast"},
            "argument": {"name": "city", "value": "x"},
        },
    }
    reply = await server.handle(json.dumps(message).encode())
    assert reply is not None
    completion = json.loads(reply)["result"]["completion"]
    assert (len(completion["values"]), completion["total"], completion["hasMore"]) == (100, 150, True)
    unknown = await peer.error(
        "completion/complete", ref={"type": "ref/prompt", "name": "no"}, argument={"name": "a", "value": ""}
    )
    assert unknown["code"] == -32602
    await server.lifecycle.stop()


@pytest.mark.parametrize(("dialect", "code"), [("official", -32602), ("erlmcp", -32112)])
@run
async def test_what_has_no_such_argument_has_none_to_complete(dialect: str, code: int) -> None:
    server = Server("weather", "1", dialect=dialect)

    @server.tool
    @server.prompt
    def plan(city: str) -> str:
        """A plan."""
        return city

    server.add_tool(name="raw", input_schema={"type": "object"}, handler=lambda given: "", description="d")

    @server.resource("weather://{city}/now")
    def weather(city: str) -> str:
        return city

    @server.completion(ref="none", argument="a")
    def nobody(value: str) -> list[str]:
        return []

    peer = Peer(server, "2025-06-18")
    for ref in (
        {"type": "ref/prompt", "name": "plan"},
        {"type": "ref/tool", "name": "plan"},
        {"type": "ref/resource", "uri": "weather://{city}/now"},
        {"type": "ref/tool", "name": "raw"},
    ):
        argument = {"name": "city", "value": "x"}
        assert (await peer.result("completion/complete", ref=ref, argument=argument))["completion"][
            "values"
        ] == []
        if ref.get("name") != "raw":
            error = await peer.error("completion/complete", ref=ref, argument={"name": "days", "value": ""})
            text = error["data"]["reason"] if dialect == "erlmcp" else error["message"]
            assert (error["code"], "no argument 'days'" in text) == (code, True)
    await server.lifecycle.stop()


@run
async def test_a_handler_may_return_whole_results() -> None:
    server = Server("x", "1")

    @server.tool
    async def whole() -> CallToolResult:
        return CallToolResult([TextContent("a")], is_error=True, meta={"com.example/k": 1})

    @server.prompt
    async def whole_prompt() -> GetPromptResult:
        return GetPromptResult([], description="other")

    peer = Peer(server)
    result = await peer.call("whole")
    assert (result["isError"], result["_meta"]["com.example/k"]) == (True, 1)
    assert (await peer.result("prompts/get", name="whole_prompt"))["description"] == "other"


@run
async def test_erlmcp_answers_a_failed_tool_with_its_own_code() -> None:
    server = build(dialect="erlmcp")
    peer = Peer(server, "2025-11-25")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "broken"}}
    reply = await server.handle(json.dumps(message).encode(), {"revision": "2025-11-25"})
    assert reply is not None
    error = json.loads(reply)["error"]
    assert error["code"] == -32031
    assert error["data"]["tool"] == "broken"
    assert "secret" not in json.dumps(error)
    assert (await peer.error("tools/call", name="nope"))["code"] == -32002
    await server.lifecycle.stop()


@run
async def test_minimcp_forces_invalid_params_for_bad_arguments_and_its_capability_flags() -> None:
    server = build(dialect="minimcp")
    peer = Peer(server, "2025-11-25")
    assert (await peer.error("tools/call", name="forecast", arguments={}))["code"] == -32602
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "hand", "version": "1"},
        },
    }
    reply = await server.handle(json.dumps(request).encode())
    assert reply is not None
    capabilities = json.loads(reply)["result"]["capabilities"]
    assert capabilities["prompts"] == {"listChanged": False}
    assert capabilities["resources"] == {"subscribe": False, "listChanged": False}
    assert capabilities["tools"] == {"listChanged": True}
    await server.lifecycle.stop()


@run
async def test_only_the_revisions_asked_for_are_served() -> None:
    server = build(revisions=["2026-07-28"])
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "h", "version": "1"},
        },
    }
    reply = await server.handle(json.dumps(request).encode())
    assert reply is not None
    error = json.loads(reply)["error"]
    assert error["data"]["supported"] == ["2026-07-28"]
    assert "2026-07-28" in error["message"]


def test_decorated_functions_stay_ordinary_callables() -> None:
    server = Server("x", "1")

    @server.tool(title="T")
    def double(n: int) -> int:
        return n * 2

    assert double(4) == 8
    assert server.registry.tools["double"].definition.title == "T"
    assert msgspec.to_builtins(server.registry.tools["double"].definition)["name"] == "double"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dialect": "klingon"}, "unknown dialect 'klingon'; known dialects: official, erlmcp"),
        ({"revisions": ["1999-12-31"]}, "no revision '1999-12-31': use some of 2024-11-05"),
        ({"revisions": []}, "needs a revision"),
        ({"seal_keys": "short"}, "at least 16 bytes"),
        ({"page_size": -1}, "page_size must be at least 1, not -1"),
        ({"ttl_ms": -1}, "ttl_ms must be 0 or more"),
        ({"cache_scope": "everybody"}, "cache_scope must be 'public' or 'private'"),
        ({"timeout": 0}, "more than 0 seconds"),
        ({"log_level": "loud"}, "one of debug, info"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_with_what_can(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Server("x", **options)


@every_revision
@run
async def test_a_system_message_goes_first_as_the_users_where_no_such_role_is_known(revision: str) -> None:
    server = Server("talks")

    @server.prompt
    def talk() -> list[Any]:
        return ["Hello.", {"role": "system", "content": "Be kind."}]

    got = await Peer(server, revision).result("prompts/get", name="talk")
    assert [(one["role"], one["content"]["text"]) for one in got["messages"]] == [
        ("user", "Be kind."),
        ("user", "Hello."),
    ]


class Half:
    async def get(self, key: str) -> None: ...


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"auth": 3}, "auth must be a verifier"),
        ({"auth": "token"}, "auth must be a verifier"),
        ({"auth": Half}, "auth must be a verifier"),
        ({"store": 3}, "store must be a store .* not 3"),
        ({"store": Half()}, "store must be a store"),
    ],
)
def test_what_is_no_verifier_and_no_store_is_refused_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Server("x", **options)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("limits", 3), ("limits", {"tasks": 1}), ("middleware", 3), ("dialect", 3), ("revisions", 3), ("icons", 3),
        ("seal_keys", 3), ("tasks", 3), ("clock", 3), ("version", 3), ("page_size", "x"), ("timeout", "x"),
        ("instructions", 5), ("title", 5), ("ttl_ms", "x"), ("mask_errors", "no"), ("strict", 1), ("lifespan", 5),
    ],
)  # fmt: skip
def test_a_parameter_of_the_wrong_kind_is_named_with_what_it_takes(name: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name} is .*, not {re.escape(repr(wrong))}$"):
        Server("x", **{name: wrong})
