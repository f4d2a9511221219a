"""The hot path in Python calls: they can be counted, and the count does not flutter with the machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from dovetail import model as m
from dovetail.wire.codec import Codec
from dovetail.wire.dialects import OFFICIAL
from dovetail.wire.frames import decode
from dovetail.wire.methods import METHODS
from dovetail.wire.revisions import R4, R5

INFO = m.Implementation("server", "1.0")
CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":'
    b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
)


def calls(work: Callable[[], Any]) -> tuple[int, int]:
    """Python functions and built-in functions called by ``work``, itself not counted."""
    counted = {"call": -1, "c_call": -1}  # the work itself, and the call that stops the counting

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event in counted:
            counted[event] += 1

    work()  # tables are filled on first use
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted["call"], counted["c_call"]


def call_tool(codec: Codec) -> bytes:
    frame = decode(CALL)
    codec.decode_params(METHODS[frame.method], frame.params)
    return codec.encode_result(frame.id, m.CallToolResult([m.TextContent("hello")]))


def test_a_modern_tools_call_costs_few_calls() -> None:
    codec = Codec(R5, OFFICIAL, INFO)
    python, builtin = calls(lambda: call_tool(codec))
    assert python <= 4  # the helper above, decode, decode_params, encode_result
    assert python + builtin <= 23


def test_a_legacy_tools_call_costs_little_more() -> None:
    codec = Codec(R4)
    python, builtin = calls(lambda: call_tool(codec))
    assert python + builtin <= 28


def test_a_cached_list_is_written_without_looking_at_its_tools() -> None:
    counts: set[int] = set()
    for number in (1, 100):
        codec = Codec(R5, OFFICIAL, INFO)
        page = codec.prepare(m.ListToolsResult([m.Tool(f"t{i}", {"type": "object"}) for i in range(number)]))
        counts.add(sum(calls(lambda codec=codec, page=page: codec.encode_result(1, page))))
    assert len(counts) == 1
    assert counts.pop() <= 10
