"""Rights per component: what may be used is what is seen, whatever the way."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail import Context, Principal, RegistrationError, Server
from dovetail.core.principal import as_principal
from tests.support.aio import run
from tests.support.peer import MODERN, Peer
from tests.support.schemas import REVISIONS

SCOPES = ["a", "b", "c"]
NAMES = ["ann", "bob"]


class Caller(Peer):
    """A client whose principal has scopes."""

    def __init__(self, server: Server, principal: Principal | None, revision: str = MODERN) -> None:
        super().__init__(server, revision)
        self.principal = principal


def ann(*scopes: str) -> Principal:
    return Principal("ann", scopes=frozenset(scopes))


async def kind(peer: Peer, method: str, **params: Any) -> str:
    """How a request ends: "result", or the kind of its error."""
    reply = await peer.send(method, **params)
    return "result" if "result" in reply else reply["error"]["data"]["kind"]


rights = st.fixed_dictionaries(
    {}, optional={"scopes": st.lists(st.sampled_from(SCOPES), max_size=2), "who": st.sampled_from(NAMES)}
)
principals = st.none() | st.builds(
    Principal, st.sampled_from(NAMES), scopes=st.frozensets(st.sampled_from(SCOPES))
)


def offering(components: list[dict[str, Any]], restricted: dict[str, list[str]]) -> Server:
    """A server with a tool, a resource, a template and a prompt for each of ``components``."""
    server = Server("shop", "1", page_size=3)
    for tag, scopes in restricted.items():
        server.restrict(tag, scopes=scopes)

    async def nothing() -> str:
        return ""

    async def same(value: str) -> list[str]:
        return [value]

    async def named(name: str) -> str:
        return name

    for number, wanted in enumerate(components):
        options: dict[str, Any] = {"tags": [f"tag{number}"]}
        if "scopes" in wanted:
            options["scopes"] = wanted["scopes"]
        if "who" in wanted:
            options["auth"] = lambda principal, who=wanted["who"]: principal == who
        server.add_tool(nothing, name=f"n{number}", **options)
        server.add_resource(f"x://{number}", nothing, **options)
        server.add_resource(f"t{number}://{{name}}", named, **options)
        server.add_prompt(named, name=f"n{number}", **options)
        for ref in (f"n{number}", f"t{number}://{{name}}"):
            server.completion(ref=ref, argument="name")(same)
    return server


async def everything(peer: Peer, method: str, member: str, name: str) -> set[str]:
    found: set[str] = set()
    cursor: dict[str, str] = {}
    while True:
        page = await peer.result(method, **cursor)
        assert page["cacheScope"] == "private"
        found |= {one[name] for one in page[member]}
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


async def usable(peer: Peer, count: int) -> dict[str, set[str]]:
    """What the caller can use, by the list it would stand in; everything is tried."""
    ways: dict[str, Any] = {
        "tools": lambda n: ("tools/call", {"name": f"n{n}", "arguments": {}}, f"n{n}"),
        "resources": lambda n: ("resources/read", {"uri": f"x://{n}"}, f"x://{n}"),
        "resourceTemplates": lambda n: ("resources/read", {"uri": f"t{n}://z"}, f"t{n}://{{name}}"),
        "prompts": lambda n: ("prompts/get", {"name": f"n{n}", "arguments": {"name": "z"}}, f"n{n}"),
    }
    found: dict[str, set[str]] = {}
    for member, way in ways.items():
        tried = [way(number) for number in range(count)]
        found[member] = {
            key for method, params, key in tried if await kind(peer, method, **params) == "result"
        }
    return found


async def completable(peer: Peer, count: int) -> dict[str, set[str]]:
    refs = {
        "prompts": [({"type": "ref/prompt", "name": f"n{n}"}, f"n{n}") for n in range(count)],
        "resourceTemplates": [
            ({"type": "ref/resource", "uri": f"t{n}://{{name}}"}, f"t{n}://{{name}}") for n in range(count)
        ],
    }
    argument = {"name": "name", "value": "z"}
    return {
        member: {
            key
            for ref, key in all_
            if await kind(peer, "completion/complete", ref=ref, argument=argument) == "result"
        }
        for member, all_ in refs.items()
    }


@given(
    st.lists(rights, min_size=1, max_size=5),
    principals,
    st.dictionaries(
        st.sampled_from(["tag0", "tag1"]), st.lists(st.sampled_from(SCOPES), min_size=1, max_size=1)
    ),
)
def test_callable_equals_visible(
    components: list[dict[str, Any]], principal: Principal | None, restricted: dict[str, list[str]]
) -> None:
    @run
    async def check() -> None:
        server = offering([*components, {"scopes": ["c"]}], restricted)
        peer = Caller(server, principal)
        seen = {
            "tools": await everything(peer, "tools/list", "tools", "name"),
            "resources": await everything(peer, "resources/list", "resources", "uri"),
            "resourceTemplates": await everything(
                peer, "resources/templates/list", "resourceTemplates", "uriTemplate"
            ),
            "prompts": await everything(peer, "prompts/list", "prompts", "name"),
        }
        count = len(components) + 1
        assert await usable(peer, count) == seen
        for member, found in (await completable(peer, count)).items():
            assert found == seen[member]

    check()


def guarded() -> Server:
    server = Server("shop", "1", page_size=1, cache_scope="public")

    @server.tool(scopes=["a", "b"], task="optional")
    async def scoped() -> str:
        """x"""
        return "done"

    @server.tool(auth=lambda principal: principal == "bob", task="optional")
    async def bobs() -> str:
        """x"""
        return "done"

    @server.tool
    async def read(uri: str, ctx: Context) -> str:
        """x"""
        return (await ctx.read_resource(uri))[0].text or ""

    @server.resource("x://scoped", scopes=["a"], cache_scope="public")
    async def secret() -> str:
        return "secret"

    return server


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_missing_scopes_are_named_and_what_is_denied_is_unknown(revision: str) -> None:
    peer = Caller(guarded(), ann("a"), revision)
    reply = await peer.send("tools/call", name="scoped", arguments={})
    assert reply["error"]["data"]["kind"] == "insufficient_permissions"
    assert reply["error"]["data"]["requiredScopes"] == ["a", "b"]  # those it has, too
    denied = await peer.send("tools/call", name="bobs", arguments={})
    unknown = await peer.send("tools/call", name="nothing", arguments={})
    assert json.dumps(denied["error"]).replace("bobs", "nothing") == json.dumps(unknown["error"])


@run
async def test_no_task_is_begun_without_the_right() -> None:
    server = guarded()
    peer = Peer(server, MODERN, capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}})
    peer.principal = ann("a")
    assert await kind(peer, "tools/call", name="scoped", arguments={}) == "insufficient_permissions"
    assert await kind(peer, "tools/call", name="bobs", arguments={}) == "tool_not_found"
    peer.principal = as_principal("bob")
    assert "taskId" in (await peer.send("tools/call", name="bobs", arguments={}))["result"]


@run
async def test_a_handler_reads_with_the_rights_of_its_caller() -> None:
    server = guarded()
    assert await Caller(server, ann("a")).text("read", uri="x://scoped") == "secret"
    reply = await Caller(server, ann()).send("tools/call", name="read", arguments={"uri": "x://scoped"})
    assert "secret" not in json.dumps(reply)


@run
async def test_what_is_restricted_is_private_in_caches_whatever_the_server_says() -> None:
    server = guarded()
    caller = Caller(server, ann("a", "b"))
    assert (await caller.result("resources/read", uri="x://scoped"))["cacheScope"] == "private"
    assert (
        (await Peer(server).result("prompts/list"))["cacheScope"] == "public"
        if server.registry.prompts
        else True
    )
    assert (await caller.result("tools/list"))["cacheScope"] == "private"
    assert (await Peer(server).result("tools/list"))["cacheScope"] == "private"


@run
async def test_a_cursor_is_valid_for_its_caller_only() -> None:
    server = guarded()
    page = await Caller(server, ann("a", "b")).result("tools/list")
    for other in (None, Principal("bob", scopes=frozenset({"a", "b"})), Principal("ann", "https://id")):
        assert await kind(Caller(server, other), "tools/list", cursor=page["nextCursor"]) == "invalid_cursor"
    assert await kind(Caller(server, ann("a", "b")), "tools/list", cursor=page["nextCursor"]) == "result"


@pytest.mark.parametrize("revision", [one for one in REVISIONS if one != MODERN])
@run
async def test_updates_of_a_resource_are_sent_to_callers_that_may_read_it(revision: str) -> None:
    server = guarded()
    mine, other = Caller(server, ann("a"), revision), Caller(server, ann(), revision)
    assert await kind(mine, "resources/subscribe", uri="x://scoped") == "result"
    assert await kind(other, "resources/subscribe", uri="x://scoped") == "insufficient_permissions"
    assert await kind(other, "resources/subscribe", uri="x://") == "result"  # what it lies in
    await server.notify_resource_updated("x://scoped")
    assert [note["method"] for note in mine.notes] == ["notifications/resources/updated"]
    assert other.notes == []


@run
async def test_an_auth_function_that_fails_or_is_async_denies_access(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("x", "1")

    async def later(principal: Any) -> bool:
        return True

    server.add_tool(lambda: "x", name="fails", auth=lambda principal: principal.scopes["x"])
    server.add_tool(lambda: "x", name="waits", auth=lambda principal: later(principal))
    peer = Caller(server, ann())
    assert (await peer.result("tools/list"))["tools"] == []
    assert "auth of tool 'fails' failed" in caplog.text
    assert "auth of tool 'waits' is a coroutine function: access is denied" in caplog.text


@run
async def test_an_own_method_has_rights_too() -> None:
    server = Server("x", "1")
    server.add_method("acme/do", lambda params: {}, scopes=["a"])
    assert await kind(Caller(server, ann()), "acme/do") == "insufficient_permissions"
    assert await kind(Caller(server, ann("a")), "acme/do") == "result"


@pytest.mark.parametrize("wrong", [{"scopes": "a b"}, {"scopes": ["a b"]}, {"scopes": [""]}, {"auth": "ann"}])
def test_rights_that_cannot_be_checked_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RegistrationError, match=r"scopes|auth"):
        Server("x", "1").add_tool(lambda: "", name="x", **wrong)


def test_an_async_function_cannot_decide() -> None:
    async def decide(principal: Principal | None) -> bool:
        return True

    with pytest.raises(RegistrationError, match="plain function"):
        Server("x", "1").add_tool(lambda: "", name="x", auth=decide)


@pytest.mark.parametrize("mounted", [False, True])
@pytest.mark.parametrize("form", ["ref/prompt", "ref/resource", "ref/tool"])
@pytest.mark.parametrize("name", ["hidden", "wipe", "secret://{id}"])
@run
async def test_no_name_of_another_kind_completes_what_is_not_for_the_caller(
    name: str, form: str, mounted: bool
) -> None:
    def hidden(value: str) -> str:
        return value

    def secret(id: str) -> str:
        return id

    def values(value: str) -> list[str]:
        return ["TOP-SECRET"]

    server = Server("closed", "1")
    server.add_prompt(hidden, scopes=["admin"])
    server.add_tool(hidden, name="wipe", description="d", scopes=["admin"])
    server.add_resource("secret://{id}", secret, scopes=["admin"])
    for ref, argument in (("hidden", "value"), ("wipe", "value"), ("secret://{id}", "id")):
        server.completion(ref=ref, argument=argument)(values)
    argument = {"name": "id" if "{" in name else "value", "value": ""}
    if mounted:
        child, server = server, Server("parent", "1")
        server.mount(child, prefix="kid")
        name = "secret://kid/{id}" if "{" in name else f"kid_{name}"
    ref = {"type": form, "uri" if form == "ref/resource" else "name": name}
    reply = await Caller(server, None).send("completion/complete", ref=ref, argument=argument)
    assert "TOP-SECRET" not in json.dumps(reply)
    assert "error" in reply


def by_address() -> Server:
    """A server whose template ``repo://{name}`` needs a scope that names the repository."""
    server = Server("repositories", "1")

    @server.resource("repo://{name}", scopes=lambda uri, arguments: {"docs", f"repo:{arguments['name']}"})
    async def read(name: str) -> str:
        return name

    @server.completion(ref="repo://{name}", argument="name")
    def names(value: str) -> list[tuple[str, str]]:
        return [("a", "First"), ("b", "Second")]

    return server


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("mounted", [False, True])
@run
async def test_scopes_that_depend_on_an_argument_are_all_named(revision: str, mounted: bool) -> None:
    server, uri = by_address(), "repo://{}"
    if mounted:
        outer = Server("outer", "1")
        outer.mount(server, prefix="in")
        server, uri = outer, "repo://in/{}"
    peer = Caller(server, ann("repo:a"), revision)
    for name, missing in (("a", ["docs", "repo:a"]), ("b", ["docs", "repo:b"])):
        refused = await peer.send("resources/read", uri=uri.format(name))
        assert refused["error"]["data"]["requiredScopes"] == missing
    owner = Caller(server, ann("docs", "repo:a"), revision)
    assert (await owner.result("resources/read", uri=uri.format("a")))["contents"][0]["text"] == "a"
    assert await kind(owner, "resources/read", uri=uri.format("b")) == "insufficient_permissions"
    if revision != MODERN:
        assert await kind(owner, "resources/subscribe", uri=uri.format("a")) == "result"
        assert await kind(owner, "resources/subscribe", uri=uri.format("b")) == "insufficient_permissions"


@run
async def test_completions_offer_what_the_caller_may_read() -> None:
    params: dict[str, Any] = {
        "ref": {"type": "ref/resource", "uri": "repo://{name}"},
        "argument": {"name": "name", "value": ""},
    }
    for scopes, values in ((("docs", "repo:a"), ["a"]), (("docs", "repo:a", "repo:b"), ["a", "b"]), ((), [])):
        result = await Caller(by_address(), ann(*scopes)).result("completion/complete", **params)
        assert result["completion"]["values"] == values
        assert len(result["_meta"]["dovetail/labels"]) == len(values)


@pytest.mark.parametrize("scopes", [lambda uri, arguments: arguments["none"], lambda uri, arguments: "docs"])
@run
async def test_scopes_that_cannot_be_found_deny_access(scopes: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("x", "1")
    server.add_resource("x://{name}", lambda name: name, name="x", scopes=scopes)
    assert await kind(Caller(server, ann("docs")), "resources/read", uri="x://a") == "resource_not_found"
    assert "access is denied" in caplog.text


def test_only_a_resource_has_scopes_by_address() -> None:
    with pytest.raises(RegistrationError, match="only a resource has a URI"):
        Server("x", "1").add_tool(lambda: "", name="x", scopes=lambda uri, arguments: [])
