"""Schemas and decoding of every kind of annotation: what the schema allows is what the decoder takes."""

from __future__ import annotations

import datetime
import decimal
import enum
import ipaddress
import pathlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
)

import annotated_types
import attrs
import jsonschema_rs
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Raw, Struct

from dovetail.errors import RegistrationError
from dovetail.server.signatures.functions import Function, prepare_tool
from dovetail.server.signatures.validation_errors import InvalidArguments


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    HALF = 0.5
    PAIR = "pair"


@dataclass
class Point:
    """A place.

    Attributes:
        x: How far right.
    """

    x: int
    y: int = 0


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


@dataclass
class Owner:
    name: str
    pets: list[Pet] = field(default_factory=list)


@dataclass
class Pet:
    age: Annotated[int, annotated_types.Ge(0)]
    owner: Owner | None = None


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str = "r"


@attrs.define
class Box:
    width: int
    _depth: int = 3


@attrs.define
class Checked:
    size: int = attrs.field(validator=attrs.validators.ge(0))


class Flags(enum.Flag):
    A = 1
    B = 2


class Bus(pydantic.BaseModel):
    kind: Literal["bus"]


class Tram(pydantic.BaseModel):
    kind: Literal["tram"]


Transit = Annotated[Bus | Tram, pydantic.Field(discriminator="kind")]


class Cat(Struct, tag=True):
    lives: int


class Dog(Struct, tag=True):
    breed: str


@dataclass
class Car:
    wheels: int


@dataclass
class Boat:
    sails: int
    wheels: int = 0


@dataclass
class Garage:
    vehicle: Car | Boat


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0, description="Years.")


class Branch(pydantic.BaseModel):
    leaves: int
    branches: list[Branch] = []


T = TypeVar("T")


@dataclass
class Page(Generic[T]):
    items: list[T]


UserId = NewType("UserId", int)


def prepared(annotation: Any, default: Any = ...) -> Function:
    def tool(value: Any) -> None: ...

    tool.__annotations__["value"] = annotation
    if default is not ...:
        tool.__defaults__ = (default,)
    function = prepare_tool(tool)
    jsonschema_rs.meta.validate(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **function.input_schema}
    )
    return function


def decoded(function: Function, json: str) -> Any:
    return function.decode(Raw(b'{"value":' + json.encode() + b"}"))["value"]


CASES: list[tuple[Any, str, Any]] = [
    (str, '"x"', "x"),
    (int, "1", 1),
    (int, "1.0", 1),
    (float, "1", 1.0),
    (bool, "true", True),
    (None, "null", None),
    (Any, '{"a":[1]}', {"a": [1]}),
    (Literal["a", "b"], '"b"', "b"),
    (Literal[1.5, "x", True], "1.5", 1.5),
    (Literal["only"], '"only"', "only"),
    (Colour, '"red"', Colour.RED),
    (Level, "2", Level.HIGH),
    (Odd, "0.5", Odd.HALF),
    (Flags, "3", Flags.A | Flags.B),
    (Checked, '{"size":1}', Checked(1)),
    (Transit, '{"kind":"tram"}', Tram(kind="tram")),
    (Annotated[str, pydantic.StringConstraints(to_upper=True)], '"a"', "A"),
    (
        Annotated[datetime.date, annotated_types.Gt(datetime.date(2020, 1, 1))],
        '"2024-05-06"',
        datetime.date(2024, 5, 6),
    ),
    (Optional[int], "null", None),  # noqa: UP045
    (int | str, '"x"', "x"),
    (str | datetime.date, '"x"', "x"),
    (datetime.date | str, '"2024-05-06"', datetime.date(2024, 5, 6)),
    (list[int], "[1,2]", [1, 2]),
    (set[str], '["a"]', {"a"}),
    (frozenset[int], "[1]", frozenset({1})),
    (tuple[int, str], '[1,"a"]', (1, "a")),
    (tuple[int, ...], "[1,2,3]", (1, 2, 3)),
    (dict[str, int], '{"a":1}', {"a": 1}),
    (dict[int, str], '{"1":"a"}', {1: "a"}),
    (Mapping[str, list[int]], '{"a":[1]}', {"a": [1]}),
    (Sequence[int], "[1]", [1]),
    (Iterable[int], "[1]", [1]),
    (Point, '{"x":1}', Point(1)),
    (list[Point], '[{"x":1,"y":2}]', [Point(1, 2)]),
    (Tree, '{"value":1,"children":[{"value":2}]}', Tree(1, [Tree(2)])),
    (Owner, '{"name":"a","pets":[{"age":1,"owner":{"name":"b"}}]}', Owner("a", [Pet(1, Owner("b"))])),
    (Movie, '{"title":"t"}', {"title": "t"}),
    (Pair, '[1,"x"]', Pair(1, "x")),
    (Pair, "[1]", Pair(1)),
    (Box, '{"width":2}', Box(2)),
    (Cat | Dog, '{"type":"Dog","breed":"b"}', Dog("b")),
    (Car | Boat, '{"wheels":4}', Car(4)),
    (Car | Boat, '{"sails":2,"wheels":1}', Boat(2, 1)),
    (Garage, '{"vehicle":{"sails":2}}', Garage(Boat(2))),
    (Page[int], '{"items":[1]}', Page([1])),
    (UserId, "7", 7),
    (Person, '{"name":"a","age":3}', Person(name="a", age=3)),
    (Person, '{"name":"a","age":3.0}', Person(name="a", age=3)),
    (Person | None, "null", None),
    (list[Person], '[{"name":"a","age":3}]', [Person(name="a", age=3)]),
    (Person | Point, '{"x":3}', Point(3)),
    (Branch, '{"leaves":1,"branches":[{"leaves":2}]}', Branch(leaves=1, branches=[Branch(leaves=2)])),
    (
        datetime.datetime,
        '"2024-05-06T07:08:09Z"',
        datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC),
    ),
    (datetime.time, '"07:08:09"', datetime.time(7, 8, 9)),
    (datetime.timedelta, '"PT90S"', datetime.timedelta(seconds=90)),
    (decimal.Decimal, '"1.10"', decimal.Decimal("1.10")),
    (uuid.UUID, '"12345678-1234-5678-1234-567812345678"', uuid.UUID("12345678-1234-5678-1234-567812345678")),
    (bytes, '"aGk="', b"hi"),
    (pathlib.Path, '"a/b"', pathlib.Path("a/b")),
    (ipaddress.IPv4Address, '"127.0.0.1"', ipaddress.IPv4Address("127.0.0.1")),
    (Annotated[int, "a number"], "1", 1),
    (Annotated[int, Meta(ge=1)], "1", 1),
    (Annotated[int | None, Meta(ge=1)], "null", None),
    (Annotated[str, pydantic.Field(min_length=1, pattern="^a")], '"ab"', "ab"),
    (Annotated[list[int], annotated_types.Len(1, 2)], "[1]", [1]),
    (Annotated[decimal.Decimal, annotated_types.Gt(1)], '"1.5"', decimal.Decimal("1.5")),
    (Annotated[str, pydantic.AfterValidator(str.upper)], '"a"', "A"),
]


@pytest.mark.parametrize(("annotation", "json", "value"), CASES, ids=lambda case: str(case)[:60])
def test_a_value_is_decoded_and_its_schema_allows_it(annotation: Any, json: str, value: Any) -> None:
    function = prepared(annotation)
    assert decoded(function, json) == value
    jsonschema_rs.validate(function.input_schema, {"value": msgspec.json.decode(json)})


REFUSED: list[tuple[Any, str, str]] = [
    (int, '"1"', "value: expected integer, got string"),
    (int, "1.5", "value: expected integer, got number"),
    (int, "true", "value: expected integer, got boolean"),
    (str, "1", "value: expected string, got integer"),
    (Literal["a", "b"], '"secret"', "value: must be one of 'a', 'b'"),
    (Colour, '"secret"', "value: must be one of 'red', 'blue'"),
    (Odd, '"secret"', "value: must be one of 0.5, 'pair'"),
    (list[int], '[1,"secret"]', "value[1]: expected integer, got string"),
    (dict[str, int], '{"k":"secret"}', "value[...]: expected integer, got string"),
    (Point, '{"y":1}', "value: missing 'x'"),
    (list[Tree], '[{"value":1,"children":[{"value":"secret"}]}]', "value[0].children[0].value: expected integer, got string"),  # noqa: E501
    (Garage, '{"vehicle":{"wings":"secret"}}', "value.vehicle: no alternative fits (Car: Object missing required field `wheels`; Boat: Object missing required field `sails`)"),  # noqa: E501
    (Owner, '{"name":"a","pets":[{"age":-1}]}', "value.pets[0].age: expected integer >= 0"),
    (Person, '{"name":"a","age":"3"}', "value.age: input should be a valid integer"),
    (list[Person], '[{"name":"a","age":-3}]', "value[0].age: input should be greater than or equal to 0"),
    (Checked, '{"size":-77}', "value: 'size' must be >= 0"),
    (Transit, '{"kind":"secret"}', "value: must be one of 'bus', 'tram'"),
    (dict[Literal["a"], int], '{"secret":1}', "value: is not one of the allowed values"),
    (Annotated[datetime.date, annotated_types.Gt(datetime.date(2020, 1, 1))], '"2019-01-01"', "value: must be greater than 2020-01-01"),  # noqa: E501
    (Annotated[datetime.datetime, annotated_types.Timezone(...)], '"2020-01-01T00:00:00"', "value: expected `datetime` with a timezone component"),  # noqa: E501
    (uuid.UUID, '"secret"', "value: invalid UUID"),
    (ipaddress.IPv4Address, '"secret"', "value: invalid IPv4Address"),
    (Annotated[int | None, annotated_types.Ge(3)], "2", "value: expected integer >= 3"),
    (Annotated[decimal.Decimal, annotated_types.Gt(1)], '"1"', "value: must be greater than 1"),
    (Annotated[int, annotated_types.Predicate(lambda n: n % 2 == 0)], "3", "value: is not acceptable"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "json", "problem"), REFUSED)
def test_a_wrong_value_is_refused_with_path_and_reason_but_without_itself(
    annotation: Any, json: str, problem: str
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        decoded(prepared(annotation), json)
    assert str(caught.value.problems[0]) == problem
    assert "secret" not in str(caught.value)
    assert "77" not in str(caught.value)
    assert caught.value.kind == "invalid_tool_arguments"


def schema_of(annotation: Any) -> dict[str, Any]:
    return prepared(annotation).input_schema["properties"]["value"]


def test_descriptions_and_constraints_reach_the_schema_from_every_source() -> None:
    assert schema_of(Annotated[int, "words"]) == {"type": "integer", "description": "words"}
    assert schema_of(Annotated[int, Meta(ge=1, description="d", examples=[2])]) == {
        "type": "integer", "minimum": 1, "description": "d", "examples": [2],
    }  # fmt: skip
    assert schema_of(Annotated[str, pydantic.Field(max_length=3, title="T")]) == {
        "type": "string", "maxLength": 3, "title": "T",
    }  # fmt: skip
    assert schema_of(Annotated[list[int], annotated_types.MinLen(1)]) == {
        "type": "array", "items": {"type": "integer"}, "minItems": 1,
    }  # fmt: skip
    assert schema_of(Annotated[int | None, annotated_types.Lt(3), "d"]) == {
        "anyOf": [{"type": "integer", "exclusiveMaximum": 3}, {"type": "null"}], "description": "d",
    }  # fmt: skip


def test_choices_keep_the_order_of_their_author() -> None:
    assert schema_of(Literal["z", "a"]) == {"type": "string", "enum": ["z", "a"]}
    assert schema_of(Literal["z"]) == {"type": "string", "const": "z"}
    assert schema_of(Colour) == {"type": "string", "enum": ["red", "blue"]}


def test_a_class_becomes_a_definition_with_the_text_of_its_docstring() -> None:
    schema = prepared(list[Point]).input_schema
    assert schema["properties"]["value"] == {"type": "array", "items": {"$ref": "#/$defs/Point"}}
    assert schema["$defs"]["Point"] == {
        "type": "object",
        "title": "Point",
        "description": "A place.",
        "properties": {
            "x": {"type": "integer", "description": "How far right."},
            "y": {"type": "integer", "default": 0},
        },
        "required": ["x"],
    }


def test_two_classes_of_one_name_get_two_definitions() -> None:
    other = pydantic.create_model("Point", z=(int, ...))
    schema = prepared(tuple[Point, other]).input_schema
    assert len(schema["$defs"]) <= 2
    jsonschema_rs.validate(schema, {"value": [{"x": 1}, {"z": 1}]})
    assert not jsonschema_rs.is_valid(schema, {"value": [{"z": 1}, {"z": 1}]})


def test_a_tagged_struct_names_its_tag() -> None:
    schema = prepared(Cat | Dog).input_schema
    assert schema["$defs"]["Cat"]["properties"]["type"] == {"const": "Cat"}
    assert schema["$defs"]["Cat"]["required"] == ["type", "lives"]


def test_defaults_are_in_the_schema_when_json_can_say_them() -> None:
    assert prepared(int, 3).input_schema["properties"]["value"]["default"] == 3
    assert prepared(Colour, Colour.RED).input_schema["properties"]["value"]["default"] == "red"
    assert prepared(Point | None, None).input_schema["properties"]["value"]["default"] is None
    assert "default" not in prepared(float, float("nan")).input_schema["properties"]["value"]
    assert "default" not in prepared(Any, object()).input_schema["properties"]["value"]
    assert "required" not in prepared(Any, object()).input_schema


def test_a_type_without_json_is_refused_with_the_name_of_its_parameter() -> None:
    class Opaque: ...

    with pytest.raises(RegistrationError, match="'tool', parameter 'value'"):
        prepared(Opaque)
    with pytest.raises(RegistrationError, match="cannot constrain"):
        prepared(Annotated[bool, Meta(min_length=1)])


def test_a_constraint_inside_a_dataclass_is_enforced_in_a_recursive_pair_of_classes() -> None:
    function = prepared(Pet)
    nested = '{"age":1,"owner":{"name":"a","pets":[{"age":%d}]}}'
    assert decoded(function, nested % 1).owner == Owner("a", [Pet(1)])
    with pytest.raises(InvalidArguments, match=r"value\.owner\.pets\[0\]\.age"):
        decoded(function, nested % -1)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-2, 2)
    | st.sampled_from(["a", "red", "", "Cat"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["x", "y", "value", "children", "name", "age", "type", "lives"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
FUZZED = [
    prepared(annotation)
    for annotation in (
        Point,
        Tree,
        Owner,
        Movie,
        Pair,
        Cat | Dog,
        Car | Boat,
        Person | Point | None,
        Branch,
        list[Colour] | dict[str, Level],
        Annotated[int | str, annotated_types.Ge(0)],
        Literal[1.5, "a", None],
    )
]


@settings(max_examples=160, deadline=None)
@given(value=JSON, index=st.integers(0, len(FUZZED) - 1))
def test_any_json_is_taken_exactly_when_the_schema_allows_it(value: Any, index: int) -> None:
    function = FUZZED[index]
    arguments = {"value": value}
    try:
        function.decode(Raw(msgspec.json.encode(arguments)))
    except InvalidArguments:
        taken = False
    else:
        taken = True
    assert taken == jsonschema_rs.is_valid(function.input_schema, arguments)
