"""Scopes: their spelling, where tokens carry them, and what they imply."""

from typing import Any

import pytest

from dovetail.auth.core.scopes import Hierarchy, scope_list, scope_text, scopes_of


def test_a_list_of_scopes_keeps_its_order_and_names_each_once() -> None:
    assert scope_list("b a  b") == scope_list(["b", "a", "b"]) == ("b", "a")
    assert scope_text(["b", "a", "b"]) == "a b"
    assert scope_text([]) is None


@pytest.mark.parametrize("wrong", ["a b", 'a"b', "a\\b", "ä", "", "a\n"])
def test_what_is_no_scope_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="not a scope"):
        scope_list([wrong])


@pytest.mark.parametrize(
    ("claims", "found"),
    [
        ({"scope": "a b"}, {"a", "b"}),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scp": ["a", "b"]}, {"a", "b"}),
        ({"scope": ["a", 1, None]}, {"a"}),
        ({"scope": 7}, set()),
        ({"scope": {"a": 1}}, set()),
        ({"scope": None, "scp": "a"}, set()),
        ({}, set()),
    ],
)
def test_scopes_stand_in_either_claim(claims: dict[str, Any], found: set[str]) -> None:
    assert scopes_of(claims) == found


def test_a_broad_scope_implies_the_narrow_ones_below_it_even_with_a_cycle() -> None:
    mail = Hierarchy({"all": ["mail"], "mail": "mail:read mail:send", "mail:send": ["all"]})
    assert mail.expand(frozenset({"mail"})) == {"mail", "mail:read", "mail:send", "all"}
    assert mail.expand(frozenset({"mail:read"})) == {"mail:read"}
    assert Hierarchy().expand(frozenset({"x"})) == {"x"}
