"""For any value: it comes back as it was, and what the newest revision says every older one can read."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from dovetail.errors import LocalProtocolError
from dovetail.model import meta
from dovetail.wire.codec import codec_for
from dovetail.wire.frames import decode
from dovetail.wire.methods import METHODS
from dovetail.wire.revisions import REVISIONS
from tests.support import strategies as s
from tests.support.schemas import validate
from tests.wire.test_frames import kind_raised

few = settings(max_examples=5, deadline=None)
METADATA = {meta.PROTOCOL_VERSION: "2026-07-28", meta.CLIENT_CAPABILITIES: {}}


def with_metadata(value: Any, r: int) -> Any:
    if r == 5:
        value.meta = {**({} if value.meta is UNSET else value.meta), **METADATA}
    return value


@pytest.mark.parametrize(("method", "r"), s.rows(s.PARAMS))
@few
@given(data=st.data())
def test_params_round_trip_on_each_revision_that_knows_them(method: str, r: int, data: Any) -> None:
    revision = REVISIONS[r - 1]
    codec = codec_for(revision)
    if not METHODS[method].on(revision):
        return  # an entry of `input_required` there, not a message
    params = with_metadata(data.draw(s.PARAMS[method].of(r)), r)
    message = codec.encode_request(7, method, params)
    validate(message, revision, method=method, kind="request")
    frame = decode(message)
    assert (frame.id, frame.method) == (7, method)
    assert msgspec.json.encode(codec.decode_params(METHODS[method], frame.params)) == msgspec.json.encode(
        params
    )


@pytest.mark.parametrize(("method", "r"), s.rows(s.NOTIFICATIONS))
@few
@given(data=st.data())
def test_notifications_round_trip_on_each_revision_that_knows_them(method: str, r: int, data: Any) -> None:
    revision = REVISIONS[r - 1]
    codec = codec_for(revision)
    params = data.draw(s.NOTIFICATIONS[method].of(r))
    message = codec.encode_notification(method, params)
    validate(message, revision, method=method, kind="notification")
    assert codec.decode_params(METHODS[method], decode(message).params) == params


@pytest.mark.parametrize(("method", "r"), s.rows(s.RESULTS))
@few
@given(data=st.data())
def test_results_round_trip_on_each_revision_that_knows_them(method: str, r: int, data: Any) -> None:
    revision = REVISIONS[r - 1]
    codec = codec_for(revision)
    if not METHODS[method].on(revision):
        return
    result = data.draw(s.RESULTS[method].of(r))
    message = codec.encode_result("x", result)
    validate(message, revision, method=method, kind="result")
    assert b"\n" not in message
    read = codec.decode_result(METHODS[method], decode(message).result)  # type: ignore[arg-type]
    assert codec.encode_result("x", read) == message or msgspec.json.decode(
        codec.encode_result("x", read)
    ) == msgspec.json.decode(message)


@pytest.mark.parametrize("method", [name for name, row in s.RESULTS.items() if row.until == 5])
@few
@given(data=st.data())
def test_what_the_newest_revision_says_every_older_one_can_read(method: str, data: Any) -> None:
    result = data.draw(s.RESULTS[method].of(5))
    before = msgspec.json.encode(result)
    for revision in REVISIONS:
        if METHODS[method].on(revision):
            try:
                message = codec_for(revision).encode_result(1, result)
            except LocalProtocolError:
                continue
            validate(message, revision, method=method, kind="result")
    assert msgspec.json.encode(result) == before


@pytest.mark.parametrize(
    "method", ["tools/call", "completion/complete", "sampling/createMessage", "notifications/progress"]
)
@settings(max_examples=80, deadline=None)
@given(
    data=st.binary(max_size=40)
    | st.from_regex(r'\{"[a-z]{1,9}":("x"|1|null|\[\]|\{\})\}', fullmatch=True).map(str.encode)
)
def test_any_bytes_as_params_or_result_raise_only_dovetail_errors(method: str, data: bytes) -> None:
    row = METHODS[method]
    for revision in REVISIONS:
        codec = codec_for(revision)
        for read in (codec.decode_params, codec.decode_result):
            if row.kind == "notification" and read == codec.decode_result:
                continue
            kind = kind_raised(read, row, data)
            assert kind in (None, "invalid_params", "validation_failed", "parse_error")
