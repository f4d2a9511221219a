"""The requests and their expected responses. Every response is checked, after the clock has stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from .peers import LEGACY, MODERN

Json = dict[str, Any]
META = "io.modelcontextprotocol/"
FIRST_ID = 100_000
"""Ids have six digits, so that all requests of a workload have one length."""
CAPABILITIES = {"elicitation": {"form": {}}}
INFO = {"name": "bench", "version": "1.0.0"}
KIBIBYTE = "x" * 1024
AGAIN = 1_000_000
"""Added to the id of a call that is repeated with the answers, because a repeated call needs a new id."""


class Workload(NamedTuple):
    name: str
    title: str
    method: str
    params: Json
    check: Callable[[Json], bool]
    tells: bool = False
    """Each call brings a notification too."""
    asks: bool = False
    """Each call brings a question, which the driver answers."""
    tools: int = 0
    """How many tools the server must have."""

    @property
    def more(self) -> bool:
        """A call brings more messages than its reply."""
        return self.tells or self.asks


def text_is(expected: str) -> Callable[[Json], bool]:
    return lambda result: result["content"][0]["text"] == expected


def call(
    name: str, title: str, tool: str, arguments: Json, check: Callable[[Json], bool], **more: Any
) -> Workload:
    return Workload(name, title, "tools/call", {"name": tool, "arguments": arguments}, check, **more)


ORDER = {
    "customer": {"name": "Ada", "city": "Oslo"},
    "lines": [{"sku": f"sku-{number}", "count": number} for number in range(10)],
}
ECHO = call("echo", "echo of 5 bytes", "echo", {"text": "hello"}, text_is("hello"))
ADD = call(
    "add",
    "structured add",
    "add",
    {"a": 2, "b": 3},
    lambda result: result["structuredContent"] == {"sum": 5},
)
NESTED = call("nested", "nested argument", "nested", {"order": ORDER}, text_is("45"))
LIST = Workload(
    "list100", "list of 100 tools", "tools/list", {}, lambda result: len(result["tools"]) == 100, tools=100
)
TELL = call("notify", "one notification per call", "tell", {"text": "hello"}, text_is("hello"), tells=True)
ASK = call("ask", "one question per call", "ask", {}, text_is("yes"), asks=True)
NAP = call("sleep10ms", "10 ms of waiting per call", "nap", {"seconds": 0.01}, text_is("rested"))
KIB = call("echo1kib", "echo of 1 KiB", "echo", {"text": KIBIBYTE}, text_is(KIBIBYTE))
EVERYDAY = (ADD, NESTED, LIST, TELL, ASK, NAP)


def modern_meta() -> Json:
    return {
        f"{META}protocolVersion": MODERN,
        f"{META}clientCapabilities": CAPABILITIES,
        f"{META}clientInfo": INFO,
    }


def template(workload: Workload, era: str) -> bytes:
    """The request with ``%d`` for its id."""
    params: Json = dict(workload.params)
    meta: Json = modern_meta() if era == MODERN else {}
    if workload.tells:
        meta["progressToken"] = 7
    if meta:
        params["_meta"] = meta
    body = {"jsonrpc": "2.0", "id": -1, "method": workload.method, "params": params}
    return msgspec.json.encode(body).replace(b"%", b"%%").replace(b'"id":-1', b'"id":%d')


def initialize(revision: str = LEGACY) -> bytes:
    params = {"protocolVersion": revision, "capabilities": CAPABILITIES, "clientInfo": INFO}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})


INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


class WrongReply(Exception):
    """A server answered something else than it should; its figures would mean nothing."""


def check(workload: Workload, replies: list[bytes], sent: int, asked: int = 0) -> None:
    """Every request answered once, with the right answer; one notification or question per call where they are due."""
    ids: set[int] = set()
    told = 0
    for reply in replies:
        message = msgspec.json.decode(reply)
        if "method" in message:
            told += "id" not in message
            continue
        if "result" not in message or not _right(workload, message["result"]):
            raise WrongReply(f"{workload.name}: {reply[:300]!r}")
        ids.add(message["id"] - AGAIN if workload.asks and message["id"] >= AGAIN else message["id"])
    if ids != set(range(FIRST_ID, FIRST_ID + sent)):
        raise WrongReply(f"{workload.name}: {len(ids)} of {sent} requests were answered")
    if workload.tells and told < sent:
        raise WrongReply(f"{workload.name}: {told} notifications for {sent} calls")
    if workload.asks and asked != sent:
        raise WrongReply(f"{workload.name}: {asked} questions for {sent} calls")


def _right(workload: Workload, result: Json) -> bool:
    try:
        return not result.get("isError") and workload.check(result)
    except (KeyError, IndexError, TypeError):
        return False
