"""The workload "ask" over HTTP: a question comes in the middle of each call, and the driver answers it.

Until 2025-11-25 the question arrives on the event stream of the call and its answer is a separate POST, which must
be accepted (202), while the stream stays open for the reply. Since 2026-07-28 the call ends with ``input_required``
and is made again with the answers and the state. So responses are read here as they come, not only when whole.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

from .connection import LIMIT, Connection, ready
from .questions import Questions
from .samples import Sample, sampled
from .workloads import FIRST_ID, Workload, WrongReply, check

if TYPE_CHECKING:
    from .sockets import SocketDriver


class Response:
    """Reads one HTTP response piece by piece: its status, its JSON-RPC messages as they complete, its end."""

    def __init__(self) -> None:
        self.status = 0
        self.done = False
        self._raw = b""
        self._body = b""
        self._left = 0  # bytes of the body or of the chunk that are still to come
        self._chunked = False
        self._events = False

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that ``data`` completes."""
        self._raw += data
        if not self.status and not self._head():
            return []
        if self._chunked:
            self._chunks()
        else:
            self._body += self._raw
            self._raw = b""
            self.done = len(self._body) >= self._left
        if self._events:
            return self._complete_events()
        return [self._body] if self.done and self._body else []

    def _head(self) -> bool:
        head, found, rest = self._raw.partition(b"\r\n\r\n")
        if not found:
            return False
        head = head.lower()
        self.status = int(head[9:12])
        self._raw = rest
        self._chunked = b"\r\ntransfer-encoding: chunked" in head
        self._events = b"text/event-stream" in head
        _, length, value = head.partition(b"\r\ncontent-length:")
        self._left = int(value.partition(b"\r\n")[0]) if length else 0
        return True

    def _chunks(self) -> None:
        """Remove the chunks from the received bytes. A chunk counts with its line end."""
        while self._raw and not self.done:
            if self._left == 0:
                size, found, rest = self._raw.partition(b"\r\n")
                if not found:
                    return
                length = int(size.partition(b";")[0], 16)
                if length == 0:
                    self.done = rest.startswith(b"\r\n")
                    return
                self._left, self._raw = length + 2, rest
            part, self._raw = self._raw[: self._left], self._raw[self._left :]
            self._body += part[: max(0, self._left - 2)]
            self._left -= len(part)

    def _complete_events(self) -> list[bytes]:
        *events, self._body = self._body.replace(b"\r\n", b"\n").split(b"\n\n")
        lines = [line for event in events for line in event.split(b"\n")]
        return [line[5:].strip() for line in lines if line.startswith(b"data:") and line[5:].strip()]


class _Call:
    """One call after the other: the connection they are on, and the one on which their questions are answered."""

    def __init__(self, port: int) -> None:
        self.stream = Connection(port)
        self.answers = Connection(port)
        self.response = Response()
        self.accepted: Response | None = None
        """The response to an answer, while it is awaited."""
        self.again = b""
        """The same call with the answers, to be sent as soon as the response that asked is over."""
        self.reply = b""
        self.sent = self.took = 0.0

    def begin(self, request: bytes) -> None:
        self.response = Response()
        self.reply = b""
        self.sent = time.perf_counter()
        self.stream.socket.sendall(request)

    def repeat(self) -> None:
        request, self.again, self.response = self.again, b"", Response()
        self.stream.socket.sendall(request)

    @property
    def over(self) -> bool:
        return bool(self.reply) and self.response.done and self.accepted is None

    def close(self) -> None:
        self.stream.socket.close()
        self.answers.socket.close()


class _Run:
    """What happens to the calls of one measurement."""

    def __init__(self, driver: SocketDriver, workload: Workload) -> None:
        self.questions = Questions(workload, driver.era)
        self._driver = driver
        self._method, self._name = workload.method.encode(), str(workload.params["name"]).encode()

    def heard(self, call: _Call, data: bytes) -> None:
        """Something arrived on the stream of a call."""
        for message in call.response.feed(data):
            answer = self.questions.answer(message)
            if answer is None:
                call.reply = message
                call.took = time.perf_counter() - call.sent
            elif answer.again:
                call.again = self._driver.wrap(answer.body, self._method, self._name)
            else:
                call.accepted = Response()
                call.answers.socket.sendall(self._driver.wrap(answer.body, b""))
        if call.response.done:
            if call.response.status != 200 or not (call.reply or call.again):
                raise WrongReply(
                    f"a call ended with status {call.response.status} and no reply: {data[:300]!r}"
                )
            if call.again:
                call.repeat()

    def accepted(self, call: _Call, data: bytes) -> None:
        """Something arrived as the response to an answer."""
        if call.accepted is None:
            raise WrongReply(f"a response nobody waits for: {data[:300]!r}")
        call.accepted.feed(data)
        if call.accepted.done:
            if call.accepted.status != 202:
                raise WrongReply(f"an answer was not accepted: {data[:300]!r}")
            call.accepted = None


def asked(
    driver: SocketDriver,
    workload: Workload,
    connections: int,
    seconds: float,
    least: int,
    most: int,
    *,
    latency: bool = False,
) -> Sample:
    """Keep ``connections`` calls open, each with its question, for ``seconds``; every reply is checked afterwards."""
    request = driver.template(workload)
    run = _Run(driver, workload)
    calls = [_Call(driver.child.port) for _ in range(connections)]
    steps = {call.stream.fd: (call, call.stream, run.heard) for call in calls}
    steps |= {call.answers.fd: (call, call.answers, run.accepted) for call in calls}
    replies: list[bytes] = []
    latencies: list[float] = []
    clock = time.perf_counter
    poll = select.epoll()
    try:
        for fd in steps:
            poll.register(fd, select.EPOLLIN)
        cpu, begun = driver.child.cpu(), clock()
        for sent, call in enumerate(calls):
            call.begin(request % (FIRST_ID + sent))
        sent = connections
        while len(replies) < sent:
            for fd, _ in ready(poll):
                call, connection, step = steps[fd]
                step(call, connection.receive())
                if not call.over:
                    continue
                replies.append(call.reply)
                latencies.append(call.took)
                call.reply = b""
                elapsed = clock() - begun
                if sent < most and (elapsed < seconds or (sent < least and elapsed < LIMIT)):
                    call.begin(request % (FIRST_ID + sent))
                    sent += 1
        took, cpu = clock() - begun, driver.child.cpu() - cpu
    finally:
        poll.close()
        for call in calls:
            call.close()
    check(workload, replies, sent, run.questions.count)
    return sampled(latencies, took, cpu, latency=latency)
