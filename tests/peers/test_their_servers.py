"""Our client with other people's servers: list, call, read, prompt, complete, subscribe, sample, elicit."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from bench.interop import hosts, ours
from bench.interop.features import FEATURES, OK
from bench.interop.hosts import Host

from .environment import need

pytestmark = pytest.mark.peer

REVISIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
CASES = [
    pytest.param(host, transport, era, id=f"{host.name}-{transport}-{era}")
    for host in hosts.HOSTS
    for transport in host.transports
    for era in host.eras
]


class Village:
    """Every server on a port, started when first visited and ended with the module."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._urls: dict[tuple[str, str], str] = {}

    def url(self, host: Host, transport: str) -> str:
        key = (host.name, transport)
        if key not in self._urls:
            self._urls[key] = self._open.enter_context(hosts.listening(host, transport))
        return self._urls[key]

    def close(self) -> None:
        self._open.close()


@pytest.fixture(scope="module")
def village() -> Iterator[Village]:
    place = Village()
    yield place
    place.close()


@pytest.mark.parametrize(("host", "transport", "era"), CASES)
def test_dovetails_client_finds_everything(host: Host, transport: str, era: str, village: Village) -> None:
    need(host.environment)
    stage = ours.EVERYTHING if host.name == "server-everything" else ours.INTEROP
    absent = host.lacks(transport, era)
    if transport == "stdio":
        visit = ours.visit(host.command("stdio"), era, stage, absent, hosts.environ())
    else:
        visit = ours.visit(village.url(host, transport), era, stage, absent)
    expected = {feature: OK for feature in FEATURES if feature not in absent}
    assert asyncio.run(visit) == (REVISIONS[era], expected)


@pytest.mark.parametrize(
    ("host", "transport"),
    [
        pytest.param(host, transport, id=f"{host.name}-{transport}")
        for host in hosts.HOSTS
        for transport in host.transports
        if transport != "sse"
    ],
)
def test_a_client_uses_the_newest_revision_that_the_server_supports(
    host: Host, transport: str, village: Village
) -> None:
    """Nothing is said about eras: both sides find the best one they have in common."""
    need(host.environment)
    absent = dict.fromkeys(FEATURES[2:], "not of interest here")
    stage = ours.EVERYTHING if host.name == "server-everything" else ours.INTEROP
    target = host.command("stdio") if transport == "stdio" else village.url(host, transport)
    visit = ours.visit(target, "auto", stage, absent, hosts.environ() if transport == "stdio" else None)
    newest = REVISIONS[host.eras[-1]]
    assert asyncio.run(visit) == (newest, {"list": OK, "call": OK})
