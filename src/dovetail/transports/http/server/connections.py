"""What only the kernel knows of our connections: who has hung up, and who takes nothing of what was sent.

A host reads no further than the request it works on, so it does not see a client that sends one more and hangs up; and
most take an answer at once, whether or not its client ever reads it. Linux tells both in a table of its connections.
Elsewhere, and over Unix sockets, `PeerConnections` knows nothing: nobody is found gone, and nothing is counted.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import sys
from collections.abc import AsyncGenerator, Container, Hashable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from math import inf
from threading import Event

from ....core.budget import Account, unread
from ....core.channel import Call
from ....errors import Refusal
from ....settings import ADDRESSES_KEPT, DISCARD_LOOK, DISCARDED, LARGE_ANSWER, UNSENT_LOOK, UNSENT_YOUNG
from .exchange import gone
from .kernel import Peer, Seen, key_of, table


def cut(*peers: Peer, told: Event | None = None) -> None:
    """End the connections of clients, whatever waits to be sent to them: their host hears that they have gone.

    They may be ``told`` why before that, in a moment. What comes of them meanwhile is thrown away: it may be megabytes,
    which their host would read and keep until it hears of the end. The same goes for those who have gone by themselves.
    """
    with ExitStack() as stack:
        ports = {one.getsockname()[1] for one in _sockets() if _listens(one)}
        found = [stack.enter_context(one.dup()) for one in _sockets() if _is_one_of(one, peers, ports)]
        nothing = bytearray(DISCARDED)
        for _ in range(int(UNSENT_YOUNG / DISCARD_LOOK)):
            _discard(found, nothing)
            if told is None or told.wait(DISCARD_LOOK):
                break
        for one in found:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        _discard(found, nothing)


def _listens(one: socket.socket) -> bool:
    return one.family != socket.AF_UNIX and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1


def _is_one_of(one: socket.socket, peers: Container[Peer], ports: Container[int]) -> bool:
    """Whether the other end is one of ``peers``, or was somebody who came to one of our ``ports`` and is no more."""
    if one.family not in (socket.AF_INET, socket.AF_INET6) or one.type != socket.SOCK_STREAM or _listens(one):
        return False
    try:
        return one.getpeername()[:2] in peers
    except OSError as error:
        return error.errno == errno.ENOTCONN and one.getsockname()[1] in ports


def _discard(found: Iterable[socket.socket], nothing: bytearray) -> None:
    for one in found:
        with suppress(OSError):
            one.recv_into(nothing, 0, socket.MSG_TRUNC | socket.MSG_DONTWAIT)


def limit_writes(seconds: float) -> None:
    """Have the kernel cut connections that take nothing for so long. They inherit it from who listens for them."""
    for one in _sockets():
        try:
            if _listens(one):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))
        except OSError:
            continue


def _sockets() -> Iterator[socket.socket]:
    """The sockets of this process, each as a copy that is closed again."""
    for name in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():
        try:
            if not stat.S_ISSOCK(os.stat(int(name)).st_mode):
                continue
            copy = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue  # closed meanwhile
        with copy:
            yield copy


def _owner(peer: Peer, call: Call | None) -> Hashable:
    return peer[0] if call is None or call.principal is None else call.principal.key


def _kind(call: Call) -> str:
    return call.params.name if call.method == "tools/call" else call.method


class PeerConnections:
    """The clients of one app, and what they owe us."""

    def __init__(self, account: Account, patience: float) -> None:
        self.account = account
        """Bytes of large answers that are being written, or that their clients have not taken."""
        self._patience = patience
        self.owed: dict[bytes, tuple[int, float, Hashable]] = {}
        """Bytes of large answers by connection, when the last of them left, and whose they are."""
        self._large: dict[tuple[Hashable, str], int] = {}
        """How large the last large answer of its kind to somebody was."""
        self._looked = 0.0

    async def look(self, counted: Container[bytes] = ()) -> dict[bytes, Seen]:
        """What the kernel knows now; what has been taken since the last look is given back."""
        seen = await asyncio.to_thread(table, counted)
        self._looked = now = asyncio.get_running_loop().time()
        for key, (size, since, _) in list(self.owed.items()):
            one = seen.get(key)
            if now - since > UNSENT_YOUNG and (one is None or not one.unsent):
                del self.owed[key]
                self.account.give(size)
        return seen

    @asynccontextmanager
    async def room(
        self, peer: Peer | None, size: int, call: Call | None = None
    ) -> AsyncGenerator[Refusal | None, None]:
        """Why there is no room for one more large answer of ``size`` bytes, which is to be sent in this block.

        None: there is, and it is taken until ``peer`` has it all. Whoever has not taken half of all there may be is
        told to read faster.
        """
        if size <= LARGE_ANSWER or peer is None or sys.platform != "linux":
            yield None
            return
        owner, key = _owner(peer, call), key_of(peer)
        if call is not None:
            self._keep(owner, call, size)
        full = await self._refusal(owner, size)
        if full is None:
            self.account.take(size)
            self.owed[key] = self.owed.get(key, (0,))[0] + size, inf, owner
        try:
            yield full
        finally:
            if full is None and key in self.owed:  # another stream may have looked
                self.owed[key] = self.owed[key][0], asyncio.get_running_loop().time(), owner

    def learn(self, call: Call, size: int) -> None:
        """The answer to ``call`` is that large."""
        peer = call.scope.get("client")
        if peer:
            self._keep(_owner(peer, call), call, size)

    def _keep(self, owner: Hashable, call: Call, size: int) -> None:
        if len(self._large) >= ADDRESSES_KEPT:
            self._large.clear()
        self._large[owner, _kind(call)] = size

    async def hopeless(self, peer: Peer | None, call: Call) -> Refusal | None:
        """Why ``call`` is not worth running: an answer like the last one to this caller would have no room."""
        if peer is None:
            return None
        owner = _owner(peer, call)
        size = self._large.get((owner, _kind(call)))
        return None if size is None else await self._refusal(owner, size)

    async def _refusal(self, owner: Hashable, size: int) -> Refusal | None:
        full, now = self._full(owner, size), asyncio.get_running_loop().time()
        if full is not None and now - self._looked > UNSENT_YOUNG:
            self._looked = now  # others who find it full meanwhile do not ask again
            await self.look()
            full = self._full(owner, size)
        return full

    def _full(self, owner: Hashable, size: int) -> Refusal | None:
        held = sum(size for size, _, one in self.owed.values() if one == owner)
        return unread(self.account, held, size)

    async def taken(self, peer: Peer | None) -> None:
        """Return when ``peer`` has taken all that was sent to it; for hosts that do not wait themselves.

        Raises:
            TransportError: it has gone, or takes nothing.
        """
        if peer is None or sys.platform != "linux":
            return
        key, clock = key_of(peer), asyncio.get_running_loop().time
        unsent, since = 0, clock()
        while (one := (await self.look()).get(key)) is not None and not one.hung_up:
            if not one.unsent:
                return
            if one.unsent != unsent:
                unsent, since = one.unsent, clock()
            elif clock() - since > self._patience:
                break
            await asyncio.sleep(UNSENT_LOOK)
        raise gone()
