"""The runner itself: it must notice every way a server can leave its lines."""

from pathlib import Path

import pytest

from tests.support.aio import run_limited
from tests.support.transcripts import check_lines, hold, load, matches

PARAMS = '{"name": "add", "arguments": {"a": 1, "b": 1}}'
CALL = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ' + PARAMS + "}"
GOOD = 'S> {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "2"}]}}'


def written(folder: Path, lines: str, headers: str = "") -> Path:
    path = folder / "2025-06-18" / "case.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"shows: a case\nserver: tools\n{headers}\nC> {CALL}\n{lines}\n")
    return path


def test_a_server_that_keeps_to_its_lines_passes(tmp_path: Path) -> None:
    transcript = load(written(tmp_path, GOOD))
    check_lines(transcript)
    run_limited(hold(transcript))


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (GOOD.replace('"2"}', '"3"}'), "expected"),
        (GOOD.replace('"id": 1', '"id": 2'), "expected"),
        (GOOD.replace('"text": "2"', '"text": "2", "annotations": {}'), "expected"),
        ("# nothing is expected", "and then"),
    ],
)
def test_a_server_that_leaves_its_lines_is_noticed(tmp_path: Path, lines: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        run_limited(hold(load(written(tmp_path, lines))))


def test_a_line_the_schema_forbids_is_noticed(tmp_path: Path) -> None:
    transcript = load(written(tmp_path, 'S> {"jsonrpc": "2.0", "id": 1, "result": {"content": "<any>"}}'))
    with pytest.raises(AssertionError, match="CallToolResult"):
        check_lines(transcript)


@pytest.mark.parametrize(
    "text", ["", "shows: x\n", "C> {}\n", "shows: x\nwho: me\n\nC> {}\n", "shows: x\n\nnoise"]
)
def test_a_file_that_is_no_transcript_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.txt"):
        load(path)


@pytest.mark.parametrize(
    ("expected", "actual", "exact", "equal"),
    [
        ({"a": 1}, {"a": 1}, True, True),
        ({"a": 1}, {"a": True}, True, False),
        ({"a": 1}, {"a": 1.0}, True, True),
        ({"a": 1}, {"a": 1, "b": 2}, True, False),
        ({"a": 1}, {"a": 1, "b": 2}, False, True),
        ({"a": 1, "b": 2}, {"a": 1}, False, False),
        ({"a": None}, {}, True, False),
        ({"isError": False}, {}, True, True),
        ({"isError": True}, {}, True, False),
        (["<any>", "<any>"], [1, {}], True, True),
        (["<x>", "<x>"], [1, 2], True, False),
        (["<x>", "<x>"], [2, 2], True, True),
        ([1], [1, 2], False, False),
        ({"<key>": 1}, {"k": 1}, True, True),
        ({"code": 1, "message": "m"}, {"code": 1, "message": "m", "data": {"kind": "k"}}, True, True),
        ({"code": 1, "message": "m", "data": {"a": 1}}, {"code": 1, "message": "m"}, True, False),
        ({"code": 1, "message": "m", "data": ["a"]}, {"code": 1, "message": "m", "data": ["b"]}, True, False),
    ],
)
def test_what_counts_as_the_same(expected: object, actual: object, exact: bool, equal: bool) -> None:
    assert matches(expected, actual, exact=exact) is equal
