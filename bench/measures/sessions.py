"""What idle sessions and open streams weigh over HTTP, and what a call costs beside thousands of them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

import msgspec

from .. import workloads
from ..peers import DOVETAIL, LEGACY, MODERN, SDK, Peer
from ..processes import Child
from ..rounds import Options, say
from ..samples import Figure, Figures
from ..sockets import SocketDriver
from ..workloads import ECHO

SETTLE = 0.3


def measure(figures: Figures, options: Options) -> None:
    for peer, most in ((DOVETAIL, max(options.sessions)), (SDK, 1000)):
        _guarded(
            figures,
            f"sessions {peer.name}",
            lambda peer=peer, most=most: _sessions(peer, most, figures, options),
        )
    for peer in (DOVETAIL, SDK):
        _guarded(figures, f"streams {peer.name}", lambda peer=peer: _streams(peer, figures, options))


def _guarded(figures: Figures, what: str, run: Callable[[], None]) -> None:
    say(what)
    try:
        run()
    except (workloads.WrongReply, OSError, RuntimeError) as error:
        figures.skipped.append(f"{what}: {error}"[:400])


def _sessions(peer: Peer, most: int, figures: Figures, options: Options) -> None:
    """Open sessions up to each number in turn; weigh them and time a call beside them."""
    with Child(peer, "http") as child:
        driver = SocketDriver(child, LEGACY)
        driver.open()
        driver.sequential(ECHO, 1.0, most=300)
        count, before = 1, child.memory()
        with socket.create_connection(("127.0.0.1", child.port)) as connection:
            for target in sorted(options.sessions):
                if target > most:
                    break
                begun = time.perf_counter()
                while count < target:
                    driver.new_session(connection)
                    count += 1
                took = time.perf_counter() - begun
                sample = driver.sequential(ECHO, max(options.sequential, 0.3))
                what = {"peer": peer.name, "transport": "http", "era": LEGACY, "calls": sample.calls}
                workload = f"echo beside {target} sessions"
                figures.add(
                    Figure(
                        "latency_p50",
                        workload=workload,
                        value=sample.value,
                        unit="µs",
                        seconds=sample.seconds,
                        **what,
                    )
                )
                if target >= 1000:
                    time.sleep(SETTLE)
                    weight = (child.memory() - before) / (target - 1) / 1024
                    workload = f"{target} idle sessions"
                    figures.add(
                        Figure(
                            "memory_session",
                            workload=workload,
                            value=weight,
                            unit="KiB each",
                            seconds=took,
                            **what,
                        )
                    )


def _streams(peer: Peer, figures: Figures, options: Options) -> None:
    """Open listen streams and weigh them."""
    number = options.streams
    params = {
        "_meta": workloads.modern_meta(),
        "notifications": {"toolsListChanged": True},
    }
    with Child(peer, "http") as child, ExitStack() as stack:
        driver = SocketDriver(child, MODERN)
        driver.open()
        driver.sequential(ECHO, 1.0, most=300)
        before = child.memory()
        begun = time.perf_counter()
        for id in range(number):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", child.port)))
            body = {"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}
            connection.settimeout(10)
            connection.sendall(driver.wrap(msgspec.json.encode(body), b"subscriptions/listen"))
            data = b""
            while b"acknowledged" not in data:
                chunk = connection.recv(1 << 16)
                if not chunk:
                    raise workloads.WrongReply(f"{peer.name}: stream {id} was refused: {data[:300]!r}")
                data += chunk
                if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200"):
                    raise workloads.WrongReply(f"{peer.name}: stream {id} was refused: {data[:300]!r}")
        took = time.perf_counter() - begun
        time.sleep(SETTLE)
        figures.add(
            Figure(
                "memory_stream",
                peer=peer.name,
                workload=f"{number} open listen streams",
                value=(child.memory() - before) / number / 1024,
                unit="KiB each",
                transport="http",
                era=MODERN,
                calls=number,
                seconds=took,
            )
        )
