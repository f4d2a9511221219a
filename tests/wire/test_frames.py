"""The envelope: valid messages, invalid ones, and the errors that the peer gets."""

import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from dovetail.errors import PARSE_ERROR, RemoteProtocolError
from dovetail.wire import frames
from dovetail.wire.frames import (
    ErrorFrame,
    Frame,
    NotificationFrame,
    RequestFrame,
    ResultFrame,
    decode,
    decode_entry,
    encode,
    encode_batch,
    is_batch,
    split_batch,
)


def decode_batch(data: bytes, limit: int = 100) -> list[Frame | RemoteProtocolError]:
    return [decode_entry(entry) for entry in split_batch(data, limit)]


def refusal(data: bytes) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(data)
    return caught.value


def kind_raised(work: Callable[..., object], *arguments: object) -> str | None:
    """The kind of the peer's fault that ``work`` found; anything else it raises is ours and goes through."""
    try:
        work(*arguments)
    except RemoteProtocolError as error:
        return error.kind
    return None


def test_a_request_keeps_its_params_raw() -> None:
    frame = decode(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name": "x" }}')
    assert (frame.id, frame.method) == (1, "tools/call")
    assert bytes(frame.params) == b'{"name": "x" }'  # type: ignore[arg-type]
    assert frame.result is UNSET
    assert frame.error is UNSET


def test_left_out_params_are_unset() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":"a","method":"ping"}').params is UNSET


def test_a_notification_has_no_id() -> None:
    assert decode(b'{"jsonrpc":"2.0","method":"notifications/initialized"}').id is UNSET


def test_an_error_about_an_unreadable_message_may_have_a_null_id_or_none() -> None:
    for member in ('"id":null,', ""):
        frame = decode(b'{"jsonrpc":"2.0",%b"error":{"code":-32700,"message":"x"}}' % member.encode())
        assert frame.id is UNSET
        assert frame.error is not UNSET


NOT_JSON = {
    "nothing": b"",
    "white space": b"  ",
    "words": b"hello",
    "truncated": b'{"jsonrpc":"2.0","id":1',
    "trailing garbage": b'{"jsonrpc":"2.0","id":1,"method":"ping"}x',
    "byte order mark": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
    "unterminated array": b"[[[[",
    "raw control character": b'{"jsonrpc":"2.0","id":1,"method":"a\x00b"}',
    "single quotes": b"{'jsonrpc':'2.0'}",
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}',
    "leading zero": b'{"jsonrpc":"2.0","id":01,"method":"x"}',
    "array of broken entries": b'{"jsonrpc":"2.0","id":[1,,2]}',
}


@pytest.mark.parametrize("data", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_json_is_a_parse_error(data: bytes) -> None:
    assert refusal(data).kind == "parse_error"


@pytest.mark.parametrize(
    "text",
    [
        b"\xff",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\\ud800",
        b"\\uDC00x",
        b"\\ud800\\u0041 and more text after it",
    ],
)
@pytest.mark.parametrize(
    "place", [b'"params":{"a":"%b"}', b'"params":{"%b":1}', b'"unknown":"%b"', b'"params":["%b"]']
)
def test_broken_text_anywhere_is_refused_with_the_readable_id(text: bytes, place: bytes) -> None:
    error = refusal(b'{"jsonrpc":"2.0","id":7,"method":"x",' + place % text + b"}")
    assert (error.kind, error.id) == ("parse_error" if text.isascii() else "invalid_encoding", 7)
    assert error.code == PARSE_ERROR


@pytest.mark.parametrize("id", [b'"\\ud800"', b'"\xff"', b'"a\\udc00b"', b'"\\\\ud800"'])
def test_an_id_that_holds_broken_text_is_not_echoed(id: bytes) -> None:
    error = refusal(b'{"jsonrpc":"2.0","id":%b,"method":"x","params":{"a":"\\ud800"}}' % id)
    assert (error.code, error.id) == (PARSE_ERROR, None)


def test_valid_text_outside_ascii_and_valid_surrogate_pairs_pass() -> None:
    data = '{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"ü€😀","b":"\\ud83d\\ude00"}}'.encode()
    assert decode(data).id == 1


def test_nesting_beyond_the_interpreter_is_a_parse_error_and_the_next_message_is_read() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    for data in (
        deep,
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":%b}}' % deep,
        b'{"id":%b}' % deep,
    ):
        assert refusal(data).kind in ("parse_error", "invalid_request")
    assert refusal(b'{"jsonrpc":"2.0","id":1,"method":"x","params":%b}' % deep).kind == "parse_error"
    assert decode(b'{"jsonrpc":"2.0","id":2,"method":"ping"}').id == 2


NOT_A_MESSAGE = {
    "array": (b"[]", None),
    "number": (b"1", None),
    "string": (b'"x"', None),
    "null": (b"null", None),
    "empty object": (b"{}", None),
    "no version": (b'{"id":1,"method":"x"}', 1),
    "other version": (b'{"jsonrpc":"1.0","id":1,"method":"x"}', 1),
    "version as number": (b'{"jsonrpc":2.0,"id":1,"method":"x"}', 1),
    "no method": (b'{"jsonrpc":"2.0","id":1}', 1),
    "method as number": (b'{"jsonrpc":"2.0","id":1,"method":5}', 1),
    "method null": (b'{"jsonrpc":"2.0","id":1,"method":null}', 1),
    "method as array": (b'{"jsonrpc":"2.0","id":1,"method":["x"]}', 1),
    "wrong case of method": (b'{"jsonrpc":"2.0","id":1,"Method":"x"}', 1),
    "wrong case of jsonrpc": (b'{"JSONRPC":"2.0","id":1,"method":"x"}', 1),
    "NUL in a key": (b'{"jsonrpc":"2.0","id":1,"method\\u0000":"x"}', 1),
    "result and error": (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', 1),
    "method and result": (b'{"jsonrpc":"2.0","id":1,"method":"x","result":{}}', 1),
    "method and error": (b'{"jsonrpc":"2.0","id":1,"method":"x","error":{}}', 1),
    "result without id": (b'{"jsonrpc":"2.0","result":{}}', None),
    "id null": (b'{"jsonrpc":"2.0","id":null,"method":"x"}', None),
    "id true": (b'{"jsonrpc":"2.0","id":true,"method":"x"}', None),
    "id fraction": (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', None),
    "id whole float": (b'{"jsonrpc":"2.0","id":1.0,"method":"x"}', None),
    "id object": (b'{"jsonrpc":"2.0","id":{},"method":"x"}', None),
    "id array": (b'{"jsonrpc":"2.0","id":[1],"method":"x"}', None),
    "id beyond 64 bits": (b'{"jsonrpc":"2.0","id":18446744073709551616,"method":"x"}', None),
    "id beyond floats": (b'{"jsonrpc":"2.0","id":1e999,"method":"x"}', None),
    "id very long": (b'{"jsonrpc":"2.0","id":"%b","method":"x"}' % (b"x" * 1025), None),
    "null id of a result": (b'{"jsonrpc":"2.0","id":null,"result":{}}', None),
}


@pytest.mark.parametrize(("data", "id"), NOT_A_MESSAGE.values(), ids=NOT_A_MESSAGE)
def test_json_that_is_no_message_is_an_invalid_request_with_the_legal_id(data: bytes, id: object) -> None:
    error = refusal(data)
    assert error.kind == "invalid_request"
    assert error.id == id


@pytest.mark.parametrize("id", [0, -1, 2**63, 2**64 - 1, -(2**63), "", "0", "ü", "x" * 1024])
def test_every_legal_id_is_kept_as_it_is(id: int | str) -> None:
    frame = decode(json.dumps({"jsonrpc": "2.0", "id": id, "method": "x"}).encode())
    assert frame.id == id
    assert type(frame.id) is type(id)


def test_two_ids_are_answered_without_one() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}')
    assert caught.value.id is None


def test_unknown_members_are_ignored() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":1,"method":"x","extra":{"a":[1]}}').method == "x"


# --- batches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"[]", True), (b" \n\t[", True), (b"{}", False), (b"", False), (b"  {", False), (b'"["', False)],
)
def test_a_batch_is_recognised_by_its_first_character(data: bytes, expected: bool) -> None:
    assert is_batch(data) is expected


def test_bad_entries_of_a_batch_do_not_spoil_the_others() -> None:
    entries = decode_batch(
        b'[{"jsonrpc":"2.0","id":1,"method":"a"},1,{"jsonrpc":"2.0","method":"b"},{"id":3},'
        b'[{"jsonrpc":"2.0","id":4,"method":"x"}]]'
    )
    shown = [entry.method if isinstance(entry, Frame) else (entry.kind, entry.id) for entry in entries]
    assert shown == ["a", ("invalid_request", None), "b", ("invalid_request", 3), ("invalid_request", None)]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"[]", "invalid_request"),
        (b"{}", "invalid_request"),
        (b"[1", "parse_error"),
        (b"[1,]", "parse_error"),
    ],
)
def test_a_batch_that_is_none_gets_one_error(data: bytes, kind: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_batch(data)
    assert caught.value.kind == kind


def test_a_batch_holds_no_more_than_its_limit_whatever_its_size() -> None:
    assert len(decode_batch(b"[1,1,1]", limit=3)) == 3
    with pytest.raises(RemoteProtocolError) as caught:
        decode_batch(b"[" + b"1," * 1_000_000 + b"1]", limit=3)
    assert caught.value.kind == "invalid_request"


def test_a_batch_is_joined_to_one_array() -> None:
    assert encode_batch([b'{"a":1}', b'{"b":2}']) == b'[{"a":1},{"b":2}]'


# --- writing -----------------------------------------------------------------------------------------------


def test_frames_are_written_with_their_version_and_without_absent_members() -> None:
    assert encode(RequestFrame(1, "ping")) == b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert encode(NotificationFrame("n", {"a": 1})) == b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}'
    assert encode(ResultFrame("a", {})) == b'{"jsonrpc":"2.0","id":"a","result":{}}'
    assert encode(ErrorFrame(None, {})) == b'{"jsonrpc":"2.0","id":null,"error":{}}'
    assert encode(ErrorFrame(UNSET, {})) == b'{"jsonrpc":"2.0","error":{}}'


# --- anything ----------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "id": st.integers() | st.text(max_size=5) | json_values,
        "method": st.sampled_from(["ping", "tools/call"]) | json_values,
        "params": json_values,
        "result": json_values,
        "error": json_values,
    },
)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | envelopes.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_give_a_frame_or_a_dovetail_error(data: bytes) -> None:
    for read in (decode, decode_batch):
        assert kind_raised(read, data) in (None, "parse_error", "invalid_request")


@settings(max_examples=200, deadline=None)
@given(envelopes, st.data())
def test_a_damaged_byte_never_escapes_as_another_error(
    envelope: dict[str, object], data: st.DataObject
) -> None:
    message = bytearray(json.dumps(envelope, ensure_ascii=data.draw(st.booleans())).encode(errors="replace"))
    if message:
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    try:
        frame = decode(bytes(message))
    except RemoteProtocolError:
        return
    for member in (frame.params, frame.result, frame.error):
        if isinstance(member, msgspec.Raw):
            bytes(member).decode()  # whatever came through is text


def test_the_errors_msgspec_may_raise_are_all_named() -> None:
    assert (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) == frames.UNREADABLE


@pytest.mark.parametrize(
    ("head", "id"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":', 5),
        (b'{"jsonrpc":"2.0","id":"five","method":"x","params":', "five"),
        (b'{"jsonrpc":"2.0","id":"a\\"b","method":"x","params":', 'a"b'),
        (b'{"jsonrpc":"2.0","x":{"id":9},"method":"\\"id\\":8","params":', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x","params":', None),
        (b'{"jsonrpc":"2.0","id":99999999999999999999,"method":"x","params":', None),
        (b'{"jsonrpc":"2.0","id":null,"method":"x","params":', None),
        (b'{"jsonrpc":"2.0","method":"x","params":', None),
    ],
)
@pytest.mark.parametrize("depth", [100_000, 2_000_000])
def test_endless_nesting_is_refused_with_the_id_that_stands_before_it(
    head: bytes, id: int | str | None, depth: int
) -> None:
    error = refusal(head + b'{"a":' * (depth // 5) + b"1" + b"}" * (depth // 5) + b"}")
    assert (error.kind, error.id) == ("parse_error", id)
    error = refusal(head + b"[" * depth + b"]" * depth + b"}")
    assert (error.kind, error.id) == ("parse_error", id)


@pytest.mark.parametrize(
    ("data", "answers"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', True),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', False),
        (b'{"jsonrpc":"2.0","id":1,"result":"\\ud800"}', True),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":"\\ud800"}', False),
        (b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}", True),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}", False),
    ],
)
def test_what_cannot_be_read_still_says_whether_it_was_meant_as_an_answer(data: bytes, answers: bool) -> None:
    error = refusal(data)
    assert (error.id, error.answers) == (1, answers)
