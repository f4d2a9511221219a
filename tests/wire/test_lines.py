"""Newline framing: the same lines come out however the bytes were cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import RemoteProtocolError
from dovetail.wire.lines import LineBuffer


def lines_of(*pieces: bytes, limit: int = 100) -> list[bytes]:
    buffer = LineBuffer(limit)
    found: list[bytes] = []
    for piece in pieces:
        buffer.feed(piece)
        while (line := buffer.next_line()) is not None:
            found.append(line)
    last = buffer.finish()
    return found if last is None else [*found, last]


def test_a_line_split_anywhere_comes_out_whole() -> None:
    for cut in range(7):
        assert lines_of(b"hello\n"[:cut], b"hello\n"[cut:]) == [b"hello"]


def test_carriage_returns_before_the_newline_are_not_part_of_the_line() -> None:
    assert lines_of(b"a\r\nb\r", b"\nc") == [b"a", b"b", b"c"]


def test_empty_lines_are_skipped() -> None:
    assert lines_of(b"\n\r\n  \n\t\na\n\n\nb\n") == [b"a", b"b"]


def test_the_last_line_needs_no_newline() -> None:
    assert lines_of(b"a\nb") == [b"a", b"b"]
    assert lines_of(b"a\n") == [b"a"]
    assert lines_of(b"a\n  ") == [b"a"]


def test_finish_leaves_an_empty_buffer() -> None:
    buffer = LineBuffer(10)
    buffer.feed(b"abc")
    assert buffer.next_line() is None
    assert buffer.finish() == b"abc"
    assert buffer.finish() is None
    buffer.feed(b"x\n")
    assert buffer.next_line() == b"x"


@pytest.mark.parametrize("data", [b"12345\n", b"12345\r\n", b"12345", b"12345\r"])
def test_a_line_of_exactly_the_limit_passes(data: bytes) -> None:
    assert lines_of(data, limit=5) == [b"12345"]


@pytest.mark.parametrize("data", [b"123456\n", b"123456", b"1234567", b"123456\r\n", b"ok\n123456\n"])
def test_a_longer_line_is_refused_finished_or_not(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        lines_of(data, limit=5)
    assert caught.value.kind == "message_too_large"
    assert caught.value.data == {"maxSize": 5, "unit": "bytes"}


def test_lines_before_the_oversized_one_are_still_delivered() -> None:
    buffer = LineBuffer(5)
    buffer.feed(b"one\n123456789\n")
    assert buffer.next_line() == b"one"
    with pytest.raises(RemoteProtocolError):
        buffer.next_line()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80).map(lambda data: data.replace(b"x", b"\n").replace(b"y", b"\r\n")), st.data())
def test_any_cut_gives_the_same_lines(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert lines_of(*pieces) == lines_of(data)


def test_many_lines_in_one_piece_cost_linear_time() -> None:
    # Cutting the front off per line would move 8 GB here, and the test would not end in its time.
    assert len(lines_of(b"x\n" * 200_000)) == 200_000
