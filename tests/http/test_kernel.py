"""What the kernel is asked about connections, both ways of asking."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from dovetail.core.budget import Account
from dovetail.settings import LARGE_ANSWER
from dovetail.transports.http.server.connections import PeerConnections
from dovetail.transports.http.server.kernel import Seen, key_of, read_from, table, table_of_files
from tests.support.aio import run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_NETLINK"), reason="only Linux tells")

Table = Callable[[], dict[bytes, Seen]]


@contextmanager
def pair(family: socket.AddressFamily, place: str, to: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client, and the server's end of its connection."""
    with socket.socket(family) as listening:
        if family is socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind((place, 0))
        listening.listen()
        with socket.create_connection((to, listening.getsockname()[1])) as client:
            server, _ = listening.accept()
            with server:
                yield client, server


@pytest.mark.parametrize("ask", [table, table_of_files])
@pytest.mark.parametrize(
    ("family", "place", "to"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", "127.0.0.1"),
    ],
    ids=["IPv4", "IPv6", "IPv4 on IPv6"],
)
def test_a_connection_is_known_by_its_peer_with_what_it_has_not_taken_and_its_end(
    ask: Table, family: socket.AddressFamily, place: str, to: str
) -> None:
    with pair(family, place, to) as (client, server):
        key = key_of(server.getpeername()[:2])
        assert ask()[key] == Seen(hung_up=False, unsent=0)
        server.setblocking(False)
        with suppress(BlockingIOError):  # the client takes nothing
            while True:
                server.send(bytes(1 << 16))
        assert ask()[key].unsent > 0
        client.shutdown(socket.SHUT_WR)
        wait_until(lambda: ask()[key].hung_up)


@pytest.mark.parametrize("ask", [table, table_of_files])
def test_a_connection_that_is_over_is_not_in_it(ask: Table) -> None:
    with pair(socket.AF_INET, "127.0.0.1", "127.0.0.1") as (client, server):
        key = key_of(server.getpeername()[:2])
        client.close()
        server.close()
        wait_until(lambda: key not in ask())


@pytest.mark.parametrize(
    ("family", "place", "to"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", "::1"),
        (socket.AF_INET6, "::", "127.0.0.1"),
    ],
)
def test_what_was_read_of_a_connection_is_known_by_its_listener_too(
    family: socket.AddressFamily, place: str, to: str
) -> None:
    with pair(family, place, to) as (client, server):
        peer, port = server.getpeername()[:2], server.getsockname()[1]
        client.sendall(bytes(1000))
        wait_until(lambda: len(server.recv(1000, socket.MSG_PEEK)) == 1000)
        server.recv(300)
        assert table({key_of(peer)})[key_of(peer)].read == 300
        assert read_from(peer, (place, port)) == 300
        server.recv(700)
        assert read_from(peer, server.getsockname()[:2]) == 1000
    wait_until(lambda: read_from(peer, (place, port)) is None)


def test_where_netlink_is_refused_the_tables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pair(socket.AF_INET, "127.0.0.1", "127.0.0.1") as (_, server):
        key, usual = key_of(server.getpeername()[:2]), socket.socket

        def refused(family: int = -1, *rest: int) -> socket.socket:
            if family == socket.AF_NETLINK:
                raise PermissionError
            return usual(family, *rest)

        monkeypatch.setattr("dovetail.transports.http.server.kernel.socket.socket", refused)
        assert table()[key] == Seen(hung_up=False, unsent=0)


def test_a_kernel_that_lacks_the_module_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends its answer at once, with an error in the end: nobody is there, as it seems."""
    monkeypatch.setattr(socket, "IPPROTO_TCP", 200)  # what no kernel has a module for
    with pair(socket.AF_INET, "127.0.0.1", "127.0.0.1") as (_, server):
        assert table()[key_of(server.getpeername()[:2])] == Seen(hung_up=False, unsent=0)


@run
async def test_two_large_answers_on_one_connection_are_both_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dovetail.transports.http.server.connections.UNSENT_YOUNG", -1.0)
    account = Account(100 * LARGE_ANSWER)
    connections = PeerConnections(account, 1.0)
    peer = ("127.0.0.1", 1)  # as streams of HTTP/2 have one; nobody is there
    async with connections.room(peer, 2 * LARGE_ANSWER) as first:
        async with connections.room(peer, 2 * LARGE_ANSWER) as second:
            assert first is second is None
            assert account.taken == 4 * LARGE_ANSWER
        await connections.look()  # the first one is still being sent
    await connections.look()
    assert account.taken == 0
