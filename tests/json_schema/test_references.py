"""References within one document: where they point, and that none of them leaves it."""

from typing import Any

import pytest

from dovetail.json_schema.references import MAX_REFERENCE_STEPS, definition_name, resolved, target, value_at

ROOT: dict[str, Any] = {
    "$defs": {"a": {"type": "string"}, "b/c": {"const": 1}, "d~e": True, "f g": {}, "": {"title": "empty"}},
    "anyOf": [{"minimum": 1}, {"minimum": 2}],
    "title": "root",
}


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", ROOT),
        ("#/$defs/a", {"type": "string"}),
        ("#/$defs/b~1c", {"const": 1}),
        ("#/$defs/d~0e", True),
        ("#/$defs/f%20g", {}),
        ("#/$defs/", {"title": "empty"}),
        ("#/anyOf/1", {"minimum": 2}),
        ("#/anyOf/2", None),
        ("#/anyOf/-1", None),
        ("#/anyOf/x", None),
        ("#/title", None),  # a text, not a schema
        ("#/title/x", None),
        ("#/nothing", None),
        ("#anchor", None),
        ("other.json#/$defs/a", None),
        ("https://example.com/schema", None),
        ("", None),
        (7, None),
        (None, None),
    ],
)
def test_a_reference_points_at_a_schema_of_its_document_or_at_nothing(reference: Any, found: Any) -> None:
    assert target(reference, ROOT) == found


def test_a_value_that_is_no_schema_can_be_found_too() -> None:
    assert value_at("#/title", ROOT) == "root"


def test_keywords_next_to_references_are_kept_and_the_first_ones_win() -> None:
    root = {
        "$defs": {"a": {"$ref": "#/$defs/b", "title": "a"}, "b": {"title": "b", "type": "string", "x": 1}}
    }
    assert resolved({"$ref": "#/$defs/a", "x": 2}, root) == {"title": "a", "type": "string", "x": 2}


def test_a_cycle_of_references_ends() -> None:
    root = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a", "title": "b"}}}
    assert resolved({"$ref": "#/$defs/a"}, root) == {"title": "b"}
    chain = {f"s{n}": {"$ref": f"#/$defs/s{n + 1}"} for n in range(MAX_REFERENCE_STEPS + 5)}
    assert resolved({"$ref": "#/$defs/s0", "title": "t"}, {"$defs": chain}) == {"title": "t"}


def test_the_name_of_a_definition() -> None:
    assert [definition_name(one) for one in ("#/$defs/Node", "#", None)] == ["Node", "#", ""]
