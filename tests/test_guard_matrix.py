"""Every way to call a tool × every guard × every revision that has the way: the guard acts in each cell.

`WAYS` are the ways: each builds the server that a client talks to around a ``home`` that has the tools and the guard,
and calls a tool there. A way is left out of a revision that does not have it, and for nothing else.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dovetail import Context, ImageContent, Principal, ProtocolError, Refusal, Server, TextContent, ToolError
from dovetail.extensions.tasks.task_methods import tasks_of
from dovetail.gateway import Proxy
from dovetail.middleware import (
    Audit,
    Caching,
    CircuitBreaker,
    ConcurrencyLimit,
    Middleware,
    Policy,
    RateLimit,
    Redaction,
    Timeout,
)
from dovetail.stores import SqliteStore
from tests.server.test_tasks_core import Erl
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.waiting import until

R4 = "2025-11-25"
TASKS = {"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
SECRET = "ghp_" + "a1B2" * 10
ALL = (*LEGACY, MODERN)


class Home:
    """The server with the tools and the guard, and what ran there."""

    def __init__(self, *guards: Any, task: str, versions: bool, **options: Any) -> None:
        self.ran: list[str] = []
        self.gate, self.running = asyncio.Event(), asyncio.Event()
        self.server = server = Server("home", middleware=guards, **options)
        more: dict[str, Any] = {"task": task}
        if versions:
            more["version"] = "1.0"

        @server.tool(**more)
        async def drop(table: str = "t") -> str:
            """One of the tools."""
            self.ran.append("drop")
            return f"dropped {table} {SECRET}"

        @server.tool(annotations={"readOnlyHint": True}, **more)
        async def look() -> str:
            """One of the tools."""
            self.ran.append("look")
            return f"seen {len(self.ran)}"

        @server.tool(**more)
        async def wait() -> str:
            """One of the tools."""
            self.ran.append("wait")
            self.running.set()
            await self.gate.wait()
            return "waited"

        @server.tool(**more)
        async def crash() -> str:
            """One of the tools."""
            self.ran.append("crash")
            raise ZeroDivisionError("of no concern to a client")

        @server.tool(scopes=["admin"], **more)
        async def secret() -> str:
            """One of the tools."""
            self.ran.append("secret")
            return "open"

        @server.tool(**more)
        async def structured() -> dict[str, str]:
            """One of the tools."""
            self.ran.append("structured")
            return {"data": SECRET, "type": SECRET, "blob": SECRET, "mimeType": SECRET}


class Outcome:
    """What a client sees in the end: the text of a result, or the code of an error."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self.reply = reply
        error = reply.get("error")
        self.code: int | None = None if error is None else error["code"]
        result = reply.get("result") or {}
        self.is_error = bool(result.get("isError")) or error is not None
        self.everything = json.dumps(reply)

    @property
    def text(self) -> str:
        return self.reply["result"]["content"][0]["text"]


Call = Callable[[Peer, str, dict[str, Any]], Awaitable[Outcome]]


async def plainly(peer: Peer, tool: str, arguments: dict[str, Any]) -> Outcome:
    return Outcome(await peer.ask("tools/call", name=tool, arguments=arguments))


async def with_version(peer: Peer, tool: str, arguments: dict[str, Any]) -> Outcome:
    return await plainly(peer, f"{tool}@1.0", arguments)


async def by_search(peer: Peer, tool: str, arguments: dict[str, Any]) -> Outcome:
    return await plainly(peer, "call_tool", {"name": tool, "arguments": arguments})


async def with_prefix(peer: Peer, tool: str, arguments: dict[str, Any]) -> Outcome:
    return await plainly(peer, f"far_{tool}", arguments)


async def with_prefix_and_version(peer: Peer, tool: str, arguments: dict[str, Any]) -> Outcome:
    return await plainly(peer, f"far_{tool}@1.0", arguments)


async def renamed(peer: Peer, tool: str, arguments: dict[str, Any]) -> Outcome:
    return await plainly(peer, f"new_{tool}", arguments)


async def ended(peer: Peer, reply: dict[str, Any], id: str) -> Outcome:
    """The outcome of a task: polled, as a client does."""
    for _ in range(10_000):
        state = await peer.ask("tasks/get", taskId=id)
        status = state.get("result", {}).get("status")
        if status == "input_required" and peer.session is None:
            answers = {
                key: peer.answer(question["method"], question["params"])
                for key, question in state["result"]["inputRequests"].items()
            }
            await peer.ask("tasks/update", taskId=id, inputResponses=answers)
        if status in ("completed", "failed", "cancelled"):
            break
        await asyncio.sleep(0)
    else:
        raise AssertionError(f"the task does not end: {reply}")
    if peer.session is None:
        found = {key: state["result"][key] for key in ("result", "error") if key in state["result"]}
        return Outcome(found)
    return Outcome(await peer.ask("tasks/result", taskId=id))


async def as_core_task(peer: Peer, tool: str, arguments: dict[str, Any]) -> Outcome:
    reply = await peer.ask("tools/call", name=tool, arguments=arguments, task={})
    task = reply.get("result", {}).get("task")
    return Outcome(reply) if task is None else await ended(peer, reply, task["taskId"])


async def as_extension_task(peer: Peer, tool: str, arguments: dict[str, Any]) -> Outcome:
    reply = await peer.ask("tools/call", name=tool, arguments=arguments)
    id = reply.get("result", {}).get("taskId")
    return Outcome(reply) if id is None else await ended(peer, reply, id)


async def by_tasks_create(peer: Peer, tool: str, arguments: dict[str, Any]) -> Outcome:
    reply = await peer.ask("tasks/create", action={"type": tool, "parameters": arguments})
    if "error" in reply:
        return Outcome(reply)
    id = reply["result"]["taskId"]
    for _ in range(10_000):
        task = (await peer.ask("tasks/get", taskId=id))["result"]["task"]
        if task["status"] not in ("pending", "processing"):
            break
        await asyncio.sleep(0)
    found = await peer.ask("tasks/result", taskId=id)
    if "result" in found:
        found["result"] = found["result"].get("result", found["result"])
    return Outcome(found)


async def in_process(peer: Peer, tool: str, arguments: dict[str, Any]) -> Outcome:
    """`Server.call_tool`: the program that runs the server calls, not a client."""
    try:
        result = await peer.server.call_tool(tool, arguments, principal=peer.principal)
    except (ProtocolError, Refusal) as error:
        return Outcome({"error": {"code": error.code, "message": error.message}})
    return Outcome({"result": msgspec.to_builtins(result)})


class Way:
    def __init__(
        self,
        call: Call,
        revisions: tuple[str, ...] = ALL,
        *,
        around: Callable[[Server], Server] = lambda home: home,
        task: str = "forbidden",
        versions: bool = False,
        dialect: str = "official",
    ) -> None:
        self.call, self.revisions, self.around = call, revisions, around
        self.task, self.versions, self.dialect = task, versions, dialect


def searching(home: Server) -> Server:
    home.search()
    return home


def transformed(home: Server) -> Server:
    home.transform(rename={name: f"new_{name}" for name in list(home.registry.tools)})
    return home


def mounting(home: Server) -> Server:
    server = Server("whole")
    server.mount(home, prefix="far")
    return server


def proxying(home: Server) -> Server:
    return Proxy(home, name="front")


def gateway(home: Server) -> Server:
    server = Server("gateway")
    server.mount(Proxy(home, name="front"), prefix="far")
    return server


WAYS = {
    "tools/call": Way(plainly),
    "in process": Way(in_process, (MODERN,)),
    "in process, mounted": Way(
        lambda peer, tool, arguments: in_process(peer, f"far_{tool}", arguments), (MODERN,), around=mounting
    ),
    "name@version": Way(with_version, versions=True),
    "search": Way(by_search, around=searching),
    "transform": Way(renamed, around=transformed),
    "core task": Way(as_core_task, (R4,), task="optional"),
    "extension task": Way(as_extension_task, (MODERN,), task="required"),
    "tasks/create": Way(by_tasks_create, (R4,), task="optional", dialect="erlmcp"),
    "mount": Way(with_prefix, around=mounting),
    "mount@version": Way(with_prefix_and_version, around=mounting, versions=True),
    "mounted task": Way(
        lambda peer, tool, arguments: as_extension_task(peer, f"far_{tool}", arguments),
        (MODERN,),
        around=mounting,
        task="required",
    ),
    "proxy": Way(plainly, around=proxying),
    "gateway": Way(with_prefix, around=gateway),
}
CELLS = [
    pytest.param(way, revision, id=f"{name}-{revision}")
    for name, way in WAYS.items()
    for revision in way.revisions
]
cells = pytest.mark.parametrize(("way", "revision"), CELLS)


class Cell:
    """One cell: a guarded server, reached in one way."""

    def __init__(self, way: Way, revision: str, *guards: Any, **options: Any) -> None:
        self.way, self.revision = way, revision
        self.home = Home(*guards, task=way.task, versions=way.versions, dialect=way.dialect, **options)
        self.server = way.around(self.home.server)
        self.answer: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda method, params: {
            "action": "decline"
        }

    def peer(self, principal: Any = None) -> Peer:
        capabilities = TASKS if self.revision == MODERN else {"elicitation": {}, "roots": {}}
        kind = Peer if self.way.dialect == "official" else Erl
        peer = kind(self.server, self.revision, capabilities=capabilities, answer=self.ask)
        if self.way.dialect != "official" and peer.session is not None:
            peer.session.codec = peer.codec
        peer.principal = principal
        return peer

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return self.answer(method, params)

    async def call(self, tool: str, principal: Any = None, **arguments: Any) -> Outcome:
        return await self.way.call(self.peer(principal), tool, arguments)

    async def __aenter__(self) -> "Cell":
        await self.server.lifecycle.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.server.lifecycle.stop()
        await self.home.server.lifecycle.stop()


def guarded(way: Way, revision: str, scenario: Callable[[Cell], Awaitable[None]], *guards: Any) -> None:
    @run
    async def cell() -> None:
        async with Cell(way, revision, *guards) as one:
            await scenario(one)

    cell()


@cells
def test_without_a_guard_the_tool_runs(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        assert (await cell.call("look")).text == "seen 1"

    guarded(way, revision, scenario)


@cells
def test_what_a_policy_disables_does_not_run(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        assert (await cell.call("drop")).is_error
        assert cell.home.ran == []
        assert not (await cell.call("look")).is_error

    guarded(way, revision, scenario, Policy(disabled=["drop"]))


@cells
def test_what_a_policy_does_not_allow_does_not_run(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        assert (await cell.call("drop")).is_error
        assert cell.home.ran == []
        assert not (await cell.call("look")).is_error

    guarded(way, revision, scenario, Policy(allow=["look"]))


@cells
def test_what_a_user_does_not_approve_does_not_run(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        assert (await cell.call("drop")).is_error
        assert cell.home.ran == []
        assert not (await cell.call("look")).is_error

    guarded(way, revision, scenario, Policy(approve=["drop"]))


@cells
def test_arguments_outside_a_pattern_do_not_run(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        assert (await cell.call("drop", table="users")).is_error
        assert cell.home.ran == []
        assert not (await cell.call("drop", table="temp")).is_error

    guarded(way, revision, scenario, Policy(arguments={"drop": {"table": "temp"}}))


@cells
def test_a_rate_per_tool_counts(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        outcomes = [await cell.call("look") for _ in range(4)]
        assert [one.is_error for one in outcomes] == [False, False, True, True]
        assert not (await cell.call("drop")).is_error

    guarded(way, revision, scenario, RateLimit(per_tool="2/h", burst=2))


@cells
def test_calls_at_once_are_limited(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        first = asyncio.ensure_future(cell.call("wait"))
        await cell.home.running.wait()
        assert (await cell.call("wait")).is_error
        assert cell.home.ran == ["wait"]
        cell.home.gate.set()
        assert not (await first).is_error

    guarded(way, revision, scenario, ConcurrencyLimit(per_tool=1, queue=0))


@cells
def test_what_fails_again_and_again_is_left_alone(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        for _ in range(4):
            assert (await cell.call("crash")).is_error
        assert cell.home.ran == ["crash", "crash"]

    guarded(way, revision, scenario, CircuitBreaker(failure_threshold=2))


@cells
def test_a_call_ends_after_its_time(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        assert (await cell.call("wait")).is_error

    guarded(way, revision, scenario, Timeout(0.02))


@cells
def test_secrets_do_not_leave(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        outcome = await cell.call("drop")
        assert "[masked]" in outcome.everything
        assert SECRET not in outcome.everything
        outcome = await cell.call("structured")
        assert "[masked]" in outcome.everything
        assert SECRET not in outcome.everything

    guarded(way, revision, scenario, Redaction("secrets"))


@cells
def test_an_audit_has_the_true_outcome(way: Way, revision: str, tmp_path: Path) -> None:
    async def scenario(cell: Cell) -> None:
        await cell.call("crash")
        await cell.call("look")
        lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
        calls = [line for line in lines if line.get("method") == "tools/call"]
        last = {line["name"]: line["outcome"] for line in calls}
        assert last == {"crash": "broken", "look": "ok"}
        if "task" in way.call.__name__:
            begun = [line for line in calls if line["outcome"] == "begun"]
            assert [line["task"] for line in begun] == [line["task"] for line in calls if line not in begun]

    guarded(way, revision, scenario, Audit(tmp_path / "audit"))


@cells
def test_what_is_cached_is_not_run_again(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        peer = cell.peer(Principal("ann"))
        assert [(await way.call(peer, "look", {})).text for _ in range(3)] == ["seen 1"] * 3
        assert cell.home.ran == ["look"]

    guarded(way, revision, scenario, Caching(60))


@cells
def test_a_tool_needs_its_scopes(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        if isinstance(cell.server, Proxy) or way is WAYS["gateway"]:
            # An upstream server does not know the principal of the client: it authenticates the proxy.
            assert (await cell.call("secret", Principal("ann", scopes=frozenset({"admin"})))).is_error
            return
        assert (await cell.call("secret", Principal("bob"))).is_error
        assert cell.home.ran == []
        assert (await cell.call("secret", Principal("ann", scopes=frozenset({"admin"})))).text == "open"

    guarded(way, revision, scenario)


@cells
def test_lists_show_what_may_be_used_and_nothing_else(way: Way, revision: str) -> None:
    async def scenario(cell: Cell) -> None:
        if way is WAYS["search"]:
            found = await plainly(cell.peer(), "search_tools", {"query": "drop look wait"})
            names = {tool["name"] for tool in json.loads(found.text)["tools"]}
        else:
            listed = await cell.peer().result("tools/list")
            names = {tool["name"] for tool in listed["tools"]}
        bare = {name.removeprefix("far_").removeprefix("new_") for name in names}
        assert "drop" not in bare
        assert "look" in bare

    guarded(way, revision, scenario, Policy(disabled=["drop"]))


class Nosy(Middleware):
    """Writes down what it is notified about."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def call_tool(self, request: Any, call_next: Any) -> Any:
        component = request.component
        self.seen.append((request.operation, request.name, component.name, component.kind, component.version))
        return await call_next(request)


@cells
def test_a_middleware_sees_one_canonical_component(way: Way, revision: str) -> None:
    nosy = Nosy()

    async def scenario(cell: Cell) -> None:
        await cell.call("look")
        version = "1.0" if way.versions else None
        assert nosy.seen == [("call_tool", "look", "look", "tool", version)]

    guarded(way, revision, scenario, nosy)


def front(name: str, *guards: Any) -> tuple[Home, Server]:
    """A guarded gateway to an unguarded upstream server."""
    home = Home(task="forbidden", versions=False)
    if name == "proxy":
        return home, Proxy(home.server, name="front", middleware=guards)
    server = Server("front", middleware=guards)
    server.mount(home.server if name == "mount" else Proxy(home.server, name="inner"))
    return home, server


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("name", ["drop", "drop@1", "drop@1@2"])
@pytest.mark.parametrize("kind", ["mount", "proxy", "gateway"])
@run
async def test_a_version_that_there_is_not_walks_around_no_guard(kind: str, name: str, revision: str) -> None:
    home, server = front(
        kind, Policy(disabled=["drop"], approve=["crash"]), RateLimit(per_tool="2/h", burst=2)
    )
    async with server.running():
        peer = Peer(server, revision, capabilities={"elicitation": {}})
        outcome = await plainly(peer, name, {})
        assert outcome.is_error
        listed = await peer.result("tools/list")
        assert "drop" not in {tool["name"] for tool in listed["tools"]}
        for version in range(4):
            await plainly(peer, f"look@{version}", {})
        assert "drop" not in home.ran
        assert home.ran.count("look") <= 2
    await home.server.lifecycle.stop()


def refusing(name: str) -> Any:
    class Gate(Middleware):
        def admits(self, component: Any) -> bool:
            return component.name != name

    return Gate()


@pytest.mark.parametrize("revision", ALL)
@run
async def test_what_is_not_admitted_is_neither_listed_nor_used(revision: str) -> None:
    server = Server("home", middleware=[refusing("hidden"), refusing("x://hidden")])
    server.add_tool(lambda: "x", name="hidden", description="d")
    server.add_tool(lambda: "y", name="shown", description="d")
    server.add_prompt(lambda: "p", name="hidden")
    server.add_prompt(lambda: "p", name="shown")
    server.add_resource("x://hidden", lambda: "r", name="hidden")
    server.add_resource("x://shown", lambda: "r", name="shown")
    whole = Server("whole")
    whole.mount(server)
    for one in (server, whole):
        peer = Peer(one, revision)
        for method, member, key in (
            ("tools/list", "tools", "name"),
            ("prompts/list", "prompts", "name"),
            ("resources/list", "resources", "uri"),
        ):
            listed = {entry[key].removeprefix("x://") for entry in (await peer.result(method))[member]}
            assert listed == {"shown"}, method
        assert (await plainly(peer, "hidden", {})).is_error
        assert (await plainly(peer, "shown", {})).text == "y"
        assert "error" in await peer.send("prompts/get", name="hidden")
        assert "error" not in await peer.send("prompts/get", name="shown")
        assert "error" in await peer.send("resources/read", uri="x://hidden")
        assert "error" not in await peer.send("resources/read", uri="x://shown")


class Closed(Middleware):
    async def call_tool(self, request: Any, call_next: Any) -> Any:
        raise Refusal(1008)


@run
async def test_a_call_that_a_guard_refuses_makes_no_task() -> None:
    home = Home(Closed(), task="optional", versions=False)
    peer = Peer(home.server, R4, capabilities={})
    assert (await peer.error("tools/call", name="look", arguments={}, task={}))["code"] == 1008
    assert (await peer.result("tasks/list"))["tasks"] == []


@run
async def test_a_failure_of_a_tool_leaves_without_its_secrets() -> None:
    server = Server("home", middleware=[Redaction("secrets")])

    @server.tool
    async def fail() -> str:
        raise ToolError(f"the key {SECRET} is wrong")

    outcome = await plainly(Peer(server), "fail", {})
    assert "[masked]" in outcome.text
    assert SECRET not in outcome.everything


@pytest.mark.parametrize("revision", ALL)
@run
async def test_input_requests_logs_progress_and_errors_leave_without_their_secrets(revision: str) -> None:
    server = Server("home", middleware=[Redaction("secrets")])

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.report_progress(1, message=f"with {SECRET}")
        await ctx.warning(f"about {SECRET}")
        if revision >= "2025-06-18":
            await ctx.elicit(f"Use {SECRET}?", {"type": "object", "properties": {}})
        raise Refusal(1008, message=f"no {SECRET}")

    peer = Peer(
        server, revision, capabilities={"elicitation": {}}, answer=lambda method, params: {"action": "accept"}
    )
    peer.meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
    reply = await peer.ask("tools/call", name="ask", arguments={})
    said = json.dumps([reply, peer.notes, peer.questions])
    assert SECRET not in said
    assert said.count("[masked]") >= 2


@run
async def test_what_a_task_asks_and_says_leaves_without_its_secrets() -> None:
    server = Server("home", middleware=[Redaction("secrets")])

    @server.tool(task="required")
    async def ask(ctx: Context) -> str:
        await ctx.report_progress(1, message=f"with {SECRET}")
        await ctx.elicit(f"Use {SECRET}?", {"type": "object", "properties": {}})
        return SECRET

    peer = Peer(server, capabilities=TASKS)
    id = (await peer.send("tools/call", name="ask", arguments={}))["result"]["taskId"]
    seen: list[Any] = []
    for _ in range(10_000):
        seen.append(state := (await peer.send("tasks/get", taskId=id))["result"])
        if state["status"] == "completed":
            break
        if state["status"] == "input_required":
            answers = {key: {"action": "accept", "content": {}} for key in state["inputRequests"]}
            await peer.send("tasks/update", taskId=id, inputResponses=answers)
        await asyncio.sleep(0)
    assert {state["status"] for state in seen} >= {"input_required", "completed"}
    assert SECRET not in json.dumps(seen)
    assert "Use [masked]?" in json.dumps(seen)


@run
async def test_what_is_declared_as_binary_is_left_alone() -> None:
    server = Server("home", middleware=[Redaction(all=r"[a-z]+")])
    image = {"type": "image", "data": "abcd", "mimeType": "image/png"}

    @server.tool
    async def draw() -> list[Any]:
        return [ImageContent("abcd", "image/png"), TextContent("abcd")]

    content = (await Peer(server).call("draw"))["content"]
    assert content[0]["data"] == image["data"]
    assert content[1]["text"] == "[masked]"


class Shy(Middleware):
    """Hides a tool from lists by a separate hook."""

    async def list_tools(self, request: Any, call_next: Any) -> Any:
        page = json.loads(bytes(await call_next(request)))
        page["tools"] = [tool for tool in page["tools"] if tool["name"] != "drop"]
        return Raw(json.dumps(page).encode())


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("around", [lambda home: home, searching, mounting, proxying, gateway])
@run
async def test_what_a_hook_leaves_out_of_a_list_is_left_out_everywhere(around: Any, revision: str) -> None:
    home = Home(Shy(), task="forbidden", versions=False)
    server = around(home.server)
    async with server.running():
        peer = Peer(server, revision)
        if around is searching:
            found = await plainly(peer, "search_tools", {"query": "drop look"})
            names = {tool["name"] for tool in json.loads(found.text)["tools"]}
        else:
            names = {tool["name"] for tool in (await peer.result("tools/list"))["tools"]}
        bare = {name.removeprefix("far_") for name in names}
        assert "look" in bare
        assert "drop" not in bare
    await home.server.lifecycle.stop()


@pytest.mark.parametrize("revision", [R4, MODERN])
@run
async def test_a_task_that_a_worker_runs_passes_the_guards_of_both_processes(
    tmp_path: Path, revision: str
) -> None:
    def process(name: str, *guards: Any) -> Home:
        store = SqliteStore(tmp_path / "state.db")
        audit = Audit(tmp_path / name)
        return Home(audit, *guards, task="optional", versions=False, store=store, seal_keys=b"k" * 32)

    def audited(name: str) -> list[tuple[str, str, str | None]]:
        lines = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        return [
            (line["name"], line["outcome"], line.get("task"))
            for line in lines
            if line.get("method") == "tools/call"
        ]

    guards = (Policy(disabled=["crash"], approve=["look"]), Redaction("secrets"))
    front = process("front", RateLimit(per_tool="3/h", burst=3), *guards)
    back = process("back", RateLimit(per_tool="1/d", burst=1), *guards)
    call = as_core_task if revision == R4 else as_extension_task
    async with back.server.running(), front.server.running():
        durable, others = (
            tasks_of(back.server.dispatcher).runner.sharing,
            tasks_of(front.server.dispatcher).runner.sharing,
        )
        serving = asyncio.create_task(durable.serve(2))
        await until(lambda: others.has_workers)
        answer = {"action": "accept", "content": {}}
        peer = Peer(front.server, revision, capabilities=TASKS, principal="ann", answer=lambda *_: answer)
        assert (await call(peer, "crash", {})).is_error
        assert back.ran == front.ran == []
        for _ in range(2):
            outcome = await call(peer, "drop", {})
            assert "[masked]" in outcome.everything
            assert SECRET not in outcome.everything
        assert not (await call(peer, "look", {})).is_error
        assert (back.ran, front.ran) == (["drop", "drop", "look"], [])
        assert len(peer.questions) == 1  # the worker does not ask again
        await call(peer, "drop", {})
        assert (await call(peer, "drop", {})).is_error  # the front counts, the worker does not
        serving.cancel()
        await asyncio.wait([serving])
    begun = [line for line in audited("front") if line[1] == "begun"]
    assert [(name, "ok", task) for name, _, task in begun] == audited("back")


@pytest.mark.parametrize("around", [lambda home: home, mounting])
@run
async def test_a_cached_result_is_not_given_to_a_caller_who_has_lost_the_right(around: Any) -> None:
    may = [True]
    home = Server("home", middleware=[Caching(60, tools=["secret", "open"])])
    home.add_tool(lambda: "s", name="secret", description="d", scopes=["admin"])
    home.add_tool(lambda: "o", name="open", description="d", auth=lambda principal: may[0])
    home.add_resource("x://r", lambda: "r", name="r", auth=lambda principal: may[0])
    server = around(home)
    prefix = "" if server is home else "far_"
    uri = "x://r" if server is home else "x://far/r"
    peer = Peer(server, R4)
    peer.principal = Principal("ann", scopes=frozenset({"admin"}))
    for tool in ("secret", "open"):
        assert not (await plainly(peer, prefix + tool, {})).is_error
    assert "result" in await peer.send("resources/read", uri=uri)
    peer.principal, may[0] = Principal("ann"), False
    for tool in ("secret", "open"):
        assert (await plainly(peer, prefix + tool, {})).is_error
    assert "error" in await peer.send("resources/read", uri=uri)


@run
async def test_a_cached_result_is_not_given_once_the_tool_is_hidden() -> None:
    server = Server("home", middleware=[Caching(60, tools=["look"])])
    server.add_tool(lambda: "seen", name="look", description="d")
    peer = Peer(server, R4)
    assert (await plainly(peer, "look", {})).text == "seen"
    server.hide("look")
    assert (await plainly(peer, "look", {})).is_error


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("name", ["far_drop", "far_drop@1.0", "far_drop@2.0", "far_drop@v1"])
@pytest.mark.parametrize("behind", [False, True])
@run
async def test_no_version_of_a_mounted_tool_bypasses_the_middleware_of_the_parent(
    name: str, revision: str, *, behind: bool
) -> None:
    ran: list[str] = []
    home = Server("home")

    def add(version: str) -> None:
        @home.tool(name="drop", version=version)
        async def drop() -> str:
            ran.append(version)
            return version

    add("1.0")
    add("2.0")
    nosy = Nosy()
    server = Server("front", middleware=[nosy, Policy(disabled=["far_drop"])])
    server.mount(Proxy(home, name="inner") if behind else home, prefix="far")
    async with server.running():
        peer = Peer(server, revision)
        assert (await plainly(peer, name, {})).is_error
        assert ran == []
        assert [one[1:3] for one in nosy.seen] == [("far_drop", "far_drop")]
        listed = {tool["name"] for tool in (await peer.result("tools/list"))["tools"]} if behind else set()
        assert "far_drop" not in listed
    await home.lifecycle.stop()


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("deep", [False, True])
@run
async def test_the_search_of_a_mounted_server_bypasses_no_middleware_of_the_parent(
    revision: str, *, deep: bool
) -> None:
    home = Home(task="forbidden", versions=False)
    home.server.search()
    inner, prefix = home.server, "far"
    if deep:
        inner, prefix = Server("between"), "far_off"
        inner.mount(home.server, prefix="off")
    nosy = Nosy()
    server = Server("front", middleware=[nosy, Policy(disabled=[f"{prefix}_drop"])])
    server.mount(inner, prefix="far")
    async with server.running():
        peer = Peer(server, revision)
        outcome = await plainly(peer, f"{prefix}_call_tool", {"name": "drop", "arguments": {}})
        assert outcome.is_error
        assert home.ran == []
        assert not (await plainly(peer, f"{prefix}_call_tool", {"name": "look", "arguments": {}})).is_error
        assert [one[1] for one in nosy.seen] == [f"{prefix}_drop", f"{prefix}_look"]


@pytest.mark.parametrize("revision", ALL)
@run
async def test_the_middleware_of_the_parent_sees_a_nested_tool_version_as_the_tool(revision: str) -> None:
    home, between, nosy = Server("home"), Server("between"), Nosy()
    for version in ("1.0", "2.0"):
        home.add_tool(lambda: "x", name="drop", description="d", version=version)
    between.mount(home, prefix="off")
    server = Server("front", middleware=[nosy, Policy(disabled=["far_off_drop"])])
    server.mount(between, prefix="far")
    async with server.running():
        assert (await plainly(Peer(server, revision), "far_off_drop@1.0", {})).is_error
    assert [one[1] for one in nosy.seen] == ["far_off_drop"]


@pytest.mark.parametrize("revision", ["2025-06-18", R4, MODERN])
@run
async def test_a_policy_guards_a_tool_that_reads_resources(revision: str, tmp_path: Path) -> None:
    read: list[str] = []
    policy = Policy(approve=["read_*"], arguments={"read_resource": {"uri": "x://open.*"}})
    server = Server("home", middleware=[Audit(tmp_path / "audit"), policy])
    server.transform(resources_as_tools=True)

    @server.resource("x://{name}")
    async def one(name: str) -> str:
        read.append(name)
        return name

    said = {"action": "decline"}
    peer = Peer(server, revision, capabilities={"elicitation": {}}, answer=lambda *_: said)
    assert (await plainly(peer, "read_resource", {"uri": "x://closed"})).is_error
    assert len(peer.questions) == 0
    assert (await plainly(peer, "read_resource", {"uri": "x://open"})).is_error
    assert len(peer.questions) == 1
    assert read == []
    said |= {"action": "accept", "content": {}}
    assert (await plainly(peer, "read_resource", {"uri": "x://open"})).text == "open"
    assert (read, len(peer.questions)) == (["open"], 2)
    await server.lifecycle.stop()
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    outcomes = [(line["method"], line["outcome"]) for line in lines if line.get("name")]
    assert [one for one in outcomes if one[1] in ("refused", "error")] == [("tools/call", outcomes[0][1])] * 2
    assert outcomes[-1] == ("resources/read", "ok")


@pytest.mark.parametrize("around", [lambda home: home, mounting, proxying, gateway])
@run
async def test_calls_in_process_pass_the_guards(around: Any) -> None:
    home = Home(Policy(disabled=["drop"]), Redaction("secrets"), task="forbidden", versions=False)
    server = around(home.server)
    prefix = "far_" if around in (mounting, gateway) else ""
    async with server.running():
        for name in ("drop", "drop@1"):
            with pytest.raises(ProtocolError):
                await server.call_tool(prefix + name)
        assert home.ran == []
        assert "[masked]" in str(await server.call_tool(f"{prefix}structured"))
        assert SECRET not in str(await server.call_tool(f"{prefix}structured"))
    await home.server.lifecycle.stop()
