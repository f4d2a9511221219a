"""Long strings of a result are written piece by piece, and what comes of it is what would have come in one go."""

from functools import partial
from typing import Any

import pytest

from dovetail import model as m
from dovetail.core.batch import at_once
from dovetail.errors import LocalProtocolError
from dovetail.settings import LARGE_ANSWER, LONG_PIECE
from dovetail.wire.codec import codec_for
from dovetail.wire.long_results import LongResult
from dovetail.wire.revisions import REVISIONS, Revision

LONG = 'ä"\\\n\u2028x' * LARGE_ANSWER
TEXTS = {
    "a text": m.CallToolResult([m.TextContent(LONG)]),
    "a text that is data too": m.CallToolResult([m.TextContent(LONG)], structured_content=LONG),
    "blocks": m.CallToolResult(
        [m.TextContent("short"), m.TextContent(LONG), m.ImageContent(LONG, "image/png")]
    ),
    "data": m.CallToolResult([], structured_content={"rows": [{"one": LONG, "two": "short"}, LONG + "!"]}),
    "a resource": m.ReadResourceResult([m.ResourceContents("a://b", text=LONG)]),
}


@pytest.mark.parametrize("result", TEXTS.values(), ids=list(TEXTS))
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_it_says_the_same_as_in_one_go(revision: Revision, result: Any) -> None:
    codec = codec_for(revision)
    long = LongResult(result, partial(codec.encode_result, 7))
    whole = codec.encode_result(7, result)
    if len(whole) > LARGE_ANSWER:  # else an older revision does not say it at all
        assert LARGE_ANSWER < long.size <= len(whole)
        assert at_once(long.written()) == whole
        pieces = at_once(long.pieces())
        assert len(pieces) == len(whole)
        assert b"".join(pieces) == whole


def test_no_step_writes_more_than_a_piece() -> None:
    result = m.CallToolResult([m.TextContent("x" * (8 * LONG_PIECE))])
    steps = LongResult(result, partial(codec_for(REVISIONS[-1]).encode_result, 7)).written()
    assert len(list(steps)) == 9  # and what stands behind it


def test_what_has_no_long_string_is_like_any() -> None:
    result = m.CallToolResult([m.TextContent("x" * LARGE_ANSWER)])
    assert LongResult(result, partial(codec_for(REVISIONS[-1]).encode_result, 7)).size == 0


def test_what_became_part_of_something_else_is_written_in_one_go() -> None:
    result = m.CallToolResult([m.TextContent(LONG)])

    def quoted(rest: Any) -> bytes:
        return repr(rest.content[0].text + " and more").encode()

    assert LongResult(result, quoted).size == 0


def test_what_json_cannot_write_is_said_as_in_one_go() -> None:
    codec = codec_for(REVISIONS[-1])
    result = m.CallToolResult([m.TextContent("x" * LARGE_ANSWER + "\ud800")])
    with pytest.raises(LocalProtocolError):
        codec.encode_result(7, result)
    with pytest.raises(LocalProtocolError):
        at_once(LongResult(result, partial(codec.encode_result, 7)).written())
