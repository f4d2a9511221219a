"""The registry of refusals, and the command that reads it out."""

import json

import pytest

import dovetail
from dovetail.cli.main import main
from dovetail.errors import KINDS, REFUSAL_CODES, Refusal
from dovetail.refusals import REFUSALS, explain

NAMED = {
    1003: ("rate_limited", True),
    1004: ("resource_constraints", True),
    1005: ("permission_denied", False),
    1008: ("temporarily_unavailable", True),
    1009: ("dependency_failed", True),
    1056: ("quota_exceeded", True),
    1060: ("too_many_connections", True),
    1066: ("invalid_request", False),
    1068: ("message_too_large", False),
    1069: ("peer_too_slow", True),
    1078: ("overloaded", True),
    1079: ("storage_full", True),
    1086: ("circuit_open", True),
    1089: ("memory_exhausted", True),
}


def test_every_refusal_is_explained_with_code_meaning_hint_and_whether_to_repeat() -> None:
    assert [one.code for one in REFUSALS] == list(REFUSAL_CODES)
    assert all(one.meaning and one.hint.endswith(".") for one in REFUSALS)
    assert {code: (explain(code)[0].kind, explain(code)[0].retryable) for code in NAMED} == NAMED
    assert dovetail.refusals.REFUSALS is REFUSALS


def test_every_code_of_every_kind_is_explained() -> None:
    for row in KINDS.values():
        for code in (row.legacy, row.modern, row.erlmcp, row.elixir):
            if code is not None and code not in REFUSAL_CODES:
                assert row.name in {one.kind for one in explain(code)}


def test_the_general_meaning_of_a_shared_number_comes_first() -> None:
    assert explain(-32602)[0].kind == "invalid_params"
    assert [one.where for one in explain(-32010)] == ["erlmcp"]
    assert explain(-32010)[0].retryable
    assert explain(5) == []


def test_a_refusal_raised_by_number_has_the_kind_that_is_explained() -> None:
    for code in (1056, 1060, 1069, 1078, 1079, 1087, 1089):
        assert Refusal(code).kind == explain(code)[0].kind
        assert Refusal(code).message == explain(code)[0].meaning


@pytest.mark.parametrize(("code", "word"), [("1003", "rate_limited"), ("-32035", "tool_disabled (erlmcp)")])
def test_explain_prints_it(code: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", code]) == 0
    assert word in capsys.readouterr().out


def test_explain_prints_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json", "-32037"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["retryable"]) == ("tool_not_allowed", False)
    assert main(["explain", "all"]) == 0
    assert capsys.readouterr().out.count("\n") == 3 * len(REFUSALS)


@pytest.mark.parametrize("code", ["17", "rate", "--", "1003\x1b[31m"])
def test_what_is_no_code_is_said_so(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["explain", code])
    except SystemExit as end:
        status = int(end.code or 0)
    assert status in (1, 2)
    assert "\x1b" not in capsys.readouterr().err


def test_what_is_no_code_is_said_so_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):  # a wrong command line, as any other
        main(["explain", "rate", "--json"])
    assert "a code is a number" in capsys.readouterr().err
