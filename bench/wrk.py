"""Is our own HTTP driver the bottleneck? The same load by wrk, where it is installed, next to it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .peers import LIMIT, MODERN
from .processes import Child
from .sockets import SocketDriver
from .workloads import ECHO, FIRST_ID

SECONDS = 3


def compare() -> tuple[float, float | None]:
    """Calls per second against the bare app: by our driver, and by wrk if it is there."""
    with Child(LIMIT, "http") as child:
        driver = SocketDriver(child, MODERN)
        driver.open()
        driver.throughput(ECHO, 64, 0.5)
        own = driver.throughput(ECHO, 64, SECONDS).value
        return own, _by_wrk(driver, child.port)


def _by_wrk(driver: SocketDriver, port: int) -> float | None:
    if shutil.which("wrk") is None:
        return None
    head, _, body = (driver.template(ECHO) % FIRST_ID).partition(b"\r\n\r\n")
    lines = [f'wrk.method = "POST"\nwrk.body = {_lua(body)}']
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b": ")
        if name.lower() not in (b"host", b"content-length"):
            lines.append(f"wrk.headers[ {_lua(name)} ] = {_lua(value)}")
    with tempfile.NamedTemporaryFile("w", suffix=".lua", delete=False) as script:
        script.write("\n".join(lines) + "\n")
    command = ["wrk", "-t1", "-c64", f"-d{SECONDS}s", "-s", script.name, f"http://127.0.0.1:{port}/mcp"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 20)
    finally:
        Path(script.name).unlink()
    found = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    if found is None or "Non-2xx" in done.stdout:
        raise RuntimeError(f"wrk: {done.stdout[-400:]}{done.stderr[-400:]}")
    return float(found[1])


def _lua(value: bytes) -> str:
    text = value.decode()
    return "[==[" + text + "]==]"
