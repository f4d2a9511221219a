"""Names and forms of other systems in received messages: accepted in every dialect, except by strict servers."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import RemoteProtocolError
from dovetail.wire.codec import codec_for
from dovetail.wire.dialects import DIALECTS, OFFICIAL, Dialect, rewrite, without_aliases
from dovetail.wire.dialects.aliases import METHODS as ALIASED
from dovetail.wire.dialects.aliases import PARAMS, RESULTS
from dovetail.wire.methods import METHODS
from dovetail.wire.revisions import R4, R5

REF = {"type": "ref/tool", "name": "sql_query"}
VALUE = {"name": "query", "value": "SELECT * FR"}
HELLO = {"role": "user", "content": {"type": "text", "text": "hello"}}

PARAMS_CASES: list[tuple[str, Any, Any]] = [
    (
        "tools/call",
        {"name": "backup", "arguments": {"limit": 1}, "progressToken": "p1"},
        {"name": "backup", "arguments": {"limit": 1}, "_meta": {"progressToken": "p1"}},
    ),
    (
        "tools/call",
        {"name": "backup", "progressToken": "outer", "_meta": {"progressToken": "inner"}},
        {"name": "backup", "_meta": {"progressToken": "inner"}},
    ),
    (
        "completion/complete",
        {"ref": {"type": "tool", "name": "sql_query"}, "argument": VALUE},
        {"ref": REF, "argument": VALUE},
    ),
    (
        "completion/complete",
        {"reference": REF, "argument": "query"},
        {"ref": REF, "argument": {"name": "query", "value": ""}},
    ),
    (
        "completion/complete",
        {"ref": {"type": "resource", "name": "file:///{path}"}, "argument": VALUE},
        {"ref": {"type": "ref/resource", "uri": "file:///{path}"}, "argument": VALUE},
    ),
    (
        "completion/complete",
        {"ref": {"type": "prompt", "name": "review"}, "argument": VALUE},
        {"ref": {"type": "ref/prompt", "name": "review"}, "argument": VALUE},
    ),
    (
        "sampling/createMessage",
        {
            "messages": [HELLO],
            "modelPreferences": {
                "costPriority": 0.5,
                "temperature": 0.7,
                "maxTokens": 1024,
                "stopSequences": ["Human:"],
            },
            "includedContext": "this_request",
        },
        {
            "messages": [HELLO],
            "maxTokens": 1024,
            "modelPreferences": {"costPriority": 0.5},
            "includeContext": "none",
            "temperature": 0.7,
            "stopSequences": ["Human:"],
        },
    ),
    (
        "sampling/createMessage",
        {
            "messages": [HELLO],
            "maxTokens": 1,
            "modelPreferences": {
                "costPriority": "speed",
                "speedPriority": "balanced",
                "intelligencePriority": "cost",
            },
        },
        {
            "messages": [HELLO],
            "maxTokens": 1,
            "modelPreferences": {
                "hints": [{"name": "speed"}, {"name": "cost"}],
                "costPriority": 0.5,
                "speedPriority": 0.5,
                "intelligencePriority": 0.5,
            },
        },
    ),
    (
        "prompts/get",
        {"name": "code_review", "arguments": {"language": "python"}, "modelPreferences": {"costPriority": 1}},
        {
            "name": "code_review",
            "arguments": {"language": "python"},
            "_meta": {"dovetail/modelPreferences": {"costPriority": 1}},
        },
    ),
    (
        "notifications/message",
        {"role": "user", "content": {"type": "text", "text": "hi"}},
        {"level": "info", "data": {"type": "text", "text": "hi"}, "_meta": {"dovetail/role": "user"}},
    ),
    (
        "notifications/resources/updated",
        {"uri": "weather://city", "metadata": {"temperature": 72}},
        {"uri": "weather://city", "_meta": {"dovetail/metadata": {"temperature": 72}}},
    ),
    (
        "notifications/tasks/status",
        {"taskId": "t", "status": "processing"},
        {
            "taskId": "t",
            "status": "working",
            "createdAt": "1970-01-01T00:00:00Z",
            "lastUpdatedAt": "1970-01-01T00:00:00Z",
            "ttl": None,
        },
    ),
]

TEXT = {"type": "text", "text": "a"}
LISTED = [{"name": "audience", "value": "user"}, {"name": "x", "value": 1}]
ERLMCP_TASK = {"taskId": "t", "status": "pending", "createdAt": 1640995200000, "updatedAt": 1640995205500}

RESULT_CASES: list[tuple[str, Any, Any]] = [
    ("tools/list", {"tools": [], "cursor": "next"}, {"tools": [], "nextCursor": "next"}),
    ("tools/list", {"tools": [], "cursor": None}, {"tools": []}),
    ("tools/list", {"tools": [{"name": "a"}]}, {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}),
    (
        "tools/list",
        {"tools": [{"name": "a", "inputSchema": {"type": "object"}, "deprecated": False, "version": "1"}]},
        {
            "tools": [
                {
                    "name": "a",
                    "inputSchema": {"type": "object"},
                    "_meta": {"dovetail/deprecated": False, "dovetail/version": "1"},
                }
            ]
        },
    ),
    (
        "resources/list",
        {"resources": [{"uri": "a:b", "name": "b", "metadata": {}, "lastModified": 1640995200000}]},
        {
            "resources": [
                {
                    "uri": "a:b",
                    "name": "b",
                    "annotations": {"lastModified": "2022-01-01T00:00:00Z"},
                    "_meta": {"dovetail/metadata": {}},
                }
            ]
        },
    ),
    (
        "resources/read",
        {"contents": [{"type": "text", "text": "# Readme"}]},
        {"contents": [{"uri": "", "text": "# Readme"}]},
    ),
    (
        "resources/read",
        {"contents": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
        {
            "contents": [
                {"uri": "", "blob": "AAAA", "mimeType": "image/png", "_meta": {"dovetail/type": "image"}}
            ]
        },
    ),
    ("tools/call", {"content": ["bare"]}, {"content": [{"type": "text", "text": "bare"}]}),
    (
        "tools/call",
        {"content": [{**TEXT, "mimeType": "application/json"}]},
        {"content": [{**TEXT, "_meta": {"dovetail/mimeType": "application/json"}}]},
    ),
    (
        "tools/call",
        {"content": [{"type": "document", "data": "JVBE", "mimeType": "application/pdf"}]},
        {
            "content": [
                {
                    "type": "resource",
                    "resource": {"uri": "attachment:document", "mimeType": "application/pdf", "blob": "JVBE"},
                    "_meta": {"dovetail/type": "document"},
                }
            ]
        },
    ),
    (
        "tools/call",
        {"content": [{"type": "resource/link", "uri": "a:b", "mime_type": "text/plain"}]},
        {"content": [{"type": "resource_link", "uri": "a:b", "name": "a:b", "mimeType": "text/plain"}]},
    ),
    (
        "tools/call",
        {"content": [{"type": "resource", "uri": "a:b", "mimeType": "application/json"}]},
        {"content": [{"type": "resource", "resource": {"uri": "a:b", "mimeType": "application/json"}}]},
    ),
    (
        "tools/call",
        {
            "content": [
                {**TEXT, "annotations": [{"name": "audience", "value": "user"}, {"name": "x", "value": 1}]}
            ]
        },
        {
            "content": [
                {
                    **TEXT,
                    "annotations": {"audience": ["user"]},
                    "_meta": {"dovetail/annotations": [{"name": "x", "value": 1}]},
                }
            ]
        },
    ),
    (
        "tools/call",
        {"content": [{**TEXT, "resource_link": {"uri": "s3://b/f", "name": "D", "mime_type": "a/b"}}]},
        {
            "content": [
                {
                    **TEXT,
                    "_meta": {"dovetail/resourceLink": {"uri": "s3://b/f", "name": "D", "mimeType": "a/b"}},
                }
            ]
        },
    ),
    (
        "prompts/get",
        {"messages": [{"role": "system", "content": "Be kind.", "annotations": {"audience": ["user"]}}]},
        {
            "messages": [
                {
                    "role": "system",
                    "content": {
                        "type": "text",
                        "text": "Be kind.",
                        "annotations": {"audience": ["user"]},
                        "_meta": {"dovetail/bare": True},
                    },
                }
            ]
        },
    ),
    (
        "completion/complete",
        {"completions": [{"value": "OM users", "label": "FROM"}], "hasMore": False, "total": 1},
        {
            "completion": {"values": ["OM users"], "total": 1, "hasMore": False},
            "_meta": {"dovetail/labels": ["FROM"]},
        },
    ),
    (
        "sampling/createMessage",
        {"model": "m", "stopReason": "end_turn", "content": [TEXT]},
        {"role": "assistant", "content": [TEXT], "model": "m", "stopReason": "endTurn"},
    ),
    (
        "tasks/get",
        {
            "task": {
                "taskId": "t",
                "status": "pending",
                "createdAt": 1640995200000,
                "updatedAt": 1640995205500,
            }
        },
        {
            "taskId": "t",
            "status": "working",
            "createdAt": "2022-01-01T00:00:00Z",
            "lastUpdatedAt": "2022-01-01T00:00:05.500Z",
            "ttl": None,
        },
    ),
]


def plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize(("method", "said", "meant"), PARAMS_CASES)
def test_aliases_in_params_are_understood_in_every_dialect(
    method: str, said: Any, meant: Any, dialect: Dialect
) -> None:
    codec = codec_for(R4, dialect)
    assert plain(codec.decode_params(METHODS[method], json.dumps(said).encode())) == meant


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize(("method", "said", "meant"), RESULT_CASES)
def test_aliases_in_results_are_understood_in_every_dialect(
    method: str, said: Any, meant: Any, dialect: Dialect
) -> None:
    codec = codec_for(R4, dialect)
    assert plain(codec.decode_result(METHODS[method], json.dumps(said).encode())) == meant


@pytest.mark.parametrize(("method", "said", "meant"), PARAMS_CASES)
def test_what_is_canonical_already_is_left_alone(method: str, said: Any, meant: Any) -> None:
    assert json.loads(rewrite(PARAMS[method], json.dumps(meant).encode())) == meant


@pytest.mark.parametrize(("method", "said", "meant"), RESULT_CASES)
def test_a_result_that_is_canonical_already_is_left_alone(method: str, said: Any, meant: Any) -> None:
    assert json.loads(rewrite(RESULTS[method], json.dumps(meant).encode())) == meant


def test_a_strict_peer_understands_no_alias() -> None:
    strict = without_aliases(OFFICIAL)
    codec = codec_for(R4, strict)
    assert strict.inbound_methods == {}
    params = codec.decode_params(METHODS["tools/call"], b'{"name":"a","progressToken":1}')
    assert params.meta is msgspec.UNSET
    with pytest.raises(RemoteProtocolError, match="Invalid params"):
        codec.decode_params(METHODS["completion/complete"], b'{"reference":{},"argument":{}}')


@pytest.mark.parametrize(("alias", "method"), ALIASED.items())
def test_an_alias_of_a_method_names_one_that_exists(alias: str, method: str) -> None:
    assert METHODS[method].kind == "notification"
    assert alias not in METHODS


def test_tables_name_methods_that_exist() -> None:
    assert {*PARAMS, *RESULTS} <= set(METHODS)


def test_an_official_call_with_a_progress_token_takes_the_straight_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dovetail.wire.codec.rewrite", lambda *_: pytest.fail("the bytes were rewritten"))
    raw = b'{"_meta":{"progressToken":7},"name":"a","arguments":{"x":1}}'
    assert codec_for(R5).decode_params(METHODS["tools/call"], raw).meta == {"progressToken": 7}
    assert codec_for(R5).decode_params(METHODS["tools/call"], b'{"name":"a"}').name == "a"


NAMES = [
    *("type", "content", "task", "tools", "contents", "messages", "modelPreferences", "annotations", "ref"),
    *("name", "value", "lastModified", "createdAt", "_meta", "resource", "completions", "role", "uri"),
]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(method=st.sampled_from(sorted({*PARAMS, *RESULTS})), value=json_values)
def test_no_shape_a_peer_may_send_breaks_an_edit(method: str, value: Any) -> None:
    codec = codec_for(R4)
    row = METHODS[method]
    raw = json.dumps(value).encode()
    for table, decode in ((PARAMS, codec.decode_params), (RESULTS, codec.decode_result)):
        if method in table:
            rewrite(table[method], raw)
            try:
                decode(row, raw)
            except RemoteProtocolError:
                pass
