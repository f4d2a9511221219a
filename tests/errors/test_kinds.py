"""The table of failures: complete, without contradictions, and the same as the documents' tables."""

import re
from pathlib import Path

import pytest

from dovetail.errors import (
    KINDS,
    REFUSAL_CODES,
    REFUSALS,
    RESERVED_REFUSALS,
    Kind,
    delivery,
    http_status,
    kind_of_code,
    refusal_kind,
)

STANDARD = {
    "parse_error": -32700,
    "invalid_request": -32600,
    "method_not_found": -32601,
    "invalid_params": -32602,
    "internal_error": -32603,
}
ELIXIR = {
    -32001: "resource_not_found",
    -32002: "resource_not_readable",
    -32003: "tool_not_found",
    -32004: "tool_execution_failed",
    -32005: "prompt_not_found",
    -32006: "sampling_not_supported",
    -32007: "capability_not_supported",
}
ERLMCP_RANGES = (
    range(-32040, -32000),
    range(-32050, -32041),
    range(-32060, -32050),
    range(-32076, -32070),
    range(-32090, -32080),
    range(-32097, -32090),
    range(-32113, -32109),
)


def test_the_erlmcp_table_is_complete() -> None:
    codes = {row.erlmcp for row in KINDS.values() if row.erlmcp is not None} - set(REFUSAL_CODES)
    documented = {code for codes in ERLMCP_RANGES for code in codes}
    assert codes == documented | set(STANDARD.values())
    assert len(codes) == 91


@pytest.mark.parametrize("column", ["erlmcp", "elixir"])
def test_no_two_kinds_share_a_number_of_one_system(column: str) -> None:
    codes = [getattr(row, column) for row in KINDS.values() if getattr(row, column) is not None]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(("kind", "code"), STANDARD.items())
def test_the_standard_codes_are_the_same_everywhere(kind: str, code: int) -> None:
    row = KINDS[kind]
    assert (row.legacy, row.modern, row.erlmcp, row.elixir) == (code,) * 4
    for modern in (False, True):
        for dialect in ("official", "erlmcp", "minimcp", "mcp_client"):
            assert kind_of_code(code, modern=modern, dialect=dialect) == kind


@pytest.mark.parametrize(("code", "kind"), ELIXIR.items())
def test_the_elixir_codes_mean_something_in_their_profile_only(code: int, kind: str) -> None:
    assert kind_of_code(code, modern=False, dialect="mcp_client") == kind
    expected = "resource_not_found" if code == -32002 else "unknown_error"
    assert kind_of_code(code, modern=False, dialect="official") == expected


def test_a_clashing_code_is_read_by_the_profile() -> None:
    meanings = {
        dialect: kind_of_code(-32002, modern=False, dialect=dialect)
        for dialect in ("official", "erlmcp", "minimcp", "mcp_client")
    }
    assert meanings == {
        "official": "resource_not_found",
        "erlmcp": "tool_not_found",
        "minimcp": "resource_not_found",
        "mcp_client": "resource_not_readable",
    }


def test_the_modern_codes_mean_nothing_on_a_legacy_connection() -> None:
    assert kind_of_code(-32020, modern=True) == "header_mismatch"
    assert kind_of_code(-32021, modern=True) == "missing_required_client_capability"
    assert kind_of_code(-32022, modern=True) == "unsupported_protocol_version"
    assert {kind_of_code(code, modern=False) for code in (-32020, -32021, -32022)} == {"unknown_error"}
    # The drafts used these; receivers give them no meaning.
    assert {kind_of_code(code, modern=True) for code in (-32001, -32003, -32004)} == {"unknown_error"}


def test_dialect_codes_mean_nothing_on_the_modern_revision() -> None:
    assert kind_of_code(-32010, modern=False, dialect="erlmcp") == "rate_limited"
    assert kind_of_code(-32010, modern=True, dialect="erlmcp") == "unknown_error"


@pytest.mark.parametrize("row", KINDS.values(), ids=lambda row: row.name)
def test_no_kind_has_a_code_that_2026_07_28_forbids(row: Kind) -> None:
    modern = row.modern
    assert modern in (-32020, -32021, -32022) or modern not in range(-32099, -31999)


@pytest.mark.parametrize("row", KINDS.values(), ids=lambda row: row.name)
def test_a_refusal_number_is_its_own_code_and_has_an_http_status(row: Kind) -> None:
    if row.refusal is None:
        return
    assert row.refusal in REFUSALS
    assert row.modern == row.legacy == row.refusal
    assert row.status in (400, 401, 403, 429, 503)


def test_the_refusals_have_their_documented_names_and_http_statuses() -> None:
    assert [(code, REFUSALS[code], http_status(REFUSALS[code])) for code in range(1001, 1011)] == [
        (1001, "content_policy", 403),
        (1002, "safety", 403),
        (1003, "rate_limited", 429),
        (1004, "resource_constraints", 503),
        (1005, "permission_denied", 403),
        (1006, "invalid_input", 400),
        (1007, "unsupported_operation", 400),
        (1008, "temporarily_unavailable", 503),
        (1009, "dependency_failed", 503),
        (1010, "custom", 400),
    ]


def test_the_reserved_refusals_are_divided_without_gap_or_overlap() -> None:
    numbers = [code for codes, _ in RESERVED_REFUSALS for code in codes]
    assert numbers == list(range(1011, 1090))
    assert refusal_kind(1057) == "refused_quota"
    assert all(kind_of_code(code) == refusal_kind(code) for code in REFUSAL_CODES)


def test_bad_tool_arguments_are_for_the_model_to_mend_where_the_revision_says_nothing_else() -> None:
    assert delivery("invalid_tool_arguments") == "tool_result"


@pytest.mark.parametrize(
    ("kind", "legacy", "modern"),
    [
        ("resource_not_found", -32002, -32602),
        ("resource_template_not_found", -32002, -32602),
        ("tool_not_found", -32602, -32602),
        ("prompt_not_found", -32602, -32602),
        ("not_initialized", -32602, -32602),
        ("message_too_large", -32600, -32600),
        ("invalid_encoding", -32700, -32700),
        ("rate_limited", 1003, 1003),
        ("resource_access_denied", 1005, 1005),
        ("too_many_tasks", 1004, 1004),
        ("resource_locked", -32603, -32603),
        ("url_elicitation_required", -32042, -32603),
        ("unsupported_protocol_version", -32602, -32022),
    ],
)
def test_the_official_codes_are_those_of_the_reconciliation(kind: str, legacy: int, modern: int) -> None:
    assert (KINDS[kind].legacy, KINDS[kind].modern) == (legacy, modern)


def test_the_statuses_of_the_transport_are_those_of_its_table() -> None:
    statuses = {
        "parse_error": 400,
        "invalid_request": 400,
        "method_not_found": 404,
        "header_mismatch": 400,
        "unsupported_protocol_version": 400,
        "missing_required_client_capability": 400,
        "invalid_params": 200,
        "internal_error": 200,
        "message_too_large": 413,
        "unsupported_media_type": 415,
        "not_acceptable": 406,
        "authentication_failed": 401,
        "insufficient_permissions": 403,
        "session_not_found": 404,
    }
    assert {kind: http_status(kind) for kind in statuses} == statuses
    assert http_status("a_kind_of_the_application") == 200


def test_every_kind_is_raised_or_the_page_says_why_not() -> None:
    root = Path(__file__).resolve().parents[2]
    code = "".join(p.read_text() for p in (root / "src").rglob("*.py") if p.name != "kinds.py")
    page = (root / "docs" / "design" / "dialects.md").read_text()
    section = page.partition("## Kinds that nothing here raises")[2].partition("## Rejected")[0]
    told = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))))
    raised = {name for name in KINDS if f'"{name}"' in code}
    assert set(KINDS) - raised - told == set()
    # A client passes on with ``unknown_error`` what a peer gave a number without a meaning.
    wrongly = {name for name in told - {"unknown_error"} if re.search(rf'Error\(\s*"{name}"', code)}
    assert wrongly == set()
