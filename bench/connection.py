"""One keep-alive connection to a server, and the wait for many."""

from __future__ import annotations

import select
import socket

from .workloads import WrongReply

LIMIT = 20.0
"""Seconds without a reply after which a server counts as hung."""


class Connection:
    """A non-blocking socket with what has arrived on it so far."""

    __slots__ = ("data", "fd", "sent", "socket")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.fd = self.socket.fileno()
        self.data = b""
        self.sent = 0.0

    def receive(self) -> bytes:
        data = self.socket.recv(1 << 18)
        if not data:
            raise WrongReply(f"the server closed a connection: {self.data[:300]!r}")
        return data


def ready(poll: select.epoll) -> list[tuple[int, int]]:
    """The connections that are readable."""
    found = poll.poll(LIMIT)
    if not found:
        raise WrongReply(f"the server was silent for {LIMIT:.0f} s")
    return found
