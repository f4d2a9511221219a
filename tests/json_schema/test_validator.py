"""Checking values against schemas, with jsonschema-rs and without it."""

from __future__ import annotations

import sys
import time
from typing import Any

import jsonschema_rs
import pytest

from dovetail.json_schema.problem import Problem, SchemaError
from dovetail.json_schema.validator import Validator


@pytest.fixture
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)


def problems(schema: dict[str, Any], value: Any, *, trusted: bool = True) -> list[str]:
    return [str(problem) for problem in Validator(schema, trusted=trusted).problems(value)]


SMALL: list[tuple[dict[str, Any], Any]] = [
    ({"type": ["string", "null"]}, None),
    ({"type": "integer"}, 1.0),
    ({"type": "integer"}, True),
    ({"const": 1}, True),
    ({"enum": [0]}, False),
    ({"minLength": 2, "maxLength": 3}, "a"),
    ({"pattern": "^a"}, "b"),
    ({"exclusiveMinimum": 1}, 1),
    ({"multipleOf": 2}, 3),
    ({"items": {"type": "string"}, "prefixItems": [{"type": "integer"}]}, [1, "a"]),
    ({"items": False, "prefixItems": [{}]}, [1, 2]),
    ({"minItems": 1}, []),
    ({"maxProperties": 1}, {"a": 1, "b": 2}),
    ({"additionalProperties": {"type": "integer"}}, {"a": "x"}),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, []),
    ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, 1),
    ({"allOf": [{"type": "number"}, {"minimum": 2}]}, 1),
    ({"not": {"type": "string"}}, "a"),
    ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}, [[], [[]]]),
    ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}, [[], [1]]),
]


@pytest.mark.parametrize(("schema", "value"), SMALL, ids=str)
def test_the_small_validator_agrees_with_the_large_one(
    schema: dict[str, Any], value: Any, without_the_extra: None
) -> None:
    assert (not problems(schema, value)) == jsonschema_rs.is_valid(schema, value)


@pytest.mark.parametrize(("schema", "value"), SMALL, ids=str)
def test_what_is_wrong_is_said_in_the_same_words(
    schema: dict[str, Any], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = problems(schema, value)
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    assert problems(schema, value) == full


def test_keywords_that_only_the_extra_knows_are_checked_and_explained() -> None:
    schema = {"type": "object", "properties": {"a": {"contains": {"type": "string"}}}}
    assert problems(schema, {"a": ["x"]}) == []
    [problem] = Validator(schema, trusted=True).problems({"a": [1]})
    assert problem.path == "a"
    large = {"a": list(range(1000))}
    assert Validator(schema, trusted=True).problems(large) == [Problem("", "does not fit its schema")]


def test_what_is_not_checked_without_the_extra_is_known(without_the_extra: None) -> None:
    schema = {"properties": {"contains": {"if": {"type": "string"}, "format": "date"}}, "title": "t"}
    assert Validator(schema, trusted=True).unchecked == ["if"]


def test_a_strangers_pattern_is_never_run_by_python(without_the_extra: None) -> None:
    endless = {"pattern": "^(a+)+$"}
    assert problems(endless, "a" * 40 + "b", trusted=False) == []
    assert problems({"pattern": "^a$"}, "b") == ["must match ^a$"]
    assert problems({"pattern": "^a$"}, "a" * 5000) == ["is too long to be matched"]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$ref": "https://x/y"}, "'https://x/y', and remote references are never fetched"),
        ({"properties": {"a": {"items": [{"$dynamicRef": "other.json"}]}}}, "'other.json'"),
        ({"$ref": "#/$defs/a"}, "leads nowhere"),
        ({"$ref": "#"}, "circle"),
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [True, {"$ref": "#"}]}}}, "circle"),
        ({"type": "nonsense"}, "not valid under any"),
        ({"pattern": "("}, "regex"),
        ({"$schema": "https://example.com/other"}, "unknown dialect"),
        ({"properties": {"a": {"$schema": "http://json-schema.org/draft-04/schema"}}}, "dialect of its own"),
        ({"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}}, "two parts"),
        ({"anyOf": [{"type": "string"} for _ in range(20_000)]}, "too large"),
        ({"enum": list(range(20_000))}, "too large"),
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_used_is_refused(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        Validator(schema, trusted=False)


def test_a_schema_that_nests_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(70):
        schema = {"not": schema}
    with pytest.raises(SchemaError, match="deeper than 64 levels"):
        Validator(schema, trusted=False)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$defs": {"a": {"$id": "https://x/a", "type": "string"}}, "$ref": "https://x/a"}, "x"),
        ({"$defs": {"a": {"$anchor": "here", "type": "string"}}, "$ref": "#here"}, "x"),
        ({"properties": {"$ref": {"type": "string"}}}, {"$ref": "x"}),
        ({"prefixItems": [{"type": "string"}, {"$ref": "#/prefixItems/0"}]}, ["x", "y"]),
        ({"$defs": {"a/b": True, "c": False}, "anyOf": [{"$ref": "#/$defs/a~1b"}, {"$ref": "#/$defs/c"}]}, 1),
        (
            # A pointer begins at the nearest part with an id of its own.
            {
                "$defs": {"a": {"$id": "x", "$ref": "#/$defs/b", "$defs": {"b": {"type": "string"}}}},
                "$ref": "x",
            },
            "x",
        ),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}, "x"),
    ],
    ids=str,
)
def test_references_inside_the_document_are_followed(schema: dict[str, Any], value: Any) -> None:
    assert problems(schema, value, trusted=False) == []


def doubling(keyword: str, steps: int) -> dict[str, Any]:
    """A schema whose work doubles with every step."""
    definitions: dict[str, Any] = {"a0": {"type": "integer"}}
    for step in range(1, steps + 1):
        definitions[f"a{step}"] = {keyword: [{"$ref": f"#/$defs/a{step - 1}"}] * 2}
    return {"$defs": definitions, "$ref": f"#/$defs/a{steps}"}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"x": value}
    return value


TREE = {"$defs": {"n": {"anyOf": [
    {"properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["y"]},
    {"properties": {"x": {"$ref": "#/$defs/n"}}},
]}}, "$ref": "#/$defs/n"}  # fmt: skip
"""Two alternatives that both go down: the work doubles with every level of the value."""

SPREAD = {"allOf": [{"patternProperties": {"x": {"$ref": "#"}, "^x": {"$ref": "#"}}}]}
UNEVALUATED: dict[str, Any] = {"unevaluatedProperties": False, "properties": {"x": {}}}
for _ in range(20):
    UNEVALUATED = {"unevaluatedProperties": False, "allOf": [UNEVALUATED]}

HOSTILE: list[tuple[dict[str, Any], Any]] = [
    *[(doubling(keyword, steps), 1) for keyword in ("allOf", "anyOf", "oneOf") for steps in (30, 300)],
    (TREE, nested(60)),
    (SPREAD, nested(60)),
    (UNEVALUATED, {"x": 1}),
    ({"items": {"enum": list(range(5000))}}, [-1] * 100_000),
    (
        doubling("allOf", 10),
        list(range(200_000)),
    ),  # looked at again and again, though nobody asks what is in it
    ({**doubling("allOf", 8), "patternProperties": {"": False}}, {str(n): n for n in range(100_000)}),
    ({**doubling("allOf", 8), "pattern": "^(a|b)*$"}, "ab" * 2_000_000),
    ({"allOf": [{"uniqueItems": True}] * 200}, [[[n] for n in range(200)] for _ in range(200)]),
]


@pytest.mark.parametrize("extra", [True, False])
@pytest.mark.parametrize(("schema", "value"), HOSTILE, ids=[str(n) for n in range(len(HOSTILE))])
def test_work_without_end_is_refused_before_it_is_begun(
    schema: dict[str, Any], value: Any, extra: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not extra:
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    begun = time.process_time()
    assert problems(schema, value, trusted=False) == ["is too much work to be checked"]
    assert time.process_time() - begun < 2.0


def test_a_long_list_of_deep_values_is_no_excuse() -> None:
    tree = {"$defs": {"n": {"properties": {
        "value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]},
    }}}, "type": "array", "items": {"$ref": "#/$defs/n"}}  # fmt: skip
    value: Any = None
    for number in range(40):
        value = {"value": number, "next": value}
    assert problems(tree, [value] * 100, trusted=False) == []
    wrong = [*[value] * 100, {"value": "x"}]
    assert problems(tree, wrong, trusted=False) == ["[100].value: must be integer"]


def test_wide_records_are_little_work() -> None:
    row = {f"field_{n}": {"type": ["integer", "null"]} for n in range(50)}
    schema = {"type": "array", "items": {"type": "object", "properties": row, "additionalProperties": False}}
    rows = [dict.fromkeys(row, 1) for _ in range(2000)]
    assert problems(schema, rows, trusted=False) == []
