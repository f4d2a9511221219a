"""Is our own stdio driver the bottleneck? What it reaches against a program that only hands out canned lines."""

from __future__ import annotations

import subprocess
import sys
import time

from .peers import Peer
from .pipes import PipeDriver
from .processes import Child
from .workloads import ECHO

CANNED = r"""
import os, re
reply = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"hello"}]}}\n'
find, rest = re.compile(rb'"id":(\d+)').findall, b""
while chunk := os.read(0, 1 << 20):
    whole, mark, rest = (rest + chunk).rpartition(b"\n")
    os.write(1, b"".join([reply % one for one in find(whole)]))
"""


class _Canned(Child):
    """The same pipes around a program that knows one answer."""

    def __init__(self) -> None:
        self.peer = Peer("canned", "canned replies", "", "", "")
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-c", CANNED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self.pid = self.process.pid
        self._widen()


def rate(seconds: float = 1.0) -> float:
    """Calls per second of the driver itself, 64 in flight."""
    with _Canned() as child:
        return PipeDriver(child, "").throughput(ECHO, 64, seconds).value
