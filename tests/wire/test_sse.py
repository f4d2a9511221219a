"""SSE streams: the rules of WHATWG, whatever the cut, and within limits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import RemoteProtocolError
from dovetail.wire.sse import COMMENT, EventParser, SseEvent, encode_event


def events_of(*pieces: bytes, limit: int = 1000) -> list[SseEvent]:
    parser = EventParser(limit)
    found = [event for piece in pieces for event in parser.feed(piece)]
    parser.finish()
    return found


def test_an_event_is_complete_at_its_empty_line() -> None:
    assert events_of(b"data: a\n\n") == [SseEvent(b"a")]
    assert events_of(b"data: a\n") == []


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_in_any_of_the_three_ways(end: bytes) -> None:
    data = end.join(
        [b"event: ping", b"data: a", b"data: b", b"id: 7", b"retry: 10", b"", b"data: c", b"", b""]
    )
    assert events_of(data) == [SseEvent(b"a\nb", "ping", "7", 10), SseEvent(b"c")]


def test_an_end_of_line_may_be_cut_in_two() -> None:
    data = b"event: e\r\nid: 1\r\ndata: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n"
    for cut in range(len(data)):
        assert events_of(data[:cut], data[cut:]) == [SseEvent(b"a\nb", "e", "1"), SseEvent(b"c")]
    assert events_of(*(data[at : at + 1] for at in range(len(data)))) == events_of(data)


def test_ends_of_lines_may_be_mixed() -> None:
    assert events_of(b"data: a\r\n\rdata: b\n\r\n") == [SseEvent(b"a"), SseEvent(b"b")]


def test_one_byte_order_mark_at_the_beginning_is_skipped() -> None:
    assert events_of(b"\xef\xbb\xbfdata: a\n\n") == [SseEvent(b"a")]
    assert events_of(b"\xef", b"\xbb", b"\xbfdata: a\n\n") == [SseEvent(b"a")]
    assert events_of(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == [SseEvent(b"a")]


def test_comments_and_unknown_fields_are_ignored() -> None:
    assert events_of(COMMENT + b": hello\nfoo: bar\ndata: a\n\n") == [SseEvent(b"a")]
    assert events_of(COMMENT * 5) == []


def test_only_one_space_after_the_colon_belongs_to_the_syntax() -> None:
    assert events_of(b"data:a\n\ndata:  b\n\ndata\n\n") == [SseEvent(b"a"), SseEvent(b" b")]


def test_a_priming_event_gives_its_id_without_data() -> None:
    assert events_of(b"id: 1\ndata:\n\n") == [SseEvent(None, id="1")]
    assert events_of(b"id: 1\nretry: 50\n\n") == [SseEvent(None, id="1", retry=50)]


def test_an_id_with_a_nul_is_ignored_and_an_empty_one_resets() -> None:
    assert events_of(b"id: a\0b\ndata: x\n\n") == [SseEvent(b"x")]
    assert events_of(b"id\ndata: x\n\n") == [SseEvent(b"x", id="")]


def test_an_id_too_long_for_a_header_is_ignored() -> None:
    assert events_of(b"id: " + b"a" * 2000 + b"\ndata: x\n\n", limit=5000) == [SseEvent(b"x")]


@pytest.mark.parametrize("value", [b"1.5", b"-1", b"", b"x", b"9" * 13, "٣".encode()])
def test_a_retry_that_is_no_number_is_ignored(value: bytes) -> None:
    assert events_of(b"retry: " + value + b"\ndata: x\n\n") == [SseEvent(b"x")]


def test_fields_do_not_leak_into_the_next_event() -> None:
    assert events_of(b"event: a\nid: 1\ndata: x\n\ndata: y\n\n")[1] == SseEvent(b"y")


@pytest.mark.parametrize(
    "data",
    [
        b"data: " + b"x" * 200 + b"\n\n",
        b"data: " + b"x" * 200,
        b": " + b"x" * 200,
        b"data: xxxxxxxxxxxxxxxxxxxxxxxxx\n" * 10,
        b"x" * 200,
    ],
)
def test_an_event_beyond_the_limit_is_refused_at_any_cut(data: bytes) -> None:
    for size in (1, 7, len(data)):
        with pytest.raises(RemoteProtocolError) as caught:
            events_of(*(data[start : start + size] for start in range(0, len(data), size)), limit=100)
        assert caught.value.kind == "message_too_large"


def test_many_small_events_never_reach_the_limit() -> None:
    assert len(events_of(b"data: 12345\n\n" * 1000, limit=10)) == 1000


def test_a_stream_of_carriage_returns_costs_linear_time() -> None:
    assert events_of(b"\r" * 300_000, limit=1 << 20) == []


def test_the_writer_splits_data_into_lines() -> None:
    assert encode_event(b"a") == b"data: a\n\n"
    assert encode_event(b"a\nb\r\nc", id="1", event="e", retry=5) == (
        b"event: e\nid: 1\nretry: 5\ndata: a\ndata: b\ndata: c\n\n"
    )
    assert encode_event(b"", id="1") == b"id: 1\ndata: \n\n"


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\0b"])
def test_the_writer_refuses_what_would_break_the_stream(value: str) -> None:
    with pytest.raises(ValueError, match="line breaks"):
        encode_event(b"x", id=value)
    with pytest.raises(ValueError, match="line breaks"):
        encode_event(b"x", event=value)


names = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=("Cs",)), max_size=8)


@settings(max_examples=150, deadline=None)
@given(
    st.binary(min_size=1, max_size=40).map(lambda data: data.replace(b"\r", b"-")),
    st.none() | names,
    st.none() | names.filter(bool),
    st.none() | st.integers(0, 10**9),
)
def test_what_the_writer_writes_the_parser_reads(
    data: bytes, id: str | None, event: str | None, retry: int | None
) -> None:
    written = encode_event(data, id=id, event=event, retry=retry)
    (read,) = events_of(written) or [SseEvent(None)]
    expected = SseEvent(data, event or "message", id, retry)
    if data.strip(b"\n"):
        assert read == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                b"data: a",
                b"data:",
                b"id: 1",
                b"event: e",
                b"retry: 5",
                b":c",
                b"\r",
                b"\n",
                b"\r\n",
                b"\n\n",
                b"\xef",
            ]
        ),
        max_size=12,
    ).map(b"".join),
    st.data(),
)
def test_any_cut_gives_the_same_events(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert events_of(*pieces) == events_of(data)


def test_events_before_one_that_is_too_large_are_given_out_first() -> None:
    events = iter(EventParser(10).feed(b"data: a\n\ndata: b\n\ndata: " + b"c" * 50 + b"\n\n"))
    assert [next(events), next(events)] == [SseEvent(b"a"), SseEvent(b"b")]
    with pytest.raises(RemoteProtocolError) as caught:
        next(events)
    assert caught.value.kind == "message_too_large"


@pytest.mark.parametrize("idle", [b"\n", b"\r", b"\r\n", b":\n", b": a comment\r\n", b"\n:x\r\r\n"])
@pytest.mark.parametrize("cut", [1, 2, 3, 7, 1000])
def test_empty_lines_and_comments_between_events_change_nothing(idle: bytes, cut: int) -> None:
    stream = (
        idle * 5
        + b"data: 1\n\n"
        + idle * 6
        + b"id: 7\n"
        + b":\n"
        + b"data: 2\r\r"
        + idle * 4
        + b"data: 3\n\n"
    )
    parser = EventParser(limit=100)
    pieces = [stream[at : at + cut] for at in range(0, len(stream), cut)]
    events = [event for piece in pieces for event in parser.feed(piece)]
    assert [event.data for event in events] == [b"1", b"2", b"3"]
    assert [event.id for event in events] == [None, "7", None]


def test_an_event_of_very_many_lines_is_refused() -> None:
    parser = EventParser(limit=16 << 20)
    with pytest.raises(RemoteProtocolError, match="lines"):
        list(parser.feed(b"data:\n" * 70_000))
