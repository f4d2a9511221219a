"""Signatures with types, made of the schemas of tools and the arguments of prompts."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.cli.signatures import signature, type_of
from dovetail.model import Prompt, PromptArgument, Resource, Tool

ITEM = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.mark.parametrize(
    ("schema", "type"),
    [
        ({"type": "string"}, "str"),
        ({"type": "number"}, "float"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"type": "array", "items": {"type": "boolean"}}, "list[bool]"),
        ({"type": "array"}, "list"),
        ({"enum": ["a", 1, None]}, "'a' | 1 | None"),
        ({"enum": list(range(9))}, "0 | 1 | 2 | 3 | 4 | 5 | …"),
        ({"const": "only"}, "'only'"),
        (
            {"anyOf": [{"type": "string"}, {"type": "string", "format": "date"}, {"type": "null"}]},
            "str | None",
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object"}, "dict"),
        ({**ITEM, "title": "Item"}, "Item"),
        ({**ITEM, "title": "An item"}, "dict"),
        ({"$ref": "#/$defs/Item"}, "Item"),
        ({"$ref": "#/$defs/Nothing"}, "Any"),
        ({}, "Any"),
        (True, "Any"),
    ],
)
def test_types_are_written_as_in_python(schema: Any, type: str) -> None:
    assert type_of(schema, {"$defs": {"Item": ITEM}}) == type


def test_a_schema_that_contains_itself_ends() -> None:
    root: dict[str, Any] = {"type": "array"}
    root["items"] = {"$ref": "#"}
    assert type_of(root, root).startswith("list[list[")


def test_a_schema_that_contains_itself_many_times_costs_little() -> None:
    many = [{"$ref": "#/$defs/x", "description": str(number)} for number in range(50)]
    root = {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"anyOf": many}}}
    shown = signature(Tool(name="work", input_schema=root, output_schema=root))
    assert str(shown) == "work(a: Any = ...) -> dict"


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"properties": {"a": {"type": {}}}}, "a: Any = ..."),
        ({"properties": {"a": {"type": [{}, "string", ["integer"]]}}}, "a: Any | str | int = ..."),
        ({"properties": {"a": True}, "required": [{}, "a"]}, "a: Any"),
        ({"properties": {"a": {"$ref": 5}}}, "a: Any = ..."),
        ({"properties": []}, ""),
    ],
)
def test_a_schema_that_is_none_is_shown_too(schema: dict[str, Any], shown: str) -> None:
    assert str(signature(Tool(name="work", input_schema=schema))) == f"work({shown})"


def tool(output: Any = None) -> Tool:
    given = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string", "default": "x"}, "c": {}},
    }
    more = {} if output is None else {"output_schema": output}
    return Tool(name="work", input_schema={**given, "required": ["a"]}, **more)


def test_a_signature_has_types_defaults_and_the_result() -> None:
    assert str(signature(tool())) == "work(a: int, b: str = 'x', c: Any = ...)"
    assert str(signature(tool({"type": "array"}))) == "work(a: int, b: str = 'x', c: Any = ...) -> list"


def test_a_value_that_an_older_revision_wraps_is_shown_unwrapped() -> None:
    wrapped = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    assert str(signature(tool(wrapped))).endswith(" -> int")


def test_prompts_take_strings_and_resources_are_addresses() -> None:
    arguments = [PromptArgument(name="topic", required=True), PromptArgument(name="tone")]
    assert str(signature(Prompt(name="ask", arguments=arguments))) == "ask(topic: str, tone: str = ...)"
    assert str(signature(Resource(name="one", uri="note://one"))) == "note://one"


def test_a_long_default_is_left_out() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": "x" * 99}}}
    assert str(signature(Tool(name="work", input_schema=schema))) == "work(a: str = ...)"
