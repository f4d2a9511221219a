"""Pictures: charts drawn as PNG, with nothing but the standard library. ``dovetail run images.py``"""

import struct
import zlib

from dovetail import Image, Server, ToolError

server = Server("images")


def png(rows: list[bytes], width: int) -> bytes:
    """Grey pixels as a PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, len(rows), 8, 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@server.tool(annotations={"readOnlyHint": True})
def bars(values: list[float], height: int = 100) -> list[str | Image]:
    """Draw numbers as a bar chart."""
    if not 1 <= len(values) <= 100 or not 10 <= height <= 1000 or max(values) <= 0 or min(values) < 0:
        raise ToolError("give 1 to 100 numbers that are not negative, and a height of 10 to 1000")
    tops = [height - round(value / max(values) * height) for value in values]
    rows = [
        b"".join((b"\x20" if y >= top else b"\xff") * 8 + b"\xff" * 4 for top in tops) for y in range(height)
    ]
    return [
        f"{len(values)} bars, the largest is {max(values):g}",
        Image(png(rows, 12 * len(values)), format="png"),
    ]
