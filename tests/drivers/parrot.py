"""The smallest service there is: tools are functions of (call, channel)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dovetail.core import phases
from dovetail.core.admit import Admission
from dovetail.core.channel import Call, Channel, Notice, Service, Session
from dovetail.drivers.duplex import Duplex, accept
from dovetail.model import CallToolResult, Implementation, Result, ServerCapabilities, TextContent
from dovetail.settings import Limits
from dovetail.transports import memory
from tests.support.rawclient import MODERN, RawClient

INFO = Implementation("parrot", "1")
OFFERED = ServerCapabilities({"tools": {}, "resources": {"subscribe": True}, "logging": {}})

Tool = Callable[[Call, Channel], Awaitable[Any]]


def text(words: str) -> CallToolResult:
    return CallToolResult([TextContent(words)])


class Parrot(Service):
    """A `Service` whose tools a test writes."""

    def __init__(self, limits: Limits | None = None, **tools: Tool) -> None:
        self.limits = limits or Limits()
        self.admission = Admission("server", server_info=INFO)
        self.admission.set_capabilities(OFFERED)
        self.tools: dict[str, Tool] = {"echo": _echo, **tools}
        self.notices: list[Notice] = []
        self.opened: list[Session] = []
        self.closed: list[Session] = []

    async def respond(self, call: Call, channel: Channel) -> Any:
        if call.method == "initialize":
            return phases.handshake(call, OFFERED, INFO)
        if call.method == "tools/call":
            return await self.tools[call.params.name](call, channel)
        return Result()

    def receive_notification(self, notice: Notice) -> None:
        self.notices.append(notice)

    def session_opened(self, session: Session) -> None:
        self.opened.append(session)

    def session_closed(self, session: Session) -> None:
        self.closed.append(session)


async def _echo(call: Call, channel: Channel) -> CallToolResult:
    return text(call.params.name)


class Gate:
    """Something a handler waits at until the test opens it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()
        self.cancelled = False

    async def __call__(self, call: Call, channel: Channel) -> CallToolResult:
        self.reached.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return text("through")


async def connected(
    service: Any, revision: str = MODERN, *, limits: Limits | None = None, open: bool = True, **options: Any
) -> tuple[RawClient, Duplex]:
    """A raw client and the server's duplex, joined in memory."""
    client = RawClient(revision, **options)
    duplex = accept(getattr(service, "dispatcher", service), grace=0.2)
    memory.connect(client, duplex, limits=limits or service.limits)
    if open and not client.modern:
        await client.open()
    return client, duplex


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def said(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]
