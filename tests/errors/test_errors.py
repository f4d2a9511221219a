"""The exceptions: what they carry from birth."""

import pytest
from msgspec import UNSET

from dovetail.errors import (
    CapabilityError,
    DovetailError,
    LocalProtocolError,
    ProtocolError,
    Refusal,
    RegistrationError,
    RemoteProtocolError,
    RequestTimeout,
    SessionLost,
    StateError,
    ToolError,
    TransportError,
    masked,
)


def test_a_protocol_error_takes_code_and_text_from_its_kind() -> None:
    error = ProtocolError("resource_not_found")
    assert (error.kind, error.code, error.message, error.data) == (
        "resource_not_found",
        -32602,
        "Resource not found",
        UNSET,
    )
    assert error.given_code is None
    assert str(error) == "Resource not found"


def test_a_code_of_ones_own_is_kept() -> None:
    error = ProtocolError("out_of_stock", "no more socks", code=7, data={"sku": 1})
    assert (error.kind, error.code, error.given_code, error.data) == ("out_of_stock", 7, 7, {"sku": 1})


def test_a_misspelt_kind_is_found_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="unknown kind 'tool_not_fuond'"):
        ProtocolError("tool_not_fuond")


def test_a_remote_error_knows_the_id_when_it_was_readable() -> None:
    assert RemoteProtocolError("invalid_request", id=7).id == 7
    assert RemoteProtocolError("parse_error").id is None


@pytest.mark.parametrize("code", [0, 1000, 1090, -32001])
def test_a_refusal_outside_its_range_is_refused(code: int) -> None:
    with pytest.raises(ValueError, match=r"1001\.\.1089"):
        Refusal(code)


def test_a_refusal_carries_hint_and_time() -> None:
    error = Refusal(1003, "slow down", 2.5)
    assert (error.kind, error.message, error.hint, error.retry_after, error.as_result) == (
        "rate_limited",
        "Rate limit exceeded",
        "slow down",
        2.5,
        False,
    )
    assert Refusal(1057).kind == "refused_quota"
    assert Refusal(1057).message == "Refused"


@pytest.mark.parametrize(
    ("data", "seconds"),
    [
        ({"retryAfterMs": 1500}, 1.5),
        ({"retryAfterMs": -1}, None),
        ({"retryAfterMs": True}, None),
        ({"retryAfterMs": "soon"}, None),
        ([], None),
        (UNSET, None),
    ],
)
def test_only_a_usable_retry_time_is_reported(data: object, seconds: float | None) -> None:
    assert ProtocolError("rate_limited", data=data).retry_after == seconds


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ToolError("no such file"), "tool_execution_failed"),
        (TransportError("gone", cause="eof"), "transport_error"),
        (SessionLost("gone", cause="reset", maybe_executed=True), "session_lost"),
        (RequestTimeout(limit="idle"), "request_timeout"),
        (CapabilityError("sampling.tools"), "capability_not_supported"),
        (StateError(), "state"),
        (RegistrationError("twice"), "registration"),
        (LocalProtocolError("method_not_found"), "method_not_found"),
    ],
)
def test_every_error_has_its_one_kind_and_the_one_root(error: DovetailError, kind: str) -> None:
    assert error.kind == kind
    assert isinstance(error, DovetailError)
    assert error.message == str(error) != ""


def test_errors_of_one_family_are_caught_together() -> None:
    assert issubclass(SessionLost, TransportError)
    assert issubclass(RegistrationError, ValueError)
    assert RegistrationError("x", kind="tool_schema_invalid").kind == "tool_schema_invalid"


def test_a_masked_error_says_nothing_but_where_to_look() -> None:
    error = masked("01J8")
    assert (error.kind, error.code, error.message, error.data) == (
        "internal_error",
        -32603,
        "Internal error",
        {"incident": "01J8"},
    )
