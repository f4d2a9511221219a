"""``dovetail dev FILE[:name]``: serve a file during development, reload it after edits, and open the inspector.

A proxy keeps the connections of clients and of the page. The server runs in a child process. After an edit a new
process is started; it replaces the old one when it responds. If it fails, the old one continues and the page shows the
error.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..cli import option_sources
from ..cli.target import TargetError, split
from ..client.connecting.targets import Target, parse_target, run_command
from ..command_parser import CommandParser
from ..drivers.duplex import lifespan
from ..errors import DovetailError
from ..gateway import Proxy
from ..server.store_choice import SEAL_KEYS, STORE
from ..settings import HttpOptions, Limits
from ..telemetry.terminal_sanitizer import log_to_stderr, printable
from ..transports import main_loop, stdio
from ..transports.bind_address import BindAddress, print_line, serving_on
from ..transports.child import without_stderr
from .file_watcher import FILE_SCAN_INTERVAL, FileWatcher
from .inspect_command import add_page, show
from .inspected_server import ConnectRequest
from .inspector import Inspector
from .inspector_app import InspectorApp
from .page_hosting import served

if TYPE_CHECKING:
    from ..client.client_config import ClientOptions

LAST_OUTPUT_TIMEOUT: Final = 0.5
"""Seconds to wait for the last output of a program that ended."""
MAX_OUTPUT_SHOWN: Final = 4_000
"""Characters shown of the last output of a program."""


class Reloading:
    """The proxy for one file and its server process. ``note`` is called with failed edits.

    Raises:
        TargetError: the file does not exist, or a line of its ``.env`` is not valid.
    """

    def __init__(
        self,
        target: str,
        note: Callable[[str, Any], None],
        *,
        env_files: Sequence[Path] = (),
        arguments: Sequence[str] = (),
        log_level: str = "info",
    ) -> None:
        file, _ = split(target)
        self._target, self._note, self._arguments, self._log_level = target, note, arguments, log_level
        self.file, self._env_files = Path(file).resolve(), env_files
        if not self.file.is_file():
            raise TargetError(f"{file} does not exist")
        # Only the child uses the store: an idempotent call in both processes would wait for itself.
        self._environ = dict(os.environ)
        os.environ.pop(STORE, None)
        # What one process has sealed, such as a question that waits for its answer, the next one has to open.
        self._seal_key = secrets.token_hex(32)
        self.on_stderr: Callable[[bytes], object] = bytes
        """Called with the stderr output of the server, which is also printed."""
        self._said = ""
        self._failed = False
        """Whether the last start failed and was reported."""
        self.front = Proxy(self._command(), **self._options())
        self.front.lifecycle.wrap_lifespan(lambda inner: self._living)
        self._watched = FileWatcher(self.file, *env_files)

    @asynccontextmanager
    async def _living(self) -> AsyncGenerator[None]:
        """Watch the file while the proxy serves."""
        watching = asyncio.get_running_loop().create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    def _environment(self) -> dict[str, str]:
        try:
            found = option_sources.with_files(self._env_files, self._environ)
        except ValueError as error:
            raise TargetError(str(error)) from None
        return {SEAL_KEYS: self._seal_key} | found

    def _command(self) -> Target:
        """The command that serves the file in a child process, over its standard input and output."""
        # The child reads no .env file: `_options` has read the files that the user chose.
        options = ["--stdio", "--env-file", os.devnull, "--log-level", self._log_level]
        command = (*run_command(self._target), *options, "--", *self._arguments)
        return Target(kind="child", command=command, every_revision=True)

    def _options(self) -> ClientOptions:
        """The environment of the child process. A child that reloads would start children without end."""
        ours = {"DOVETAIL_RELOAD": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        return {"env": self._environment() | ours, "on_stderr": self._heard}

    def _heard(self, data: bytes) -> None:
        self.on_stderr(data)
        text = data.decode("utf-8", "replace")
        self._said = (self._said + text)[-MAX_OUTPUT_SHOWN:]
        if self._failed and self.front.remote.problem is not None:
            return  # the proxy retries the start; its error is already printed
        sys.stderr.write("".join(f"{printable(line)}\n" for line in text.splitlines()))

    async def _watch(self) -> None:
        """Reload after every change, until cancelled."""
        while self.front.remote.first is None and self.front.remote.problem is None:  # noqa: ASYNC110
            await asyncio.sleep(FILE_SCAN_INTERVAL)  # the first start has no event
        if self.front.remote.problem is not None:
            self._tell(self.front.remote.problem, "it cannot be started")
        while True:
            changed = await self._watched.changed()
            await self.reload(Path(changed[0]).name)

    async def reload(self, why: str) -> bool:
        """Replace the server process; return whether the new one started."""
        begun, self._said, self._failed = time.perf_counter(), "", False
        try:
            await self.front.replace(self._command(), **self._options())
        except DovetailError as error:
            await self._last_words()
            self._tell(error, "the reload failed, and the previous version continues to run")
            return False
        self._note("dev", None)
        print_line(f"dovetail: {why} changed, reloaded in {(time.perf_counter() - begun) * 1000:.0f} ms")
        return True

    async def _last_words(self) -> None:
        """Wait for the last stderr output of a process, which can arrive after its exit."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_OUTPUT_TIMEOUT):
                heard = ""
                while not heard or heard != self._said:  # the end of the output has no event
                    heard = self._said
                    await asyncio.sleep(LAST_OUTPUT_TIMEOUT / 10)

    def _tell(self, error: DovetailError, what: str) -> None:
        self._failed = True
        text = self._said.strip() or error.message
        self._note("dev", {"title": f"{self.file.name}: {what}", "text": text})
        print_line(f"dovetail: {self.file.name}: {what}\n{printable(without_stderr(error))}")


def parser() -> argparse.ArgumentParser:
    result = CommandParser(
        "dev",
        "Serve a file during development: edits are reloaded, clients stay connected.",
    )
    result.add_argument(
        "target", metavar="FILE[:name]", help="a Python file, and the name of its Server if it has several"
    )
    result.add_argument("--stdio", action="store_true", help="serve over stdio instead of HTTP")
    result.add_argument(
        "--port", type=option_sources.PORT, default=8000, help="the port of the server (default: 8000)"
    )
    option_sources.add_environment(result)
    add_page(result, "--inspector-port")
    return result


def main(command: str, arguments: list[str]) -> int:
    words, rest = option_sources.cut(arguments)
    parsing = parser()
    options = parsing.parse_args(words)
    try:
        os.environ |= option_sources.env_options(options)
        options.env_files = option_sources.files(options, split(options.target)[0])
    except (ValueError, OSError) as error:
        parsing.error(str(error))
    options.arguments = rest
    log_to_stderr()
    # Before any output: with --stdio, stdout belongs to the client.
    wire = stdio.divert() if options.stdio else None

    async def serve(stop: main_loop.Stop) -> None:
        await _serve(options, wire, stop)

    return main_loop.run(serve, threads=Limits().max_threads)


async def _serve(options: argparse.Namespace, wire: Any, stop: main_loop.Stop) -> None:
    inspector = Inspector()
    made = Reloading(options.target, inspector.note, env_files=options.env_files, arguments=options.arguments)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(lifespan(made.front.dispatcher))
        link = await stack.enter_async_context(
            InspectorApp(inspector).served(BindAddress(port=options.inspector_port))
        )
        [shown] = inspector.connect([ConnectRequest(target=parse_target(made.front), label=made.file.name)])
        made.on_stderr = shown.log_stderr
        if wire is not None:
            print_line(_places(None, link, json=options.json))
            await stdio.serve(made.front.dispatcher, wire=wire, stop=stop)
            return
        from ..transports.http.server.app import HttpApp  # with --stdio, the page is the only HTTP server

        front: Any = made.front.dispatcher  # its attributes have narrower types than the protocol
        app = HttpApp(front, HttpOptions())
        host, port = await stack.enter_async_context(served(app, BindAddress(port=options.port)))
        print_line(_places(f"http://{host}:{port}/mcp", link, json=options.json))
        show(link, options)
        await stop.wait()
        await app.state.drain(0.0)


def _places(url: str | None, link: str, *, json: bool) -> str:
    if json:
        return msgspec.json.encode({"serving": url, "inspector": link}).decode()
    return (f"{serving_on(url, json=False)}\n" if url else "") + f"The inspector is at {link}"
