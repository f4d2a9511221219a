"""Measure the memory that an object holds, for tests of limits and leaks."""

import gc
import os
import sys
from collections import deque
from types import MethodType
from typing import Any

import msgspec

CONTAINERS = (dict, list, tuple, set, frozenset, deque)
OURS = ("dovetail", "bench", "tests")


def held(root: Any) -> int:
    """Bytes of everything that can be reached from ``root`` through containers and objects of ours."""
    seen: set[int] = set()
    waiting = [root]
    total = 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        # The size that a Raw reports is wrong.
        total += memoryview(one).nbytes if isinstance(one, msgspec.Raw) else sys.getsizeof(one)
        if isinstance(one, type):
            continue
        if isinstance(one, (*CONTAINERS, MethodType, msgspec.Struct)) or _is_ours(type(one)):
            waiting += gc.get_referents(one)
    return total


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in OURS


def descriptors() -> int:
    """How many files and sockets this process has open."""
    return len(os.listdir("/dev/fd"))
