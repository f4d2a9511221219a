"""Results that go from one revision to another as they were written: the same as if they had been read and written."""

import json
from typing import Any

import pytest

from dovetail import model as m
from dovetail.wire.codec import Codec
from dovetail.wire.methods import METHODS
from dovetail.wire.revisions import REVISIONS, Revision

TEXT = {"type": "text", "text": "hi"}
SEEN = {"audience": ["user"], "lastModified": "2025-01-01T00:00:00Z"}
FILE = {"uri": "note://x", "text": "x", "mimeType": "text/plain", "_meta": {"a": 1}}
LINK = {
    "type": "resource_link",
    "name": "l",
    "uri": "note://l",
    "title": "L",
    "icons": [{"src": "https://x/i.png"}],
}
RESULTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"content": [TEXT]}),
    ("tools/call", {"content": [TEXT], "isError": True, "_meta": {"example.com/x": 1}}),
    ("tools/call", {"content": [TEXT], "structuredContent": {"a": 1}}),
    ("tools/call", {"content": [TEXT], "structuredContent": [1]}),
    ("tools/call", {"content": [{**TEXT, "annotations": SEEN, "_meta": {"a": 1}}]}),
    ("tools/call", {"content": [LINK, {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]}),
    ("tools/call", {"content": [{"type": "resource", "resource": FILE}]}),
    ("tools/call", {"content": [{"type": "text", "text": 'the word "structuredContent" and \\u0041 alone'}]}),
    ("resources/read", {"contents": [FILE]}),
    ("prompts/get", {"messages": [{"role": "user", "content": TEXT}], "description": "d"}),
    ("prompts/get", {"messages": [{"role": "user", "content": LINK}]}),
    ("completion/complete", {"completion": {"values": ["v"], "total": 1, "hasMore": False}}),
]
SHORT = {"2025-06-18": 9, "2025-11-25": 11}
"""Of how many nothing has to be read, at least."""


@pytest.mark.parametrize("front", [one for one in REVISIONS if not one.modern], ids=str)
@pytest.mark.parametrize("behind", REVISIONS, ids=str)
def test_what_is_passed_is_what_would_be_written(front: Revision, behind: Revision) -> None:
    reads, writes = Codec(behind), Codec(front)
    short = 0
    for method, result in RESULTS:
        if behind.modern:
            result = {"resultType": "complete", **result}
            if method == "resources/read":
                result |= {"ttlMs": 5, "cacheScope": "public"}
        row = METHODS[method]
        data = json.dumps(result).encode()
        passed = writes.convert_encoded(row.result, data)
        if passed is not None:
            short += 1
            written = writes.encode_result(1, reads.decode_result(row, data))
            assert json.loads(bytes(passed)) == json.loads(written)["result"], result
    assert short >= SHORT.get(front.name, 0)


def test_a_name_with_escapes_in_it_is_read() -> None:
    data = rb'{"content":[],"\u0073tructuredContent":[1]}'
    assert Codec(REVISIONS[3]).convert_encoded(m.CallToolResult, data) is None
