"""What a client refuses of a server's question: undeclared parts, and conversations with loose ends."""

from typing import Any

import msgspec
import pytest

from dovetail.core.channel import Call
from dovetail.core.input_request_checks import broken_tool_loop
from dovetail.model import SamplingMessage
from dovetail.server.input_requests.request_kinds import Sample

from .messages import client_admission, frame, read, request, session

TEXT = {"type": "text", "text": "t"}


def use(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "n", "input": {}}


def result(id: str) -> dict[str, Any]:
    return {"type": "tool_result", "toolUseId": id, "content": []}


def said(*contents: Any) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[index % 2], "content": content} for index, content in enumerate(contents)]


FINE = [
    said(TEXT),
    said(TEXT, [TEXT, use("a")], [result("a")]),
    said(TEXT, use("a"), result("a"), TEXT),
    said(TEXT, [use("a"), use("b")], [result("b"), result("a")], use("c"), result("c")),
    [],
]
BROKEN = [
    said(TEXT, use("a"), [result("a"), TEXT]),
    said(TEXT, use("a"), TEXT),
    said(TEXT, [use("a"), use("b")], [result("a")]),
    said(TEXT, use("a")),
    said(result("a")),
    said(TEXT, use("a"), result("b")),
]


@pytest.mark.parametrize("messages", FINE)
def test_calls_of_tools_that_are_answered_at_once_pass(messages: list[Any]) -> None:
    assert broken_tool_loop(msgspec.convert(messages, list[SamplingMessage])) is None


@pytest.mark.parametrize("messages", BROKEN)
def test_a_loose_end_is_invalid_params_to_a_client_and_a_mistake_to_a_server(messages: list[Any]) -> None:
    client = client_admission(sampling={"tools": {}})
    lived = session("2025-11-25", sampling={"tools": {}})
    params = {"messages": messages, "maxTokens": 5}
    refused = client.admit(frame(request("sampling/createMessage", params)), lived)
    assert read(refused, "2025-11-25")["code"] == -32602
    with pytest.raises(ValueError, match="cannot be sent"):
        Sample(messages)


def test_a_whole_loop_reaches_the_client() -> None:
    client = client_admission(sampling={"tools": {}})
    lived = session("2025-11-25", sampling={"tools": {}})
    params = {"messages": FINE[1], "maxTokens": 5}
    assert isinstance(client.admit(frame(request("sampling/createMessage", params)), lived), Call)
