"""Whatever a peer sends gets its documented answer, and the next message is served."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.core.channel import Call, Reply, Violation
from dovetail.core.endpoint import Endpoint
from dovetail.model import Result
from dovetail.settings import Limits
from tests.core.messages import META, client_admission, connected, modern, read, request, server_admission

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


def fresh() -> Endpoint:
    return Endpoint(server_admission(), Limits(max_batch_size=10))


PEERS: dict[str, Callable[[], Endpoint]] = {
    "2026-07-28": fresh,
    **{
        version: lambda version=version: connected(version, limits=Limits(max_batch_size=10))
        for version in LEGACY
    },
}


def assert_still_serving(endpoint: Endpoint) -> None:
    lived = endpoint.session is not None
    message = request("tools/list", {}, "next") if lived else modern("tools/list", None, "next")
    call = endpoint.receive(message)
    assert isinstance(call, Call)
    assert endpoint.send_result(call, Result()) is not None


DEEP = 100_000
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}'
# What comes in → code and id of the answer; None for "counted and dropped".
BAD: list[tuple[str, bytes, int | None, Any]] = [
    ("empty", b"", -32700, None),
    ("blank", b"  ", -32700, None),
    ("no JSON", b"hello", -32700, None),
    ("cut off", b'{"jsonrpc":"2.0","id":1', -32700, None),
    ("two values", b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}', -32700, None),
    ("a byte order mark", b"\xef\xbb\xbf" + request("ping"), -32700, None),
    ("invalid UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}', -32700, 1),
    ("UTF-16", request("ping").decode().encode("utf-16"), -32700, None),
    ("a lone surrogate", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\ud800"}}', -32700, 1),
    ("a raw control character", b'{"jsonrpc":"2.0","id":1,"method":"p\ning"}', -32700, None),
    ("deep arrays", b"[" * DEEP, -32700, None),
    ("deep closed arrays", b"[" * DEEP + b"]" * DEEP, -32700, None),
    (
        "deep params",
        CALL % (b'{"name":"a","arguments":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}"),
        -32700,
        1,
    ),
    ("NaN", CALL % b'{"name":NaN}', -32700, None),
    ("a number", b"42", -32600, None),
    ("null", b"null", -32600, None),
    ("a string", b'"ping"', -32600, None),
    ("an empty object", b"{}", -32600, None),
    ("no version", b'{"id":1,"method":"ping"}', -32600, 1),
    ("another version", b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, 1),
    ("a numeric version", b'{"jsonrpc":2.0,"id":1,"method":"ping"}', -32600, 1),
    ("wrong case", b'{"JSONRPC":"2.0","id":1,"Method":"ping"}', -32600, 1),
    ("NUL in a key", b'{"jsonrpc\\u0000":"2.0","id":1,"method":"ping"}', -32600, 1),
    ("id null", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
    ("id a fraction", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
    ("id true", b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
    ("id an array", b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, None),
    ("id beyond 64 bits", b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % (1 << 80), -32600, None),
    ("id very long", b'{"jsonrpc":"2.0","id":"%b","method":"ping"}' % (b"x" * 5000), -32600, None),
    ("method a number", b'{"jsonrpc":"2.0","id":1,"method":5}', -32600, 1),
    ("method null", b'{"jsonrpc":"2.0","id":1,"method":null}', -32600, 1),
    ("request and response", b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}', -32600, 1),
    ("result and error", b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}', -32600, 1),
    ("an array", b"[1,2]", -32600, None),
    ("an empty array", b"[]", -32600, None),
    ("a long array", b"[" + b"1," * 50 + b"1]", -32600, None),
    ("a response nobody asked for", b'{"jsonrpc":"2.0","id":1,"result":{}}', None, None),
    ("an error nobody asked for", b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}', None, None),
    ("an unknown notification", b'{"jsonrpc":"2.0","method":"no/such"}', None, None),
    ("a malformed cancel", b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}', None, None),
    (
        "a cancel of nothing",
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}',
        None,
        None,
    ),
]


@pytest.mark.parametrize("version", PEERS)
@pytest.mark.parametrize(("data", "code", "id"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_gets_its_answer_and_the_next_message_is_served(
    version: str, data: bytes, code: int | None, id: Any
) -> None:
    endpoint = PEERS[version]()
    event = endpoint.receive(data)
    if data.startswith(b"[1,2") and version == "2025-03-26":
        assert isinstance(event, list)
        assert isinstance(event[0], Reply)
        assert [entry["error"]["code"] for entry in json.loads(event[0].data)] == [-32600, -32600]
    elif code is None:
        assert isinstance(event, Violation)
        assert endpoint.violations == {event.kind: 1}
    else:
        error = read(event, version)
        nothing = None if version in LEGACY[:3] else "absent"
        assert (error["code"], error["id"]) == (code, nothing if id is None else id)
    assert_still_serving(endpoint)


@pytest.mark.parametrize("version", PEERS)
def test_a_key_that_comes_twice_is_an_invalid_request(version: str) -> None:
    meta = json.dumps(META) if version == "2026-07-28" else "{}"
    for members in (
        f'"method":"x","method":"tools/list","params":{{"_meta":{meta}}}',
        f'"method":"tools/list","params":{{"_meta":{meta},"_meta":{meta}}}',
        f'"method":"tools/list","params":{{"_meta":{meta},"_m\\u0065ta":{meta}}}',
    ):
        reply = PEERS[version]().receive(f'{{"jsonrpc":"2.0","id":1,{members}}}'.encode())
        assert isinstance(reply, Reply)
        assert json.loads(reply.data)["error"]["code"] == -32600
        assert json.loads(reply.data)["id"] == 1


WRONG: list[Any] = [None, True, 0, -1.5, "", "x", [], [1], {}, {"a": None}]


def broken(value: Any) -> Iterator[Any]:
    """The value with each member, at any depth, replaced by each value of another type, and left out."""
    if not isinstance(value, dict):
        return
    for key in value:
        yield {k: v for k, v in value.items() if k != key}
        for wrong in WRONG:
            if type(wrong) is not type(value[key]):
                yield value | {key: wrong}
        for inner in broken(value[key]):
            yield value | {key: inner}


REQUESTS: dict[str, dict[str, Any]] = {
    "tools/call": {"name": "add", "arguments": {"a": 1}, "inputResponses": {"k": {}}, "requestState": "s"},
    "resources/read": {"uri": "a:b"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "a", "value": ""},
        "context": {"arguments": {"b": "c"}},
    },
    "subscriptions/listen": {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}},
    "logging/setLevel": {"level": "info"},
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {"listChanged": True}, "experimental": {"dialect": {"name": "erlmcp"}}},
        "clientInfo": {"name": "n", "version": "v", "title": "t", "icons": [{"src": "data:,"}]},
    },
    "tasks/get": {"taskId": "t"},
}


@pytest.mark.parametrize("method", REQUESTS)
@pytest.mark.parametrize("version", PEERS)
def test_every_wrong_type_in_every_field_is_answered(version: str, method: str) -> None:
    meta = META if version == "2026-07-28" else {"progressToken": 1}
    whole = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": REQUESTS[method] | {"_meta": meta},
    }
    count = 0
    for message in broken(whole):
        endpoint = PEERS[version]()
        event = endpoint.receive(json.dumps(message).encode())
        count += 1
        assert isinstance(event, Call | Reply | Violation)
        if isinstance(event, Reply):
            error = read(event, None)
            assert error["code"] in (-32600, -32601, -32602, -32021, -32022)
            assert type(message.get("id")) is not int or error["id"] == message["id"]
        if not isinstance(event, Call):
            assert_still_serving(endpoint)
    assert count > 50


@pytest.mark.parametrize(
    "number", ["1" * 5000, "1e400", "-1e400", "18446744073709551616", "0." + "0" * 400 + "1"]
)
def test_numbers_beyond_every_type_are_left_to_the_arguments_or_refused(number: str) -> None:
    for params in (
        '{"name":"a","arguments":{"n":%s}}',
        '{"name":"a","_meta":{"progressToken":%s}}',
        '{"name":%s}',
    ):
        endpoint = connected()
        message = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}' % (params % number)
        event = endpoint.receive(message.encode())
        assert isinstance(event, Call | Reply)
        assert isinstance(event, Call) is ("arguments" in params)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.binary(max_size=60) | st.text(max_size=40).map(str.encode), max_size=5))
def test_any_bytes_in_never_raise(lines: list[bytes]) -> None:
    for endpoint in (fresh(), connected("2025-03-26"), Endpoint(client_admission(sampling={}))):
        for line in lines:
            endpoint.receive(line)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
messages = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.integers(0, 3) | json_values,
        "method": st.sampled_from(
            [
                "ping",
                "tools/call",
                "initialize",
                "notifications/cancelled",
                "notifications/progress",
                "initialized",
            ]
        )
        | json_values,
        "params": st.fixed_dictionaries(
            {},
            optional={
                "_meta": st.just(META) | json_values,
                "name": json_values,
                "requestId": st.integers(0, 3),
                "progressToken": st.integers(0, 3),
                "progress": json_values,
            },
        )
        | json_values,
        "result": json_values,
        "error": json_values,
    },
)


@settings(max_examples=80, deadline=None)
@given(st.lists(messages, max_size=6))
def test_any_conversation_never_raises_and_tables_stay_small(conversation: list[Any]) -> None:
    limits = Limits(max_requests_per_connection=4, max_tombstones=4)
    for endpoint in (Endpoint(server_admission(), limits), connected("2025-03-26", limits=limits)):
        endpoint.receive(json.dumps(conversation).encode())
        for message in conversation:
            endpoint.receive(json.dumps(message).encode())
        assert len(endpoint.in_flight) <= 4
        assert len(endpoint.violations) < 12
