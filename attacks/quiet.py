"""A client that calls now and then, as a process of its own: what it feels is the server, not whoever floods it.

``python -m attacks.quiet PORT SECONDS`` prints how many milliseconds each call took, as JSON.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from contextlib import suppress

from .victim import BOTH, modern, modern_headers

PAUSE = 0.005


def prefer(thread: int, level: int = 1) -> None:
    """Let it run before everything else on this machine, where that is ours to say."""
    with suppress(PermissionError):
        os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(level))


def main() -> None:
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    prefer(0)  # whoever floods shares this core
    message = modern("tools/call", {"name": "echo", "arguments": {"text": "hello"}})
    headers = {"Accept": BOTH, "Content-Type": "application/json", **modern_headers(message)}
    body, took = json.dumps(message).encode(), list[float]()
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        wire.request("POST", "/mcp", body, headers)
        answer = wire.getresponse()
        said = answer.read()
        took.append((time.monotonic() - begun) * 1000)
        if answer.status != 200:
            sys.exit(f"a quiet client was answered {answer.status} {said[:200]!r}")
        time.sleep(PAUSE)
    print(json.dumps(took))


if __name__ == "__main__":
    main()
