"""How long news takes to a thousand listeners on four workers, from the call that makes it to each of them.

Half of them are listen streams of 2026-07-28, half are sessions of 2025-11-25 with their general stream open; they
share one store, and the call reaches whichever worker it reaches.
"""

from __future__ import annotations

import select
import socket
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec

from .. import workloads
from ..connection import ready
from ..peers import DOVETAIL, LEGACY, MODERN
from ..processes import Child, family, processor_seconds
from ..rounds import Options, interleave, say
from ..samples import Figures, Sample, figure, quantile
from ..sockets import SocketDriver
from ..workloads import WrongReply

WORKERS = 4
LISTENERS = 1000
TIMES = 10
PAUSE = 0.2
"""Pieces of news in one round, and seconds between them, in which workers write down what they have said."""
URI = "bench://text"


def measure(figures: Figures, options: Options) -> None:
    say(f"listeners: {LISTENERS} on {WORKERS} workers")
    with ExitStack() as stack:
        crowd = Crowd(stack)
        samples = interleave({"news": crowd.told}, options.rounds, figures.skipped)["news"]
    what = {
        "peer": DOVETAIL.name,
        "workload": f"{LISTENERS} listeners, {WORKERS} workers",
        "transport": "http",
    }
    for measure, unit in (("news_p50", "ms"), ("news_p99", "ms"), ("news_cpu", "µs of CPU per listener")):
        extra = [Sample(one.extra[measure], one.calls, one.seconds) for one in samples]
        figures.add(figure(extra, measure=measure, unit=unit, **what))


class Crowd:
    """A server with its listeners."""

    def __init__(self, stack: ExitStack) -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        more = {"BENCH_WORKERS": str(WORKERS), "BENCH_STORE": str(Path(folder) / "state.db")}
        self._child = stack.enter_context(Child(DOVETAIL, "http", **more))
        self._driver = SocketDriver(self._child, MODERN)
        self._driver.open()
        legacy = SocketDriver(self._child, LEGACY)
        self._listeners = [
            stack.enter_context(_listen(self._driver, number) if number % 2 else _subscribe(legacy, number))
            for number in range(LISTENERS)
        ]

    def told(self) -> Sample:
        """Publish a few times; how long each listener waited."""
        waits: list[float] = []
        cpu, begun = self._cpu(), time.perf_counter()
        for number in range(TIMES):
            waits += self._publish(number)
            time.sleep(PAUSE)
        took = time.perf_counter() - begun
        used = (self._cpu() - cpu) / len(waits) * 1e6
        extra = {
            "news_p50": quantile(waits, 0.5) * 1e3,
            "news_p99": quantile(waits, 0.99) * 1e3,
            "news_cpu": used,
        }
        return Sample(extra["news_p99"], len(waits), took, extra)

    def _cpu(self) -> float:
        return sum(processor_seconds(pid) for pid in family(self._child.pid))

    def _publish(self, number: int) -> list[float]:
        waiting = {one.fileno(): one for one in self._listeners}
        waits: list[float] = []
        with select.epoll() as poll, socket.create_connection(("127.0.0.1", self._child.port)) as caller:
            for fd in waiting:
                poll.register(fd, select.EPOLLIN)
            params = {"name": "touch", "arguments": {}, "_meta": workloads.modern_meta()}
            call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            begun = time.perf_counter()
            caller.sendall(self._driver.wrap(msgspec.json.encode(call), b"tools/call", b"touch"))
            while waiting:
                for fd, _ in ready(poll):
                    data = waiting[fd].recv(1 << 16)
                    if not data:
                        raise WrongReply("a listener lost its stream")
                    if b"resources/updated" in data:
                        waits.append(time.perf_counter() - begun)
                        poll.unregister(fd)
                        del waiting[fd]
            if b'"result"' not in caller.recv(1 << 16):
                raise WrongReply("the call that makes news failed")
        return waits


def _listen(driver: SocketDriver, id: int) -> socket.socket:
    """A listen stream that the server has acknowledged."""
    params = {"_meta": workloads.modern_meta(), "notifications": {"resourceSubscriptions": [URI]}}
    body = {"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}
    return _opened(driver, driver.wrap(msgspec.json.encode(body), b"subscriptions/listen"), b"acknowledged")


def _subscribe(driver: SocketDriver, id: int) -> socket.socket:
    """The general stream of a new session that has subscribed."""
    with socket.create_connection(("127.0.0.1", driver.child.port)) as connection:
        session = driver.new_session(connection)
        body = {"jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": {"uri": URI}}
        driver.exchange(msgspec.json.encode(body), b"resources/subscribe", connection, session=session)
    head = [
        b"GET /mcp HTTP/1.1",
        b"Host: 127.0.0.1:%d" % driver.child.port,
        b"Accept: text/event-stream",
        b"MCP-Protocol-Version: " + LEGACY.encode(),
        b"Mcp-Session-Id: " + session,
    ]
    return _opened(driver, b"\r\n".join(head) + b"\r\n\r\n", b"\n\n")


def _opened(driver: SocketDriver, request: bytes, until: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", driver.child.port))
    connection.settimeout(20)
    connection.sendall(request)
    data = b""
    while until not in data:
        chunk = connection.recv(1 << 16)
        data += chunk
        if not chunk or not b"HTTP/1.1 200".startswith(data[:12]):
            raise WrongReply(f"a listener was refused: {data[:300]!r}")
    return connection
