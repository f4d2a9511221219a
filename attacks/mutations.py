"""Recorded conversations, and ways to spoil them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

TRANSCRIPTS = Path(__file__).parents[1] / "tests" / "transcripts"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
STRANGE: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1e308,
    2**63,
    2**64,
    "",
    "\0",
    "é\u202e",
    [],
    {},
    [[]],
    {"": {}},
    "x" * 5000,
)
BYTES = (
    b"\0",
    b"\xff",
    b"\n",
    b"\r\n",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"\\ud800",
    b"\xef\xbb\xbf",
    b" ",
)


def conversations(side: str) -> dict[str, list[list[bytes]]]:
    """Revision → what one side (``C`` or ``S``) said in each recorded conversation."""
    return {revision: list(_spoken(revision, side)) for revision in (*LEGACY, MODERN)}


def _spoken(revision: str, side: str) -> Iterator[list[bytes]]:
    for path in sorted((TRANSCRIPTS / revision).glob("*.txt")):
        lines = re.findall(rf"^{side}> (.+)$", path.read_text(), re.MULTILINE)
        if lines:
            yield [line.encode() for line in lines]


def spoil(message: bytes, random: Random) -> bytes:
    """The message with something wrong in it; now and then nothing at all."""
    way = random.randrange(10)
    if way == 0:
        return message
    if way < 6:
        return _spoil_values(message, random)
    data = bytearray(message)
    for _ in range(random.choice((1, 1, 2, 8))):
        _spoil_bytes(data, random)
    return bytes(data).replace(b"\n", b" ")


def _spoil_bytes(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data) + 1)
    match random.randrange(6):
        case 0 if at < len(data):
            data[at] ^= 1 << random.randrange(8)
        case 1:
            data[at:at] = random.choice(BYTES) * random.choice((1, 1, 1, 300))
        case 2:
            del data[at : at + random.randrange(1, 20)]
        case 3:
            data[at:at] = data[at : at + random.randrange(1, 200)]
        case 4:
            del data[at:]
        case _:
            data[at : at + 4] = random.randbytes(4)


def _spoil_values(message: bytes, random: Random) -> bytes:
    try:
        value = json.loads(message)
    except ValueError:
        return message
    for _ in range(random.choice((1, 1, 2))):
        value = _replaced(value, random)
    return json.dumps(value, ensure_ascii=random.random() < 0.5).encode(errors="replace")


def _replaced(value: Any, random: Random) -> Any:
    """A copy with one member replaced, dropped, doubled or renamed, at a random depth."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(list(value))
        match random.randrange(8):
            case 0:
                return {k: v for k, v in value.items() if k != key}
            case 1:
                return {**value, key + random.choice(("", "x", "\0", "é")): random.choice(STRANGE)}
            case 2:
                return {**value, str(random.choice(STRANGE))[:100]: value[key]}
            case _:
                return {**value, key: _replaced(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        match random.randrange(4):
            case 0:
                return value * random.choice((2, 50))
            case 1:
                return value[:at] + value[at + 1 :]
            case _:
                return [*value[:at], _replaced(value[at], random), *value[at + 1 :]]
    return random.choice(STRANGE)


def pieces(data: bytes, random: Random) -> Iterator[bytes]:
    """The bytes in a few writes, cut anywhere."""
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.choice((0, 0, 1, 3))))
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        yield data[start:end]
