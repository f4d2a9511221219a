"""The limit: what any server in this language must at least do. A bare msgspec loop, no library, no checks.

On stdio: asyncio pipes, one task per request, the arguments decoded, the answer encoded, one write for all answers of
a turn. On TCP: the same lines, the same tasks, on sockets. On HTTP: the same as a bare RSGI application on granian, or
as a bare ASGI application on uvicorn with httptools, both with uvloop. Nothing here validates anything: it is no server
to use.

It says what Dovetail says in the same exchanges, in as many bytes: structured output, the name of the server in modern
results, a state as long as a sealed one, the id of a session, events with ids and one to resume from. What is always
the same of it is written once.
"""

import asyncio
import itertools
import os
import sys
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

TOOLS = int(os.environ.get("BENCH_TOOLS", "0"))


class Frame(Struct):
    method: str | UnsetType = UNSET
    id: int | str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"{}")


class Meta(Struct):
    progressToken: int | str | UnsetType = UNSET  # noqa: N815  as on the wire


class Call(Struct):
    name: str
    arguments: Raw = Raw(b"{}")
    meta: Meta | UnsetType = msgspec.field(name="_meta", default=UNSET)
    answers: dict[str, "Consent"] | UnsetType = msgspec.field(name="inputResponses", default=UNSET)


class Ok(Struct):
    ok: bool


class Consent(Struct):
    action: str
    content: Ok


class Text(Struct):
    text: str


class Add(Struct):
    a: int
    b: int


class Customer(Struct):
    name: str
    city: str


class Line(Struct):
    sku: str
    count: int


class Order(Struct):
    customer: Customer
    lines: list[Line]


class Nested(Struct):
    order: Order


class Nap(Struct):
    seconds: float


class Block(Struct):
    text: str
    type: str = "text"


class Result(Struct, omit_defaults=True):
    content: list[Block]
    structuredContent: Any = UNSET  # noqa: N815  as on the wire
    resultType: str | UnsetType = UNSET  # noqa: N815
    meta: Raw | UnsetType = msgspec.field(name="_meta", default=UNSET)


class Reply(Struct):
    id: int | str
    result: Any
    jsonrpc: str = "2.0"


read_frame = msgspec.json.Decoder(Frame).decode
read_call = msgspec.json.Decoder(Call).decode
read = {kind: msgspec.json.Decoder(kind).decode for kind in (Text, Add, Nested, Nap, Consent)}
encode = msgspec.json.Encoder().encode
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
BASIC = ["echo", "add", "nested", "tell", "ask", "nap"]
NAMES = [*BASIC, *(f"filler_{number}" for number in range(TOOLS - len(BASIC)))][: TOOLS or None]
TOOL_LIST = [{"name": n, "description": "One of many.", "inputSchema": SCHEMA} for n in NAMES]
LISTED = Raw(encode({"tools": TOOL_LIST, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}))
INFO = {"name": "limit", "version": "1.0.0"}
NAMED = Raw(encode({"io.modelcontextprotocol/serverInfo": INFO}))
CAPABILITIES = {"tools": {}, "resources": {}, "prompts": {}}
DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": CAPABILITIES,
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
    "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
}


CANNED = {
    "tools/list": LISTED,
    "server/discover": DISCOVERED,
    "resources/list": {"resources": [{"uri": "bench://text", "name": "text"}]},
    "resources/read": {"contents": [{"uri": "bench://text", "text": "some text"}]},
    "prompts/list": {"prompts": [{"name": "greet", "arguments": [{"name": "name", "required": True}]}]},
}
QUESTION = {
    "message": "Shall I?",
    "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
}
INPUT_REQUIRED = {
    "resultType": "input_required",
    "inputRequests": {"input_1": {"method": "elicitation/create", "params": QUESTION}},
    "requestState": "v2." + "s" * 167,
    "_meta": NAMED,
}
numbers = itertools.count(1)
asked: dict[Any, asyncio.Future[Consent]] = {}


async def call(frame: Frame, out: Any, modern: bool) -> Any:
    params = read_call(frame.params)
    name = params.name
    if name == "add":
        arguments = read[Add](params.arguments)
        total = {"sum": arguments.a + arguments.b}
        return Result([Block(encode(total).decode())], total)
    if name == "nested":
        order = read[Nested](params.arguments).order
        return said(str(count := sum(line.count for line in order.lines)), count, modern)
    if name == "nap":
        await asyncio.sleep(read[Nap](params.arguments).seconds)
        return said("rested", "rested", modern)
    if name == "ask":
        if modern and params.answers is UNSET:
            return INPUT_REQUIRED
        consent = params.answers["input_1"] if modern else await question(out)
        word = "yes" if consent.action == "accept" and consent.content.ok else "no"
        return said(word, word, modern)
    text = read[Text](params.arguments).text
    if name == "tell" and params.meta is not UNSET:
        progress = {"progressToken": params.meta.progressToken, "progress": 1, "total": 1}
        out.notify(encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}))
    return said(text, text, modern)


def said(text: str, value: Any, modern: bool) -> Result:
    """A value as text and as structured output, which was an object in older revisions."""
    return Result([Block(text)], value if modern else {"result": value})


async def question(out: Any) -> Consent:
    number = next(numbers)
    future = asked[number] = asyncio.get_running_loop().create_future()
    message = {"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": QUESTION}
    await out.ask(encode(message))
    return await future


async def answer(frame: Frame, out: Any, modern: bool = False) -> bytes:
    if frame.method == "tools/call":
        result: Any = await call(frame, out, modern)
        if modern and result is not INPUT_REQUIRED:
            result.resultType, result.meta = "complete", NAMED
    elif frame.method == "initialize":
        version = msgspec.json.decode(frame.params)["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO}
    elif frame.method == "prompts/get":
        name = msgspec.json.decode(frame.params)["arguments"]["name"]
        said = {"role": "user", "content": {"type": "text", "text": f"Say hello to {name}."}}
        result = {"messages": [said]}
    else:
        result = CANNED.get(frame.method, {})
    return encode(Reply(frame.id, result))  # type: ignore[arg-type]


class Lines(asyncio.Protocol):
    """Lines in, a task each, lines out: those that are ready in one turn of the loop in one write."""

    def __init__(self) -> None:
        self.rest = b""
        self.ready: list[bytes] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.out: Any = None

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            frame = read_frame(line)
            if frame.method is UNSET:
                asked.pop(frame.id).set_result(read[Consent](frame.result))
            elif frame.id is not UNSET:
                task = asyncio.ensure_future(self.run(frame, b"2026-07-28" in line))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    async def run(self, frame: Frame, modern: bool) -> None:
        self.notify(await answer(frame, self, modern))

    def notify(self, message: bytes) -> None:
        if not self.ready:
            asyncio.get_running_loop().call_soon(self.flush)
        self.ready.append(message)

    def flush(self) -> None:
        ready, self.ready = self.ready, []
        self.out.write(b"\n".join(ready) + b"\n")

    async def ask(self, message: bytes) -> None:
        self.notify(message)


class Pipes(Lines):
    def __init__(self) -> None:
        super().__init__()
        self.over = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: BaseException | None) -> None:
        if not self.over.done():
            self.over.set_result(None)


class Socket(Lines):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.out = transport


async def over_stdio() -> None:
    loop = asyncio.get_running_loop()
    pipes = Pipes()
    pipes.out, _ = await loop.connect_write_pipe(asyncio.Protocol, sys.stdout)
    await loop.connect_read_pipe(lambda: pipes, sys.stdin)
    await pipes.over


async def over_tcp(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Socket, "127.0.0.1", port)
    await server.serve_forever()


SESSION = "v2." + "s" * 235
JSON_LINES = [("content-type", "application/json")]
OPENED_LINES = [*JSON_LINES, ("mcp-session-id", SESSION)]
STREAM_LINES = [
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
]
JSON, OPENED, STREAM = (
    [(name.encode(), value.encode()) for name, value in lines]
    for lines in (JSON_LINES, OPENED_LINES, STREAM_LINES)
)
EVENT = b"data: %b\n\n"
NUMBERED = b"id: 0123abcd-%d.%d\n" + EVENT
PRIMER = b"id: 0123abcd-%d.0\nretry: 1000\n" + EVENT % b""
streams = itertools.count(1)


class Events:
    """The events of one POST: in a session they have ids, and a first one to resume from."""

    def __init__(self, modern: bool) -> None:
        self.modern = modern
        self.told = b""
        self.stream = self.written = 0

    def notify(self, message: bytes) -> None:
        """What is told goes out with the reply."""
        self.told += self.event(message)

    def event(self, message: bytes) -> bytes:
        if self.modern:
            return EVENT % message
        if not self.written:
            self.stream = next(streams)
            self.written = 1
            return PRIMER % self.stream + NUMBERED % (self.stream, 1, message)
        self.written += 1
        return NUMBERED % (self.stream, self.written, message)


class Exchange(Events):
    """A question goes out at once."""

    def __init__(self, send: Any, modern: bool) -> None:
        super().__init__(modern)
        self.send = send
        self.begun = False

    async def ask(self, message: bytes) -> None:
        self.begun = True
        await self.send({"type": "http.response.start", "status": 200, "headers": STREAM})
        await self.send({"type": "http.response.body", "body": self.event(message), "more_body": True})


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message["body"]
        if not message["more_body"]:
            break
    if scope["method"] != "POST":
        await send({"type": "http.response.start", "status": 405, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        return
    frame = read_frame(body)
    if frame.id is UNSET or frame.method is UNSET:
        if frame.id is not UNSET:
            asked.pop(frame.id).set_result(read[Consent](frame.result))
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        return
    modern = False
    for name, value in scope["headers"]:
        if name == b"mcp-protocol-version":
            modern = value == b"2026-07-28"
    exchange = Exchange(send, modern)
    reply = await answer(frame, exchange, modern)
    if exchange.told or exchange.begun:
        if not exchange.begun:
            await send({"type": "http.response.start", "status": 200, "headers": STREAM})
        await send({"type": "http.response.body", "body": exchange.told + exchange.event(reply)})
        return
    lines = OPENED if frame.method == "initialize" else JSON
    headers = [*lines, (b"content-length", b"%d" % len(reply))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply})


class RsgiExchange(Events):
    """The same over RSGI."""

    def __init__(self, protocol: Any, modern: bool) -> None:
        super().__init__(modern)
        self.protocol = protocol
        self.response: Any = None

    async def ask(self, message: bytes) -> None:
        self.response = self.protocol.response_stream(200, STREAM_LINES)
        await self.response.send_bytes(self.event(message))


async def rsgi(scope: Any, protocol: Any) -> None:
    if scope.method != "POST":
        protocol.response_empty(405, [])
        return
    frame = read_frame(await protocol())
    if frame.id is UNSET or frame.method is UNSET:
        if frame.id is not UNSET:
            asked.pop(frame.id).set_result(read[Consent](frame.result))
        protocol.response_empty(202, [])
        return
    modern = scope.headers.get("mcp-protocol-version") == "2026-07-28"
    exchange = RsgiExchange(protocol, modern)
    reply = await answer(frame, exchange, modern)
    if exchange.response is not None:
        await exchange.response.send_bytes(exchange.told + exchange.event(reply))
    elif exchange.told:
        protocol.response_bytes(200, STREAM_LINES, exchange.told + exchange.event(reply))
    else:
        protocol.response_bytes(200, OPENED_LINES if frame.method == "initialize" else JSON_LINES, reply)


class Behind(asyncio.Protocol):
    """One connection to a server behind: a request, then its answer, whose length is said."""

    transport: asyncio.Transport
    waiting: asyncio.Future[bytes]

    def __init__(self) -> None:
        self.data = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        head = self.data.find(b"\r\n\r\n") + 4
        if head < 4:
            return
        at = self.data.lower().index(b"content-length:") + 15
        if len(self.data) >= head + int(self.data[at : self.data.index(b"\r\n", at)]):
            body, self.data = self.data[head:], b""
            self.waiting.set_result(body)


spare: list[Behind] = []
PASSED = ("content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name")


async def pass_on(scope: Any, protocol: Any) -> None:
    """One hop: the body as it is goes to the server at ``BENCH_BEHIND``, and its answer back."""
    body, loop = await protocol(), asyncio.get_running_loop()
    place = os.environ["BENCH_BEHIND"].removeprefix("http://").partition("/")[0]
    if spare:
        connection = spare.pop()
    else:
        host, _, port = place.partition(":")
        _, connection = await loop.create_connection(Behind, host, int(port))
    lines = "".join(f"{name}: {scope.headers.get(name)}\r\n" for name in PASSED if name in scope.headers)
    head = f"POST /mcp HTTP/1.1\r\nhost: {place}\r\n{lines}content-length: {len(body)}\r\n\r\n"
    connection.waiting = loop.create_future()
    connection.transport.write(head.encode() + body)
    reply = await connection.waiting
    spare.append(connection)
    protocol.response_bytes(200, JSON_LINES, reply)


async def over_granian(port: int) -> None:
    import signal

    from granian.constants import HTTPModes
    from granian.server.embed import Server

    target = pass_on if "BENCH_BEHIND" in os.environ else rsgi
    server = Server(
        target, port=port, http=HTTPModes.http1, log_enabled=False, backlog=2048, backpressure=10_000
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop)
    await server.serve()


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        asyncio.run(over_stdio())
    elif sys.argv[1] == "tcp":
        asyncio.run(over_tcp(int(sys.argv[2])))
    elif sys.argv[3:] != ["uvicorn"]:
        import uvloop

        uvloop.run(over_granian(int(sys.argv[2])))
    else:
        import uvicorn

        uvicorn.run(
            app,
            host="127.0.0.1",
            port=int(sys.argv[2]),
            log_level="error",
            access_log=False,
            http="httptools",
            loop="uvloop",
        )
