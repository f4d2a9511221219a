"""What Linux knows of the connections of a machine: who has hung up, and what waits to be taken.

It is asked through netlink, as ``ss`` does, which costs a tenth of reading the tables under ``/proc``; where a sandbox
refuses that, the tables are read.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
import struct
import sys
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Final

from msgspec import Struct

from ....settings import TABLE_AT_ONCE, TABLE_PAUSE, TABLE_PIECE

Peer = tuple[str, int]
"""The address and the port of a client."""

TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
ESTABLISHED: Final = 1
CLOSE_WAIT: Final = 8
TIME_WAIT: Final = 6
LISTEN: Final = 10
_LINE: Final = re.compile(
    rb"^ *\d+: [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]+):([0-9A-F]{4}) (0[^6A]) ([0-9A-F]{8}):", re.M
)
_MAPPED: Final = bytes(10) + b"\xff\xff"

# From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_REQUEST_DUMP: Final = 0x301
_ERROR: Final = 2
_DONE: Final = 3
# What is over already is most of it on a busy machine.
_STATES: Final = 0xFFF & ~(1 << TIME_WAIT | 1 << LISTEN)
_ANSWER: Final = 1 << 15
_head = struct.Struct("=IHHII")
_ask = struct.Struct("=BBBxI2s2s16s16s4x8s")
_told = struct.Struct("=xB2x 2x2s16x16s12x 4xII8x")
"""State, the port and the address of the peer, the bytes that wait to be read, and those it has not taken."""
_error = struct.Struct("=i")
_attribute = struct.Struct("=HH")
_INFO: Final = 2
_RECEIVED: Final = struct.Struct("=132xQ")
"""What all of a connection's bytes are in ``struct tcp_info``, behind the head of the attribute."""
_ANY_COOKIE: Final = b"\xff" * 8


class Seen(Struct, frozen=True):
    """One connection as the kernel sees it."""

    hung_up: bool
    unsent: int
    """Bytes that the client has not taken yet, as far as the kernel has been given them."""
    read: int | None = None
    """Bytes of the client that its host has read, where that was asked for and is known."""


def key_of(peer: Peer) -> bytes:
    """The name of a peer in `table`."""
    address = ipaddress.ip_address(peer[0])
    packed = (getattr(address, "ipv4_mapped", None) or address).packed
    return packed + struct.pack("!H", peer[1])


def table(counted: Container[bytes] = ()) -> dict[bytes, Seen]:
    """Every connection of this machine, by its peer; none on other systems.

    Of those that are ``counted``, also how much has been read, unless a sandbox refuses netlink.
    """
    if sys.platform != "linux":
        return {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as netlink:
            families = (socket.AF_INET, socket.AF_INET6)
            return dict(line for family in families for line in _dump(netlink, family, counted))
    except OSError:
        return table_of_files()


def read_from(peer: Peer, local: Peer) -> int | None:
    """Bytes that the host of one connection has read from it by now; None where nobody knows."""
    data = _looked_up(peer, local)
    size, kind, *_ = (0, _ERROR) if data is None else _head.unpack_from(data)
    return None if data is None or kind == _ERROR else _read(data, _head.size, size)


def hung_up(peer: Peer, local: Peer, *, known: bool) -> bool:
    """Whether the client of one connection has closed it; one that is ``known`` has, too, if there is none any more."""
    data = _looked_up(peer, local)
    if data is None:
        return False
    if _head.unpack_from(data)[1] == _ERROR:
        return known and _error.unpack_from(data, _head.size)[0] == -errno.ENOENT
    return _told.unpack_from(data, _head.size)[0] != ESTABLISHED


def _looked_up(peer: Peer, local: Peer) -> bytes | None:
    """What the kernel says of one connection; None where it says nothing."""
    if sys.platform != "linux":
        return None
    try:
        family, near, far = _ends(peer, local[0])
        ports = struct.pack("!HH", local[1], peer[1])
        ask = _ask.pack(
            family, socket.IPPROTO_TCP, 1 << _INFO - 1, 0, ports[:2], ports[2:], near, far, _ANY_COOKIE
        )
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as netlink:
            netlink.send(_head.pack(_head.size + len(ask), _BY_FAMILY, _REQUEST, 0, 0) + ask)
            data = netlink.recv(_ANSWER)
    except (OSError, ValueError):
        return None
    return data


def _ends(peer: Peer, near: str) -> tuple[int, bytes, bytes]:
    """The family of a connection and its two addresses; one on which we listen everywhere is found by its way back."""
    if ipaddress.ip_address(near).is_unspecified:
        family = socket.AF_INET6 if ":" in peer[0] else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(peer)
            near = probe.getsockname()[0]
    ends = ipaddress.ip_address(near), ipaddress.ip_address(peer[0])
    return (socket.AF_INET6 if ends[1].version == 6 else socket.AF_INET), ends[0].packed, ends[1].packed


def _dump(netlink: socket.socket, family: int, counted: Container[bytes]) -> Iterator[tuple[bytes, Seen]]:
    more = 1 << _INFO - 1 if counted else 0
    ask = _ask.pack(family, socket.IPPROTO_TCP, more, _STATES, b"", b"", b"", b"", b"")
    netlink.send(_head.pack(_head.size + len(ask), _BY_FAMILY, _REQUEST_DUMP, 0, 0) + ask)
    count = 0
    while True:
        data, at = netlink.recv(_ANSWER), 0
        while at < len(data):
            size, kind, *_ = _head.unpack_from(data, at)
            if kind == _ERROR or (kind == _DONE and any(data[at + _head.size : at + size])):
                raise OSError("the kernel does not tell")  # it lacks the module, and may say so with the end
            if kind == _DONE:
                return
            state, port, address, _, unsent = _told.unpack_from(data, at + _head.size)
            packed = address[:4] if family == socket.AF_INET else address.removeprefix(_MAPPED)
            key, count = packed + port, count + 1
            if not count % TABLE_AT_ONCE:
                time.sleep(TABLE_PAUSE)  # whoever waits for the interpreter would do so for five milliseconds
            read = _read(data, at + _head.size, at + size) if key in counted else None
            yield key, Seen(state == CLOSE_WAIT, unsent, read)
            at += (size + 3) & ~3


def _read(data: bytes, begin: int, end: int) -> int | None:
    """What has been read of one connection: all that came but for what waits."""
    waiting = _told.unpack_from(data, begin)[3]
    at = begin + _told.size
    while at + _attribute.size <= end:
        size, kind = _attribute.unpack_from(data, at)
        if kind == _INFO and size >= _RECEIVED.size:
            return _RECEIVED.unpack_from(data, at)[0] - waiting
        at += max((size + 3) & ~3, _attribute.size)
    return None


def table_of_files() -> dict[bytes, Seen]:
    """The same from the tables under ``/proc``."""
    found: dict[bytes, Seen] = {}
    for path in TABLES:
        for address, port, state, unsent in _lines(path):
            words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
            packed = struct.pack(f"={len(words)}I", *words).removeprefix(_MAPPED)
            found[packed + bytes.fromhex(port.decode())] = Seen(int(state, 16) == CLOSE_WAIT, int(unsent, 16))
    return found


def _lines(path: str) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """The lines of one table, a few at a time: it is long on a busy machine, and the event loop has better to do."""
    rest = b""
    with suppress(OSError), open(path, "rb", buffering=0) as file:
        while data := file.read(TABLE_PIECE):
            whole, _, rest = (rest + data).rpartition(b"\n")
            yield from _LINE.findall(whole)
            os.sched_yield()
    yield from _LINE.findall(rest)
