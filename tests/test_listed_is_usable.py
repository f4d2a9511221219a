"""What a server lists is what a caller may use, for every principal, wherever the server is mounted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dovetail import Principal, Server
from dovetail.gateway import Proxy
from dovetail.middleware import Middleware, Policy
from tests.support.aio import run
from tests.support.peer import MODERN, Peer

R4 = "2025-11-25"
NAMES = ("a", "b", "c", "d")
SCOPES = ("read", "write")


class Without(Middleware):
    """Admits no component of one of these names."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def admits(self, component: Any) -> bool:
        return component.name.rpartition("/")[2] not in self.names


subsets = some.frozensets(some.sampled_from(NAMES))
scopes = some.dictionaries(some.sampled_from(NAMES), some.sampled_from(SCOPES))


def build(needs: dict[str, str], disabled: frozenset[str], unadmitted: frozenset[str]) -> Server:
    server = Server("home", middleware=[Policy(disabled=sorted(disabled)), Without(unadmitted)])
    for name in NAMES:
        rights: dict[str, Any] = {"scopes": [needs[name]]} if name in needs else {}
        server.add_tool(
            lambda name=name: name, input_schema={"type": "object"}, name=name, description="d", **rights
        )
        server.add_prompt(lambda: "p", name=name, **rights)
        server.add_resource(f"x://{name}", lambda: "r", name=name, **rights)
    return server


async def listed(peer: Peer, method: str, member: str, key: str) -> set[str]:
    answer = await peer.send(method)
    return {entry[key] for entry in answer["result"][member]} if "result" in answer else set()


async def usable(peer: Peer, method: str, key: str, names: list[str], **more: Any) -> set[str]:
    found = set[str]()
    for name in names:
        answer = await peer.send(method, **{key: name}, **more)
        if "error" not in answer and not answer["result"].get("isError"):
            found.add(name)
    return found


def mounted(home: Server) -> Server:
    server = Server("whole")
    server.mount(home)
    return server


AROUND = {"itself": lambda home: home, "mounted": mounted, "proxied": lambda home: Proxy(home, name="front")}


@pytest.mark.parametrize("revision", [R4, MODERN])
@pytest.mark.parametrize("place", AROUND)
def test_what_is_listed_is_what_may_be_used(place: str, revision: str) -> None:
    @given(scopes, subsets, subsets, some.frozensets(some.sampled_from(SCOPES)))
    def check(
        needs: dict[str, str], disabled: frozenset[str], unadmitted: frozenset[str], held: frozenset[str]
    ) -> None:
        @run
        async def scenario() -> None:
            home = build(needs, disabled, unadmitted)
            server = AROUND[place](home)
            async with server.running():
                peer = Peer(server, revision)
                peer.principal = Principal("ann", scopes=held)
                uris = [f"x://{name}" for name in NAMES]
                tools = await listed(peer, "tools/list", "tools", "name")
                assert tools == await usable(peer, "tools/call", "name", list(NAMES), arguments={})
                prompts = await listed(peer, "prompts/list", "prompts", "name")
                assert prompts == await usable(peer, "prompts/get", "name", list(NAMES))
                found = await listed(peer, "resources/list", "resources", "uri")
                assert found == await usable(peer, "resources/read", "uri", uris)
                assert not tools & (disabled | unadmitted)
            await home.lifecycle.stop()

        scenario()

    check()
