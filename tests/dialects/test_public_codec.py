"""`dovetail.codec`: every kind of message, single and in batches, without a connection."""

import doctest
import json
from typing import Any

import pytest

import dovetail.codec
from dovetail import model as m
from dovetail.codec import ErrorResponse, MessageCodec, Notification, Request, Response, is_batch
from dovetail.errors import LocalProtocolError, ProtocolError, Refusal, RemoteProtocolError
from dovetail.wire.dialects import DIALECTS
from dovetail.wire.revisions import BY_NAME
from tests.support.schemas import validate

LEGACY = [name for name, revision in BY_NAME.items() if not revision.modern]


def test_the_examples_in_the_documentation_are_true() -> None:
    assert doctest.testmod(dovetail.codec).failed == 0


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_goes_out_and_comes_back(revision: str, dialect: str) -> None:
    codec = MessageCodec(revision, dialect)
    data = codec.encode_request(1, "tools/call", {"name": "sql_query", "arguments": {"query": "SELECT 1"}})
    validate(data, revision, kind="request")
    message = codec.decode(data)
    assert isinstance(message, Request)
    assert isinstance(message.params, m.CallToolRequestParams)
    assert codec.encode(message) == data


def test_a_notification_has_no_id() -> None:
    codec = MessageCodec("2025-06-18")
    data = codec.encode_notification("notifications/cancelled", {"requestId": 10, "reason": "User cancelled"})
    validate(data, "2025-06-18", kind="notification")
    message = codec.decode(data)
    assert isinstance(message, Notification)
    assert codec.encode(message) == data


def test_a_result_is_typed_when_the_question_is_known() -> None:
    codec = MessageCodec("2025-11-25")
    data = b'{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"ok"}]}}'
    for answers in ("tools/call", {"a": "tools/call"}):
        message = codec.decode(data, answers)
        assert isinstance(message, Response)
        assert isinstance(message.result, m.CallToolResult)
        assert codec.encode(message) == data
    plain = codec.decode(data)
    assert isinstance(plain, Response)
    assert plain.result == {"content": [{"type": "text", "text": "ok"}]}
    assert codec.encode(plain) == data


def test_an_unknown_method_passes_as_plain_json() -> None:
    codec = MessageCodec("2025-11-25")
    data = b'{"jsonrpc":"2.0","id":1,"method":"acme/do","params":{"x":[1,2]}}'
    message = codec.decode(data)
    assert message == Request(1, "acme/do", {"x": [1, 2]})
    assert codec.encode(message) == data


def test_an_error_without_a_readable_id_follows_the_revision() -> None:
    written = {name: json.loads(MessageCodec(name).error_parse()) for name in BY_NAME}
    assert {name: message.get("id", "absent") for name, message in written.items()} == {
        "2024-11-05": None,
        "2025-03-26": None,
        "2025-06-18": None,
        "2025-11-25": "absent",
        "2026-07-28": "absent",
    }
    assert json.loads(MessageCodec("2025-11-25", "erlmcp").error_parse())["id"] is None
    assert "id" not in json.loads(MessageCodec("2026-07-28", "erlmcp").error_parse())


@pytest.mark.parametrize("revision", BY_NAME)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_ready_made_error_is_valid_and_keeps_its_kind(revision: str, dialect: str) -> None:
    codec = MessageCodec(revision, dialect)
    errors = {
        "invalid_request": codec.error_invalid_request(7),
        "method_not_found": codec.error_method_not_found(7, "x/y"),
        "invalid_params": codec.error_invalid_params(7, "name: missing"),
        "internal_error": codec.error_internal(7),
        "not_initialized": codec.error_not_initialized(7),
        "tool_not_found": codec.error_tool_not_found(7, "x"),
        "prompt_not_found": codec.error_prompt_not_found(7, "x"),
        "resource_not_found": codec.error_resource_not_found(7, "a:b"),
    }
    for kind, data in errors.items():
        validate(data, revision, kind="error")
        message = codec.decode(data)
        assert isinstance(message, ErrorResponse)
        assert (message.id, message.error.kind) == (7, kind)


def test_a_size_error_names_the_limit() -> None:
    assert json.loads(MessageCodec("2025-11-25", "erlmcp").error_message_too_large(10485760)) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {
            "code": -32012,
            "message": "Message size exceeds maximum allowed",
            "data": {"maxSize": 10485760, "unit": "bytes", "kind": "message_too_large", "refusalCode": 1068},
        },
    }


@pytest.mark.parametrize(
    ("revision", "code", "written"),
    [("2025-11-25", -32031, -32031), ("2026-07-28", -32031, -32603), ("2026-07-28", 1001, 1001)],
)
def test_a_code_of_ones_own(revision: str, code: int, written: int) -> None:
    data = MessageCodec(revision, "erlmcp").encode_error_response(1, code, "no", {"tool": "calc"})
    error = json.loads(data)["error"]
    assert (error["code"], error["data"]["tool"]) == (written, "calc")


def test_a_refusal_comes_back_as_one() -> None:
    codec = MessageCodec()
    message = codec.decode(codec.encode_error(1, Refusal(1008, "later", 3)))
    assert isinstance(message, ErrorResponse)
    assert isinstance(message.error, Refusal)
    assert (message.error.hint, message.error.retry_after) == ("later", 3.0)


BATCH: list[Any] = [
    {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {}},
    {"jsonrpc": "2.0", "method": "resources/list_changed", "params": {}},
    {"jsonrpc": "2.0", "id": 2, "error": {"code": -32601, "message": "Method not found"}},
    {"jsonrpc": "1.0", "id": 3, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"arguments": {}}},
    7,
]


def test_a_batch_gives_its_messages_and_the_errors_of_its_bad_entries() -> None:
    codec = MessageCodec("2025-03-26")
    data = json.dumps(BATCH).encode()
    assert is_batch(data)
    assert not is_batch(b'{"a":[1]}')
    messages = codec.decode_batch(data)
    assert [type(message).__name__ for message in messages] == [
        "Request",
        "Notification",
        "ErrorResponse",
        "RemoteProtocolError",
        "RemoteProtocolError",
        "RemoteProtocolError",
    ]
    failures = [message for message in messages if isinstance(message, RemoteProtocolError)]
    assert [(error.kind, error.id) for error in failures] == [
        ("invalid_request", 3),
        ("invalid_params", 4),
        ("invalid_request", None),
    ]


def test_a_batch_is_written_in_order() -> None:
    codec = MessageCodec("2025-03-26")
    data = codec.encode_batch(
        [Response(1, {"tools": []}), codec.error_method_not_found(2, "x"), Response(3, {})]
    )
    validate(data, "2025-03-26")
    assert [entry["id"] for entry in json.loads(data)] == [1, 2, 3]


def test_an_empty_batch_is_one_error() -> None:
    with pytest.raises(RemoteProtocolError, match="empty") as caught:
        MessageCodec().decode_batch(b"[]")
    assert caught.value.kind == "invalid_request"


def test_a_revision_is_not_asked_for_what_it_does_not_know() -> None:
    with pytest.raises(LocalProtocolError, match="ping"):
        MessageCodec("2026-07-28").encode_request(1, "ping")


def test_a_strict_codec_knows_no_aliases() -> None:
    data = b'{"jsonrpc":"2.0","method":"initialized"}'
    assert MessageCodec("2025-11-25").decode(data) == Notification("notifications/initialized")
    assert MessageCodec("2025-11-25", strict=True).decode(data) == Notification("initialized")


def test_a_wrong_name_is_told_the_right_ones() -> None:
    with pytest.raises(ValueError, match="2025-06-18"):
        MessageCodec("2025-6-18")
    with pytest.raises(ValueError, match="mcp_client"):
        MessageCodec(dialect="elixir")


def test_bad_params_carry_the_id_to_answer_under() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        MessageCodec("2025-11-25").decode(b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{}}')
    assert (caught.value.id, caught.value.kind) == (3, "invalid_params")
    data = MessageCodec("2025-11-25", "erlmcp").encode_error(3, caught.value)
    assert json.loads(data)["error"]["data"]["details"] == "Missing required parameter: name"


def test_any_failure_can_be_written() -> None:
    data = MessageCodec("2024-11-05", "mcp_client").encode_error(1, ProtocolError("prompt_not_found"))
    assert json.loads(data)["error"]["code"] == -32005
