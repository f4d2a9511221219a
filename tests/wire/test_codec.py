"""Typed values to messages and back, on every revision."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from dovetail import model as m
from dovetail.errors import (
    INVALID_PARAMS,
    KINDS,
    LocalProtocolError,
    ProtocolError,
    Refusal,
    RemoteProtocolError,
    RequestTimeout,
    ToolError,
)
from dovetail.model import meta
from dovetail.wire.codec import Codec, codec_for
from dovetail.wire.dialects import DIALECTS, ERLMCP, MINIMCP, OFFICIAL, Dialect
from dovetail.wire.methods import METHODS
from dovetail.wire.revisions import R1, R2, R3, R4, R5, REVISIONS, Revision
from tests.support.schemas import validate
from tests.wire.test_frames import kind_raised

INFO = m.Implementation("server", "1.0", title="Server")
modern = Codec(R5, OFFICIAL, INFO)
META = {meta.PROTOCOL_VERSION: R5.name, meta.CLIENT_CAPABILITIES: {}}


def body(message: bytes) -> Any:
    return json.loads(message)["result"]


# --- reading params ----------------------------------------------------------------------------------------


def test_params_are_read_once_and_arguments_stay_raw() -> None:
    params = modern.decode_params(METHODS["tools/call"], Raw(b'{"name":"a","arguments":{"x": 1}}'))
    assert isinstance(params, m.CallToolRequestParams)
    assert bytes(params.arguments) == b'{"x": 1}'  # type: ignore[arg-type]


@pytest.mark.parametrize("raw", [UNSET, Raw(b"{}"), Raw(b"null")])
def test_unneeded_params_may_be_absent_empty_or_null(raw: Any) -> None:
    assert modern.decode_params(METHODS["tools/list"], raw) == m.PaginatedRequestParams()


BAD_PARAMS: dict[str, tuple[str, bytes | None, str]] = {
    "absent": ("tools/call", None, "Object missing required field `name`"),
    "empty": ("tools/call", b"{}", "Object missing required field `name`"),
    "null": ("tools/call", b"null", "Expected `object`, got `null`"),
    "array": ("tools/call", b"[1]", "Expected `object`, got `array`"),
    "string": ("tools/call", b'"SECRET"', "Expected `object`, got `str`"),
    "wrong type": ("tools/call", b'{"name":12345}', "Expected `str`, got `int` - at `$.name`"),
    "null name": ("tools/call", b'{"name":null}', "Expected `str`, got `null` - at `$.name`"),
    "wrong case": ("tools/call", b'{"Name":"SECRET"}', "Object missing required field `name`"),
    "NUL in a key": ("tools/call", b'{"name\\u0000":"SECRET"}', "Object missing required field `name`"),
    "deep": (
        "completion/complete",
        b'{"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":1}}',
        "`$.argument.name`",
    ),
    "bad tag": (
        "completion/complete",
        b'{"ref":{"type":"SECRET"},"argument":{}}',
        "Invalid value - at `$.ref.type`",
    ),
    "bad choice": ("logging/setLevel", b'{"level":"SECRET"}', "Invalid enum value - at `$.level`"),
    "quotes in the value": (
        "logging/setLevel",
        b'{"level":"SECRET\' SECRET \\" \\\\"}',
        "Invalid enum value - at `$.level`",
    ),
    "number in a list": ("prompts/get", b'{"name":"a","arguments":{"x":5}}', "Expected `str`, got `int`"),
    "beyond floats": (
        "notifications/progress",
        b'{"progressToken":1,"progress":1e999}',
        "Number out of range",
    ),
    "big id": ("notifications/cancelled", b'{"requestId":1.5}', "Expected `int | str`, got `float`"),
}


@pytest.mark.parametrize(("method", "raw", "reason"), BAD_PARAMS.values(), ids=BAD_PARAMS)
@pytest.mark.parametrize("revision", [R1, R5], ids=str)
def test_bad_params_are_refused_with_place_and_reason_but_never_the_value(
    revision: Revision, method: str, raw: bytes | None, reason: str
) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        codec_for(revision).decode_params(METHODS[method], UNSET if raw is None else Raw(raw))
    error = caught.value
    assert error.code == INVALID_PARAMS
    assert reason in error.message
    assert error.data == {"details": error.message.removeprefix("Invalid params: ")}
    assert "SECRET" not in error.message


@pytest.mark.parametrize(
    "raw", [b'{"name":"\xff"}', b'{"name":"\\ud800"}', b"{", b'{"name":"a","arguments":' + b"[" * 100_000]
)
def test_params_that_are_no_json_after_all_are_a_parse_error(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        modern.decode_params(METHODS["tools/call"], raw)
    assert caught.value.kind == "parse_error"


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "x", [], {}, {"a": {}}], ids=repr)
def test_every_wrong_type_in_every_field_gets_an_answer(value: Any) -> None:
    refused = 0
    for row in METHODS.values():
        for field in msgspec.structs.fields(row.params):
            raw = msgspec.json.encode({field.encode_name: value})
            for revision in REVISIONS:
                kind = kind_raised(codec_for(revision).decode_params, row, raw)
                assert kind is None or KINDS[kind].legacy == KINDS[kind].modern == INVALID_PARAMS
                refused += kind is not None
    assert refused > 100


def test_aliases_are_understood_in_every_dialect_and_not_when_strict() -> None:
    raw = b'{"name":"a","progressToken":7}'
    for dialect in DIALECTS.values():
        assert Codec(R4, dialect).decode_params(METHODS["tools/call"], raw).meta == {"progressToken": 7}


def test_an_alias_that_shows_only_in_the_failure_is_tried_then() -> None:
    raw = b'{"reference":{"type":"prompt","name":"p"},"argument":"a"}'
    params = modern.decode_params(METHODS["completion/complete"], raw)
    assert params == m.CompleteRequestParams(m.PromptReference("p"), m.CompletionArgument("a", ""))


# --- reading results ---------------------------------------------------------------------------------------


def test_a_result_without_a_type_is_complete() -> None:
    result = modern.decode_result(METHODS["tools/call"], b'{"content":[]}')
    assert result == m.CallToolResult([])


def test_an_unknown_block_becomes_text_and_the_rest_of_the_result_stays() -> None:
    raw = b'{"content":[{"type":"text","text":"a"},{"type":"hologram","data":[1]}],"isError":true}'
    result = modern.decode_result(METHODS["tools/call"], raw)
    assert result == m.CallToolResult(
        [m.TextContent("a"), m.TextContent('{"type":"hologram","data":[1]}')], is_error=True
    )


def test_unknown_blocks_of_prompts_and_samples_become_text_too() -> None:
    prompt = modern.decode_result(
        METHODS["prompts/get"], b'{"messages":[{"role":"user","content":{"type":"hologram"}}]}'
    )
    assert prompt.messages[0].content == m.TextContent('{"type":"hologram"}')
    sample = codec_for(R4).decode_result(
        METHODS["sampling/createMessage"], b'{"role":"assistant","model":"x","content":{"type":"hologram"}}'
    )
    assert sample.content == m.TextContent('{"type":"hologram"}')


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"content":5}', "validation_failed"),
        (b'{"content":[{"type":"text"}]}', "validation_failed"),
        (b'{"content":[{"type":5}]}', "validation_failed"),
        (b"[]", "validation_failed"),
        (b"null", "validation_failed"),
        (b'{"resultType":"SECRET"}', "validation_failed"),
        (b'{"content":[{"type":"text","text":"\xff"}]}', "parse_error"),
        (b"{", "parse_error"),
    ],
)
def test_an_unusable_result_is_the_peers_fault(raw: bytes, kind: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        modern.decode_result(METHODS["tools/call"], raw)
    assert caught.value.kind == kind
    assert "SECRET" not in caught.value.message


def test_an_error_object_becomes_the_exception_to_raise() -> None:
    error = codec_for(R4).decode_error(b'{"code":-32002,"message":"gone","data":{"uri":"a:b"}}')
    assert isinstance(error, ProtocolError)
    assert (error.kind, error.code, error.message) == ("resource_not_found", -32002, "gone")
    assert isinstance(codec_for(R4).decode_error(b'{"code":1003,"message":"slow down"}'), Refusal)
    for raw in (b"{}", b'{"code":"x","message":"y"}', b"[]", b'{"code":1e999,"message":""}'):
        with pytest.raises(RemoteProtocolError) as caught:
            modern.decode_error(raw)
        assert caught.value.kind == "validation_failed"


# --- writing results ---------------------------------------------------------------------------------------


def test_a_modern_result_has_its_type_and_the_server_info() -> None:
    result = m.CallToolResult([m.TextContent("a")])
    for _ in range(2):
        message = modern.encode_result(1, result)
        validate(message, R5, method="tools/call")
        assert body(message) == {
            "resultType": "complete",
            "_meta": {meta.SERVER_INFO: {"name": "server", "version": "1.0", "title": "Server"}},
            "content": [{"type": "text", "text": "a"}],
        }
    assert result == m.CallToolResult([m.TextContent("a")])


def test_an_empty_modern_result_is_well_formed() -> None:
    for codec in (modern, codec_for(R5)):
        for _ in range(2):
            message = codec.encode_result("a", m.EmptyResult())
            validate(message, R5, kind="result")
    assert codec_for(R5).encode_result(1, m.EmptyResult()) == (
        b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}'
    )


def test_metadata_of_the_handler_is_merged_with_the_servers_name() -> None:
    given = {"a": 1, meta.SERVER_INFO: {"name": "proxy", "version": "2"}}
    assert body(modern.encode_result(1, m.EmptyResult(meta=given)))["_meta"] == given
    own = body(modern.encode_result(1, m.EmptyResult(meta={"a": 1})))["_meta"]
    assert own == {"a": 1, meta.SERVER_INFO: {"name": "server", "version": "1.0", "title": "Server"}}


def test_cacheable_results_default_to_no_caching() -> None:
    result = m.ListToolsResult([])
    assert body(modern.encode_result(1, result))["ttlMs"] == 0
    assert body(modern.encode_result(1, result))["cacheScope"] == "private"
    cached = body(modern.encode_result(1, m.ListToolsResult([], ttl_ms=5, cache_scope="public")))
    assert (cached["ttlMs"], cached["cacheScope"]) == (5, "public")
    assert result.ttl_ms is UNSET


def test_other_result_types_are_kept() -> None:
    asked = m.InputRequiredResult(request_state="s")
    validate(modern.encode_result(1, asked), R5, method="tools/call")
    assert body(modern.encode_result(1, asked))["resultType"] == "input_required"
    task = m.ExtensionCreateTaskResult("t", "working", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", None)
    validate(modern.encode_result(1, task), R5, method="tools/call")


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_a_prepared_result_is_written_as_it_would_have_been(revision: Revision) -> None:
    codec = Codec(revision, OFFICIAL, INFO)
    result = m.ListToolsResult([m.Tool("a", {"type": "object"}, title="A")])
    prepared = codec.prepare(result)
    assert json.loads(codec.encode_result(1, prepared)) == json.loads(codec.encode_result(1, result))
    validate(codec.encode_result(1, prepared), revision, method="tools/list")


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_plain_dicts_may_be_results_too(revision: Revision) -> None:
    answer = body(Codec(revision, OFFICIAL, INFO).encode_result(1, {"x": 1}))
    assert answer["x"] == 1
    assert ("resultType" in answer) is revision.modern


def test_a_message_never_spans_lines() -> None:
    pretty = Raw(b'{\n  "content": [\r\n ] }')
    message = codec_for(R4).encode_result(1, pretty)
    assert message == b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
    params = m.CallToolRequestParams("a", arguments=Raw(b'{\n"a": "\\n" }'))
    assert b"\n" not in modern.encode_request(1, "tools/call", params)
    assert b"\n" not in modern.encode_result(1, m.CallToolResult([m.TextContent("a\nb\rc")]))


@pytest.mark.parametrize("value", [object(), "\ud800", {1j: 1}], ids=["object", "surrogate", "key"])
@pytest.mark.parametrize("revision", [R3, R5], ids=str)
def test_a_value_without_a_json_form_is_an_internal_error_and_not_a_crash(
    revision: Revision, value: Any
) -> None:
    codec = Codec(revision, OFFICIAL, INFO)
    result = m.CallToolResult([], structured_content={"a": value})
    for write in (lambda: codec.encode_result(1, result), lambda: codec.prepare(result)):
        with pytest.raises(LocalProtocolError):
            write()
    with pytest.raises(LocalProtocolError):
        codec.encode_notification("notifications/message", m.LoggingMessageNotificationParams("info", value))


def test_endless_nesting_is_an_internal_error_and_not_a_crash() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(LocalProtocolError):
        modern.encode_result(1, m.CallToolResult([], structured_content=endless))


# --- writing requests and notifications --------------------------------------------------------------------


def test_unneeded_params_are_omitted() -> None:
    assert codec_for(R4).encode_request(1, "ping", None) == b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.mark.parametrize(
    ("revision", "method"),
    [
        (R5, "initialize"),
        (R5, "ping"),
        (R2, "elicitation/create"),
        (R3, "tasks/get"),
        (R4, "server/discover"),
    ],
)
def test_a_method_the_revision_does_not_have_is_not_sent(revision: Revision, method: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        codec_for(revision).encode_request(1, method, None)
    assert caught.value.kind == "method_not_found"


def test_unknown_methods_may_be_sent() -> None:
    message = codec_for(R4).encode_request(1, "acme/do", {"a": 1})
    assert json.loads(message)["params"] == {"a": 1}


def test_a_dialect_renames_on_legacy_revisions_only() -> None:
    params = m.ResourceUpdatedNotificationParams("a:b")
    old = json.loads(Codec(R4, ERLMCP).encode_notification("notifications/resources/updated", params))
    new = json.loads(Codec(R5, ERLMCP).encode_notification("notifications/resources/updated", params))
    assert old["method"] == "resources/updated"
    assert new["method"] == "notifications/resources/updated"


def test_a_dialect_edits_results_on_legacy_revisions_only() -> None:
    page = m.ListToolsResult([], next_cursor="c")
    assert body(Codec(R4, ERLMCP).encode_result(1, page))["cursor"] == "c"
    raw = m.CallToolResult([], structured_content=Raw(b'{"a":1}'))
    assert body(Codec(R4, ERLMCP).encode_result(1, raw))["structuredContent"] == {"a": 1}
    assert "cursor" not in body(Codec(R5, ERLMCP).encode_result(1, page))
    assert "cursor" not in body(Codec(R4, MINIMCP).encode_result(1, page))


# --- writing errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_an_error_without_an_id_says_null_or_nothing(revision: Revision) -> None:
    message = json.loads(codec_for(revision).encode_error(None, RemoteProtocolError("parse_error")))
    assert ("id" in message) is revision.null_error_id
    assert message.get("id") is None
    assert message["error"]["code"] == -32700
    if not revision.null_error_id:
        validate(message, revision, kind="error")


def test_a_dialect_may_want_null_ids() -> None:
    assert b'"id":null' in Codec(R4, ERLMCP).encode_error(None, ProtocolError("parse_error"))
    assert b'"id"' not in Codec(R5, ERLMCP).encode_error(None, ProtocolError("parse_error"))


PROMISED_DATA: dict[str, Any] = {
    "unsupported_protocol_version": {"supported": ["2026-07-28"], "requested": "x"},
    "missing_required_client_capability": {"requiredCapabilities": {}},
    "url_elicitation_required": {"elicitations": []},
}


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_every_kind_has_an_error_on_every_revision_and_dialect(revision: Revision, dialect: Any) -> None:
    codec = Codec(revision, dialect)
    for kind in KINDS:
        message = codec.encode_error(1, ProtocolError(kind, data=PROMISED_DATA.get(kind, UNSET)))
        error = json.loads(message)["error"]
        if dialect.name == "minimcp" and kind == "invalid_encoding" and not revision.modern:
            assert json.loads(message)["id"] is None  # as its document has it, whatever the schema says
        else:
            validate(message, revision, kind="error")
        assert error["data"]["kind"] == kind
        if revision.modern:
            assert error["code"] not in range(-32099, -31999) or error["code"] in (-32020, -32021, -32022)


def test_data_that_has_no_json_does_not_cost_the_answer() -> None:
    error = ProtocolError("internal_error", "broken \ud800 text", data={"a": object()})
    message = json.loads(modern.encode_error(1, error))
    assert message["error"]["code"] == -32603
    assert message["error"]["data"] == {"kind": "internal_error"}


@pytest.mark.parametrize(
    "error", [RequestTimeout("the upstream at 10.0.0.1 is slow"), ToolError("no"), Refusal(1003)]
)
def test_every_family_of_errors_can_be_sent_and_internals_stay_here(error: Any) -> None:
    message = modern.encode_error(1, error)
    validate(message, R5, kind="error")
    assert b"10.0.0.1" not in message


def test_one_codec_serves_a_pair() -> None:
    assert codec_for(R5) is codec_for(R5, OFFICIAL)
    assert codec_for(R5) is not codec_for(R4)
    assert codec_for(R5, OFFICIAL, INFO).server_info is INFO


@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        ("completion/complete", {"ref": {"type": "ref/odd", "name": "a"}}, "invalid_completion_ref"),
        ("completion/complete", {"ref": {"type": "ref/prompt"}}, "invalid_completion_ref"),
        ("completion/complete", {"ref": 5}, "invalid_completion_ref"),
        ("completion/complete", {"argument": {"name": "a"}}, "invalid_completion_argument"),
        ("completion/complete", {"argument": 5}, "invalid_completion_argument"),
        ("sampling/createMessage", {"modelPreferences": {"costPriority": 1.5}}, "invalid_model_preferences"),
        (
            "sampling/createMessage",
            {"modelPreferences": {"speedPriority": -0.1}},
            "invalid_model_preferences",
        ),
        ("sampling/createMessage", {"modelPreferences": 5}, "invalid_model_preferences"),
        ("prompts/get", {"name": "a", "modelPreferences": {"costPriority": 7}}, "invalid_model_preferences"),
        (
            "sampling/createMessage",
            {"messages": [{"role": "user", "content": {"type": "video"}}]},
            "invalid_content_type",
        ),
        (
            "sampling/createMessage",
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "video"}]}]},
            "invalid_content_type",
        ),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_members_with_a_failure_of_their_own_are_refused_by_its_kind(
    method: str, params: dict[str, Any], kind: str, dialect: Dialect
) -> None:
    raw = msgspec.json.encode(params)
    assert kind_raised(Codec(R4, dialect).decode_params, METHODS[method], raw) == kind


def test_an_input_request_with_invalid_model_preferences_is_refused_on_every_revision() -> None:
    question = {
        "method": "sampling/createMessage",
        "params": {"messages": [], "maxTokens": 1, "modelPreferences": {"intelligencePriority": 2}},
    }
    raw = msgspec.json.encode({"resultType": "input_required", "inputRequests": {"a": question}})
    assert kind_raised(modern.decode_result, METHODS["tools/call"], raw) == "invalid_model_preferences"


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_messages_without_a_json_form_fail_by_their_kind(revision: Revision, dialect: Dialect) -> None:
    codec = Codec(revision, dialect)
    for method, params, kind in (
        (
            "notifications/message",
            m.LoggingMessageNotificationParams(level="info", data=object()),
            "notification_failed",
        ),
        (
            "notifications/resources/updated",
            m.ResourceUpdatedNotificationParams("x://a", meta={"odd": object()}),
            "notification_failed",
        ),
        (
            "notifications/progress",
            m.ProgressNotificationParams("t", 1, meta={"odd": "\ud800"}),
            "progress_update_failed",
        ),
    ):
        with pytest.raises(LocalProtocolError) as caught:
            codec.encode_notification(method, params)
        assert caught.value.kind == kind
