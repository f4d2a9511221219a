"""``python -m attacks.fuzz --seconds 600 [--transport http]``: recorded conversations, spoilt, against live processes.

Nothing may crash, hang or grow: the process lives, an honest client is answered between two rounds, no answer is an
internal error, the log has no traceback, and memory stands still once warm. The seed is printed: it repeats what was
said, if not in which order.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from random import Random

from .fuzz_clients import fuzz_http, fuzz_lines, fuzz_sockets
from .fuzz_core import fuzz_core
from .mutations import MODERN, conversations, pieces, spoil
from .on_websocket import TEXT, frame, opened
from .report import GotThrough
from .victim import Victim, Wire, http, initialize, modern, piped, serve
from .weight import Weight, in_time

ROUND = 50
"""Conversations at once, between two looks at the victim."""
FOREVER = 1e6
"""Seconds for one answer: how long all of a round may take is judged elsewhere."""
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'

Talk = Callable[[Victim, Random, str, list[bytes]], Awaitable[None]]


def _opening(revision: str) -> list[bytes]:
    """What has to be said before anything else, if the peer is to listen."""
    if revision == MODERN:
        return []
    return [json.dumps(initialize(revision)).encode(), INITIALIZED]


async def over_tcp(victim: Victim, random: Random, revision: str, messages: list[bytes]) -> None:
    wire = await victim.connect()
    for message in [*_opening(revision), *(spoil(one, random) for one in messages)]:
        for piece in pieces(message + b"\n", random):
            wire.send(piece)
            await asyncio.sleep(0)
    await _hear(wire, victim)


async def over_websocket(victim: Victim, random: Random, revision: str, messages: list[bytes]) -> None:
    wire = await opened(victim)
    for message in [*_opening(revision), *(spoil(one, random) for one in messages)]:
        data = frame(TEXT, message)
        if random.random() < 0.2:
            data = spoil(data, random)
        for piece in pieces(data, random):
            wire.send(piece)
            await asyncio.sleep(0)
    await _hear(wire, victim)


async def over_http(victim: Victim, random: Random, revision: str, messages: list[bytes]) -> None:
    headers: dict[str, str] = {}
    if revision != MODERN:
        headers = {"Mcp-Session-Id": await victim.session(revision), "Mcp-Protocol-Version": revision}
    for message in messages:
        body = spoil(message, random)
        more = dict(headers)
        if revision == MODERN:
            with suppress(ValueError, TypeError, AttributeError, KeyError):
                said = json.loads(message)
                more = {"Mcp-Protocol-Version": MODERN, "Mcp-Method": said["method"]}
                more["Mcp-Name"] = str(said["params"].get("name") or said["params"].get("uri") or "")
        data = http(headers=more, body=body)
        if random.random() < 0.3:
            end = data.index(b"\r\n\r\n")
            data = spoil(data[:end], random) + data[end:]
        wire = await victim.connect()
        for piece in pieces(data, random):
            wire.send(piece)
            await asyncio.sleep(0)
        await _hear(wire, victim)


async def over_sse(victim: Victim, random: Random, revision: str, messages: list[bytes]) -> None:
    """HTTP+SSE of 2024-11-05: one stream to hear, one address to post to."""
    stream = await victim.connect()
    stream.send(http("GET", "/sse", {"Content-Type": "", "Content-Length": ""}))
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        await stream.reader.readuntil(b"session_id=")
        session = await stream.reader.readuntil(b"\n")
        path = f"/messages?session_id={session.decode().strip()}"
        for message in [*_opening("2024-11-05"), *(spoil(one, random) for one in messages)]:
            data = http("POST", path, {}, message)
            if random.random() < 0.2:
                end = data.index(b"\r\n\r\n")
                data = spoil(data[:end], random) + data[end:]
            wire = await victim.connect()
            for piece in pieces(data, random):
                wire.send(piece)
                await asyncio.sleep(0)
            await _hear(wire, victim)
    await _hear(stream, victim)


async def _hear(wire: Wire, victim: Victim) -> None:
    """Take what the victim says within a moment; then hang up."""
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(0.05):
            while await wire.reader.read(1 << 16):
                pass
    wire.drop()
    victim.wires.remove(wire)


TALKS: dict[str, tuple[str, Talk]] = {
    "http": ("http", over_http),
    "sse": ("http", over_sse),
    "websocket": ("http", over_websocket),
    "tcp": ("tcp", over_tcp),
}


async def fuzz_server(transport: str, seconds: float, random: Random) -> str:
    """Spoil conversations of clients until the time is over."""
    host, talk = TALKS[transport]
    every = [(revision, one) for revision, said in conversations("C").items() for one in said]
    # With few sessions their table is full early: whatever grows then is something else.
    async with serve(host, VICTIM_TRANSCRIPTS="1", VICTIM_SESSIONS="500") as victim:
        weight, count, victim.patience = Weight(victim.memory, seconds), 0, FOREVER
        while not weight.over():
            chosen = [random.choice(every) for _ in range(ROUND)]
            try:
                work = asyncio.gather(*(talk(victim, random, *one) for one in chosen))
                await in_time(work, victim.process.pid, os.getpid(), said=victim.said)
            except OSError as error:
                raise GotThrough(f"{error!r}: {victim.said[-800:].decode(errors='replace')}") from error
            count += ROUND
            await in_time(_look(victim, transport), victim.process.pid, os.getpid(), said=victim.said)
    return f"{count} conversations, {weight}"


async def fuzz_stdio(seconds: float, random: Random) -> str:
    """A process on pipes for each revision, which hears spoilt messages of every conversation one after the other."""
    recorded = conversations("C")
    every = [line for said in recorded.values() for one in said for line in one]
    held = [await _over_pipes(revision, every, seconds / len(recorded), random) for revision in recorded]
    return "; ".join(held)


async def _over_pipes(revision: str, every: list[bytes], seconds: float, random: Random) -> str:
    async with piped(VICTIM_TRANSCRIPTS="1") as victim:
        victim.tell(*_opening(revision))
        weight, count = Weight(victim.memory, seconds), 0
        while not weight.over():
            lines = victim.lines(*(spoil(random.choice(every), random) for _ in range(ROUND)))
            for piece in pieces(lines, random):
                victim.write(piece)
                await asyncio.sleep(0)
            count += ROUND
            honest = victim.answers(modern("tools/call", {"name": "echo", "arguments": {"text": "hello"}}))
            await in_time(honest, victim.process.pid, os.getpid(), said=victim.said)
            _listen_for_complaints(victim.said)
    return f"{revision}: {count} messages, {weight}"


async def _look(victim: Victim, transport: str) -> None:
    """The victim lives, answers and has nothing to complain about."""
    if victim.process.returncode is not None:
        raise GotThrough(f"it died: {victim.said[-800:].decode(errors='replace')}")
    _listen_for_complaints(victim.said)
    if transport == "tcp":
        wire = await victim.connect()
        message = modern("tools/call", {"name": "echo", "arguments": {"text": "hello"}})
        wire.send(json.dumps(message).encode() + b"\n")
        if await wire.line() is None:
            raise GotThrough("an honest client is not answered")
        wire.drop()
    else:
        await victim.ask("echo", text="hello")
    victim.wires.clear()


def _listen_for_complaints(said: bytearray) -> None:
    complaint = _complaint(said.decode(errors="replace"))
    if complaint:
        raise GotThrough(f"the log says: {complaint[-1500:]}")


def _complaint(said: str) -> str | None:
    """The first failure in a log that is ours: some tools of the fixtures fail by design."""
    for part in said.split("Traceback (most recent call last):\n")[1:]:
        stack = re.split(r"^\S", part, maxsplit=1, flags=re.MULTILINE)[0]  # the rest of the message follows
        frames = re.findall(r'^ +File "(.+?)", line', stack, re.MULTILINE)
        if frames and "/tests/" not in frames[-1] and "RegistrationError" not in part:
            return part
    return said if "panicked" in said else None


WORK: dict[str, Callable[[float, Random], Awaitable[str]]] = {
    "core": fuzz_core,
    "stdio": fuzz_stdio,
    **{transport: partial(fuzz_server, transport) for transport in TALKS},
    "client": fuzz_http,
    "client-lines": fuzz_lines,
    "client-websocket": fuzz_sockets,
}


async def fuzz(transport: str, seconds: float, seed: int) -> str:
    """Fuzz one transport for some seconds; return the number of messages and the results.

    Raises:
        GotThrough: something crashed, hung, grew or was not answered as it should be.
    """
    try:
        return await WORK[transport](seconds, Random(f"{seed} {transport}"))
    except GotThrough:
        raise
    except Exception as error:  # for example, of a client that raises another exception than a DovetailError
        raise GotThrough("".join(traceback.format_exception(error))[-2000:]) from error


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m attacks.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for each transport")
    parser.add_argument("--transport", choices=WORK, action="append")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # peers that hang up, and what our own client drops
    print(f"seed {options.seed}", flush=True)
    broken = 0
    for transport in options.transport or WORK:
        try:
            held = asyncio.run(fuzz(transport, options.seconds, options.seed))
            print(f"held  {transport:<17} {held}", flush=True)
        except GotThrough as error:
            broken += 1
            print(f"BROKE {transport:<17} {error}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
