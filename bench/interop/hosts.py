"""Servers for the matrix: ours and the others', over pipes and on ports."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .. import peers
from ..processes import free_port

HERE = Path(__file__).resolve().parent
EVERYTHING = (
    peers.PEERS
    / "node"
    / "node_modules"
    / "@modelcontextprotocol"
    / "server-everything"
    / "dist"
    / "index.js"
)


class Host(NamedTuple):
    """A server of another implementation."""

    name: str
    environment: str
    file: Path
    transports: tuple[str, ...]
    eras: tuple[str, ...]
    absent: Mapping[tuple[str, str, str], str] = {}
    """(transport, era, feature) the host does not offer → why; "*" stands for any."""

    def lacks(self, transport: str, era: str) -> dict[str, str]:
        return {
            feature: why
            for (where, when, feature), why in self.absent.items()
            if where in ("*", transport) and when in ("*", era)
        }

    def command(self, *arguments: str) -> list[str]:
        return [peers.interpreter(self.environment), str(self.file), *arguments]


BOTH = ("legacy", "modern")
NO_SESSION = "its HTTP handler serves legacy clients without a session"
OURS = Host("Dovetail", "", HERE / "servers" / "our_server.py", ("stdio", "http"), BOTH)
HOSTS = (
    Host("official SDK", "sdk", HERE / "servers" / "sdk_server.py", ("stdio", "http"), BOTH),
    Host(
        "FastMCP",
        "fastmcp",
        HERE / "servers" / "fastmcp_server.py",
        ("stdio", "http"),
        BOTH,
        {("*", "*", "subscribe"): "it serves no subscriptions"},
    ),
    Host(
        "TypeScript SDK",
        "node",
        HERE / "servers" / "typescript_server.mjs",
        ("stdio", "http"),
        BOTH,
        {
            ("http", "legacy", "subscribe"): NO_SESSION,
            ("http", "legacy", "sample"): NO_SESSION,
            ("http", "legacy", "elicit"): NO_SESSION,
        },
    ),
    Host("server-everything", "node", EVERYTHING, ("stdio", "http", "sse"), ("legacy",)),
)
ARGUMENTS = {"server-everything": {"http": "streamableHttp"}}


def environ(**more: str) -> dict[str, str]:
    return peers.environ(**more)


@contextmanager
def listening(host: Host, transport: str) -> Iterator[str]:
    """Run ``host`` on a port; its URL."""
    port = free_port()
    way = ARGUMENTS.get(host.name, {}).get(transport, transport)
    with running(host.command(way, str(port)), port):
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    """Run a server that listens on ``port``, from the time it does until the end of the block."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environ(PORT=str(port)),
        start_new_session=True,
    )
    try:
        _wait(process, port)
        yield
    finally:
        _end(process)


def _wait(process: subprocess.Popen[bytes], port: int, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode} while starting")
        for host in ("127.0.0.1", "::1"):
            try:
                socket.create_connection((host, port), 1).close()
                return
            except OSError:
                pass
        time.sleep(0.02)
    raise TimeoutError("the server did not listen")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
