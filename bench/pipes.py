"""The driver for stdio: blocking reads and writes of whole chunks, requests made ahead, replies checked afterwards.

It does next to nothing per call while the clock runs: one ``bytes`` format, a share of one write, of one read and of
one count of newlines. `python -m bench --driver` shows what it reaches against a program that does nothing at all.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from . import workloads
from .peers import MODERN
from .processes import Child
from .questions import Questions
from .samples import Sample, sampled
from .workloads import FIRST_ID, Workload

CHUNK = 1 << 20
LIMIT = 20.0
"""Seconds beyond the length of a run after which a server counts as hung."""


@contextmanager
def within(seconds: float, name: str) -> Generator[None, None, None]:
    """Give up on a server that no longer answers. A timer, since a wait before every read would cost each call."""

    def hung(number: int, frame: object) -> None:
        raise workloads.WrongReply(f"{name} hung: no reply within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class PipeDriver:
    """Speaks to one child. ``open`` does what the era wants first."""

    def __init__(self, child: Child, era: str) -> None:
        self.child = child
        self.era = era
        self._rest = b""
        os.set_blocking(child.stdout, True)

    def open(self) -> float:
        """Say hello; the seconds from the start of the process to its first answer."""
        if self.era == MODERN:
            params = {"_meta": workloads.modern_meta()}
            self._write(
                msgspec.json.encode(
                    {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": params}
                )
            )
            answer = self._line()
            took = time.perf_counter() - self.child.started
        else:
            self._write(workloads.initialize())
            answer = self._line()
            took = time.perf_counter() - self.child.started
            self._write(workloads.INITIALIZED)
        if "result" not in msgspec.json.decode(answer):
            raise workloads.WrongReply(f"{self.child.peer.name} refused the handshake: {answer[:300]!r}")
        return took

    def request(self, method: str, params: dict[str, Any], id: int = 2) -> dict[str, Any]:
        """One request by hand, and its result."""
        self._write(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        while True:
            message = msgspec.json.decode(self._line())
            if message.get("id") == id and "method" not in message:
                if "result" not in message:
                    raise workloads.WrongReply(f"{method}: {message}")
                return message["result"]

    def notify(self, method: str) -> None:
        self._write(msgspec.json.encode({"jsonrpc": "2.0", "method": method}))

    def _write(self, message: bytes) -> None:
        data = message + b"\n"
        while data:
            data = data[os.write(self.child.stdin, data) :]

    def _read(self) -> bytes:
        chunk = os.read(self.child.stdout, CHUNK)
        if not chunk:
            raise workloads.WrongReply(f"{self.child.peer.name} ended")
        return chunk

    def _line(self) -> bytes:
        while b"\n" not in self._rest:
            self._rest += self._read()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    # --- measuring ----------------------------------------------------------------------------------------------

    def sequential(self, workload: Workload, seconds: float, most: int = 100_000) -> Sample:
        """One after the other: the median round trip in microseconds, and the 99th percentile next to it."""
        with within(seconds + LIMIT, self.child.peer.name):
            return self._sequential(workload, seconds, most)

    def _sequential(self, workload: Workload, seconds: float, most: int) -> Sample:
        request = workloads.template(workload, self.era) + b"\n"
        source, sink = self.child.stdin, self.child.stdout
        answers = _Answers(self, workload) if workload.more else None
        replies: list[bytes] = []
        latencies: list[float] = []
        clock = time.perf_counter
        cpu = self.child.cpu()
        begun = clock()
        number = FIRST_ID
        while clock() - begun < seconds and len(latencies) < most:
            message = request % number
            sent = clock()
            os.write(source, message)
            if answers is not None:
                answers.until_answered()
            else:
                reply = os.read(sink, CHUNK)
                while reply[-1:] != b"\n":
                    reply += self._read()
                replies.append(reply)
            latencies.append(clock() - sent)
            number += 1
        took = clock() - begun
        cpu = self.child.cpu() - cpu
        replies = replies if answers is None else answers.replies
        workloads.check(workload, replies, len(latencies), 0 if answers is None else answers.asked)
        return sampled(latencies, took, cpu, latency=True)

    def throughput(self, workload: Workload, in_flight: int, seconds: float, least: int = 0) -> Sample:
        """Keep ``in_flight`` calls open: calls per second, and processor time per call next to it."""
        with within(seconds + 2 * LIMIT, self.child.peer.name):
            return self._throughput(workload, in_flight, seconds, least)

    def _throughput(self, workload: Workload, in_flight: int, seconds: float, least: int) -> Sample:
        request = workloads.template(workload, self.era) + b"\n"
        answers = _Answers(self, workload) if workload.more else None
        clock = time.perf_counter
        chunks: list[bytes] = []
        cpu = self.child.cpu()
        begun = clock()
        sent = in_flight
        self._send(b"".join([request % number for number in range(FIRST_ID, FIRST_ID + sent)]))
        received = 0
        while received < sent:
            chunk = self._read()
            if answers is None:
                chunks.append(chunk)
                fresh = chunk.count(b"\n")
            else:
                fresh = answers.feed(chunk)
            received += fresh
            now = clock()
            if fresh and (now - begun < seconds or (received < least and now - begun < LIMIT)):
                first = FIRST_ID + sent
                self._send(b"".join([request % number for number in range(first, first + fresh)]))
                sent += fresh
        took = clock() - begun
        cpu = self.child.cpu() - cpu
        lines = b"".join(chunks).split(b"\n")[:-1] if answers is None else answers.replies
        workloads.check(workload, lines, sent, 0 if answers is None else answers.asked)
        return Sample(sent / took, sent, took, {"cpu_us": cpu / sent * 1e6})

    def _send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.child.stdin, data) :]


class _Answers:
    """Reads message by message: for workloads in which a call brings more than its reply."""

    def __init__(self, driver: PipeDriver, workload: Workload) -> None:
        self._driver = driver
        self._questions = Questions(workload, driver.era) if workload.asks else None
        self._rest = b""
        self.replies: list[bytes] = []

    @property
    def asked(self) -> int:
        return 0 if self._questions is None else self._questions.count

    def until_answered(self) -> None:
        while not self.feed(self._driver._read()):
            pass

    def feed(self, chunk: bytes) -> int:
        """Take what arrived; how many calls it completed."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if self._questions is None:
            self.replies += lines
            return sum(b'"id":' in line for line in lines)
        return self._answer(lines, self._questions)

    def _answer(self, lines: list[bytes], questions: Questions) -> int:
        out: list[bytes] = []
        done = len(self.replies)
        for line in lines:
            answer = questions.answer(line)
            if answer is None:
                self.replies.append(line)
            else:
                out.append(answer.body + b"\n")
        if out:
            self._driver._send(b"".join(out))
        return len(self.replies) - done
