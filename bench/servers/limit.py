"""The limit: what any server in this language must at least do. A bare msgspec loop, no library, no checks.

On stdio: asyncio pipes, one task per request, the arguments decoded, the answer encoded. On HTTP: the same as a bare
ASGI application under uvicorn with httptools and uvloop. Nothing here validates anything: it is no server to use.
"""

import asyncio
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


class Meta(Struct):
    progressToken: int | str | UnsetType = UNSET  # noqa: N815  as on the wire


class Call(Struct):
    name: str
    arguments: Raw = Raw(b"{}")
    meta: Meta | UnsetType = msgspec.field(name="_meta", default=UNSET)


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


class Reply(Struct):
    id: int | str
    result: Any
    jsonrpc: str = "2.0"


read_frame = msgspec.json.Decoder(Frame).decode
read_call = msgspec.json.Decoder(Call).decode
read = {kind: msgspec.json.Decoder(kind).decode for kind in (Text, Add, Nested, Nap)}
encode = msgspec.json.Encoder().encode
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NAMES = ["echo", "add", "nested", "tell", "nap", *(f"filler_{number}" for number in range(TOOLS - 5))]
TOOL_LIST = [{"name": n, "description": "One of many.", "inputSchema": SCHEMA} for n in NAMES]
LISTED = Raw(encode({"tools": TOOL_LIST, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}))
INFO = {"name": "limit", "version": "1.0.0"}
CAPABILITIES = {"tools": {}}
DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": CAPABILITIES,
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
    "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
}


async def call(frame: Frame, notify: Any) -> Result:
    params = read_call(frame.params)
    name = params.name
    if name == "add":
        arguments = read[Add](params.arguments)
        total = {"sum": arguments.a + arguments.b}
        return Result([Block(encode(total).decode())], total)
    if name == "nested":
        order = read[Nested](params.arguments).order
        return Result([Block(str(sum(line.count for line in order.lines)))])
    if name == "nap":
        await asyncio.sleep(read[Nap](params.arguments).seconds)
        return Result([Block("rested")])
    text = read[Text](params.arguments).text
    if name == "tell" and notify is not None and params.meta is not UNSET:
        progress = {"progressToken": params.meta.progressToken, "progress": 1, "total": 1}
        notify(encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}))
    return Result([Block(text)])


async def answer(frame: Frame, notify: Any = None, modern: bool = False) -> bytes:
    if frame.method == "tools/call":
        result: Any = await call(frame, notify)
        if modern:
            result.resultType = "complete"
    elif frame.method == "tools/list":
        result = LISTED
    elif frame.method == "server/discover":
        result = DISCOVERED
    elif frame.method == "initialize":
        version = msgspec.json.decode(frame.params)["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO}
    else:
        result = {}
    return encode(Reply(frame.id, result))  # type: ignore[arg-type]


class Pipes(asyncio.Protocol):
    """Lines in, a task each, lines out."""

    def __init__(self) -> None:
        self.rest = b""
        self.tasks: set[asyncio.Task[None]] = set()
        self.out: Any = None
        self.over = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            frame = read_frame(line)
            if frame.id is not UNSET:
                task = asyncio.ensure_future(self.run(frame, b"2026-07-28" in line))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    async def run(self, frame: Frame, modern: bool) -> None:
        self.out.write(await answer(frame, self.notify, modern) + b"\n")

    def notify(self, message: bytes) -> None:
        self.out.write(message + b"\n")

    def connection_lost(self, exc: BaseException | None) -> None:
        if not self.over.done():
            self.over.set_result(None)


async def over_stdio() -> None:
    loop = asyncio.get_running_loop()
    pipes = Pipes()
    pipes.out, _ = await loop.connect_write_pipe(asyncio.Protocol, sys.stdout)
    await loop.connect_read_pipe(lambda: pipes, sys.stdin)
    await pipes.over


JSON = [(b"content-type", b"application/json")]
STREAM = [(b"content-type", b"text/event-stream")]


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
    if frame.id is UNSET:
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        return
    told: list[bytes] = []
    modern = False
    for name, value in scope["headers"]:
        if name == b"mcp-protocol-version":
            modern = value == b"2026-07-28"
    reply = await answer(frame, told.append, modern)
    if told:
        events = b"".join(b"event: message\ndata: " + one + b"\n\n" for one in (*told, reply))
        await send({"type": "http.response.start", "status": 200, "headers": STREAM})
        await send({"type": "http.response.body", "body": events})
        return
    headers = [*JSON, (b"content-length", b"%d" % len(reply))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply})


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        asyncio.run(over_stdio())
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
