"""What no definition knows: found in what came, and written again where it is passed on."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dovetail import model as m
from dovetail.wire import unknown_fields
from dovetail.wire.codec import Codec
from dovetail.wire.methods import METHODS
from dovetail.wire.revisions import REVISIONS, Revision

TEXT = {"type": "text", "text": "hi"}
NEW = {"type": "hologram", "middleware": [1, 2]}
FILE = {"uri": "note://x", "text": "x"}
STRANGE: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"content": [TEXT], "mood": "good"}),
    ("tools/call", {"content": [{**TEXT, "colour": "red"}]}),
    ("tools/call", {"content": [TEXT, NEW]}),
    ("tools/call", {"content": [TEXT], "mood": "good", "_meta": {"example.com/x": 1}}),
    ("resources/read", {"contents": [{**FILE, "colour": "red"}], "mood": "good"}),
    ("prompts/get", {"messages": [{"role": "user", "content": {**TEXT, "colour": "red"}, "tone": "low"}]}),
    ("tools/list", {"tools": [{"name": "t", "inputSchema": {"type": "object"}, "colour": "red"}]}),
    (
        "resources/list",
        {"resources": [{"name": "a", "uri": "note://a"}, {"name": "b", "uri": "note://b", "size2": 3}]},
    ),
]
USUAL: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"content": [TEXT], "structuredContent": {"any": {"thing": 1}}, "_meta": {"a": 1}}),
    ("tools/list", {"tools": [{"name": "t", "inputSchema": {"type": "object", "x-own": 1}}]}),
    ("completion/complete", {"completion": {"values": ["v"]}}),
]


def keeping(revision: Revision) -> Codec:
    codec = Codec(revision)
    codec.preserve_unknown()
    codec.preserve_unknown()  # twice is once
    return codec


def passed_on(codec: Codec, method: str, result: dict[str, Any]) -> dict[str, Any]:
    """``result`` as it is after it was read and written."""
    read = codec.decode_result(METHODS[method], json.dumps(result).encode())
    return json.loads(codec.encode_result(1, read))["result"]


@pytest.mark.parametrize("revision", REVISIONS, ids=lambda one: one.name)
@pytest.mark.parametrize(("method", "result"), STRANGE)
def test_unknown_members_are_encoded_again(revision: Revision, method: str, result: dict[str, Any]) -> None:
    found = passed_on(keeping(revision), method, result)
    assert {name: value for name, value in found.items() if name in result} == result
    assert unknown_fields.ORIGINAL_KEY not in json.dumps(found)


@pytest.mark.parametrize(("method", "result"), STRANGE)
def test_without_being_asked_nothing_is_kept(method: str, result: dict[str, Any]) -> None:
    assert passed_on(Codec(REVISIONS[-1]), method, result) != result


@pytest.mark.parametrize(("method", "result"), USUAL)
def test_where_all_is_known_nothing_is_kept(method: str, result: dict[str, Any]) -> None:
    codec = keeping(REVISIONS[-1])
    read = codec.decode_result(METHODS[method], json.dumps(result).encode())
    entries = read.tools if method == "tools/list" else [read]
    assert not any(unknown_fields.ORIGINAL_KEY in (one.meta or {}) for one in entries)
    assert {
        name: value for name, value in passed_on(codec, method, result).items() if name in result
    } == result


def test_a_kept_result_is_prepared_like_any_other() -> None:
    codec = keeping(REVISIONS[-1])
    read = codec.decode_result(METHODS["tools/call"], json.dumps(STRANGE[0][1]).encode())
    assert json.loads(bytes(codec.prepare(read)))["mood"] == "good"


def test_what_was_kept_can_be_forgotten() -> None:
    codec = keeping(REVISIONS[-1])
    read = codec.decode_result(METHODS["tools/call"], json.dumps(STRANGE[0][1]).encode())
    assert unknown_fields.ORIGINAL_KEY in read.meta
    assert unknown_fields.without_original(read).meta is msgspec.UNSET
    plain = m.CallToolResult(content=[])
    assert unknown_fields.without_original(plain) is plain


def test_no_peer_can_make_what_is_kept() -> None:
    forged = {"content": [TEXT], "_meta": {unknown_fields.ORIGINAL_KEY: {"data": {"mood": "forged"}}}}
    found = passed_on(keeping(REVISIONS[-1]), "tools/call", forged)
    assert "mood" not in found
    assert found["content"] == [TEXT]


def test_params_keep_unknown_members() -> None:
    came = Raw(b'{"name":"t","arguments":{"a":1},"urgency":"high"}')
    params = m.CallToolRequestParams(name="other", arguments=Raw(b'{"a":1}'))
    assert unknown_fields.has_unknown(m.CallToolRequestParams, came)
    found = json.loads(Codec(REVISIONS[-1]).encode_request(1, "tools/call", params, came=came))["params"]
    assert (found["name"], found["urgency"], found["arguments"]) == ("other", "high", {"a": 1})


@pytest.mark.parametrize(
    ("came", "goes", "found"),
    [
        ([{**TEXT, "colour": "red"}], [TEXT, TEXT], [TEXT, TEXT]),
        ([{**TEXT, "colour": "red"}], "none", "none"),
        ([{**TEXT, "colour": "red"}], [{"type": "image", "data": "AA==", "mimeType": "image/png"}], None),
        ([NEW], [TEXT], [NEW]),
    ],
    ids=["another number", "another form", "another type", "a block nobody knows"],
)
def test_what_has_another_form_now_stays_as_it_is(came: Any, goes: Any, found: Any) -> None:
    sides = [msgspec.json.encode({"content": one}) for one in (came, goes)]
    written = json.loads(unknown_fields.merge_unknown(m.CallToolResult, *sides))["content"]
    assert written == (goes if found is None else found)
