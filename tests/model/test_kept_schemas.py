"""The structure kept in tests/schemas is that of the official schemas, and holds no sentences of theirs."""

import json
from typing import Any

import pytest
from scripts.schemas import KEPT, NAMES, REVISIONS, SENTENCES, kept_files, official, stripped

PRESENT = all((official() / f"{name}.json").is_file() for name in REVISIONS)


def test_what_only_a_reader_looks_at_goes_and_a_member_of_that_name_stays() -> None:
    schema = {
        "description": "A tool.",
        "title": "Tool",
        "$comment": "draft",
        "properties": {
            "description": {"type": "string", "description": "What it does.", "examples": ["adds"]},
            "title": {"const": "title"},
        },
        "required": ["description"],
        "anyOf": [{"$ref": "#/$defs/Text", "description": "Text."}],
        "enum": [{"description": "a value"}],
    }
    assert stripped(schema) == {
        "properties": {"description": {"type": "string"}, "title": {"const": "title"}},
        "required": ["description"],
        "anyOf": [{"$ref": "#/$defs/Text"}],
        "enum": [{"description": "a value"}],
    }


def keywords(schema: Any, below: str = "") -> set[str]:
    if isinstance(schema, list):
        return set().union(*(keywords(one) for one in schema))
    if not isinstance(schema, dict):
        return set()
    own = set() if below in NAMES else set(schema)
    return own.union(*(keywords(value, "" if below in NAMES else name) for name, value in schema.items()))


@pytest.mark.parametrize("revision", REVISIONS)
def test_no_sentence_is_kept(revision: str) -> None:
    assert not keywords(json.loads((KEPT / f"{revision}.json").read_bytes())) & SENTENCES


@pytest.mark.skipif(not PRESENT, reason=f"the official schemas are not in {official()}")
def test_the_kept_structure_is_the_official_one() -> None:
    found = kept_files(official())
    assert [name for name, text in found.items() if (KEPT / name).read_text() != text] == [], (
        "run scripts/schemas.py"
    )
