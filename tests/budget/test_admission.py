"""How many Python calls the core spends on one message: counts do not flutter with the machine's load."""

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from dovetail.core import phases
from dovetail.core.admit import Admission
from dovetail.core.channel import Call
from dovetail.core.endpoint import Endpoint
from dovetail.model import (
    CallToolResult,
    Implementation,
    ListToolsResult,
    ServerCapabilities,
    TextContent,
    Tool,
)
from dovetail.wire.frames import decode
from dovetail.wire.headers import HeaderMap, RoutingHeaders

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"sampling": {}, "elicitation": {"form": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "peer", "version": "1"},
}
CALL = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "tool_0", "arguments": {"region": "eu"}, "_meta": META},
    },
    separators=(",", ":"),
).encode()
SERVER = Implementation("weather", "1")


def python_calls(work: Callable[[], Any]) -> int:
    """Calls of Python functions inside ``work``, which has run before so that caches are warm."""
    work()
    count = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count - 1  # work itself


def admission(tools: int = 1, annotated: bool = False) -> Admission:
    header_map: HeaderMap = {("region",): "Region"}
    maps = {f"tool_{number}": header_map for number in range(tools) if annotated}
    made = Admission("server", server_info=SERVER, param_headers=maps)
    made.set_capabilities(ServerCapabilities(tools={}))
    return made


def exchange(
    made: Admission, headers: RoutingHeaders | None = None, message: bytes = CALL
) -> Callable[[], bytes]:
    result = CallToolResult([TextContent("fine")])

    def work() -> bytes:
        call = made.admit(decode(message), None, headers=headers)
        assert isinstance(call, Call)
        return call.codec.encode_result(call.id, result)

    return work


def test_a_modern_tools_call_is_decoded_admitted_and_answered_in_few_calls() -> None:
    assert python_calls(exchange(admission())) <= 10


def test_over_http_the_headers_cost_a_little_more() -> None:
    headers = RoutingHeaders(version="2026-07-28", method="tools/call", name="tool_0")
    assert python_calls(exchange(admission(), headers)) <= 12
    headers.params = {"region": "eu"}
    assert python_calls(exchange(admission(annotated=True), headers)) <= 25


@pytest.mark.parametrize("tools", [10, 1000])
def test_the_number_of_tools_does_not_matter(tools: int) -> None:
    assert python_calls(exchange(admission(tools))) == python_calls(exchange(admission(1)))


def test_an_endpoint_adds_few_calls_in_either_era() -> None:
    endpoint = Endpoint(admission())
    result = CallToolResult([TextContent("fine")])

    def modern() -> None:
        call = endpoint.receive(CALL)
        assert isinstance(call, Call)
        endpoint.send_result(call, result)

    assert python_calls(modern) <= 18
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}
    first = endpoint.receive(
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).encode()
    )
    assert isinstance(first, Call)
    endpoint.send_result(first, phases.handshake(first, {}, SERVER))
    message = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}'

    def legacy() -> None:
        call = endpoint.receive(message)
        assert isinstance(call, Call)
        endpoint.send_result(call, result)

    assert python_calls(legacy) <= 30


def test_a_kept_list_of_a_hundred_tools_is_written_in_few_calls() -> None:
    codec = admission().newest
    kept = codec.prepare(ListToolsResult([Tool(f"tool_{n}", {"type": "object"}) for n in range(100)]))
    assert python_calls(lambda: codec.encode_result(1, kept)) <= 10
