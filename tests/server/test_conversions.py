"""What functions return and what becomes of it: the tables of docs/design/conversions.md, line by line."""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypedDict

import attrs
import jsonschema_rs
import msgspec
import pydantic
import pytest
from msgspec import UNSET

from dovetail.errors import RegistrationError
from dovetail.model import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from dovetail.server.media import Audio, File, Image
from dovetail.server.signatures.functions import Function, prepare_tool
from dovetail.server.signatures.returns import prompt_messages, resource_contents, tool_result
from dovetail.server.signatures.validation_errors import ReturnError


@dataclass
class Forecast:
    city: str
    degrees: float


class Row(TypedDict):
    id: int


@attrs.define
class Mark:
    value: int


class Model(pydantic.BaseModel):
    when: datetime.date = pydantic.Field(serialization_alias="at")


def returning(annotation: Any = ..., **options: Any) -> Function:
    def tool(): ...

    if annotation is not ...:
        tool.__annotations__["return"] = annotation
    return prepare_tool(tool, **options)


PLAIN = returning()
LINK = ResourceLink("a://b", "b")
CONTENTS = ResourceContents("a://b", text="t")


# Tools without a declaration


@pytest.mark.parametrize(
    ("value", "content", "structured"),
    [
        ("text", [TextContent("text")], UNSET),
        ("", [TextContent("")], UNSET),
        (None, [], UNSET),
        (5, [TextContent("5")], UNSET),
        (True, [TextContent("true")], UNSET),
        ([1, "a"], [TextContent('[1,"a"]')], UNSET),
        ([], [TextContent("[]")], UNSET),
        ({"a": 1}, [TextContent('{"a":1}')], {"a": 1}),
        (Forecast("Oslo", 1.5), [TextContent('{"city":"Oslo","degrees":1.5}')], {"city": "Oslo", "degrees": 1.5}),
        (Mark(1), [TextContent('{"value":1}')], {"value": 1}),
        (Model(when=datetime.date(2024, 5, 6)), [TextContent('{"at":"2024-05-06"}')], {"at": "2024-05-06"}),
        (datetime.date(2024, 5, 6), [TextContent("2024-05-06")], UNSET),
        (pathlib.PurePosixPath("a/b"), [TextContent("a/b")], UNSET),
        (b"hi", [TextContent("aGk=")], UNSET),
        ({3}, [TextContent("[3]")], UNSET),
        (TextContent("x"), [TextContent("x")], UNSET),
        (LINK, [LINK], UNSET),
        (CONTENTS, [EmbeddedResource(CONTENTS)], UNSET),
        (EmbeddedResource(CONTENTS), [EmbeddedResource(CONTENTS)], UNSET),
        (Image(b"hi", format="jpg"), [ImageContent("aGk=", "image/jpeg")], UNSET),
        (Audio(b"hi", format="mp3"), [AudioContent("aGk=", "audio/mpeg")], UNSET),
        (["see:", Image(b"hi"), {"a": 1}], [TextContent("see:"), ImageContent("aGk=", "image/png"), TextContent('{"a":1}')], UNSET),  # noqa: E501
        (("see:", LINK), [TextContent("see:"), LINK], UNSET),
        (([TextContent("x")], {"a": 1}), [TextContent("x")], {"a": 1}),
    ],
    ids=lambda case: str(case)[:40],
)  # fmt: skip
def test_an_undeclared_value_is_shown_as_what_it_is(value: Any, content: list[Any], structured: Any) -> None:
    result = tool_result(value, PLAIN)
    assert result == CallToolResult(content, structured_content=structured)


def test_a_generator_is_collected() -> None:
    def numbers() -> Iterator[int]:
        yield from (1, 2)

    assert tool_result(numbers(), PLAIN).content == [TextContent("[1,2]")]


def test_a_whole_result_goes_out_as_it_is() -> None:
    result = CallToolResult([TextContent("x")], is_error=True, meta={"a": 1})
    assert tool_result(result, PLAIN) is result


def test_structured_false_keeps_data_in_the_text() -> None:
    function = returning(dict[str, int], structured=False)
    assert function.output_schema is None
    assert tool_result({"a": 1}, function) == CallToolResult([TextContent('{"a":1}')])


def test_a_value_json_cannot_write_is_the_authors_error() -> None:
    with pytest.raises(
        ReturnError, match="tool returned a wrong value: a value of type object has no JSON form"
    ):
        tool_result(object(), PLAIN)
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    with pytest.raises(ReturnError):
        tool_result(cyclic, PLAIN)


# Tools with a declaration


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict, {"type": "object"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (
            Row,
            {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "title": "Row"},
        ),
    ],
)
def test_the_return_annotation_becomes_the_output_schema(annotation: Any, schema: dict[str, Any]) -> None:
    assert returning(annotation).output_schema == schema


@pytest.mark.parametrize(
    "annotation",
    [..., None, Any, Image, TextContent, list[Image], tuple[str, LINK.__class__], CallToolResult, str | Image,
     CallToolResult | Row],
)  # fmt: skip
def test_content_and_silence_have_no_output_schema(annotation: Any) -> None:
    assert returning(annotation).output_schema is None


def test_structured_true_insists() -> None:
    with pytest.raises(RegistrationError, match="annotate the result"):
        returning(structured=True)


@pytest.mark.parametrize(
    ("annotation", "value", "text", "structured"),
    [
        (str, "x", "x", "x"),
        (int, 5, "5", 5),
        (int | None, None, "null", None),
        (float, 2, "2", 2),
        (Decimal, Decimal("1.10"), "1.10", "1.10"),
        (list[int], [1, 2], "[1,2]", [1, 2]),
        (Forecast, Forecast("Oslo", 1), '{"city":"Oslo","degrees":1}', {"city": "Oslo", "degrees": 1}),
        (list[Forecast], [Forecast("a", 1)], '[{"city":"a","degrees":1}]', [{"city": "a", "degrees": 1}]),
        (Row, {"id": 1}, '{"id":1}', {"id": 1}),
        (Model, Model(when=datetime.date(2024, 5, 6)), '{"at":"2024-05-06"}', {"at": "2024-05-06"}),
        (
            list[Model],
            [Model(when=datetime.date(2024, 5, 6))],
            '[{"at":"2024-05-06"}]',
            [{"at": "2024-05-06"}],
        ),
        (bytes, b"hi", "aGk=", "aGk="),
    ],
    ids=lambda case: str(case)[:40],
)
def test_a_declared_value_is_structured_and_also_text(
    annotation: Any, value: Any, text: str, structured: Any
) -> None:
    function = returning(annotation)
    result = tool_result(value, function)
    assert result == CallToolResult([TextContent(text)], structured_content=structured)
    assert function.output_schema is not None
    jsonschema_rs.meta.validate(function.output_schema)
    jsonschema_rs.validate(function.output_schema, result.structured_content)


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        (Forecast, Forecast("Oslo", "warm"), "degrees: expected number, got string"),  # type: ignore[arg-type]
        (list[Forecast], [Forecast("a", 1), Forecast(None, 1)], "[1].city: expected string, got null"),  # type: ignore[arg-type]
        (int, "x", "expected integer, got string"),
        (Row, {}, "missing 'id'"),
        (Model, {"when": "never"}, "when: "),
        (float, float("nan"), "expected number, got null"),
        (Forecast, object(), "a value of type object has no JSON form"),
    ],
)
def test_the_author_learns_which_field_is_wrong(annotation: Any, value: Any, problem: str) -> None:
    with pytest.raises(ReturnError) as caught:
        tool_result(value, returning(annotation))
    assert str(caught.value.problems[0]).startswith(problem)
    assert caught.value.kind == "tool_execution_failed"


def test_a_raw_output_schema_is_kept_and_enforced() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    function = prepare_tool(lambda a: a, name="raw", input_schema={"type": "object"}, output_schema=schema)
    assert function.output_schema == schema
    assert tool_result({"n": 1}, function).structured_content == {"n": 1}
    assert tool_result(([TextContent("x")], {"n": 1}), function) == CallToolResult(
        [TextContent("x")], structured_content={"n": 1}
    )
    with pytest.raises(ReturnError, match="raw returned a wrong value: n: "):
        tool_result({"n": "x"}, function)
    with pytest.raises(ReturnError, match="structured content"):
        tool_result(CallToolResult([]), function)
    failed = CallToolResult([], is_error=True)
    assert tool_result(failed, function) is failed


def test_a_given_type_is_the_output_schema_whatever_the_annotation_says() -> None:
    function = returning(Any, output_schema=Row)
    assert tool_result({"id": 1}, function).structured_content == {"id": 1}


# Resources


@pytest.mark.parametrize(
    ("value", "mime", "expected"),
    [
        ("t", None, ResourceContents("u://", mime_type="text/plain", text="t")),
        ("t", "text/html", ResourceContents("u://", mime_type="text/html", text="t")),
        (b"hi", None, ResourceContents("u://", mime_type="application/octet-stream", blob="aGk=")),
        (b"hi", "image/png", ResourceContents("u://", mime_type="image/png", blob="aGk=")),
        ({"a": 1}, None, ResourceContents("u://", mime_type="application/json", text='{\n  "a": 1\n}')),
        ([1], "text/x", ResourceContents("u://", mime_type="text/x", text="[\n  1\n]")),
        (None, None, ResourceContents("u://", mime_type="application/json", text="null")),
        (CONTENTS, None, CONTENTS),
        (Image(b"hi"), None, ResourceContents("u://", mime_type="image/png", blob="aGk=")),
    ],
    ids=lambda case: str(case)[:40],
)
def test_resource_values(value: Any, mime: str | None, expected: ResourceContents) -> None:
    assert resource_contents(value, "u://", mime) == [expected]


def test_several_contents_and_whole_results_are_kept() -> None:
    assert resource_contents([CONTENTS, "t"], "u://")[1].text == "t"
    assert resource_contents({}, "u://", json_mime_type="text/plain")[0].mime_type == "text/plain"
    with pytest.raises(ReturnError):
        resource_contents(object(), "u://")


# Prompts


def user(text: str) -> PromptMessage:
    return PromptMessage("user", TextContent(text))


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("hi", [user("hi")]),
        (user("hi"), [user("hi")]),
        ({"role": "assistant", "content": {"type": "text", "text": "x"}}, [PromptMessage("assistant", TextContent("x"))]),  # noqa: E501
        ({"role": "user", "content": "x"}, [user("x")]),
        ({"role": "user", "content": "x", "annotations": {"priority": 1}}, [PromptMessage("user", TextContent("x", annotations={"priority": 1}))]),  # noqa: E501
        (["a", user("b"), {"role": "user", "content": "c"}], [user("a"), user("b"), user("c")]),
        (("a", "b"), [user("a"), user("b")]),
        ([], []),
        (5, [user("5")]),
        (Forecast("a", 1), [user('{"city":"a","degrees":1}')]),
        ([[1, 2]], [user("[1,2]")]),
        (Image(b"hi"), [PromptMessage("user", ImageContent("aGk=", "image/png"))]),
        (PromptMessage("assistant", "x"), [PromptMessage("assistant", TextContent("x"))]),  # type: ignore[arg-type]
    ],
    ids=lambda case: str(case)[:40],
)  # fmt: skip
def test_prompt_values(value: Any, messages: list[PromptMessage]) -> None:
    assert prompt_messages(value) == messages


@pytest.mark.parametrize(
    "value",
    [
        {"role": "user"},
        {"a": 1},
        {"role": "user", "content": {"type": "film"}},
        {"role": "robot", "content": "x"},
        PromptMessage("robot", TextContent("x")),
        {"role": "user", "content": "x", "annotations": 5},
        object(),
    ],
    ids=lambda value: str(value).split(" at ")[0],
)
def test_what_is_no_message_is_the_authors_error(value: Any) -> None:
    with pytest.raises(ReturnError) as caught:
        prompt_messages(value, "plan")
    assert caught.value.kind == "prompt_render_failed"


# Media


def test_media_read_files_and_know_their_type(tmp_path: pathlib.Path) -> None:
    picture = tmp_path / "x.gif"
    picture.write_bytes(b"hi")
    assert Image(path=picture).content() == ImageContent("aGk=", "image/gif")
    text = tmp_path / "x.txt"
    text.write_text("hi")
    embedded = File(path=text).content().resource
    assert (embedded.uri, embedded.mime_type, embedded.text) == (text.as_uri(), "text/plain", "hi")
    binary = File(b"\xff", mime_type="text/plain", uri="a://b").content().resource
    assert binary.blob == "/w=="
    for wrong in ({}, {"data": b"", "path": "x"}):
        with pytest.raises(ValueError, match="either data or a path"):
            Image(**wrong)


def test_results_encode_to_what_the_protocol_writes() -> None:
    result = tool_result(["a", Image(b"hi")], PLAIN)
    assert msgspec.json.decode(msgspec.json.encode(result)) == {
        "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        ]
    }


@pytest.mark.parametrize("annotation", [list, list[Any], tuple, tuple[Any, ...]])
def test_a_list_of_anything_may_hold_content_blocks(annotation: Any) -> None:
    def show() -> Any:
        return [TextContent("a"), TextContent("b")]

    show.__annotations__["return"] = annotation
    function = prepare_tool(show)
    assert function.output_schema is None
    assert tool_result(show(), function).content == [TextContent("a"), TextContent("b")]
