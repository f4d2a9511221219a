"""Pictures for a model: charts and colours drawn as PNG, by hand, without a library. `dovetail run images.py`"""

import struct
import zlib
from dataclasses import dataclass
from typing import Annotated

from dovetail import Image, Server, ToolError

WIDE = 1024
BARS = 64
BACKGROUND, INK = (255, 255, 255), (70, 90, 160)

server = Server("images", version="1.0.0")
Pixel = tuple[int, int, int]


@dataclass
class Bar:
    name: str
    value: float


def png(rows: list[list[Pixel]]) -> bytes:
    """Rows of pixels as a PNG: a head, one packed block, an end."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    raw = b"".join(b"\0" + bytes(part for pixel in row for part in pixel) for row in rows)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    )


def colour_of(text: str) -> Pixel:
    try:
        red, green, blue = bytes.fromhex(text.removeprefix("#"))
    except ValueError:
        raise ToolError(f"{text!r} is no colour; write one like #4659a0.") from None
    return red, green, blue


@server.tool(annotations={"readOnlyHint": True})
def swatch(colour: Annotated[str, "Such as #4659a0"], size: int = 64) -> Image:
    """A square of one colour."""
    if not 1 <= size <= WIDE:
        raise ToolError(f"The size lies between 1 and {WIDE}.")
    return Image(data=png([[colour_of(colour)] * size] * size), mime_type="image/png")


@server.tool(annotations={"readOnlyHint": True})
def bars(values: list[Bar], height: Annotated[int, "In pixels"] = 120) -> tuple[str, Image]:
    """A bar chart, with a line of text for models without vision."""
    if not 1 <= len(values) <= BARS or any(one.value < 0 for one in values):
        raise ToolError(f"A chart has 1 to {BARS} bars, none below zero.")
    if not 10 <= height <= WIDE:
        raise ToolError(f"The height lies between 10 and {WIDE}.")
    most = max(one.value for one in values) or 1
    tall = [round(one.value / most * (height - 4)) for one in values]
    rows = [
        [
            INK if x % 16 >= 4 and height - y <= tall[x // 16] + 2 else BACKGROUND
            for x in range(16 * len(tall))
        ]
        for y in range(height)
    ]
    words = ", ".join(f"{one.name} {one.value:g}" for one in values)
    return words, Image(data=png(rows), mime_type="image/png")
