"""Which schema takes all that another does: by example, and tried with values."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.json_schema.comparison import narrower
from dovetail.json_schema.validation import Validator


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


NODE = {"$defs": {"n": closed(next={"$ref": "#/$defs/n"}, value={"type": "integer"})}, "$ref": "#/$defs/n"}
LOOSER = {"$defs": {"n": closed(next={"$ref": "#/$defs/n"}, value={"type": "number"})}, "$ref": "#/$defs/n"}

WITHIN = [
    ({"type": "integer"}, {"type": "number"}),
    ({"type": "string"}, {"type": ["string", "null"]}),
    ({"type": "string", "minLength": 2, "maxLength": 3}, {"type": "string", "maxLength": 5}),
    ({"enum": ["a", "b"]}, {"enum": ["c", "b", "a"]}),
    ({"const": "a"}, {"type": "string"}),
    ({"type": "boolean"}, {"enum": [True, False, None]}),
    (
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 5},
        {"type": "number", "exclusiveMinimum": 0, "maximum": 5},
    ),
    ({"type": "integer", "multipleOf": 6}, {"type": "integer", "multipleOf": 3}),
    (closed(a={"type": "string"}), closed(a={"type": "string"}, b={"type": "integer"})),
    ({"type": "object", "properties": {"a": {}}}, closed(a={})),
    ({**closed(a={}), "required": ["a"]}, closed(a={})),
    (closed(a={"type": "integer"}), {"type": "object", "additionalProperties": {"type": "number"}}),
    (
        {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
        {"type": "array", "items": {"type": "number"}},
    ),
    (
        {"type": "array", "prefixItems": [{"const": 1}], "items": False},
        {"type": "array", "items": {"type": "integer"}},
    ),
    ({"type": "string"}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"type": ["string", "number"]}),
    ({"type": ["integer", "string"]}, {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    ({"allOf": [{"type": "string"}, {"minLength": 3}]}, {"type": "string", "minLength": 1}),
    ({"$defs": {"s": {"type": "string"}}, "$ref": "#/$defs/s"}, {"type": "string", "description": "other"}),
    (NODE, LOOSER),
    ({"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^a"}),
    (False, {"type": "string"}),
    ({"type": "string"}, True),
]
NOT_WITHIN = [
    ({"type": "number"}, {"type": "integer"}),
    ({"type": ["string", "null"]}, {"type": "string"}),
    ({"type": "string"}, {"type": "string", "maxLength": 5}),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}),
    ({"type": "string"}, {"enum": ["a"]}),
    (closed(a={}), {**closed(a={}), "required": ["a"]}),
    (closed(a={}, b={}), closed(a={})),
    (closed(a={"type": "integer"}), closed(a={"type": "string"})),
    ({"type": "object", "additionalProperties": True}, closed(a={})),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}),
    ({"type": "array", "items": {"type": "number"}}, {"type": "array", "items": {"type": "integer"}}),
    (LOOSER, NODE),
    ({"type": "string"}, {"type": "string", "pattern": "^a"}),
    ({"type": "integer"}, {"oneOf": [{"type": "number"}, {"type": "integer"}]}),
    ({"type": "string"}, {"not": {"const": "a"}}),
    ({}, {"type": "string"}),
    ({"type": "integer"}, {"type": "integer", "minimum": 0}),
    (
        {
            "allOf": [{"properties": {"x": {}}}, {"properties": {"y": {}}, "minProperties": 1}],
            "type": "object",
        },
        closed(x={}),
    ),
    ({"type": "string", "minLength": "x"}, {"type": "string", "minLength": 3}),
    ({"$ref": "https://elsewhere"}, {"type": "string"}),
]


@pytest.mark.parametrize(("a", "b"), WITHIN)
def test_everything_that_fits_the_one_fits_the_other(a: Any, b: Any) -> None:
    assert narrower(a, b) == []


@pytest.mark.parametrize(("a", "b"), NOT_WITHIN)
def test_something_fits_the_one_and_not_the_other(a: Any, b: Any) -> None:
    assert narrower(a, b)


def test_the_reason_says_where() -> None:
    a = closed(city=closed(name={"type": "string"}))
    b = closed(city=closed(name={"type": "integer"}))
    assert [(one.path, "string" in one.text) for one in narrower(a, b)] == [(".city.name", True)]


def test_a_hostile_pair_is_given_up_in_time() -> None:
    deep: Any = {"type": "string"}
    for _ in range(30):
        deep = {"anyOf": [deep, {"allOf": [deep, {"minLength": 1}]}]}
    assert narrower(deep, {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}]})


LEAVES = st.sampled_from([
    {}, {"type": "string"}, {"type": "string", "minLength": 2}, {"type": "string", "maxLength": 3}, {"type": "integer"},
    {"type": "number", "minimum": 1}, {"type": "integer", "exclusiveMaximum": 3}, {"type": ["integer", "null"]},
    {"enum": ["a", 1, None]}, {"const": 2}, {"type": "boolean"}, {"type": "null"}, {"multipleOf": 2},
    {"type": "integer", "multipleOf": 4}, {"minimum": 0, "maxLength": 1}, True, False, {"not": {"type": "string"}},
])  # fmt: skip
NAMES = st.sampled_from(["a", "b", "c"])


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.dictionaries(NAMES, inner, max_size=2)
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": members},
        optional={
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(0, 2),
        },
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "uniqueItems": st.booleans(),
        },
    )
    several = st.sampled_from(["anyOf", "oneOf", "allOf"]).flatmap(
        lambda word: st.fixed_dictionaries({word: st.lists(inner, min_size=1, max_size=3)})
    )
    return st.one_of(objects, arrays, several)


SCHEMAS = st.recursive(LEAVES, grown, max_leaves=6)
SCALARS: list[Any] = [None, True, False, 0, 1, 2, 3, 4, -1, 1.5, "", "a", "b", "ab", "abcd"]


def values(pick: random.Random, depth: int = 2) -> Any:
    kind = pick.randrange(4) if depth else 3
    if kind == 0:
        return {name: values(pick, depth - 1) for name in pick.sample("abc", pick.randrange(3))}
    if kind == 1:
        return [values(pick, depth - 1) for _ in range(pick.randrange(3))]
    return pick.choice(SCALARS)


def shut(schema: Any) -> Any:
    """``schema`` as it is meant on the sending side: nothing is sent that is not declared."""
    if not isinstance(schema, dict):
        return schema
    found = {key: shut(value) if key in ("items",) else value for key, value in schema.items()}
    for word in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if word in found:
            found[word] = [shut(one) for one in found[word]]
    if "properties" in found:
        found["properties"] = {name: shut(one) for name, one in found["properties"].items()}
        found["additionalProperties"] = shut(found.get("additionalProperties", False))
    return found


@settings(max_examples=120, deadline=None)
@given(SCHEMAS, SCHEMAS, st.integers())
def test_what_is_called_harmless_is_harmless(a: Any, b: Any, seed: int) -> None:
    """Whenever inclusion is claimed, no value speaks against it."""
    if narrower(a, b) or isinstance(a, bool) or isinstance(b, bool):
        return
    # What is sent fits the schema as it stands, and has declared members alone. Closing every part of an allOf accepts
    # less than what the whole declares (no false alarm, at times a missed one), every part of a oneOf at times more.
    sent, two = [Validator(one) for one in (a, shut(a))], Validator(b)
    pick = random.Random(seed)
    for value in [*SCALARS, *(values(pick) for _ in range(60))]:
        if not any(one.problem(value) for one in sent):
            assert not two.problem(value), (a, b, value)


@settings(max_examples=60, deadline=None)
@given(SCHEMAS)
def test_a_schema_takes_itself(a: Any) -> None:
    assert narrower(a, a) == []
