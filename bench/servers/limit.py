"""The limit: what any server in this language must at least do. A bare msgspec loop, no library, no checks.

stdio: bare pipes, one task per request, the arguments decoded, the reply encoded, one write for all replies of a
loop iteration. TCP: the same lines and tasks on sockets. HTTP: the same on uvloop sockets with httptools. Nothing
here validates a message, so it is not a server to use.

It sends what Dovetail sends in the same exchanges, in as many bytes: structured output, the name of the server in
modern results, a state as long as a sealed one, a session id, events with ids. Constant parts are encoded once.
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
    """stdin and stdout, read and written without a transport of asyncio: that would cost 10 µs a call."""

    def __init__(self) -> None:
        super().__init__()
        self.out = self
        self.over = asyncio.get_running_loop().create_future()

    def readable(self) -> None:
        data = os.read(0, 1 << 16)
        if data:
            self.data_received(data)
        elif not self.over.done():
            self.over.set_result(None)

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]


class Socket(Lines):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.out = transport


async def over_stdio() -> None:
    pipes = Pipes()
    asyncio.get_running_loop().add_reader(0, pipes.readable)
    await pipes.over


async def over_tcp(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Socket, "127.0.0.1", port)
    await server.serve_forever()


SESSION = b"v2." + b"s" * 235
EVENT = b"data: %b\n\n"
NUMBERED = b"id: 0123abcd-%d.%d\n" + EVENT
PRIMER = b"id: 0123abcd-%d.0\nretry: 1000\n" + EVENT % b""
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
OPENED = JSON.replace(b"content-length", b"mcp-session-id: %b\r\ncontent-length" % SESSION)
EMPTY = b"HTTP/1.1 %d -\r\ncontent-length: 0\r\n\r\n"
STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
streams = itertools.count(1)


class Events:
    """The response to one POST. In a legacy session, events have ids, and the first one only carries an id."""

    def __init__(self, transport: Any, modern: bool) -> None:
        self.transport = transport
        self.modern = modern
        self.waiting = b""
        self.started = False
        self.stream = self.written = 0

    def notify(self, message: bytes) -> None:
        """Send a notification together with the reply."""
        self.waiting += self.event(message)

    async def ask(self, message: bytes) -> None:
        """Send a request to the client at once."""
        self.write(self.event(message))

    def write(self, data: bytes) -> None:
        head = b"" if self.started else STREAM
        self.started = True
        self.transport.write(b"%b%x\r\n%b\r\n" % (head, len(data), data))

    def reply(self, message: bytes) -> None:
        self.write(self.waiting + self.event(message))
        self.transport.write(b"0\r\n\r\n")

    def event(self, message: bytes) -> bytes:
        if self.modern:
            return EVENT % message
        if not self.written:
            self.stream = next(streams)
            self.written = 1
            return PRIMER % self.stream + NUMBERED % (self.stream, 1, message)
        self.written += 1
        return NUMBERED % (self.stream, self.written, message)


class Http(asyncio.Protocol):
    """One connection: one request after the other, a task each."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        import httptools  # over stdio and TCP nothing loads it

        self.parser = httptools.HttpRequestParser(self)
        self.body = b""
        self.modern = False
        self.task: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"mcp-protocol-version":
            self.modern = value == b"2026-07-28"

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        body, modern, self.body, self.modern = self.body, self.modern, b"", False
        self.task = asyncio.ensure_future(self.run(body, modern))

    async def run(self, body: bytes, modern: bool) -> None:
        if not body:
            self.transport.write(EMPTY % 405)
            return
        frame = read_frame(body)
        if frame.id is UNSET or frame.method is UNSET:
            if frame.id is not UNSET:
                asked.pop(frame.id).set_result(read[Consent](frame.result))
            self.transport.write(EMPTY % 202)
            return
        events = Events(self.transport, modern)
        reply = await answer(frame, events, modern)
        if events.waiting or events.started:
            events.reply(reply)
        else:
            template = OPENED if frame.method == "initialize" else JSON
            self.transport.write(template % (len(reply), reply))


class Upstream(asyncio.Protocol):
    """One connection to an upstream server: a request, then its response of known length."""

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


spare: list[Upstream] = []
FORWARDED = (b"content-type", b"accept", b"mcp-protocol-version", b"mcp-method", b"mcp-name")


class Hop(Http):
    """Forward each body unread to the server at ``BENCH_BEHIND``, and its response back."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in FORWARDED:
            self.lines += b"%b: %b\r\n" % (name, value)

    async def run(self, body: bytes, modern: bool) -> None:
        lines, self.lines = self.lines, b""
        loop = asyncio.get_running_loop()
        address = os.environ["BENCH_BEHIND"].removeprefix("http://").partition("/")[0]
        if spare:
            connection = spare.pop()
        else:
            host, _, port = address.partition(":")
            _, connection = await loop.create_connection(Upstream, host, int(port))
        head = b"POST /mcp HTTP/1.1\r\nhost: %b\r\n%bcontent-length: %d\r\n\r\n"
        connection.waiting = loop.create_future()
        connection.transport.write(head % (address.encode(), lines, len(body)) + body)
        reply = await connection.waiting
        spare.append(connection)
        self.transport.write(JSON % (len(reply), reply))


async def over_http(port: int) -> None:
    protocol = Hop if "BENCH_BEHIND" in os.environ else Http
    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        asyncio.run(over_stdio())
    elif sys.argv[1] == "tcp":
        asyncio.run(over_tcp(int(sys.argv[2])))
    else:
        import uvloop

        uvloop.run(over_http(int(sys.argv[2])))
