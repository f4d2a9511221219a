"""Who a principal is, and what does not make it another one."""

from typing import Any

import pytest

from dovetail import Principal
from dovetail.core.principal import as_principal, key_of


def test_subject_and_issuer_make_a_principal_and_nothing_else() -> None:
    ann = Principal("ann", "https://id.example", frozenset({"a"}), {"exp": 1}, "app")
    assert ann == Principal("ann", "https://id.example")
    assert hash(ann) == hash(Principal("ann", "https://id.example"))
    assert not ann != Principal("ann", "https://id.example")  # noqa: SIM202  both operators
    assert ann != Principal("ann")
    assert ann != Principal("ann", "https://id.example/")
    assert ann != Principal("bob", "https://id.example")


def test_a_name_is_a_principal_without_an_issuer() -> None:
    assert as_principal("ann") == Principal("ann") == "ann"
    assert Principal("ann", "https://id.example") != "ann"
    assert as_principal(None) is None
    assert key_of(None) is None


def test_the_keys_of_two_principals_differ_however_their_parts_are_cut() -> None:
    assert Principal("b", "a").key != Principal("ab").key != Principal("ab", "").key


@pytest.mark.parametrize(
    ("claim", "moment"), [(5, 5), (5.5, 5.5), ("5", None), (True, None), (None, None), ([5], None)]
)
def test_a_principal_ends_with_its_token(claim: Any, moment: float | None) -> None:
    assert Principal("ann", claims={"exp": claim}).expires == moment


def test_claims_stay_out_of_logs() -> None:
    assert "secret" not in repr(Principal("ann", claims={"note": "secret"}))
    assert str(Principal("ann", "https://id.example")) == "ann"
