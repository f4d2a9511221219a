"""Work that takes its time: progress, a task that outlives its connection, and a clean end. `dovetail run long_job.py`

With --store, what a task has done survives the process that did it.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from dovetail import Context, Server, ToolError

ROOT = Path(os.environ.get("JOB_ROOT", ".")).resolve()
BLOCK = 1 << 20

server = Server("jobs", version="1.0.0")


@dataclass
class Sum:
    path: str
    crc: str


@server.tool(task="optional", annotations={"readOnlyHint": True, "idempotentHint": True}, timeout=3600)
async def checksums(pattern: str, ctx: Context) -> list[Sum]:
    """The checksum of every file that fits, such as **/*.iso: as a call with progress, or as a task.

    A client that leaves a call cancels it at the next file; a task continues until it is cancelled by name.
    """
    paths = [
        path for path in sorted(ROOT.glob(pattern)) if path.is_file() and path.resolve().is_relative_to(ROOT)
    ]
    if not paths:
        raise ToolError(f"No file fits {pattern}.")
    sums: list[Sum] = []
    for number, path in enumerate(paths, 1):
        name = path.relative_to(ROOT).as_posix()
        sums.append(Sum(name, await asyncio.to_thread(summed, path)))
        await ctx.report_progress(number, len(paths), name)
    return sums


def summed(path: Path) -> str:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            crc = crc32(block, crc)
    return f"{crc:08x}"
