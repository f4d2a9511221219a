"""What one ``tools/call`` costs through our app, from the server's call to the last byte it gets.

Counted in calls of our own Python functions (one that resumes after a wait counts again) and tasks, which do not
flutter with the load of the machine.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

import dovetail
from dovetail import Context, Server
from dovetail.settings import HttpOptions
from dovetail.transports.http.server.app import HttpApp
from dovetail.transports.http.server.builtin_server import ConnectionTable, HttpConnection
from tests.support.aio import run
from tests.support.rawclient import MODERN
from tests.support.schemas import validate
from tests.support.waiting import until
from tests.support.web import legacy_headers, modern, modern_headers, request

OURS = str(Path(dovetail.__file__).parent)
MODERN_CALLS = 21
SESSION_CALLS = {"2025-03-26": 35, "2025-06-18": 32, "2025-11-25": 31}
"""The oldest has more members to leave out."""
QUESTION_CALLS = {"asgi": 106, "builtin": 154}
"""One call in a session with one question: two POSTs, an event stream, three messages."""
MODERN_QUESTION_CALLS = 83
"""The same on 2026-07-28: two POSTs, a state that is sealed and opened, a handler that runs twice."""
LOCAL = "127.0.0.1:8000"
MONITOR = ("middleware/event_loop_monitor.py", "middleware/health.py", "drivers/heartbeat.py")
IDLE = cast("property", HttpConnection.idle).fget.__code__  # type: ignore[union-attr]
"""These tests ask for it."""


def serving(tools: int) -> Server:
    server = Server("budget")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def sure(ctx: Context) -> str:
        return (await ctx.elicit("sure?", bool)).action

    for number in range(tools - 2):
        server.add_tool(add, name=f"add_{number}")
    return server


class Said:
    """What came back."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []


def over_asgi(app: Any, headers: dict[str, str], body: bytes, said: Said) -> Coroutine[Any, Any, None]:
    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            said.status = message["status"]
            said.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            said.pieces.append(message["body"])

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "root_path": "", "headers": raw}
    return app({**scope, "server": ("127.0.0.1", 8000)}, receive, send)


class Wire(asyncio.Transport):
    """The socket of a client that reads everything at once."""

    def __init__(self, said: Said) -> None:
        super().__init__({"sockname": ("127.0.0.1", 8000), "peername": ("127.0.0.1", 40000)})
        self.said = said
        self.closed = False

    def write(self, data: Any) -> None:
        self.said.pieces.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


class Builtin:
    """An app of the built-in server, without sockets."""

    def __init__(self, server: Server) -> None:
        self.app = HttpApp(server.dispatcher, HttpOptions())
        self._table = ConnectionTable(self.app, "http", self.app.options, 64 << 10)
        self._wires: list[tuple[Wire, HttpConnection]] = []

    def connect(self, said: Said) -> HttpConnection:
        """A connection whose responses go to ``said``: one that is idle, or a new one."""
        for wire, connection in self._wires:
            if connection.idle and not wire.closed:
                wire.said = said
                return connection
        connection = HttpConnection(self._table)
        wire = Wire(said)
        connection.connection_made(wire)
        self._wires.append((wire, connection))
        return connection

    async def drain(self, seconds: float) -> None:
        await self.app.state.drain(seconds)


def sent(connection: HttpConnection, method: str, headers: dict[str, str], body: bytes) -> None:
    """Have ``connection`` receive one request."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    data = f"{method} /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


async def over_builtin(app: Builtin, headers: dict[str, str], body: bytes, said: Said) -> None:
    answer = Said()
    connection = app.connect(answer)
    sent(connection, "POST", headers, body)
    while not (connection.idle or connection.transport.is_closing()):
        await asyncio.sleep(0)
        if answer.pieces:
            said.pieces[:] = [b"".join(answer.pieces).partition(b"\r\n\r\n")[2]]
    head = b"".join(answer.pieces).partition(b"\r\n\r\n")[0].decode().split("\r\n")
    said.status = int(head[0].split(" ")[1])
    said.headers = dict(line.split(": ", 1) for line in head[1:])
    said.pieces[:] = [b"".join(answer.pieces).partition(b"\r\n\r\n")[2]]


FACES: dict[str, tuple[Callable[[Server], Any], Callable[..., Coroutine[Any, Any, None]]]] = {
    "asgi": (Server.asgi, over_asgi),
    "builtin": (Builtin, over_builtin),
}
EXTRA_CALLS = {"asgi": 0, "builtin": 20}
"""What reading and writing HTTP costs: eight of these are the header fields of the request."""
EXTRA_TASKS = {"asgi": 0, "builtin": 1}


class Measured:
    """One app with one interface, and the cost of its responses."""

    def __init__(self, server: Server, face: str) -> None:
        make, self._send = FACES[face]
        self.app = make(server)
        self.calls: list[str] = []
        self.tasks = 0

    def exchange(
        self, message: dict[str, Any], headers: dict[str, str], said: Said
    ) -> Coroutine[Any, Any, None]:
        body = json.dumps(message, separators=(",", ":")).encode()
        lower = {name.lower(): value for name, value in headers.items()}
        whole = {"host": LOCAL, "content-length": str(len(body)), **lower}
        return self._send(self.app, whole, body, said)

    async def post(self, message: dict[str, Any], headers: dict[str, str]) -> tuple[dict[str, str], bytes]:
        said = Said()
        await self.count(self.exchange(message, headers, said))
        return said.headers, b"".join(said.pieces)

    async def count(self, work: Coroutine[Any, Any, Any]) -> None:
        self.calls, self.tasks = [], 0

        def profile(frame: Any, event: str, argument: Any) -> None:
            # The pulse of the loop beats every tenth of a second, whatever is called meanwhile.
            if (
                event == "call"
                and frame.f_code.co_filename.startswith(OURS)
                and not frame.f_code.co_filename.endswith(MONITOR)
                and frame.f_code is not IDLE
            ):
                self.calls.append(f"{frame.f_code.co_filename[len(OURS) :]}:{frame.f_code.co_qualname}")

        def factory(loop: Any, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
            self.tasks += 1
            return asyncio.Task(coroutine, loop=loop, **options)

        loop = asyncio.get_running_loop()
        loop.set_task_factory(factory)
        sys.setprofile(profile)
        try:
            await work
        finally:
            sys.setprofile(None)
            loop.set_task_factory(None)


async def modern_cost(tools: int, face: str = "asgi") -> Measured:
    measured = Measured(serving(tools), face)
    for _ in range(3):  # what is made once is made
        message = modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        _, body = await measured.post(message, modern_headers(message))
    validate(body, MODERN, method="tools/call")
    assert json.loads(body)["result"]["content"][0]["text"] == "3"
    await measured.app.drain(0)
    return measured


async def opened(measured: Measured, revision: str) -> dict[str, str]:
    """The headers of a new session."""
    params = {
        "protocolVersion": revision,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "t", "version": "1"},
    }
    headers, _ = await measured.post(request("initialize", params), legacy_headers(None))
    session = legacy_headers(revision, headers["mcp-session-id"])
    await measured.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    return session


async def session_cost(revision: str, tools: int = 1, face: str = "asgi") -> Measured:
    measured = Measured(serving(tools), face)
    session = await opened(measured, revision)
    for _ in range(3):
        message = request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        _, body = await measured.post(message, session)
    validate(body, revision, method="tools/call")
    await measured.app.drain(0)
    return measured


async def question_cost(revision: str, face: str) -> Measured:
    measured = Measured(serving(2), face)
    session = await opened(measured, revision)

    async def ask() -> None:
        said, heard = Said(), Said()
        call = asyncio.get_running_loop().create_task(
            measured.exchange(request("tools/call", {"name": "sure"}), session, said)
        )
        await until(lambda: any(b"elicitation/create" in piece for piece in said.pieces))
        question = next(piece for piece in said.pieces if b"elicitation/create" in piece)
        id = json.loads(question[question.index(b"{") :].split(b"\n")[0])["id"]
        answer = {"action": "accept", "content": {"value": True}}
        await measured.exchange({"jsonrpc": "2.0", "id": id, "result": answer}, session, heard)
        await call
        assert heard.status == 202
        assert b"accept" in b"".join(said.pieces)

    for _ in range(3):
        await measured.count(ask())
    await measured.app.drain(0)
    return measured


async def modern_question_cost(face: str) -> list[str]:
    """The calls for an input request and its response."""
    measured = Measured(serving(2), face)
    calls: list[str] = []

    async def ask(**more: Any) -> dict[str, Any]:
        message = modern("tools/call", {"name": "sure", "arguments": {}, **more})
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {}}
        _, body = await measured.post(message, modern_headers(message))
        calls.extend(measured.calls)
        return json.loads(body)["result"]

    for _ in range(3):
        calls.clear()
        asked = await ask()
        answer = {"action": "accept", "content": {"value": True}}
        answers = dict.fromkeys(asked["inputRequests"], answer)
        reply = await ask(inputResponses=answers, requestState=asked["requestState"])
        assert reply["content"][0]["text"] == "accept"
    await measured.app.drain(0)
    return calls


@pytest.mark.parametrize("face", FACES)
def test_a_modern_call_with_one_input_request_stays_within_its_budget(face: str) -> None:
    @run
    async def scenario() -> None:
        calls = await modern_question_cost(face)
        assert len(calls) <= MODERN_QUESTION_CALLS + 2 * EXTRA_CALLS[face], "\n".join(calls)

    scenario()


@pytest.mark.parametrize("face", FACES)
def test_a_modern_call_stays_within_its_budget_and_starts_nothing(face: str) -> None:
    @run
    async def scenario() -> None:
        cost = await modern_cost(1, face)
        assert len(cost.calls) <= MODERN_CALLS + EXTRA_CALLS[face], "\n".join(cost.calls)
        assert cost.tasks == EXTRA_TASKS[face]
        assert not [name for name in cost.calls if name.startswith(("queues.py", "locks.py"))]

    scenario()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("revision", SESSION_CALLS)
def test_a_call_in_a_session_stays_within_its_budget_and_starts_nothing(revision: str, face: str) -> None:
    @run
    async def scenario() -> None:
        cost = await session_cost(revision, face=face)
        assert len(cost.calls) <= SESSION_CALLS[revision] + EXTRA_CALLS[face], "\n".join(cost.calls)
        assert cost.tasks == EXTRA_TASKS[face]

    scenario()


@pytest.mark.parametrize("face", FACES)
def test_a_call_with_one_input_request_stays_within_its_budget(face: str) -> None:
    @run
    async def scenario() -> None:
        cost = await question_cost("2025-06-18", face)
        assert len(cost.calls) <= QUESTION_CALLS[face], "\n".join(cost.calls)

    scenario()


@run
async def test_the_cost_does_not_grow_with_the_number_of_tools_or_sessions() -> None:
    few, many = await modern_cost(1), await modern_cost(200)
    assert len(few.calls) == len(many.calls)
    few, many = await session_cost("2025-11-25"), await session_cost("2025-11-25", 200)
    assert len(few.calls) == len(many.calls)


@run
async def test_a_call_is_watched_only_when_it_takes_a_while() -> None:
    measured = Measured(serving(1), "builtin")
    message = modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    for _ in range(50):
        await measured.post(message, modern_headers(message))
    disconnects = measured.app.app.stateless_handler.disconnects
    assert not disconnects.requests
    assert not disconnects.watches
    await measured.app.drain(0)
