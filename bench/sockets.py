"""The driver for sockets: HTTP/1.1 with keep-alive, or lines over TCP, on many connections from one epoll loop.

Per call it does one ``recv``, one search for the end of the reply and one ``send``, about a tenth of what the fastest
server here needs. Replies are kept and checked after the clock has stopped. `bench.wrk` compares it with wrk.
"""

from __future__ import annotations

import select
import socket
import time

import msgspec

from . import workloads
from .asking import asked
from .connection import LIMIT, Connection, ready
from .peers import LEGACY, MODERN
from .processes import Child
from .samples import Sample, sampled
from .workloads import FIRST_ID, Workload, WrongReply


def http_end(data: bytes) -> int:
    """Where the HTTP response at the start of ``data`` ends; -1 while it is not complete."""
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return -1
    headers = data[:head].lower()
    at = headers.find(b"content-length:")
    if at >= 0:
        stop = headers.find(b"\r\n", at)
        end = head + 4 + int(headers[at + 15 : stop if stop >= 0 else len(headers)])
        return end if len(data) >= end else -1
    end = data.find(b"0\r\n\r\n", head)
    while end >= 0 and data[end - 2 : end] != b"\r\n":
        end = data.find(b"0\r\n\r\n", end + 1)
    return end + 5 if end >= 0 else -1


def line_end(data: bytes) -> int:
    return data.find(b"\n") + 1 or -1


def body_of(response: bytes) -> bytes:
    """The body of an HTTP response, its chunks put together."""
    head, _, body = response.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return body
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        whole += body[:length]
        body = body[length + 2 :]
    return whole


def messages_of(response: bytes) -> list[bytes]:
    """The JSON-RPC messages in an HTTP response, be it JSON or an event stream."""
    head, _, _ = response.partition(b"\r\n\r\n")
    if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")):
        raise WrongReply(f"{response[:400]!r}")
    body = body_of(response)
    if b"text/event-stream" not in head.lower():
        return [body]
    lines = body.replace(b"\r\n", b"\n").split(b"\n")
    return [line[5:].strip() for line in lines if line.startswith(b"data:") and len(line) > 6]


class SocketDriver:
    """Speaks to one server on a port. ``transport`` is "http" or "tcp"."""

    def __init__(self, child: Child, era: str, transport: str = "http") -> None:
        self.child = child
        self.era = era
        self.transport = transport
        self.session = b""
        self.more: list[bytes] = []
        """Further lines of every head."""
        self._end = http_end if transport == "http" else line_end

    def open(self) -> float:
        """Say hello; the seconds from the start of the process to its first answer."""
        self.child.wait_for_port()
        if self.era == MODERN or self.transport == "tcp":
            discover = b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":%s}}'
            reply = self.exchange(discover % msgspec.json.encode(workloads.modern_meta()), b"server/discover")
            took = time.perf_counter() - self.child.started
        else:
            reply = self.exchange(workloads.initialize(), b"initialize")
            took = time.perf_counter() - self.child.started
            self.session = session_of(reply)
            self.exchange(workloads.INITIALIZED, b"notifications/initialized")
        if b'"result"' not in reply:
            raise WrongReply(f"{self.child.peer.name} refused the handshake: {reply[:400]!r}")
        return took

    def new_session(self, connection: socket.socket) -> bytes:
        """Open one more legacy session on ``connection``; its id."""
        reply = self.exchange(workloads.initialize(), b"initialize", connection, session=b"")
        session = session_of(reply)
        self.exchange(workloads.INITIALIZED, b"notifications/initialized", connection, session=session)
        return session

    def exchange(
        self,
        body: bytes,
        method: bytes,
        connection: socket.socket | None = None,
        *,
        name: bytes = b"",
        session: bytes | None = None,
    ) -> bytes:
        """One request by hand on a separate connection (or the one given), and the whole reply."""
        one = connection or socket.create_connection(("127.0.0.1", self.child.port))
        try:
            one.settimeout(LIMIT)
            one.sendall(self.wrap(body, method, name, session))
            data = b""
            while self._end(data) < 0:
                chunk = one.recv(1 << 16)
                if not chunk:
                    raise WrongReply(f"{self.child.peer.name} closed the connection: {data[:300]!r}")
                data += chunk
            return data
        finally:
            if connection is None:
                one.close()

    def wrap(self, body: bytes, method: bytes, name: bytes = b"", session: bytes | None = None) -> bytes:
        """The bytes of a request around ``body``."""
        if self.transport == "tcp":
            return body + b"\n"
        headers = [
            b"POST /mcp HTTP/1.1",
            b"Host: 127.0.0.1:%d" % self.child.port,
            b"Content-Type: application/json",
            b"Accept: application/json, text/event-stream",
            b"Content-Length: %d" % len(body),
            *self.more,
        ]
        if self.era == MODERN:
            headers += [b"MCP-Protocol-Version: " + MODERN.encode(), b"Mcp-Method: " + method]
            if name:
                headers.append(b"Mcp-Name: " + name)
        elif method != b"initialize":
            headers.append(b"MCP-Protocol-Version: " + LEGACY.encode())
            session = self.session if session is None else session
            if session:
                headers.append(b"Mcp-Session-Id: " + session)
        return b"\r\n".join(headers) + b"\r\n\r\n" + body

    def template(self, workload: Workload, session: bytes | None = None) -> bytes:
        body = workloads.template(workload, self.era)
        name = str(workload.params.get("name", "")).encode()
        # The id has six digits where the template has %d: the length must count them, and %% once.
        length = len(body % FIRST_ID)
        wrapped = self.wrap(body, workload.method.encode(), name, session)
        return wrapped.replace(b"Content-Length: %d" % len(body), b"Content-Length: %d" % length)

    # --- measuring ----------------------------------------------------------------------------------------------

    def sequential(self, workload: Workload, seconds: float, most: int = 100_000) -> Sample:
        """One connection, one call after the other: the median round trip in microseconds."""
        return self._measured(workload, 1, seconds, 0, most, latency=True)

    def throughput(self, workload: Workload, in_flight: int, seconds: float, least: int = 0) -> Sample:
        """As many connections as calls in flight: calls per second."""
        return self._measured(workload, in_flight, seconds, least, 10**9)

    def burst(self, workload: Workload, connections: int, bursts: int) -> Sample:
        """All connections send at the same moment, and again when all have been answered: messages per second."""
        request = self.template(workload)
        ring = [Connection(self.child.port) for _ in range(connections)]
        replies: list[bytes] = []
        took = 0.0
        try:
            for burst in range(bursts):
                took += self._burst(ring, request, FIRST_ID + burst * connections, replies)
        finally:
            for one in ring:
                one.socket.close()
        self._check(workload, replies, connections * bursts)
        return Sample(connections * bursts / took, connections * bursts, took)

    def _burst(self, ring: list[Connection], request: bytes, first: int, replies: list[bytes]) -> float:
        poll = select.epoll()
        waiting = {one.fd: one for one in ring}
        for one in ring:
            poll.register(one.fd, select.EPOLLIN)
        begun = time.perf_counter()
        for number, one in enumerate(ring, first):
            one.socket.send(request % number)
        while waiting:
            for fd, _ in ready(poll):
                one = waiting[fd]
                one.data += one.receive()
                if self._end(one.data) > 0:
                    replies.append(one.data)
                    one.data = b""
                    del waiting[fd]
                    poll.unregister(fd)
        took = time.perf_counter() - begun
        poll.close()
        return took

    def _measured(
        self,
        workload: Workload,
        connections: int,
        seconds: float,
        least: int,
        most: int,
        *,
        latency: bool = False,
    ) -> Sample:
        if workload.asks:
            return asked(self, workload, connections, seconds, least, most, latency=latency)
        request = self.template(workload)
        ring = [Connection(self.child.port) for _ in range(connections)]
        poll = select.epoll()
        by_fd = {one.fd: one for one in ring}
        replies: list[bytes] = []
        latencies: list[float] = []
        clock, end = time.perf_counter, self._end
        cpu = self.child.cpu()
        begun = clock()
        sent = 0
        try:
            for one in ring:
                poll.register(one.fd, select.EPOLLIN)
                one.sent = clock()
                one.socket.send(request % (FIRST_ID + sent))
                sent += 1
            while len(replies) < sent:
                for fd, _ in ready(poll):
                    one = by_fd[fd]
                    data = one.data + one.receive()
                    if end(data) < 0:
                        one.data = data
                        continue
                    now = clock()
                    one.data = b""
                    replies.append(data)
                    latencies.append(now - one.sent)
                    elapsed = now - begun
                    if sent < most and (elapsed < seconds or (sent < least and elapsed < LIMIT)):
                        one.sent = now
                        one.socket.send(request % (FIRST_ID + sent))
                        sent += 1
            took = clock() - begun
            cpu = self.child.cpu() - cpu
        finally:
            poll.close()
            for one in ring:
                one.socket.close()
        self._check(workload, replies, sent)
        return sampled(latencies, took, cpu, latency=latency)

    def _check(self, workload: Workload, replies: list[bytes], sent: int) -> None:
        if self.transport == "tcp":
            workloads.check(workload, [one.strip() for one in replies], sent)
            return
        workloads.check(workload, [message for reply in replies for message in messages_of(reply)], sent)


def session_of(reply: bytes) -> bytes:
    """The session id a server gave, or nothing."""
    head, _, _ = reply.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"mcp-session-id":
            return value.strip()
    return b""
