"""The eleven scenarios of erlmcp's chaos tests, each with a fault that really happens.

A scenario gets a `Site` and returns what its trouble-maker saw. `SETTINGS` says which guards its server has.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from attacks.victim import Json, http, modern, modern_headers, modern_post

from dovetail import DovetailError

from .report import Broken, Found
from .site import HttpLine, PipeLine, Site, children, code_of, refusal_of, refused, served, tool

Scenario = Callable[[Site], Awaitable[Found]]

CRASH_MS: Final = 1000
CASCADE_MS: Final = 5000
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "process_crash": {"workers": 2},
    "supervisor_cascade": {"workers": 2},
    "memory_exhaustion": {"CHAOS_LIMITS": '{"memory": 209715200}'},
    "message_flood": {"CHAOS_RATE": "2"},
    "connection_leak": {"CHAOS_LIMITS": '{"streams": 16}'},
    "slow_consumer": {"CHAOS_LIMITS": '{"max_buffered_bytes": 8388608}'},
    "cpu_saturation": {"CHAOS_LIMITS": '{"max_event_loop_lag": 0.3}'},
}
"""How the server of a scenario is started, where the usual way does not do."""


def echo(site: Site) -> Callable[[], Awaitable[Any]]:
    return lambda: site.line.ask("echo", text="again")


async def process_crash(site: Site) -> Found:
    """A process is killed. Over HTTP another worker continues; over stdio the client starts one again."""
    return await _killed(site, 1, CRASH_MS)


async def supervisor_cascade(site: Site) -> Found:
    """All workers are killed at once; over stdio one after the other, three times."""
    return await _killed(site, 1 if site.transport == "http" else 3, CASCADE_MS, everybody=True)


async def _killed(site: Site, times: int, most: float, *, everybody: bool = False) -> Found:
    worst = detected = judged = 0.0
    async with site.client() as client:

        async def ask() -> str:
            return (await client.call_tool("pid")).text

        for _ in range(times):
            pid = int(await ask())
            others = children(site.process.pid) if everybody and site.transport == "http" else set[int]()
            begun = time.monotonic()
            for one in others | {pid}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            while _alive(pid):  # noqa: ASYNC110  the end of another process has no event
                await asyncio.sleep(0.001)
            detected = max(detected, (time.monotonic() - begun) * 1000)
            back = await served(ask) + detected
            # Over stdio the responding process was started after the fault; a surviving worker must not lose anything.
            late = _unserved(int(await ask())) if site.transport == "stdio" else 0.0
            worst, judged = max(worst, back), max(judged, back - late)
    if judged > most * site.slack:
        raise Broken(f"it took {judged:.0f} ms to be back, and {most * site.slack:.0f} are allowed")
    return Found(detected, worst, None)


def _unserved(pid: int) -> float:
    """Milliseconds for which a process was ready to run and others had the cores: no fault of a server."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e6
    except (OSError, IndexError):
        return 0.0


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def network_partition(site: Site) -> Found:
    """The network drops all packets for a while."""
    relay = await Relay.open(site.port) if site.transport == "http" else None
    target = site.target if relay is None else f"http://127.0.0.1:{relay.port}/mcp"
    async with site.client(target) as client:
        pid = int((await client.call_tool("pid")).text)
        begun = time.monotonic()
        os.kill(pid, signal.SIGSTOP) if relay is None else relay.part()
        try:
            await client.call_tool("echo", {"text": "?"}, timeout=0.3)
            raise Broken("a call got through the partition")
        except DovetailError:
            detected = (time.monotonic() - begun) * 1000
        finally:
            os.kill(pid, signal.SIGCONT) if relay is None else relay.heal()
        recovered = await served(lambda: client.call_tool("echo", {"text": "?"}))
    if relay is not None:
        await relay.close()
    return Found(detected, recovered, None)


async def memory_exhaustion(site: Site) -> Found:
    """A tool takes all the memory there may be."""
    await site.line.ask("eat", megabytes=205, seconds=3.0)
    code, detected = await refused(echo(site), 1089)
    return Found(detected, await served(echo(site)), code)


async def message_flood(site: Site) -> Found:
    """Far more messages than anybody may send, over several connections where there may be several."""
    more = [HttpLine(site.port) for _ in range(15)] if site.transport == "http" else []

    async def many() -> Json:
        answers = await asyncio.gather(*(line.ask("echo", text="again") for line in (site.line, *more)))
        return max(answers, key=lambda answer: refusal_of(answer) or 0)

    code, detected = await refused(many, 1056)
    for line in more:
        line.drop()
    return Found(detected, await served(echo(site)), code, "after 1003")


async def invalid_payload(site: Site) -> Found:
    """Bytes that are not a message."""
    broken = b'{"jsonrpc": "2.0", "id": 1, "method": '
    begun = time.monotonic()
    answer = await site.line.say(http(body=broken) if site.transport == "http" else broken)
    detected = (time.monotonic() - begun) * 1000
    return Found(detected, await served(echo(site)), refusal_of(answer), f"as {code_of(answer)}")


async def connection_leak(site: Site) -> Found:
    """Connections are opened and never used again; a pipe is one connection, and there listen streams are."""
    begun = time.monotonic()
    line = site.line
    asked = {"notifications": {"toolsListChanged": True}}
    if isinstance(line, PipeLine):
        listening = [modern("subscriptions/listen", asked, id=f"leaked-{number}") for number in range(17)]
        for one in listening:
            line.stdin.write(json.dumps(one).encode() + b"\n")
        code = refusal_of(await line.answer(listening[-1]["id"]))
        detected = (time.monotonic() - begun) * 1000
        leave = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        for one in listening[:-1]:
            params = {"requestId": one["id"], "_meta": one["params"]["_meta"]}
            line.stdin.write(json.dumps({**leave, "params": params}).encode() + b"\n")
        again = modern("subscriptions/listen", asked, id="again")
        line.stdin.write(json.dumps(again).encode() + b"\n")
        await line.until(lambda message: "acknowledged" in message.get("method", ""))
        return Found(detected, await served(echo(site)), code, "listen streams leak")
    assert isinstance(line, HttpLine)
    leaked = [await line.wire() for _ in range(17)]
    listen = modern_post("subscriptions/listen", asked)
    try:
        for wire in leaked:
            wire.send(listen)
            head = await wire.reader.readuntil(b"\r\n\r\n")
            if b" 503 " in head:
                body = json.loads(await wire.reader.readexactly(int(_header(head, b"content-length"))))
                break
        else:
            raise Broken("no stream was refused")
    finally:
        detected = (time.monotonic() - begun) * 1000
        for wire in leaked:
            wire.drop()
    return Found(
        detected, await served(echo(site)), refusal_of(body), f"retry-after={_header(head, b'retry-after')}"
    )


def _header(head: bytes, name: str | bytes) -> str:
    lines = (line.partition(b":") for line in head.split(b"\r\n"))
    return next(value.strip().decode() for key, _, value in lines if key.lower() == name)


async def slow_consumer(site: Site) -> Found:
    """Large unread responses; they are refused, and clients that read again receive all of theirs."""
    line, begun = site.line, time.monotonic()
    if isinstance(line, PipeLine):
        asked = [
            modern("tools/call", {"name": "big", "arguments": {"size": 3 << 20}}, id=f"{n}") for n in range(8)
        ]
        line.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in asked))
        codes = [refusal_of(await line.answer(one["id"])) for one in asked]
        detected = (time.monotonic() - begun) * 1000
        code = next((code for code in codes if code is not None), None)
        large = lambda: line.ask("big", size=3 << 20)  # noqa: E731
        return Found(detected, await served(large), code, f"{codes.count(None)} of {len(asked)} answers came")
    assert isinstance(line, HttpLine)
    message = tool("big", size=3 << 20)
    request = http(headers=modern_headers(message), body=message)
    wires = [await line.wire() for _ in range(4)]
    for wire in wires:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.send(request)
    code, detected = await refused(lambda: line.ask("big", size=3 << 20), 1069)
    for wire in wires:
        wire.drop()
    return Found(detected, await served(lambda: line.ask("big", size=3 << 20)), code)


async def disk_full(site: Site) -> Found:
    """The disk of the store is full. Calls that need the store are refused, all others succeed."""
    await asyncio.sleep(0.5)  # the bystander has something to lose
    filler = site.folder / "small" / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    words = itertools.count()
    keep = lambda: site.line.ask("note", word=f"mine-{next(words)}" + "x" * 4000)  # noqa: E731
    code, detected = await refused(keep, 1079)
    filler.unlink()
    return Found(detected, await served(keep), code)


async def cpu_saturation(site: Site) -> Found:
    """The event loop gets to nothing but one tool."""
    code, detected = await refused(lambda: site.line.ask("grind", seconds=0.5), 1078)
    return Found(detected, await served(echo(site)), code)


async def large_payload(site: Site) -> Found:
    """A message of 100 MB."""
    message = json.dumps(tool("echo", text="x" * (100 << 20))).encode()
    begun = time.monotonic()
    if isinstance(site.line, HttpLine):
        # A request with a too large Content-Length is refused before its body is read.
        head = http(headers=modern_headers(tool("echo", text="")), body=message[:1]).replace(
            b"Content-Length: 1\r\n", b"Content-Length: %d\r\n" % len(message)
        )
        answer = await site.line.say(head)
    else:
        answer = await site.line.say(message)
    detected = (time.monotonic() - begun) * 1000
    note = f"as {code_of(answer)}" + (f" status={answer['status']}" if "status" in answer else "")
    return Found(detected, await served(echo(site)), refusal_of(answer), note)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    process_crash, network_partition, memory_exhaustion, message_flood, invalid_payload, connection_leak,
    slow_consumer, supervisor_cascade, disk_full, cpu_saturation, large_payload,
)  # fmt: skip
WANTED: Final = {
    "memory_exhaustion": 1089, "message_flood": 1056, "connection_leak": 1060, "slow_consumer": 1069,
    "disk_full": 1079, "cpu_saturation": 1078, "invalid_payload": 1066, "large_payload": 1068,
}  # fmt: skip
"""The refusals that have to be seen."""


class NoDisk(Exception):
    """A small disk cannot be created here."""


def small_disk(folder: Path) -> Callable[[], object]:
    """Create a disk of 256 KiB below ``folder``; call the result to remove it.

    Raises:
        NoDisk: this machine lets us mount nothing.
    """
    place = folder / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        raise NoDisk("cannot mount a small disk here: run as root")
    return lambda: subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


class Relay:
    """What stands between a client and a server, until it does not."""

    def __init__(self, port: int) -> None:
        self._far = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._whole = asyncio.Event()
        self._whole.set()
        self._server: asyncio.Server

    @classmethod
    async def open(cls, port: int) -> Relay:
        relay = cls(port)
        relay._server = await asyncio.start_server(relay._accept, "127.0.0.1", 0)
        return relay

    @property
    def port(self) -> int:
        return self._server.sockets[0].getsockname()[1]

    def part(self) -> None:
        self._whole.clear()

    def heal(self) -> None:
        """What was open is gone; what comes now gets through."""
        for writer in self._writers:
            writer.transport.abort()
        self._whole.set()

    async def close(self) -> None:
        self.heal()
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._far)
        self._writers |= {writer, far_writer}
        with contextlib.suppress(OSError):
            await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))
        self._writers -= {writer, far_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            await self._whole.wait()
            writer.write(data)
        writer.close()
