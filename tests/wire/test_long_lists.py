"""Long lists, read a few entries at a time, are what they are when they are read at once."""

from collections.abc import Generator
from typing import Any

import pytest

from dovetail.errors import RemoteProtocolError
from dovetail.model import ListToolsResult
from dovetail.wire import long_lists
from dovetail.wire.codec import codec_for
from dovetail.wire.methods import METHODS
from dovetail.wire.revisions import BY_NAME

TOOL = b'{"name":"%d","inputSchema":{"type":"object"}, "unknown": [1, "]"]}'
LONG = b" ,\n".join(TOOL % number for number in range(10_000))
SHORT = TOOL % 1


def steps(work: Generator[None, None, Any]) -> tuple[int, Any]:
    count = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            return count, done.value
        count += 1


PAGES = {
    "alone": b'{"tools":[%b]}' % LONG,
    "first": b'{"tools":[%b],"nextCursor":"c","_meta":{"a":[]}}' % LONG,
    "last": b' { "_meta" : {"tools":[%b]} , "nextCursor":"c", "tools" : [ %b ] } ' % (SHORT, LONG),
    "twice": b'{"tools":[%b],"tools":[%b]}' % (SHORT, LONG),
    "beside something as long": b'{"tools":[%b],"_meta":{"a":[%b]}}' % (LONG, LONG),
    "one long entry": b'{"tools":[{"name":"a","inputSchema":{"a":"%b"}}]}' % (b"x" * 400_000),
    "short": b'{"tools":[%b]}' % SHORT,
}


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("what", PAGES)
def test_a_page_is_the_same_either_way(what: str, revision: str) -> None:
    codec, row = codec_for(BY_NAME[revision]), METHODS["tools/list"]
    count, page = steps(long_lists.decode_result(codec, row, PAGES[what]))
    assert page == codec.decode_result(row, PAGES[what])
    assert (count > 5) is (what in ("alone", "first", "last", "twice"))


def test_what_is_kept_of_a_page_can_be_read_again() -> None:
    codec, row = codec_for(BY_NAME["2026-07-28"]), METHODS["tools/list"]
    page = codec.decode_result(row, PAGES["first"])
    _, data = steps(long_lists.encoded(page))
    _, again = steps(long_lists.decode(ListToolsResult, data, lambda part: codec.decode_result(row, part)))
    assert again == page


def test_a_question_in_place_of_a_list_is_one() -> None:
    codec, row = codec_for(BY_NAME["2026-07-28"]), METHODS["tools/call"]
    data = b'{"resultType":"input_required","requestState":"%b","content":[%b]}' % (b"x" * 1000, LONG)
    assert steps(long_lists.decode_result(codec, row, data))[1] == codec.decode_result(row, data)


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("broken", [b"0", b"{}", b'{"name":1,"inputSchema":{}}'])
def test_an_entry_that_is_none_is_refused_wherever_it_stands(broken: bytes, revision: str) -> None:
    codec, row = codec_for(BY_NAME[revision]), METHODS["tools/list"]
    for entries in ((broken, LONG), (LONG, broken), (LONG, broken, LONG)):
        with pytest.raises(RemoteProtocolError, match="malformed"):
            steps(long_lists.decode_result(codec, row, b'{"tools":[%b]}' % b",".join(entries)))
