"""Reading answers to forms in every accepted shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import UNSET, Struct

from dovetail.client.server_requests.form_answers import read_answer
from dovetail.model import ElicitResult

FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}},
    "required": ["name"],
}
ONE = {"type": "object", "properties": {"name": {"type": "string"}}}
FLAG = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
ACTION = {"type": "object", "properties": {"action": {"type": "string"}}}


@dataclass
class Person:
    name: str
    age: int = 5


class Named(Struct):
    name: str


ACCEPTED: list[tuple[Any, Any, Any]] = [
    ({"name": "Ada"}, FORM, {"name": "Ada", "age": 30}),
    ({"action": "accept", "content": {"name": "Ada"}}, FORM, {"name": "Ada", "age": 30}),
    ({"action": "accept"}, FORM, {"age": 30}),
    (ElicitResult("accept", content={"name": "Ada", "age": 1}), FORM, {"name": "Ada", "age": 1}),
    (Person("Ada"), FORM, {"name": "Ada", "age": 5}),
    (Named("Ada"), FORM, {"name": "Ada", "age": 30}),
    ("Ada", ONE, {"name": "Ada"}),
    (True, FORM, {"age": 30}),
    ("accept", FORM, {"age": 30}),
    (True, FLAG, {"sure": True}),
    (False, FLAG, {"sure": False}),
    ({"action": "accept"}, ACTION, {"action": "accept"}),
    ({"action": "accept", "content": {"action": "go"}}, ACTION, {"action": "go"}),
    ({"action": "fly"}, ACTION, {"action": "fly"}),
]


@pytest.mark.parametrize(("answer", "schema", "content"), ACCEPTED)
def test_an_accepted_form_is_read_and_filled_in(answer: Any, schema: Any, content: Any) -> None:
    assert read_answer(answer, schema) == ElicitResult("accept", content=content)


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (None, "cancel"),
        (False, "decline"),
        ("decline", "decline"),
        ("cancel", "cancel"),
        ({"action": "decline"}, "decline"),
    ],
)
def test_a_refusal_carries_no_content(answer: Any, action: str) -> None:
    found = read_answer(answer, FORM)
    assert (found.action, found.content) == (action, UNSET)


@pytest.mark.parametrize("answer", [True, "accept", {"action": "accept"}, ElicitResult("accept")])
def test_a_url_is_accepted_without_content(answer: Any) -> None:
    assert read_answer(answer, None) == ElicitResult("accept")


def test_a_value_without_a_field_to_hold_it_is_refused() -> None:
    with pytest.raises(TypeError, match="form with 2 fields"):
        read_answer("Ada", FORM)
