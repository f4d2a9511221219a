"""A project as the pages of docs/deploy/ make it, and its server as the platforms start it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dovetail.cli.main import main
from tests.support.rawclient import META, MODERN
from tests.support.waiting import HANG

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "deploy"
FILE = re.compile(r"^`([\w./-]+)`[^\n]*:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)


def files(page: str) -> dict[str, str]:
    """The files that a page shows, by path."""
    return dict(FILE.findall((PAGES / page).with_suffix(".md").read_text()))


def create(folder: Path, page: str, target: str | None = None) -> Path:
    """A new project in ``folder``, with the files of a page."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["new", "my-notes", *([] if target is None else ["--target", target])]) == 0
    finally:
        os.chdir(before)
    project = folder / "my-notes"
    for path, text in files(page).items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    return project


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile and their arguments, without comments."""
    lines = [line for line in dockerfile.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def environment(dockerfile: str) -> dict[str, str]:
    """What its ENV instructions set."""
    set_ = [pair for word, rest in instructions(dockerfile) if word == "ENV" for pair in rest.split()]
    return dict(pair.split("=", 1) for pair in set_)


def command(dockerfile: str) -> list[str]:
    """Its CMD."""
    return json.loads(dict(instructions(dockerfile))["CMD"])


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The messages of an event stream."""
        lines = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line]


class Running(NamedTuple):
    """A server process on a port of loopback."""

    port: int
    line: str
    process: subprocess.Popen[str]

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> Reply:
        """Send one request on a connection for it alone."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, dict(headers or {}))
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()


ENDED = (0, -signal.SIGTERM)
SERVING = re.compile(r"http://[\w.\[\]:]+?:(\d+)")


@contextmanager
def started(
    words: Sequence[str], folder: Path, env: Mapping[str, str] | None = None, *, status: Sequence[int] = (0,)
) -> Iterator[Running]:
    """Start ``words`` in ``folder`` on a free port; SIGTERM ends it with one of ``status``."""
    if words[0] == "dovetail":
        words = [sys.executable, "-m", "dovetail.cli.main", *words[1:]]
    elif words[0] == "python":
        words = [sys.executable, *words[1:]]
    full = {**os.environ, "PORT": "0", **(env or {})}
    with subprocess.Popen(words, cwd=folder, env=full, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := SERVING.search(line):
                    break
            else:
                raise AssertionError("the server did not start")
            log: list[str] = []
            reader = threading.Thread(target=log.extend, args=(process.stderr,))
            reader.start()  # a full pipe would stop the server
            yield Running(int(found[1]), line, process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(HANG) in status, log
        finally:
            process.kill()
        reader.join()


JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def modern(name: str, **arguments: Any) -> tuple[dict[str, str], Any]:
    """The headers and the body of a ``tools/call`` of 2026-07-28."""
    meta = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientInfo": {"name": "test", "version": "1"},
        f"{META}clientCapabilities": {},
    }
    params = {"name": name, "arguments": arguments, "_meta": meta}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": name}
    return JSON | headers, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def legacy(method: str, params: Any = None, revision: str = "2025-11-25") -> tuple[dict[str, str], Any]:
    """The headers and the body of a request of an older revision; a notification without params has no id."""
    message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    headers = {} if method == "initialize" else {"MCP-Protocol-Version": revision}
    return JSON | headers, message if method.startswith("notifications/") else message | {"id": 1}


def initialize(revision: str = "2025-11-25") -> tuple[dict[str, str], Any]:
    info = {"name": "test", "version": "1"}
    return legacy("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": info})


def takes_a_note(server: Running, extra: Mapping[str, str] | None = None) -> None:
    """Call a tool on the newest revision."""
    headers, body = modern("add_note", title="Tea", text="Green")
    reply = server.ask("POST", "/mcp", headers | dict(extra or {}), body)
    assert reply.status == 200, reply.body
    assert reply.message["result"]["content"][0]["text"] == "1 notes"
