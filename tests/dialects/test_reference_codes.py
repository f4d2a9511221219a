"""Every error code of erlmcp's documents: its text, and a message over TCP that is answered with it.

``TEXTS`` is the table of the documents. Codes that no server sends are in ``NOT_SENT`` with the reason.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from dovetail import Context, Limits, Principal, ProtocolError, Refusal, RegistrationError, Server
from dovetail.auth import ApiKeys, JwtVerifier, StaticTokens
from dovetail.drivers.duplex import lifespan
from dovetail.kinds import KINDS
from dovetail.middleware import ConcurrencyLimit, Policy, RateLimit
from dovetail.transports import tcp
from tests.support.aio import run
from tests.support.waiting import HANG
from tests.support.web import Web, legacy_headers, served

TEXTS = {
    -32700: "Parse error",
    -32600: "Invalid Request",
    -32601: "Method not found",
    -32602: "Invalid params",
    -32603: "Internal error",
    -32001: "Resource not found",
    -32002: "Tool not found",
    -32003: "Prompt not found",
    -32004: "Capability not supported",
    -32005: "Cannot execute operation before server initialization. Call initialize first.",
    -32006: "Subscription failed",
    -32007: "Validation failed",
    -32008: "Transport error",
    -32009: "Request timeout",
    -32010: "Rate limit exceeded",
    -32011: "Tool description exceeds max",
    -32012: "Message size exceeds maximum allowed",
    -32013: "Invalid content type",
    -32014: "Content too large",
    -32015: "Invalid encoding",
    -32016: "Binary data too large",
    -32017: "Text too long",
    -32018: "Invalid MIME type",
    -32019: "Unsupported media type",
    -32020: "Media type not acceptable",
    -32021: "Resource template not found",
    -32022: "Invalid URI",
    -32023: "URI syntax error",
    -32024: "URI too long",
    -32025: "Resource access denied",
    -32026: "Resource already exists",
    -32027: "Resource locked",
    -32028: "Resource version mismatch",
    -32029: "Template render failed",
    -32030: "Invalid URI template",
    -32031: "Tool execution failed",
    -32032: "Tool execution timeout",
    -32033: "Tool execution cancelled",
    -32034: "Invalid tool arguments",
    -32035: "Tool is disabled",
    -32036: "Tool result too large",
    -32037: "Tool not allowed",
    -32038: "Maximum concurrent tools exceeded",
    -32039: "Tool dependency failed",
    -32040: "Tool schema invalid",
    -32042: "URL elicitation required",
    -32043: "Prompt argument missing",
    -32044: "Prompt render failed",
    -32045: "Invalid prompt arguments",
    -32046: "Sampling failed",
    -32047: "Sampling timeout",
    -32048: "Invalid model preferences",
    -32049: "Model not available",
    -32050: "Sampling rate limited",
    -32051: "Authentication failed",
    -32052: "Authorization failed",
    -32053: "Invalid credentials",
    -32054: "Token expired",
    -32055: "Insufficient permissions",
    -32056: "Access denied",
    -32057: "Session expired",
    -32058: "Session not found",
    -32059: "Invalid token",
    -32060: "Unauthorized operation",
    -32071: "Invalid cursor",
    -32072: "Cursor expired",
    -32073: "Pagination not supported",
    -32074: "Page size too large",
    -32075: "Invalid page size",
    -32076: "Invalid offset",
    -32081: "Task not found",
    -32082: "Task already exists",
    -32083: "Task failed",
    -32084: "Task cancelled",
    -32085: "Task timeout",
    -32086: "Task state invalid",
    -32087: "Maximum concurrent tasks exceeded",
    -32088: "Task dependency failed",
    -32089: "Task result not ready",
    -32090: "Task already completed",
    -32091: "Invalid progress token",
    -32092: "Progress token expired",
    -32093: "Progress update failed",
    -32094: "Notification failed",
    -32095: "Notification queue full",
    -32096: "Invalid notification type",
    -32097: "Notification not delivered",
    -32110: "Completion not found",
    -32111: "Invalid completion reference",
    -32112: "Invalid completion argument",
    -32113: "Completion failed",
    1001: "Content violates policy",
    1002: "Violates safety guidelines",
    1003: "Rate limit exceeded",
    1004: "Resource constraints",
    1005: "Permission denied",
    1006: "Invalid input",
    1007: "Unsupported operation",
    1008: "Temporarily unavailable",
    1009: "Dependency failed",
    1010: "Custom refusal reason",
}

OPENED: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "client", "version": "1"},
}
PROMPT = {"type": "ref/prompt", "name": "greet"}


def create(tool: str, **more: Any) -> dict[str, Any]:
    return {"action": {"type": tool, "parameters": {}}, **more}


ASKED: dict[int, tuple[str, dict[str, Any]]] = {
    -32601: ("invalid/method", {}),
    -32602: ("tools/call", {"arguments": {"x": 10}}),
    -32603: ("resources/read", {"uri": "x://broken"}),
    -32001: ("resources/read", {"uri": "missing://resource"}),
    -32002: ("tools/call", {"name": "nonexistent_tool", "arguments": {}}),
    -32003: ("prompts/get", {"name": "none"}),
    -32004: ("tools/call", {"name": "samples"}),
    -32006: ("resources/subscribe", {"uri": "x://none"}),
    -32009: ("resources/read", {"uri": "x://slow"}),
    -32014: ("resources/read", {"uri": "x://long/both"}),
    -32016: ("resources/read", {"uri": "x://long/binary"}),
    -32017: ("resources/read", {"uri": "x://long/text"}),
    -32021: ("resources/read", {"uri": "y://{name}"}),
    -32022: ("resources/read", {"uri": "none"}),
    -32023: ("resources/read", {"uri": "x://%zz"}),
    -32024: ("resources/read", {"uri": "x://" + "a" * 9000}),
    -32025: ("resources/read", {"uri": "x://denied"}),
    -32027: ("resources/read", {"uri": "x://locked"}),
    -32029: ("resources/read", {"uri": "x://any/thing"}),
    -32031: ("tools/call", {"name": "fails"}),
    -32032: ("tools/call", {"name": "slow"}),
    -32033: ("tools/call", {"name": "cancels"}),
    -32034: ("tools/call", {"name": "raises", "arguments": {"kind": 5}}),
    -32035: ("tools/call", {"name": "switched_off"}),
    -32036: ("tools/call", {"name": "long"}),
    -32037: ("tools/call", {"name": "forbidden"}),
    -32043: ("prompts/get", {"name": "greet"}),
    -32044: ("prompts/get", {"name": "greet", "arguments": {"age": "1"}}),
    -32045: ("prompts/get", {"name": "greet", "arguments": {"age": "old"}}),
    -32048: ("prompts/get", {"name": "greet", "arguments": {}, "modelPreferences": {"temperature": 3}}),
    -32071: ("tools/list", {"cursor": "x", "limit": 1}),
    -32073: ("prompts/list", {"cursor": "x"}),
    -32074: ("tools/list", {"limit": 100_000}),
    -32075: ("tools/list", {"limit": 0}),
    -32076: ("tools/list", {"offset": -1}),
    -32081: ("tasks/get", {"taskId": "none"}),
    -32088: ("tasks/create", create("works", metadata={"dependsOn": ["none"]})),
    -32110: ("completion/complete", {"ref": {"type": "prompt", "name": "no"}, "argument": {"name": "a", "value": ""}}),
    -32111: ("completion/complete", {"ref": {"type": "x"}, "argument": {"name": "a", "value": ""}}),
    -32112: ("completion/complete", {"ref": PROMPT, "argument": 1}),
    -32113: ("completion/complete", {"ref": PROMPT, "argument": {"name": "age", "value": ""}}),
}  # fmt: skip
"""What a client sends to get it, on a connection without capabilities."""

RAISED = [-32028, -32039, -32042, -32060, *range(1001, 1011)]
"""What a handler decides, so it raises it by name or number."""

RAW = {
    -32700: b"{invalid json}",
    -32600: b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
    -32012: b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {"x": "' + b"x" * 3000 + b'"}}}',
    -32015: b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {"x": "\xff"}}}',
}  # fmt: skip
"""Bytes that are not a message."""


def build(**options: Any) -> Server:
    server = Server("codes", "1", dialect="erlmcp", **options)

    def raising(error: Exception) -> Callable[[], str]:
        def read() -> str:
            raise error

        return read

    failures = {"denied": PermissionError(), "locked": BlockingIOError(), "broken": KeyError()}
    for name, error in failures.items():
        server.add_resource(f"x://{name}", raising(error), name=name)
    server.add_resource("x://long/text", lambda: "x" * 3000, name="text")
    server.add_resource("x://long/binary", lambda: b"x" * 3000, name="binary")
    server.add_resource("x://long/both", lambda: ["x" * 1500, b"x" * 1500], name="both")

    @server.resource("x://slow", timeout=0.01)
    async def slow_resource() -> str:
        await asyncio.Event().wait()
        return ""

    @server.resource("x://{a}/{b}")
    def template(a: str, b: str) -> str:
        raise KeyError(a)

    @server.tool(task="optional")
    def works() -> str:
        """Work."""
        return ""

    @server.tool(task="optional")
    def fails() -> str:
        """Fail."""
        raise KeyError("masked")

    @server.tool(task="optional")
    async def waits() -> str:
        """Wait until it is cancelled."""
        await asyncio.Event().wait()
        return ""

    @server.tool(timeout=0.01)
    async def slow() -> str:
        """Take long."""
        await asyncio.Event().wait()
        return ""

    @server.tool
    async def cancels() -> str:
        """Its work is cancelled."""
        raise asyncio.CancelledError

    @server.tool
    def long() -> str:
        """Return more than a message may have."""
        return "x" * 3000

    @server.tool
    async def samples(ctx: Context) -> str:
        """Ask the model of the client."""
        return (await ctx.sample("Hello")).text

    @server.tool
    def raises(code: int) -> str:
        """Raise what a handler decides."""
        if code > 0:
            raise Refusal(code)
        raise ProtocolError(next(kind.name for kind in KINDS.values() if kind.erlmcp == code))

    @server.tool
    def switched_off() -> str:
        """A tool that a policy disables."""
        return ""

    @server.tool
    def forbidden() -> str:
        """A tool that a policy does not allow."""
        return ""

    @server.prompt
    def greet(age: int) -> str:
        raise KeyError(age)

    @server.completion(ref="greet", argument="age")
    def ages(value: str) -> list[str]:
        raise KeyError(value)

    return server


class Wire:
    """One TCP connection, and the messages of the server in their order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.id = 100

    async def next(self) -> Any:
        return json.loads(await asyncio.wait_for(self.reader.readline(), HANG))

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The response to one request; notifications before it are left out."""
        self.id += 1
        message = {"jsonrpc": "2.0", "id": self.id, "method": method, "params": params or {}}
        self.writer.write(json.dumps(message).encode() + b"\n")
        while True:
            response = await self.next()
            if response.get("id") == self.id and "method" not in response:
                return response

    async def result(self, method: str, params: dict[str, Any] | None = None) -> Any:
        return (await self.ask(method, params))["result"]

    async def fails_with(self, code: int, method: str, params: dict[str, Any] | None = None) -> None:
        response = await self.ask(method, params)
        assert "error" in response, response
        same(response["error"], code)


def same(error: dict[str, Any], code: int) -> None:
    assert (error["code"], error["message"]) == (code, TEXTS[code]), error


@asynccontextmanager
async def wire(server: Server, *, initialized: bool = True) -> AsyncIterator[Wire]:
    async with lifespan(server.dispatcher):
        listener = await tcp.listen(server.dispatcher)
        reader, writer = await asyncio.open_connection(*listener.address[:2], limit=1 << 20)
        connection = Wire(reader, writer)
        if initialized:
            await connection.result("initialize", OPENED)
            writer.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        yield connection
        writer.close()
        await listener.close()


SMALL = Limits(max_response_bytes=2500, max_message_bytes=16 << 20, max_tasks=2)
POLICY = Policy(disabled=["switched_off"], allow=["*_off", "[!f]*", "fails"])


@pytest.mark.parametrize("code", ASKED)
@run
async def test_a_request_is_answered_with_its_code(code: int) -> None:
    async with wire(build(limits=SMALL, middleware=[POLICY])) as connection:
        await connection.fails_with(code, *ASKED[code])


@pytest.mark.parametrize("code", RAISED)
@run
async def test_what_a_handler_raises_has_its_code(code: int) -> None:
    async with wire(build()) as connection:
        await connection.fails_with(code, "tools/call", {"name": "raises", "arguments": {"code": code}})


@pytest.mark.parametrize("code", RAW)
@run
async def test_what_is_no_message_has_its_code(code: int) -> None:
    limits = Limits(max_message_bytes=2000)
    async with wire(build(limits=limits)) as connection:
        connection.writer.write(RAW[code] + b"\n")
        message = await connection.next()
        same(message["error"], code)
        assert message["id"] == (1 if code in (-32600, -32015) else None)
        if code == -32012:
            assert message["error"]["data"]["maxSize"] == 2000
            assert message["error"]["data"]["unit"] == "bytes"
        else:
            assert await connection.result("ping") == {}


# --- codes that need more than one message -------------------------------------------------------------------------


@run
async def test_before_initialize_and_before_initialized_requests_are_refused() -> None:
    async with wire(build(), initialized=False) as connection:
        await connection.fails_with(-32005, "resources/list")
        await connection.result("initialize", OPENED)
        for method in ("resources/list", "tools/list", "completion/complete", "tasks/list"):
            await connection.fails_with(-32005, method)
        assert await connection.result("ping") == {}


@run
async def test_too_many_requests_have_their_code() -> None:
    async with wire(build(middleware=[RateLimit(total="3/h")])) as connection:
        await connection.result("tools/list")
        await connection.fails_with(-32010, "tools/list")


@run
async def test_too_many_tools_at_once_have_their_code() -> None:
    server = build(middleware=[ConcurrencyLimit(per_tool=1, queue=0)])
    async with wire(server) as connection:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "waits"}}
        connection.writer.write(json.dumps(call).encode() + b"\n")
        await connection.fails_with(-32038, "tools/call", {"name": "waits"})


@run
async def test_a_cursor_of_a_list_that_has_changed_has_its_code() -> None:
    server = build()
    async with wire(server) as connection:
        page = await connection.result("tools/list", {"limit": 1})
        server.remove_tool("forbidden")
        await connection.fails_with(-32072, "tools/list", {"limit": 1, "cursor": page["cursor"]})


async def ended(connection: Wire, id: str) -> None:
    """Return when the task has ended."""
    for _ in range(2000):
        task = (await connection.result("tasks/get", {"taskId": id}))["task"]
        if task["status"] not in ("pending", "processing"):
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the task has not ended")


@run
async def test_the_codes_of_tasks() -> None:
    async with wire(build(limits=Limits(max_tasks=2))) as connection:
        failed = (await connection.result("tasks/create", create("fails")))["taskId"]
        await ended(connection, failed)
        await connection.fails_with(-32083, "tasks/result", {"taskId": failed})

        waiting = (await connection.result("tasks/create", create("waits", taskId="mine")))["taskId"]
        assert waiting == "mine"
        await connection.fails_with(-32082, "tasks/create", create("waits", taskId="mine"))
        await connection.fails_with(-32089, "tasks/result", {"taskId": waiting})
        assert await connection.result("tasks/cancel", {"taskId": waiting, "reason": "enough"}) == {}
        await connection.fails_with(-32084, "tasks/result", {"taskId": waiting})
        await connection.fails_with(-32090, "tasks/cancel", {"taskId": waiting})

        late = (await connection.result("tasks/create", create("waits", metadata={"timeout": 1})))["taskId"]
        await ended(connection, late)
        await connection.fails_with(-32085, "tasks/result", {"taskId": late})

        for _ in range(2):
            await connection.result("tasks/create", create("waits"))
        await connection.fails_with(-32087, "tasks/create", create("works"))


# --- Streamable HTTP -------------------------------------------------------------------------------------------------

KEY = OctKey.generate_key(256, {"kid": "k"})
EXPIRED = {"iss": "https://id.example", "aud": "codes", "sub": "ann", "exp": 1}
PLAIN = legacy_headers("2025-11-25")
JWT = JwtVerifier(issuer="https://id.example", audience="codes", keys=KEY.as_dict(), algorithms=["HS256"])
STATIC = StaticTokens({"ann": Principal("ann")})

POSTED: dict[int, tuple[Any, int, dict[str, str]]] = {
    -32019: (None, 415, PLAIN | {"Content-Type": "text/plain"}),
    -32020: (None, 406, PLAIN | {"Accept": "text/html"}),
    -32051: (STATIC, 401, PLAIN),
    -32053: (ApiKeys({"k3y": "ci"}), 401, PLAIN | {"X-API-Key": "wrong"}),
    -32054: (JWT, 401, PLAIN | {"Authorization": f"Bearer {jwt.encode({'alg': 'HS256', 'kid': 'k'}, EXPIRED, KEY)}"}),
    -32056: (None, 403, PLAIN | {"Origin": "https://elsewhere.example"}),
    -32058: (None, 404, PLAIN | {"Mcp-Session-Id": "none"}),
    -32059: (STATIC, 401, PLAIN | {"Authorization": "Bearer nobody"}),
}  # fmt: skip
"""The authentication, the status and the headers of a ``ping`` that is refused."""


@pytest.mark.parametrize("code", POSTED)
@run
async def test_what_http_refuses_has_its_code(code: int) -> None:
    auth, status, headers = POSTED[code]
    async with served(build(auth=auth)) as site:
        found = await Web(site).ask("POST", headers, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        assert found.status == status
        same(found.message["error"], code)


async def open_session(web: Web, headers: dict[str, str]) -> str:
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": OPENED}).encode()
    found = await web.ask("POST", PLAIN | headers, body)
    session = found.headers["mcp-session-id"]
    initialized = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
    await web.ask("POST", legacy_headers("2025-11-25", session) | headers, initialized)
    return session


@run
async def test_a_tool_beyond_the_scopes_of_a_token_has_its_code() -> None:
    server = build(auth=STATIC)
    server.add_tool(lambda: "", name="scoped", description="Needs a scope", scopes=["more"])
    async with served(server) as site:
        web = Web(site)
        session = await open_session(web, {"Authorization": "Bearer ann"})
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "scoped"}}'
        headers = legacy_headers("2025-11-25", session) | {"Authorization": "Bearer ann"}
        found = await web.ask("POST", headers, body)
        assert found.status == 403
        same(found.message["error"], -32055)


@run
async def test_a_session_that_has_expired_has_its_code() -> None:
    now = [0.0]
    async with served(build(clock=lambda: now[0]), session_lifetime=600) as site:
        session = await open_session(Web(site), {})
        now[0] = 601.0
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
        found = await Web(site).ask("POST", legacy_headers("2025-11-25", session), body)
        assert found.status == 404
        same(found.message["error"], -32057)


# --- what no message of a server carries -----------------------------------------------------------------------------


def text() -> str:
    return ""


NO_SCHEMA: dict[str, Any] = {"type": "object", "$ref": "#/nowhere"}
REGISTERED: dict[int, Callable[[Server], object]] = {
    -32011: lambda server: server.add_tool(text, name="x", description="x" * 10_001),
    -32018: lambda server: server.add_resource("x://new", text, mime_type="text"),
    -32026: lambda server: server.add_resource("x://slow", text),
    -32030: lambda server: server.add_resource("x://{a}{b}", text),
    -32040: lambda server: server.add_tool(name="x", handler=lambda given: "", input_schema=NO_SCHEMA),
}
"""What fails at registration, before there is a client."""


@pytest.mark.parametrize("code", REGISTERED)
def test_what_cannot_be_registered_has_its_code(code: int) -> None:
    with pytest.raises(RegistrationError) as caught:
        REGISTERED[code](build())
    assert KINDS[caught.value.kind].erlmcp == code


NOT_SENT = {
    -32007: "a client raises it for a malformed response",
    -32008: "a client raises it for a broken connection",
    -32013: "a client refuses a sampling request with it",
    -32046: "a client answers a sampling request with it",
    -32047: "a client answers a sampling request with it",
    -32049: "a client answers a sampling request with it",
    -32050: "a client answers a sampling request with it",
    -32052: "HTTP 403 of an authorization server; a client raises it",
    -32086: "a task of a client's input request",
    -32091: "progress that is dropped and counted",
    -32092: "progress that is dropped and counted",
    -32093: "raised where a notification is sent",
    -32094: "raised where a notification is sent",
    -32095: "counted by a client",
    -32096: "a notification that is dropped and counted",
    -32097: "logged and counted by the server",
}
"""Codes of failures that are not the answer to a client's request."""

SEQUENCES = {
    -32005,
    -32010,
    -32038,
    -32072,
    *range(-32090, -32088),
    *range(-32085, -32081),
    -32087,
    -32055,
    -32057,
}
"""Codes with a test function here."""


def test_every_code_of_the_documents_is_accounted_for_once() -> None:
    tables = [ASKED, RAISED, RAW, POSTED, REGISTERED, NOT_SENT, SEQUENCES]
    assert sorted(code for table in tables for code in table) == sorted(TEXTS)
    assert {kind.erlmcp for kind in KINDS.values()} - {None, 1086} == {code for code in TEXTS if code < 0}
