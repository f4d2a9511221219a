"""The extensions of the library as objects: `Tasks` and `Idempotency`, and the options that bring them."""

import ast
from pathlib import Path
from typing import Any

import pytest

import dovetail
from dovetail import Client, RegistrationError, Server
from dovetail.extensions import Apps, Extension, Idempotency, Skills, Tasks
from dovetail.model.meta import APPS_EXTENSION, IDEMPOTENCY_EXTENSION, SKILLS_EXTENSION, TASKS_EXTENSION
from dovetail.server.registry.component_options import OPTION_OWNERS
from dovetail.settings import TaskOptions
from dovetail.stores import MemoryStore
from tests.support.aio import run
from tests.support.peer import MODERN, Peer

R4 = "2025-11-25"
DECLARED: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}}


def test_every_extension_of_the_library_is_an_extension() -> None:
    ids = {Tasks().id, Skills().id, Apps().id, Idempotency().id}
    assert ids == {TASKS_EXTENSION, SKILLS_EXTENSION, APPS_EXTENSION, IDEMPOTENCY_EXTENSION}
    assert all(issubclass(kind, Extension) for kind in (Tasks, Skills, Apps, Idempotency))


def test_an_option_brings_its_extension_once() -> None:
    server = Server("s")
    assert not server.extensions
    for name in ("a", "b"):
        server.add_tool(lambda: 1, name=name, task="optional")
    server.add_tool(lambda: 1, name="c", task="forbidden")
    assert list(server.extensions) == [TASKS_EXTENSION]
    stored = Server("s", store=MemoryStore())
    assert list(stored.extensions) == [IDEMPOTENCY_EXTENSION]


def test_a_tool_that_is_no_task_brings_no_extension() -> None:
    server = Server("s")
    server.add_tool(lambda: 1, name="a", task="forbidden")
    assert not server.extensions


@pytest.mark.parametrize("wrong", [{"ttl": "1"}, {"timeout": True}, {"poll_interval": [1]}])
def test_tasks_refuses_wrong_types_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(TypeError, match=f"{name} is a number of seconds"):
        Tasks(**wrong)


def test_idempotency_refuses_wrong_values_by_name() -> None:
    wrong: Any = "1d"
    with pytest.raises(TypeError, match="lifetime is a number of seconds, not '1d'"):
        Idempotency(lifetime=wrong)
    with pytest.raises(ValueError, match="lifetime must be more than 0 seconds"):
        Idempotency(lifetime=0)


@pytest.mark.parametrize("extension", [Tasks(), Idempotency()])
def test_an_extension_belongs_to_one_server(extension: Extension) -> None:
    Server("first", extensions=[extension])
    with pytest.raises(RegistrationError, match="belongs to the server 'first'"):
        Server("second", extensions=[extension])


@run
async def test_the_options_of_the_extension_win_over_those_of_the_server() -> None:
    server = Server("s", tasks=TaskOptions(ttl=50, poll_interval=7), extensions=[Tasks(ttl=20)])

    @server.tool(task="required")
    async def work() -> str:
        return "done"

    async with server.running():
        peer = Peer(server, MODERN, capabilities=DECLARED)
        task = (await peer.ask("tools/call", name="work", arguments={}))["result"]
        assert (task["ttlMs"], task["pollIntervalMs"]) == (20_000, 7000)
        legacy = Peer(server, R4)
        created = (await legacy.ask("tools/call", name="work", arguments={}, task={}))["result"]["task"]
        assert (created["ttl"], created["pollInterval"]) == (20_000, 7000)


@run
async def test_tasks_without_a_tool_are_declared_and_answered() -> None:
    server = Server("s", extensions=[Tasks()])
    async with server.running():
        found = await Peer(server, MODERN, capabilities=DECLARED).error("tasks/get", taskId="x")
        assert found["data"]["kind"] == "task_not_found"
    assert server.dispatcher.capabilities.extension(TASKS_EXTENSION) == {}


@run
async def test_a_key_counts_without_a_store_where_the_extension_is_given() -> None:
    ran: list[str] = []
    server = Server("s", extensions=[Idempotency()])

    @server.tool
    async def pay(amount: int) -> int:
        ran.append("pay")
        return len(ran)

    async with Client(server) as client:
        first = await client.call_tool("pay", {"amount": 1}, idempotency_key="k")
        again = await client.call_tool("pay", {"amount": 1}, idempotency_key="k")
        other = await client.call_tool("pay", {"amount": 1}, idempotency_key="l")
    assert (first.data, again.data, other.data) == (1, 1, 2)


@run
async def test_a_store_that_comes_later_takes_the_keys() -> None:
    store, ran = MemoryStore(), list[str]()

    def shop() -> Server:
        server = Server("s", extensions=[Idempotency(lifetime=60)])
        server.lifecycle.use_store(store)

        @server.tool
        async def pay() -> int:
            ran.append("pay")
            return len(ran)

        assert list(server.extensions) == [IDEMPOTENCY_EXTENSION]
        return server

    for _ in range(2):  # a second process with the same store
        async with Client(shop()) as client:
            assert (await client.call_tool("pay", {}, idempotency_key="k")).data == 1


ROOT = Path(dovetail.__file__).parent


def test_the_core_knows_no_extension_by_name() -> None:
    """`OPTION_OWNERS` names them as data; no module of the core, the drivers or the server imports one."""
    homes = {owner.module.rpartition(".")[2] for owner in OPTION_OWNERS.values()} | {"skills"}
    found: list[str] = []
    for package in ("core", "drivers", "server"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and "extensions" in (node.module or "").split("."):
                    found += [str(path) for part in (node.module or "").split(".") if part in homes]
    assert found == []
