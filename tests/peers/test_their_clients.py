"""Our server with other people's clients: list, call, read, prompt, complete, subscribe, sample, elicit."""

from collections.abc import Iterator

import pytest
from bench.interop import hosts, theirs
from bench.interop.features import FEATURES, OK
from bench.interop.theirs import Guest

from .environment import need

pytestmark = pytest.mark.peer

ERAS = ("legacy", "modern")
REVISIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with hosts.listening(hosts.OURS, "http") as address:
        yield address


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("guest", theirs.GUESTS, ids=lambda guest: guest.name)
def test_a_foreign_client_finds_everything_over_stdio(guest: Guest, era: str) -> None:
    need(guest.environment)
    found = theirs.visit(guest, "stdio", era, hosts.OURS.command("stdio"))
    assert found == (REVISIONS[era], dict.fromkeys(FEATURES, OK))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("guest", theirs.GUESTS, ids=lambda guest: guest.name)
def test_a_foreign_client_finds_everything_over_http(guest: Guest, era: str, url: str) -> None:
    need(guest.environment)
    assert theirs.visit(guest, "http", era, [url]) == (REVISIONS[era], dict.fromkeys(FEATURES, OK))


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("guest", theirs.FRAMEWORKS, ids=lambda guest: guest.name)
def test_the_client_of_a_javascript_framework_finds_what_it_can_ask_for(
    guest: Guest, transport: str, url: str
) -> None:
    need("node")
    (era,) = guest.eras
    target = hosts.OURS.command("stdio") if transport == "stdio" else [url]
    revision, outcome = theirs.visit(guest, transport, era, target)
    assert outcome == {feature: OK for feature in FEATURES if feature not in guest.absent}
    assert revision == (REVISIONS[era] if guest.names_revision else "")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_finds_what_its_command_line_can_ask_for(transport: str, era: str, url: str) -> None:
    need("node")
    target = hosts.OURS.command("stdio") if transport == "stdio" else [url]
    _, outcome = theirs.inspect(transport, era, target)
    assert outcome == dict.fromkeys(theirs.INSPECTIONS, OK)
