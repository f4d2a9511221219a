"""Limits that all connections of one server share."""

import json

import pytest

from dovetail.core.batch import Batch
from dovetail.core.channel import Session
from dovetail.core.endpoint import Endpoint
from dovetail.core.limits import UNCOUNTED_BYTES, SharedLimit
from dovetail.model import CallToolResult, ClientCapabilities, TextContent
from dovetail.settings import Limits

from .messages import request, server_admission


def test_what_is_acquired_can_be_acquired_again_once_it_is_released() -> None:
    limit = SharedLimit(10)
    assert limit.acquire(6)
    assert not limit.acquire(5)
    assert limit.acquire(4)
    limit.release(6)
    assert limit.acquire(5)
    assert limit.in_use == 9


def test_a_response_counts_while_it_is_sent() -> None:
    limit = SharedLimit(3 * UNCOUNTED_BYTES)
    with limit.sending(2 * UNCOUNTED_BYTES) as first:
        assert first is None
        assert limit.in_use == 2 * UNCOUNTED_BYTES
        with limit.sending(2 * UNCOUNTED_BYTES) as second:
            assert second is not None
            assert (second.code, second.retry_after) == (1004, 5.0)
        with limit.sending(UNCOUNTED_BYTES) as small:
            assert small is None
    assert limit.in_use == 0


def test_a_response_is_released_though_sending_it_fails() -> None:
    limit = SharedLimit(2 * UNCOUNTED_BYTES)
    with pytest.raises(ConnectionError), limit.sending(2 * UNCOUNTED_BYTES):
        raise ConnectionError
    assert limit.in_use == 0


def test_a_response_above_the_maximum_can_be_sent_while_nothing_else_is() -> None:
    limit = SharedLimit(2 * UNCOUNTED_BYTES)
    with limit.sending(5 * UNCOUNTED_BYTES) as first, limit.sending(2 * UNCOUNTED_BYTES) as second:
        assert first is None
        assert second is not None
    assert limit.in_use == 0


def test_the_responses_of_a_batch_count_until_the_batch_is_gone() -> None:
    limit = SharedLimit(4 * UNCOUNTED_BYTES)
    batch = Batch(limit)
    assert batch.has_room(UNCOUNTED_BYTES, most=1 << 30)
    assert limit.in_use == 0, "small batches are not counted"
    assert batch.has_room(UNCOUNTED_BYTES, most=1 << 30)
    assert limit.in_use == 2 * UNCOUNTED_BYTES
    assert not batch.has_room(3 * UNCOUNTED_BYTES, most=1 << 30)
    assert batch.full
    del batch
    assert limit.in_use == 0


def test_the_responses_of_all_batches_share_one_limit() -> None:
    admission = server_admission(limits=Limits(max_buffered_bytes=3 * UNCOUNTED_BYTES))
    codec = admission.codecs["2025-03-26"]
    done = CallToolResult([TextContent("x" * 2 * UNCOUNTED_BYTES)])

    def call() -> tuple[Endpoint, list[object]]:
        session = Session(
            revision=codec.revision, codec=codec, capabilities=ClientCapabilities(), phase="ready"
        )
        endpoint = Endpoint(admission, session=session)
        batch = b"[%b]" % request("tools/call", {"name": "a"}, 1)
        events = endpoint.receive(batch)
        assert isinstance(events, list)
        return endpoint, [*events]

    (first, [one]), (second, [other]) = call(), call()
    sent = first.send_result(one, done)  # type: ignore[arg-type]
    assert sent is not None
    assert "result" in json.loads(sent)[0]
    refused = second.send_result(other, done)  # type: ignore[arg-type]
    assert refused is not None
    assert json.loads(refused)[0]["error"]["code"] == 1004
    del one
    assert admission.shared.buffered_bytes.in_use == 0
