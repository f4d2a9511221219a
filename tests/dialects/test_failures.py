"""Failures on their way out and back in, per revision and dialect."""

import json

import pytest
from msgspec import UNSET

from dovetail.errors import (
    KINDS,
    CapabilityError,
    ProtocolError,
    Refusal,
    RemoteProtocolError,
    StateError,
    ToolError,
    TransportError,
    masked,
)
from dovetail.wire.codec import Codec
from dovetail.wire.dialects import (
    DIALECTS,
    ERLMCP,
    MCP_CLIENT,
    MINIMCP,
    OFFICIAL,
    Dialect,
    error_from_wire,
    status_of,
    wire_error,
)
from dovetail.wire.revisions import BY_NAME, R1, R3, R4, R5, REVISIONS, Revision

ALLOWED_MODERN = {-32020, -32021, -32022}


def test_every_official_error_names_its_kind() -> None:
    assert wire_error(
        ProtocolError("tool_not_found", "Unknown tool: x", data={"tool": "x"}), R5, OFFICIAL
    ) == (
        -32602,
        "Unknown tool: x",
        {"tool": "x", "kind": "tool_not_found"},
    )
    assert wire_error(ProtocolError("parse_error"), R1, OFFICIAL) == (
        -32700,
        "Parse error",
        {"kind": "parse_error", "refusalCode": 1066},
    )


@pytest.mark.parametrize("data", [["a", "b"], "text", 7, None])
def test_data_that_is_no_object_is_left_alone(data: object) -> None:
    assert wire_error(ProtocolError("invalid_params", data=data), R5, OFFICIAL)[2] == data


def test_the_data_of_an_error_is_not_changed_by_sending_it() -> None:
    data = {"uri": "a:b"}
    wire_error(ProtocolError("resource_not_found", data=data), R4, OFFICIAL)
    assert data == {"uri": "a:b"}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_no_dialect_sends_a_reserved_code_on_2026_07_28(dialect: Dialect) -> None:
    for kind, row in KINDS.items():
        code, _, data = wire_error(ProtocolError(kind), R5, dialect)
        assert code in ALLOWED_MODERN or code not in range(-32099, -31999)
        assert code == row.modern
        assert data["kind"] == kind
        own = dialect.errors.get(kind)
        assert data.get("dialectCode") == (own if own != code else None)


@pytest.mark.parametrize("kind", KINDS)
def test_erlmcp_uses_its_own_codes_on_the_legacy_revisions(kind: str) -> None:
    row = KINDS[kind]
    code, _, data = wire_error(ProtocolError(kind), R4, ERLMCP)
    assert code == (row.legacy if row.erlmcp is None else row.erlmcp)
    assert "dialectCode" not in data


@pytest.mark.parametrize(
    ("kind", "code"),
    [("tool_not_found", -32003), ("prompt_not_found", -32005), ("resource_not_readable", -32002)],
)
def test_the_elixir_profile_uses_its_seven_codes(kind: str, code: int) -> None:
    assert wire_error(ProtocolError(kind), R1, MCP_CLIENT)[0] == code


def test_a_template_that_is_not_there_is_a_resource_that_is_not_found_to_those_who_know_no_templates() -> (
    None
):
    error = ProtocolError("resource_template_not_found", data={"uri": "a://{b}"})
    assert wire_error(error, R1, MCP_CLIENT)[0] == -32001  # -32002 would be one that cannot be read
    assert wire_error(error, R3, MINIMCP)[:2] == (-32002, "Resource not found: a://{b}")


def test_a_reserved_code_of_ones_own_is_moved_into_the_data_on_2026_07_28() -> None:
    error = ProtocolError("resource_not_found", code=-32001)
    assert wire_error(error, R4, OFFICIAL)[0] == -32001
    code, _, data = wire_error(error, R5, OFFICIAL)
    assert (code, data) == (-32602, {"kind": "resource_not_found", "dialectCode": -32001})


def test_an_application_code_is_sent_as_it_is() -> None:
    error = ProtocolError("out_of_stock", "no more socks", code=4711)
    assert [wire_error(error, revision, ERLMCP)[0] for revision in REVISIONS] == [4711] * 5


def test_url_elicitation_has_its_code_on_2025_11_25_only() -> None:
    error = ProtocolError("url_elicitation_required", data={"elicitations": []})
    codes = [wire_error(error, revision, OFFICIAL)[0] for revision in REVISIONS]
    assert codes == [-32603, -32603, -32603, -32042, -32603]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_a_refusal_has_the_same_number_for_all_peers(dialect: Dialect, revision: Revision) -> None:
    assert wire_error(Refusal(1003, "slow down", 1.5), revision, dialect) == (
        1003,
        "Rate limit exceeded",
        {"hint": "slow down", "retryAfterMs": 1500, "kind": "rate_limited", "refusal": True},
    )


def test_a_kind_that_travels_as_a_refusal_says_so() -> None:
    code, _, data = wire_error(ProtocolError("tool_not_allowed"), R5, OFFICIAL)
    assert (code, data) == (1005, {"kind": "tool_not_allowed", "refusal": True})
    assert wire_error(ProtocolError("rate_limited"), R4, ERLMCP)[0] == -32010


def test_a_missing_client_capability_is_named_as_an_object_on_2026_07_28() -> None:
    code, _, data = wire_error(CapabilityError("sampling.tools"), R5, OFFICIAL)
    assert code == -32021
    assert data == {
        "requiredCapabilities": {"sampling": {"tools": {}}},
        "kind": "missing_required_client_capability",
    }
    _, _, data = wire_error(CapabilityError("extensions.io.modelcontextprotocol/tasks"), R5, OFFICIAL)
    assert data["requiredCapabilities"] == {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    assert wire_error(CapabilityError("sampling"), R4, OFFICIAL)[0] == -32601
    assert wire_error(CapabilityError("sampling"), R4, ERLMCP)[0] == -32004


@pytest.mark.parametrize(
    "error",
    [TransportError("upstream db7.internal:5432 refused", cause="refused"), StateError("secret state")],
)
def test_internal_details_never_reach_the_peer(error: TransportError | StateError) -> None:
    code, message, data = wire_error(error, R5, OFFICIAL)
    assert code == -32603
    assert error.message not in (message, str(data))


def test_a_masked_error_keeps_its_incident() -> None:
    code, message, data = wire_error(masked("42"), R3, OFFICIAL)
    assert (code, message, data) == (
        -32603,
        "Internal error",
        {"incident": "42", "kind": "internal_error"},
    )


def test_a_failed_tool_in_erlmcp_names_the_reason() -> None:
    error = ToolError("SQL syntax error", data={"tool": "sql_query"})
    assert wire_error(error, R4, ERLMCP) == (
        -32031,
        "Tool execution failed",
        {"reason": "SQL syntax error", "tool": "sql_query", "kind": "tool_execution_failed"},
    )


def test_missing_prompt_arguments_are_a_bare_list_in_minimcp() -> None:
    error = ProtocolError("prompt_argument_missing", "…", data={"missing": ["a", "b"]})
    assert wire_error(error, R3, MINIMCP) == (-32602, "Missing required arguments", ["a", "b"])
    assert wire_error(error, R3, OFFICIAL)[2] == {"missing": ["a", "b"], "kind": "prompt_argument_missing"}


def test_a_text_with_a_gap_is_filled_from_the_data_and_from_nothing_else() -> None:
    error = ProtocolError("resource_not_found", data={"uri": "file:///{kind}.txt"})
    assert wire_error(error, R3, MINIMCP)[1] == "Resource not found: file:///{kind}.txt"
    assert wire_error(ProtocolError("resource_not_found"), R3, MINIMCP)[1] == "Resource not found"


# --- and back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_the_kind_of_every_failure_survives_the_wire(dialect: Dialect, revision: Revision) -> None:
    for kind in KINDS:
        code, message, data = wire_error(ProtocolError(kind), revision, dialect)
        error = error_from_wire(code, message, data, revision, dialect)
        assert (error.kind, error.code) == (kind, code)
        assert isinstance(error, Refusal) == (code in range(1001, 1090))


def test_the_kind_takes_precedence_over_the_number() -> None:
    error = error_from_wire(-32002, "?", {"kind": "prompt_not_found"}, R4, ERLMCP)
    assert error.kind == "prompt_not_found"
    assert error_from_wire(-32002, "?", UNSET, R4, ERLMCP).kind == "tool_not_found"


@pytest.mark.parametrize("kind", ["Not A Kind", "", "x" * 65, 7, None, "a\nb"])
def test_a_kind_that_is_none_is_not_believed(kind: object) -> None:
    assert error_from_wire(-32601, "?", {"kind": kind}, R4, OFFICIAL).kind == "method_not_found"


def test_a_refusal_comes_back_with_hint_and_time() -> None:
    error = error_from_wire(1003, "later", {"hint": "sleep", "retryAfterMs": 2000}, R5, OFFICIAL)
    assert isinstance(error, Refusal)
    assert (error.kind, error.message, error.hint, error.retry_after) == (
        "rate_limited",
        "later",
        "sleep",
        2.0,
    )


def test_a_refusal_with_nonsense_in_it_is_still_a_refusal() -> None:
    error = error_from_wire(1089, "no", {"hint": 7, "retryAfterMs": "soon"}, R5, OFFICIAL)
    assert isinstance(error, Refusal)
    assert (error.hint, error.retry_after) == (None, None)


def test_minimcp_maps_codes_to_statuses_but_leaves_the_envelope_alone() -> None:
    found = {
        kind: status_of(ProtocolError(kind), R4, MINIMCP)
        for kind in ("invalid_params", "parse_error", "internal_error", "resource_not_found")
    }
    assert found == {
        "invalid_params": 422,
        "parse_error": 400,
        "internal_error": 500,
        "resource_not_found": 404,
    }
    assert status_of(ProtocolError("invalid_params"), R4, OFFICIAL) == 200


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_minimcp_answers_malformed_utf_8_without_an_id(revision: str) -> None:
    error = RemoteProtocolError("invalid_encoding", id=5)
    message = json.loads(Codec(BY_NAME[revision], MINIMCP).encode_error(5, error))
    assert (message["id"], message["error"]["code"]) == (None, -32700)
    official = json.loads(Codec(BY_NAME[revision], OFFICIAL).encode_error(5, error))
    assert official["id"] == 5
