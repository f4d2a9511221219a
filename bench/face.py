"""``python -m bench.face``: how quick the inspector and ``dovetail dev`` are, in a real browser; fails above a bound.

First view: from the navigation to the list of tools, the best of five. Pictures: how long one takes while a thousand
messages a second pass. Swap: from the edit to the moment a connected client hears of it, and within ``dev`` itself.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.inspector.browsing import chromium, open_page, running
from tests.inspector.demo import build
from tests.inspector.test_dev import dev, write
from tests.inspector.test_panels import choose, go
from tests.inspector.test_volume import COUNTED, FRAMES

from dovetail import Client

VIEW, MIDDLE, SWAP = 300.0, 1000 / 60 + 1, 500.0
"""Milliseconds: the first view, the median picture, the median swap."""
EDITS = 7


def views(browser: Any, link: str) -> list[float]:
    page = open_page(browser, link)
    found: list[float] = []
    for _ in range(5):
        page.reload()
        page.wait_for_selector(".list li[data-key]")
        found.append(page.evaluate("performance.getEntriesByName('dovetail-drawn')[0].startTime"))
    page.context.close()
    return sorted(found)


def pictures(browser: Any, link: str) -> list[float]:
    page = open_page(browser, link)
    choose(page, "flow")
    page.fill(".editor-json textarea", '{"seconds": 6}')
    page.click(".runner button.primary")
    go(page, "messages")
    page.wait_for_function(COUNTED, arg=500)
    page.evaluate(FRAMES)
    page.wait_for_function("() => window.gaps.length > 180")
    found = sorted(page.evaluate("window.gaps"))
    page.context.close()
    return found


async def swaps(folder: Path) -> tuple[list[float], list[float]]:
    """From the edit to the client, and as ``dev`` says itself."""
    file, heard, inside, seen = folder / "notes.py", asyncio.Event(), list[float](), list[float]()
    write(file)
    async with dev(folder, "notes.py", "--port", "0", "--no-browser") as served:
        url = (await served.hear(r"serving on (\S+)"))[1]
        async with Client(url, on_list_changed=lambda kind: heard.set()) as client:
            await client.list_tools()
            for number in range(EDITS):
                heard.clear()
                begun = time.perf_counter()
                write(file, f"edit{number}", str(number))
                async with asyncio.timeout(30):
                    await heard.wait()
                seen.append((time.perf_counter() - begun) * 1000)
                said = await served.hear(r"reloaded in (\d+) ms")
                inside.append(float(re.findall(r"\d+", said[1])[0]))
    return sorted(seen), sorted(inside)


def main() -> int:
    with running(build()) as inspector, chromium() as browser:
        view, picture = views(browser, inspector.link), pictures(browser, inspector.link)
    with tempfile.TemporaryDirectory() as folder:
        seen, inside = asyncio.run(swaps(Path(folder)))
    middle = statistics.median(picture)
    late = picture[int(len(picture) * 0.99)]
    found = {
        f"first view, ms (at most {VIEW:.0f})": (view[0], VIEW),
        f"a picture at 1,000 messages/s, ms, median (at most {MIDDLE:.1f}; 99 % within {late:.1f})": (middle, MIDDLE),
        f"dev, edit to client, ms, median (at most {SWAP:.0f}; worst {seen[-1]:.0f})": (statistics.median(seen), SWAP),
        f"dev, within itself, ms, median (at most {SWAP:.0f}; worst {inside[-1]:.0f})": (
            statistics.median(inside), SWAP,
        ),
    }  # fmt: skip
    for what, (value, bound) in found.items():
        print(f"{value:8.1f}  {'  ' if value <= bound else '!!'} {what}")
    return int(any(value > bound for value, bound in found.values()))


if __name__ == "__main__":
    sys.exit(main())
