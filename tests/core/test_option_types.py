"""Options and principals refuse values of the wrong type with the name of the argument."""

from typing import Any

import pytest

from dovetail import HttpOptions, Limits, Principal, Reconnect
from dovetail.settings import TaskOptions


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Limits, {"max_batch_size": "10"}),
        (Limits, {"max_sessions": 1.5}),
        (Limits, {"max_response_bytes": True}),
        (HttpOptions, {"session_idle_timeout": "60"}),
        (HttpOptions, {"access_log": 1}),
        (Reconnect, {"max_attempts": "3"}),
        (TaskOptions, {"ttl": None}),
    ],
)
def test_an_option_of_the_wrong_type_is_refused_by_its_name(kind: Any, given: dict[str, Any]) -> None:
    ((name, value),) = given.items()
    with pytest.raises(TypeError, match=f"^{name} of {kind.__name__} is .*, not {value!r}$"):
        kind(**given)


def test_options_of_the_right_type_are_taken() -> None:
    assert Limits(max_response_bytes=None, client_response_timeout=5).client_response_timeout == 5
    assert TaskOptions(ttl=5, timeout=None).timeout is None


@pytest.mark.parametrize(
    "given",
    [
        {"subject": 5},
        {"issuer": 5},
        {"client_id": b"x"},
        {"claims": 5},
        {"scopes": "a b"},
        {"scopes": frozenset({1})},
    ],
)
def test_a_principal_refuses_wrong_types_by_name(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(TypeError, match=f"^{name} of a principal"):
        Principal(**{"subject": "ann", **given})
