"""The meanings, causes and fixes of errors, and ``dovetail explain``."""

import json
import re
from pathlib import Path

import pytest

import dovetail
from dovetail.cli.main import main
from dovetail.error_causes import CAUSES
from dovetail.errors import KINDS, REFUSAL_CODES, RESERVED_REFUSALS, Refusal
from dovetail.refusals import REFUSALS, explain, explain_kind

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


def test_every_refusal_is_explained_with_cause_fix_and_whether_to_retry() -> None:
    assert [one.code for one in REFUSALS] == list(REFUSAL_CODES)
    assert all(one.meaning and one.cause and one.fix for one in REFUSALS)
    assert {code: (explain(code)[0].kind, explain(code)[0].retryable) for code in NAMED} == NAMED
    assert dovetail.refusals.REFUSALS is REFUSALS


def test_every_code_of_every_kind_is_explained() -> None:
    for row in KINDS.values():
        sent = () if row.delivery in ("local", "registration", "drop") else (row.legacy, row.modern)
        for code in (*sent, row.erlmcp, row.elixir):
            if code is not None and code not in REFUSAL_CODES:
                assert row.name in {one.kind for one in explain(code)}


def test_every_kind_has_a_message_a_cause_and_a_fix() -> None:
    groups = {kind for _, kind in RESERVED_REFUSALS}
    assert set(CAUSES) == set(KINDS) | groups
    for kind, (cause, fix) in CAUSES.items():
        found = explain_kind(kind)
        assert found
        assert {(one.cause, one.fix) for one in found} == {(cause, fix)}
        assert all(one.meaning for one in found)


def kinds_in_the_source() -> set[str]:
    """The kinds of all classes that derive from `DovetailError`, and those given as ``kind=`` in a call of one."""
    source = Path(dovetail.__file__).parent
    text = "".join(path.read_text() for path in source.rglob("*.py"))
    classes = re.findall(
        r"^class \w+\(.*(?:Error|Refusal)\b.*\):\n(?:(?!class ).*\n)*?    kind = \"(\w+)\"", text, re.M
    )
    return {*classes, *re.findall(r"Error\([^\n]*kind=\"(\w+)\"", text)}


def test_every_kind_in_the_source_can_be_explained() -> None:
    found = kinds_in_the_source()
    assert {"target", "configuration", "missing_extra", "tool_execution_failed"} <= found
    assert found - set(CAUSES) == set()


IDIOMS = r"\b(whoever|nobody|somebody|told|anew|beside|behind|in front|of its own|by itself|is none|is no (?!longer))\b"


@pytest.mark.parametrize("kind", CAUSES)
def test_causes_and_fixes_are_short_plain_sentences(kind: str) -> None:
    for text in CAUSES[kind]:
        assert text[0].isupper()
        assert text.endswith(".")
        assert max(len(sentence.split()) for sentence in re.split(r"(?<=[.;:]) ", text)) <= 20
        assert not re.search(IDIOMS, text)


@pytest.mark.parametrize("kind", KINDS)
def test_messages_are_short_and_plain(kind: str) -> None:
    message = KINDS[kind].message
    assert len(message.split()) <= 12
    assert not message.endswith(".")
    assert not re.search(IDIOMS, message)


def test_the_general_meaning_of_a_shared_number_comes_first() -> None:
    assert explain(-32602)[0].kind == "invalid_params"
    assert [one.where for one in explain(-32010)] == ["erlmcp"]
    assert explain(-32010)[0].retryable
    assert explain(5) == []


def test_a_refusal_raised_by_number_has_the_kind_that_is_explained() -> None:
    for code in (1056, 1060, 1069, 1078, 1079, 1087, 1089):
        assert Refusal(code).kind == explain(code)[0].kind
        assert Refusal(code).message == explain(code)[0].meaning


RATE_LIMITED = """\
rate_limited: Rate limit exceeded
  code:  1003{more}
  cause: The caller sent more requests than the rate limit allows.
  fix:   Wait for retryAfterMs, then send requests more slowly, or raise the RateLimit of the server.
  retry: yes, later
"""
CONFIGURATION = """\
configuration: The configuration is not valid
  cause: A configuration file of servers cannot be read or has a wrong value.
  fix:   Correct the file. The message names the entry and the member.
  retry: not without a change
"""


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("1003", RATE_LIMITED.format(more="")),
        ("rate_limited", RATE_LIMITED.format(more=", -32010 (erlmcp)")),
        ("configuration", CONFIGURATION),
    ],
)
def test_explain_prints_meaning_code_cause_fix_and_retry(
    word: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", word]) == 0
    assert capsys.readouterr().out == text


def test_explain_counts_the_kinds_that_only_share_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-32602"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("invalid_params: Invalid params\n  code:  -32602\n")
    assert " more kinds have the code -32602. `dovetail explain KIND` explains one" in out
    assert "unsupported_protocol_version" not in out
    assert out.count("cause:") == 1
    assert main(["explain", "-32700"]) == 0
    assert "1 more kind has the code -32700: invalid_encoding." in capsys.readouterr().out


def test_explain_writes_a_code_of_several_dialects_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-32001"]) == 0
    assert "  code:  -32001 (erlmcp, mcp_client)\n" in capsys.readouterr().out


def test_explain_prints_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json", "-32037"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["retryable"]) == ("tool_not_allowed", False)
    assert found["cause"] == CAUSES["tool_not_allowed"].cause
    assert main(["explain", "all"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n{kind}: " in f"\n{out}" for kind in {one.kind for one in REFUSALS})


@pytest.mark.parametrize("word", ["17", "rate", "--", "1003\x1b[31m"])
def test_explain_refuses_what_is_not_an_error(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["explain", word])
    except SystemExit as end:
        status = int(end.code or 0)
    assert status in (1, 2)
    assert "\x1b" not in capsys.readouterr().err


def test_explain_suggests_the_kind_that_was_probably_meant(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):  # a wrong command line, as any other
        main(["explain", "rate_limitd", "--json"])
    assert "Did you mean rate_limited?" in capsys.readouterr().err
