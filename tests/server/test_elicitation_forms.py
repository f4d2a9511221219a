"""Forms: the schema a user is shown, and the answer as the type it was made from."""

from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from dovetail.server.input_requests.elicitation_forms import form_of
from tests.server.booking import Seat


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Typed(TypedDict, total=False):
    name: Annotated[str, msgspec.Meta(description="Your name", min_length=1, pattern="x")]
    age: Annotated[int, msgspec.Meta(ge=0, le=150)]


class Named(NamedTuple):
    a: int
    b: bool = True


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(description="Who", max_length=20)
    colour: Colour = Colour.RED
    note: str | None = None


class Struct(msgspec.Struct):
    colours: list[Colour]
    when: Literal["now", "later"]
    ratio: float = 0.5
    note: str | None = None


def test_forms_are_flat_schemas_with_defaults_and_choices() -> None:
    assert form_of(Struct).schema == {
        "type": "object",
        "properties": {
            "colours": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
            "when": {"type": "string", "enum": ["now", "later"]},
            "ratio": {"type": "number", "default": 0.5},
            "note": {"type": "string"},
        },
        "required": ["colours", "when"],
    }
    assert form_of(Typed).schema["properties"]["name"] == {
        "type": "string",
        "description": "Your name",
        "minLength": 1,
    }
    assert form_of(Typed).schema["properties"]["age"] == {"type": "integer", "minimum": 0, "maximum": 150}
    model = form_of(Model).schema
    assert model["properties"]["name"]["maxLength"] == 20
    assert model["properties"]["colour"]["enum"] == ["red", "blue"]
    assert model["required"] == ["name"]
    assert form_of(None).schema == {"type": "object", "properties": {}}
    assert form_of(["a", "b"]).schema["properties"]["value"] == {"type": "string", "enum": ["a", "b"]}


def test_forms_read_answers_into_their_type() -> None:
    assert form_of(Struct).read({"colours": ["red"], "when": "now"}) == Struct([Colour.RED], "now")
    assert form_of(Model).read({"name": "a"}) == Model(name="a")
    assert form_of(Seat).read({"row": "7"}) == Seat(7)
    assert form_of(Colour).read({"value": "blue"}) is Colour.BLUE
    assert form_of(Annotated[int, msgspec.Meta(extra={"unhashable": []})]).read({"value": 3}) == 3
    assert form_of({"type": "object", "properties": {}}).read({"x": 1}) == {"x": 1}
    with pytest.raises(ValueError, match="value"):
        form_of(int).read({})


@pytest.mark.parametrize("kind", [list[int], dict[str, int], Literal[1, 2]])
def test_what_does_not_fit_into_a_form_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(TypeError, match="form"):
        form_of(msgspec.defstruct("Form", [("odd", kind)]))


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        (int, "12", 12),
        (int, 12.0, 12),
        (int, 10**30, 10**30),
        (bool, "true", True),
        (float, "0.5", 0.5),
        (str, "\u2028é", "\u2028é"),
        (Colour, "blue", Colour.BLUE),
    ],
)
def test_what_was_filled_in_as_text_is_read_as_what_was_asked_for(kind: Any, given: Any, read: Any) -> None:
    found = form_of(kind).read({"value": given})
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize("content", [{}, {"value": "many"}, {"value": None}, {"value": 1.5}])
def test_what_is_no_answer_to_a_form_is_a_value_error(content: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Expected|required"):
        form_of(int).read(content)
