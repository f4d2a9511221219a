"""Checking values against schemas with jsonschema-rs."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from dovetail.errors import DovetailError
from dovetail.json_schema.problem import Problem, SchemaError
from dovetail.json_schema.validation import Validator


def problem(schema: dict[str, Any], value: Any) -> str | None:
    found = Validator(schema).problem(value)
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"multipleOf": 0.01}, 19.99),
        ({"type": "integer"}, 1.0),
        ({"type": ["string", "null"]}, None),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}, "x"),
        ({"properties": {"$ref": {"type": "string"}}}, {"$ref": "x"}),
        ({"default": {"$id": "x", "$ref": "https://x/y"}}, 1),
    ],
    ids=str,
)
def test_a_value_that_fits_has_no_problem(schema: dict[str, Any], value: Any) -> None:
    assert problem(schema, value) is None


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"multipleOf": 0.01}, 19.999, "the value is not a multiple of 0.01"),
        ({"type": "integer"}, True, 'the value is not of type "integer"'),
        ({"const": 1}, True, "1 was expected"),
        ({"required": ["a"]}, {}, '"a" is a required property'),
        ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": ["x", 1]}, "a[1]: the value is not of"),
        ({"properties": {"a": {"contains": {"type": "string"}}}}, {"a": [1]}, "a: "),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True, "not valid under any of the schemas"),
    ],
    ids=str,
)
def test_a_problem_says_where_and_what_without_the_value(
    schema: dict[str, Any], value: Any, reason: str
) -> None:
    found = problem(schema, value)
    assert found is not None
    assert reason in found


def test_a_problem_never_shows_the_value() -> None:
    for schema in ({"const": 1}, {"enum": ["a"]}, {"pattern": "^a"}, {"format": "date", "type": "number"}):
        assert "secret" not in str(problem(schema, "secret"))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": 5}, "type: "),
        ({"type": "nonsense"}, "type: "),
        ({"properties": []}, 'properties: the value is not of type "object"'),
        ({"properties": {"a": 5}}, "properties.a: "),
        ({"required": [1]}, r"required\[0\]: "),
        ({"allOf": {}}, "allOf: "),
        ({"$ref": 5}, "ref: "),
        ({"pattern": "("}, "pattern: .*regex"),
        ({"multipleOf": 0}, "multipleOf: "),
        ({"$schema": 5}, "schema: "),
        ({"$schema": "https://example.com/other"}, "Unknown meta-schema"),
        ({"$ref": "#/nope"}, "'#/nope' does not lead to a schema"),
        ({"$ref": "#nope"}, "'#nope' does not lead to a schema"),
        ({"$ref": "#/items/5", "items": []}, "does not lead to a schema"),
    ],
    ids=str,
)
def test_a_malformed_schema_is_refused_with_the_part_that_is_wrong(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        Validator(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://x/y"},
        {"$ref": "file:///etc/passwd"},
        {"properties": {"a": {"items": {"$dynamicRef": "other.json"}}}},
        {"not": {"$ref": "other.json#/$defs/a"}},
    ],
    ids=str,
)
def test_a_reference_to_another_document_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="references to other documents are not followed"):
        Validator(schema)


def test_a_reference_in_an_unused_definition_is_not_fetched_either() -> None:
    with pytest.raises(SchemaError, match="not followed"):
        Validator({"$defs": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}})


@pytest.mark.parametrize(
    ("schema", "value", "wrong"),
    [
        ({"$defs": {"a": {"$anchor": "here", "type": "string"}}, "$ref": "#here"}, "x", 1),
        ({"prefixItems": [{"type": "string"}, {"$ref": "#/prefixItems/0"}]}, ["x", "y"], ["x", 1]),
        ({"$defs": {"a/b": {"type": "string"}}, "$ref": "#/$defs/a~1b"}, "x", 1),
        ({"$defs": {"a b": {"type": "string"}}, "$ref": "#/$defs/a%20b"}, "x", 1),
        ({"type": "array", "items": {"$ref": "#"}}, [[], [[]]], [[], [1]]),
        ({"$id": "https://x/y", "$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, "x", 1),
    ],
    ids=str,
)
def test_references_inside_the_schema_are_followed(schema: dict[str, Any], value: Any, wrong: Any) -> None:
    assert problem(schema, value) is None
    assert problem(schema, wrong) is not None


def test_a_part_with_its_own_id_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"its own \$id"):
        Validator({"$defs": {"a": {"$id": "x"}}, "$ref": "x"})


def test_a_schema_with_too_many_parts_is_refused() -> None:
    for schema in ({"anyOf": [{"type": "string"}] * 20_000}, {"enum": list(range(20_000))}):
        with pytest.raises(SchemaError, match="more than 10000 parts"):
            Validator(schema)


def test_a_schema_that_nests_too_deeply_is_refused() -> None:
    for levels in (70, 50_000):
        schema: dict[str, Any] = {}
        for _ in range(levels):
            schema = {"not": schema}
        with pytest.raises(SchemaError, match="deeper than 64 levels"):
            Validator(schema)


def test_a_long_chain_of_references_is_refused() -> None:
    definitions = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(2000)}
    with pytest.raises(SchemaError, match="references nest deeper than 256 levels"):
        Validator({"$defs": {**definitions, "a2000": True}, "$ref": "#/$defs/a0"})


def doubling(keyword: str, steps: int, reference: str = "#/$defs/a{}") -> dict[str, Any]:
    """A schema whose work doubles with every step."""
    definitions: dict[str, Any] = {"a0": {"type": "integer", "$anchor": "a0"}}
    for step in range(1, steps + 1):
        parts = [{"$ref": reference.format(step - 1)}] * 2
        definitions[f"a{step}"] = {keyword: parts, "$anchor": f"a{step}"}
    return {"$defs": definitions, "$ref": f"#/$defs/a{steps}"}


def doubling_below(steps: int) -> dict[str, Any]:
    """A schema whose work doubles with every level of the value."""
    definitions: dict[str, Any] = {"a0": {"type": "integer"}}
    for step in range(1, steps + 1):
        part = {"properties": {"x": {"$ref": f"#/$defs/a{step - 1}"}}}
        definitions[f"a{step}"] = {"anyOf": [{**part, "required": ["y"]}, part]}
    return {"$defs": definitions, "$ref": f"#/$defs/a{steps}"}


UNEVALUATED: dict[str, Any] = {"unevaluatedProperties": False, "properties": {"x": {}}}
for _ in range(20):
    UNEVALUATED = {"unevaluatedProperties": False, "allOf": [UNEVALUATED]}


@pytest.mark.parametrize(
    "schema",
    [
        *[doubling(keyword, 40) for keyword in ("allOf", "anyOf", "oneOf")],
        doubling("allOf", 40, "#a{}"),
        doubling_below(40),
        UNEVALUATED,
    ],
    ids=["allOf", "anyOf", "oneOf", "anchors", "below", "unevaluated"],
)
def test_a_schema_that_multiplies_the_work_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="more than 100000 schemas"):
        Validator(schema)


def nested(levels: int, inside: Any) -> Any:
    value: Any = inside
    for _ in range(levels):
        value = {"x": value}
    return value


ALTERNATIVES = {"anyOf": [
    {"type": "object", "properties": {"x": {"$ref": "#"}}},
    {"type": "object", "patternProperties": {"x": {"$ref": "#"}}},
]}  # fmt: skip
"""Two alternatives that both go down: listing all errors takes twice as long with every level of the value."""


def test_a_deep_value_of_a_recursive_schema_is_checked_but_not_explained() -> None:
    assert problem(ALTERNATIVES, nested(300, {})) is None
    assert problem(ALTERNATIVES, nested(60, 1)) == "does not fit its schema"
    assert "not valid under any" in str(problem(ALTERNATIVES, nested(2, 1)))


def test_a_large_wrong_value_is_not_explained() -> None:
    schema = {"anyOf": [{"items": {"type": "string"}}, {"minItems": 10**6}]}
    assert Validator(schema).problem([1] * 100_000) == Problem("", "does not fit its schema")


def test_a_pattern_stops_after_a_number_of_backtracking_steps() -> None:
    schema = {"pattern": r"^(?=(a|aa)+$)(a|aa)+\1c$"}
    assert problem(schema, "a" * 60 + "b") is not None


def test_without_jsonschema_rs_the_error_has_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(DovetailError, match=r"pip install 'dovetail-mcp\[schema\]'") as caught:
        Validator({})
    assert caught.value.kind == "missing_extra"
