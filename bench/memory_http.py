"""What open things cost: idle legacy sessions and open listen streams, in bytes of resident memory each.

    python -m bench.memory_http [count]

The server runs in a separate process, so that nothing of the client is counted. Prints one JSON line per
measurement and fails when one exceeds its limit.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SERVER = """
import sys
from dovetail import Server
server = Server("memory")

@server.tool
async def add(a: int, b: int) -> int:
    return a + b

server.run("http", port=int(sys.argv[1]))
"""

LIMITS = {"idle legacy session": 8 << 10, "open listen stream": 40 << 10}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
BOTH = "application/json, text/event-stream"
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"sampling": {}, "roots": {"listChanged": True}},
    "clientInfo": {"name": "memory", "version": "1"},
}


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def post(port: int, message: dict[str, Any], **headers: str) -> tuple[socket.socket, bytes]:
    """Send one POST on a separate connection and return it with the first bytes that come back."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    lines = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        "Accept": BOTH,
        "Content-Length": str(len(body)),
        **headers,
    }
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    head = (
        "POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection, connection.recv(65536)


def open_session(port: int) -> None:
    connection, answer = post(port, {"id": 1, "method": "initialize", "params": INITIALIZE})
    connection.close()
    lines = answer.decode().split("\r\n")
    (session,) = (line.partition(": ")[2] for line in lines if line.startswith("mcp-session-id"))
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    connection, answer = post(port, {"method": "notifications/initialized"}, **headers)
    assert b"202" in answer, answer
    connection.close()
    connection, answer = post(port, {"id": 2, "method": "tools/list"}, **headers)
    assert b"200" in answer, answer
    connection.close()


def open_listen(port: int) -> socket.socket:
    params = {"notifications": {"toolsListChanged": True}, "_meta": META}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
    connection, answer = post(port, {"id": 1, "method": "subscriptions/listen", "params": params}, **headers)
    assert b"text/event-stream" in answer, answer
    return connection


def measure(count: int) -> dict[str, float]:
    """Bytes for each open thing, by name."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(port)], stderr=subprocess.DEVNULL)
    try:
        _wait(port)
        for _ in range(50):  # what is made once is made
            open_session(port)
            open_listen(port).close()
        found: dict[str, float] = {}
        before = resident(server.pid)
        for _ in range(count):
            open_session(port)
        found["idle legacy session"] = (resident(server.pid) - before) / count
        before = resident(server.pid)
        streams = [open_listen(port) for _ in range(count)]
        time.sleep(0.5)
        found["open listen stream"] = (resident(server.pid) - before) / count
        for stream in streams:
            stream.close()
        return found
    finally:
        server.terminate()
        server.wait(15)


def _wait(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server did not start")


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    failed = False
    for name, each in measure(count).items():
        print(json.dumps({"what": name, "count": count, "bytes_each": round(each), "limit": LIMITS[name]}))
        failed = failed or each > LIMITS[name]
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
