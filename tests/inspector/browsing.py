"""A real browser with a real inspector, which runs in a separate thread."""

import asyncio
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dovetail import Server
from dovetail.client.connecting.targets import parse_target
from dovetail.inspector import Inspector, InspectorApp
from dovetail.inspector.inspected_server import ConnectRequest
from dovetail.transports.bind_address import BindAddress
from tests.support.waiting import HANG

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PICTURES = Path(__file__).resolve().parents[2] / "results" / "inspector"


class Running:
    """An inspector that is served; `link` opens it."""

    def __init__(self) -> None:
        self.inspector = Inspector()
        self.link = ""
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()

    @property
    def origin(self) -> str:
        return self.link.partition("/?")[0]

    def run(self, ready: Future[None]) -> None:
        async def main() -> None:
            async with InspectorApp(self.inspector).served(BindAddress(port=0)) as self.link:
                ready.set_result(None)
                await self._stop.wait()

        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(main())
        self._loop.close()

    def connect(self, target: Any, label: str = "demo") -> int:
        """Look at one more server."""

        async def inside() -> int:
            connection = self.inspector.connect([ConnectRequest(target=parse_target(target), label=label)])[0]
            await connection.opened()
            return connection.id

        return asyncio.run_coroutine_threadsafe(inside(), self._loop).result(HANG)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)


@contextmanager
def running(*servers: Server) -> Iterator[Running]:
    made = Running()
    ready: Future[None] = Future()
    thread = threading.Thread(target=made.run, args=(ready,), daemon=True)
    thread.start()
    ready.result(HANG)
    try:
        for server in servers:
            made.connect(server, server.name)
        yield made
    finally:
        made.stop()
        thread.join(HANG)


@contextmanager
def chromium(**options: Any) -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: Any, link: str, **options: Any) -> Any:
    """A separate page, which fails the test when a script of it does."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}, **options).new_page()
    page.set_default_timeout(1000 * HANG)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("dialog", lambda dialog: (page.problems.append(dialog.message), dialog.dismiss()))
    page.goto(link)
    return page


def picture(page: Any, name: str) -> None:
    """Keep what it looks like, for the docs."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")


def filter_messages(page: Any, method: str, least: int = 2) -> None:
    """Show the messages of ``method`` alone, and wait until the list has no other and at least ``least``."""
    page.fill('[aria-label="Filter messages"]', method)
    page.wait_for_function(
        "([method, least]) => { const shown = [...document.querySelectorAll('.frame .method')];"
        " return shown.length >= least && shown.every((each) => each.innerText === method); }",
        arg=[method, least],
    )
