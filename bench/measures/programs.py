"""Figures that only a program in the peer's own environment can give: clients, and servers without a transport."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from .. import peers
from ..peers import DOVETAIL, LIMIT, MINIMCP, SDK, Peer
from ..processes import Child
from ..rounds import Options, interleave, say
from ..samples import Figure, Figures, Sample, figure

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
TIME = 120.0


def run(peer: Peer, program: str, *arguments: str) -> dict[str, float]:
    """Run a program of ``bench/programs`` and read the JSON object it prints."""
    command = [peers.interpreter(peer.environment), str(PROGRAMS / program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME, env=peers.environ())
    if done.returncode:
        raise RuntimeError(f"{program}: {done.stderr[-400:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def handle(figures: Figures, options: Options) -> None:
    """``server.handle`` and MiniMCP's: bytes in, bytes out, no transport."""
    say("handle: bytes in, bytes out")
    cases = {
        peer.name: _handle(peer, program, options)
        for peer, program in ((DOVETAIL, "dovetail_handle.py"), (MINIMCP, "minimcp_handle.py"))
    }
    for name, samples in interleave(cases, options.rounds, figures.skipped).items():
        figures.add(
            figure(
                samples,
                measure="handle",
                peer=name,
                workload="add",
                unit="µs of CPU per call",
                transport="none",
            )
        )


def _handle(peer: Peer, program: str, options: Options) -> Callable[[], Sample]:
    def once() -> Sample:
        found = run(peer, program, str(options.client))
        return Sample(found["cpu_us"], int(found["calls"]), found["seconds"])

    return once


CLIENTS = ((DOVETAIL, "dovetail_client.py"), (SDK, "sdk_client.py"))


def clients(figures: Figures, options: Options) -> None:
    """Our client and the official one against the same bare server."""
    say("clients: one by one, and 64 at once")
    with ExitStack() as stack:
        web = stack.enter_context(Child(LIMIT, "http"))
        web.wait_for_port()
        targets = {
            "stdio": peers.command(LIMIT, "stdio"),
            "http": [f"http://127.0.0.1:{web.port}/mcp"],
        }
        cases: dict[tuple[str, str, str], Callable[[], Sample]] = {}
        for peer, program in CLIENTS:
            for transport, target in targets.items():
                for era in ("legacy", "modern"):
                    cases[peer.name, transport, era] = _client(peer, program, transport, era, target, options)
        found = interleave(cases, options.rounds, figures.skipped)
        if options.clients:
            _many(figures, options, web.port)
    for (name, transport, era), samples in found.items():
        revision = peers.MODERN if era == "modern" else peers.LEGACY
        what = {"peer": name, "workload": "echo", "transport": transport, "era": revision}
        figures.add(figure(samples, measure="client_rate_1", unit="calls/s", **what))
        many = [Sample(one.extra["rate_64"], int(one.extra["calls_64"]), one.seconds) for one in samples]
        figures.add(figure(many, measure="client_rate_64", unit="calls/s", **what))


def _client(
    peer: Peer, program: str, transport: str, era: str, target: list[str], options: Options
) -> Callable[[], Sample]:
    def once() -> Sample:
        found = run(peer, program, transport, era, str(options.client), *target)
        return Sample(found["rate_1"], int(found["calls_1"]), options.client, found)

    return once


def _many(figures: Figures, options: Options, port: int) -> None:
    # The official client opens fourteen a second, one after the other: two hundred say enough.
    for (peer, program), count in zip(CLIENTS, (options.clients, min(options.clients, 200)), strict=True):
        say(f"clients: {count} of {peer.name} open in one process")
        try:
            found = run(peer, program, "many", "legacy", str(count), f"http://127.0.0.1:{port}/mcp")
        except (RuntimeError, subprocess.TimeoutExpired, IndexError) as error:
            figures.skipped.append(f"{count} clients of {peer.name}: {error}"[:400])
            continue
        for measure, unit in (("client_tasks", "tasks each"), ("client_memory", "KiB each")):
            figures.add(
                Figure(
                    measure,
                    peer.name,
                    "open clients",
                    found[measure],
                    unit,
                    transport="http",
                    era=peers.LEGACY,
                    calls=count,
                    seconds=found["seconds"],
                )
            )
