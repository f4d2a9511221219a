"""Texts that models send for numbers, lists and objects."""

from typing import Any

import pytest

from dovetail.json_schema.coercion import coerce

INTEGER = {"type": "integer"}
NUMBERS = {"type": "array", "items": INTEGER}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (INTEGER, "5", 5),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "2", 2),
        ({"type": "boolean"}, "true", True),
        ({"type": ["integer", "null"]}, "null", None),
        (NUMBERS, "[1, 2]", [1, 2]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"anyOf": [INTEGER, NUMBERS]}, "[1]", [1]),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "7", 7),
        ({"type": "integer", "enum": [1, 2]}, "2", 2),
        ({"$ref": "#/$defs/n"}, "3", 3),
    ],
)
def test_a_text_that_is_the_json_of_the_declared_type_is_replaced(
    schema: dict[str, Any], text: str, value: Any
) -> None:
    whole = {"type": "object", "properties": {"x": schema}, "$defs": {"n": INTEGER}}
    found, count = coerce({"x": text}, whole)
    assert (found, count) == ({"x": value}, 1)
    assert type(found["x"]) is type(value)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, "5"),
        ({"type": ["string", "integer"]}, "5"),
        ({"anyOf": [INTEGER, {"type": "string"}]}, "5"),
        ({}, "5"),
        ({"enum": [5, "5"]}, "5"),
        (INTEGER, "five"),
        (INTEGER, "5.5"),
        (INTEGER, "true"),
        (INTEGER, "[5]"),
        (INTEGER, ""),
        ({"type": "boolean"}, "1"),
        ({"type": "object"}, "[1]"),
        (NUMBERS, "1, 2"),
        (NUMBERS, "[" * 100_000),
        (True, "5"),
    ],
)
def test_every_other_text_stays_as_it_is(schema: Any, text: str) -> None:
    assert coerce({"x": text}, {"type": "object", "properties": {"x": schema}}) == ({"x": text}, 0)


def test_texts_inside_lists_and_objects_are_replaced() -> None:
    schema = {
        "type": "object",
        "properties": {"list": NUMBERS, "pair": {"prefixItems": [INTEGER, {"type": "string"}]}},
        "additionalProperties": INTEGER,
    }
    found = coerce({"list": ["1", 2], "pair": ["3", "4"], "other": "5"}, schema)
    assert found == ({"list": [1, 2], "pair": [3, "4"], "other": 5}, 3)


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {"anyOf": [{"$ref": "#"}, {"type": "array", "items": {"$ref": "#"}}]}
    nested: Any = "x"
    for _ in range(100):
        nested = [nested]
    assert coerce(nested, schema) == (nested, 0)
