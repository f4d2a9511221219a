"""Schema profiles: clients see converted schemas, and the accepted arguments stay the same."""

import enum
import json
from datetime import date
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from dovetail import Client, RegistrationError, Server
from dovetail.gateway.schema_profiles import restored
from dovetail.json_schema.profiles import PROFILES, rewritten
from dovetail.model import Implementation
from tests.support.aio import run

INLINE, STRICT, GEMINI = (PROFILES[name] for name in ("inline", "openai-strict", "gemini"))


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    name: str = Field(min_length=1, description="What people call it.")
    floor: Literal[1, 2, 3] = 1
    tags: dict[str, int] = {}


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9
    home: Place | None = None


class Dog(BaseModel):
    kind: Literal["dog"]
    toys: list[Place] = []


class Tree(BaseModel):
    """Knows itself."""

    label: str
    children: list["Tree"] = []
    left: "Tree | None" = None


class Order(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    colour: Colour = Colour.RED
    day: date | None = None
    pair: tuple[int, str] = (1, "")
    tree: Tree | None = None
    extra: Any = None
    places: list[Place] = Field(default=[], max_length=3)
    more: Place = Place(name="x")


MODELS: list[type[BaseModel]] = [Place, Cat, Dog, Tree, Order]

texts = st.text(max_size=5)
places = st.builds(dict, name=st.text(min_size=1, max_size=5)) | st.fixed_dictionaries(
    {"name": st.text(min_size=1, max_size=5)},
    optional={
        "floor": st.sampled_from([1, 2, 3]),
        "tags": st.dictionaries(texts, st.integers(0, 9), max_size=2),
    },
)
cats = st.fixed_dictionaries(
    {"kind": st.just("cat")}, optional={"lives": st.integers(0, 9), "home": st.none() | places}
)
dogs = st.fixed_dictionaries({"kind": st.just("dog")}, optional={"toys": st.lists(places, max_size=2)})
trees = st.recursive(
    st.fixed_dictionaries({"label": texts}),
    lambda inner: st.fixed_dictionaries(
        {"label": texts}, optional={"children": st.lists(inner, max_size=2), "left": st.none() | inner}
    ),
    max_leaves=8,
)
orders = st.fixed_dictionaries(
    {"pet": cats | dogs},
    optional={
        "colour": st.sampled_from(["red", "blue"]),
        "day": st.none() | st.just("2026-07-28"),
        "pair": st.tuples(st.integers(0, 9), texts).map(list),
        "tree": st.none() | trees,
        "extra": st.none() | texts | st.booleans(),
        "places": st.lists(places, max_size=3),
        "more": places,
    },
)
VALUES = dict(zip(MODELS, [places, cats, dogs, trees, orders], strict=True))
some = st.sampled_from(MODELS).flatmap(lambda model: st.tuples(st.just(model), VALUES[model]))


def every(schema: Any) -> Any:
    """All schemas within a schema."""
    if isinstance(schema, list):
        for one in schema:
            yield from every(one)
    elif isinstance(schema, dict):
        yield schema
        for key, one in schema.items():
            if key in ("properties", "$defs"):
                for inner in one.values():
                    yield from every(inner)
            elif key not in ("enum", "const", "default", "examples", "required"):
                yield from every(one)


def is_valid(schema: dict[str, Any], value: Any) -> bool:
    return jsonschema_rs.is_valid(schema, value)


@settings(max_examples=80)
@given(some)
def test_without_references_the_same_is_accepted(case: tuple[type[BaseModel], Any]) -> None:
    model, value = case
    schema = model.model_json_schema()
    assert is_valid(schema, value)
    inline = rewritten(schema, INLINE)
    assert "$ref" not in json.dumps(inline)
    assert is_valid(inline, value)


@pytest.mark.parametrize("model", [Place, Cat, Dog])
def test_without_references_nothing_else_is_accepted(model: type[BaseModel]) -> None:
    inline = rewritten(model.model_json_schema(), INLINE)
    for value in (
        {},
        {"name": ""},
        {"kind": "cow"},
        {"kind": "cat", "home": {}},
        {"kind": "dog", "toys": [{}]},
    ):
        assert is_valid(model.model_json_schema(), value) == is_valid(inline, value)


def strictly(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """A value as a model writes it that keeps to a strict schema."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for branch in schema.get("anyOf", ()):
        try:
            found = strictly(value, branch, root)
        except KeyError:
            continue
        if is_valid({**branch, "$defs": root.get("$defs", {})}, found):
            return found
    if schema.get("type") == "object" and isinstance(value, dict):
        unknown = value.keys() - schema["properties"].keys()
        if unknown:
            raise KeyError(unknown)
        return {name: strictly(value.get(name), one, root) for name, one in schema["properties"].items()}
    if isinstance(value, list):
        return [strictly(one, schema["items"], root) for one in value]
    return json.dumps(value) if isinstance(value, dict) else value


@settings(max_examples=100)
@given(some)
def test_what_is_written_for_a_strict_schema_is_read_as_it_was_meant(
    case: tuple[type[BaseModel], Any],
) -> None:
    model, value = case
    schema = model.model_json_schema()
    strict = rewritten(schema, STRICT)
    for each in every(strict):
        assert each.keys() <= STRICT.keeps
        if each.get("type") == "object" or "properties" in each:
            assert each["additionalProperties"] is False
            assert each["required"] == list(each["properties"])
        if "$ref" in each:
            assert each.keys() == {"$ref"}
    written = strictly(value, strict, strict)
    assert is_valid(strict, written)
    back = json.loads(bytes(restored(json.dumps(written).encode(), schema, "openai-strict")))
    assert model.model_validate(back) == model.model_validate(value)


@pytest.mark.parametrize("model", MODELS)
def test_gemini_gets_only_what_it_knows(model: type[BaseModel]) -> None:
    schema = rewritten(model.model_json_schema(), GEMINI)
    for each in every(schema):
        assert each.keys() <= GEMINI.keeps
        assert isinstance(each.get("type", "string"), str)
        assert each.get("type") != "null"
        assert "type" in each or "anyOf" in each
        assert all(isinstance(value, str) for value in each.get("enum", ()))
        if each.get("type") == "array":
            assert "items" in each
    whole = json.dumps(schema)
    assert "$ref" not in whole
    if model is Order:
        assert schema["properties"]["day"]["nullable"] is True


HOSTILE: dict[str, Any] = {
    "itself": {"$ref": "#"},
    "nowhere": {"$ref": "#/$defs/no"},
    "elsewhere": {"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}},
    "circle": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "all": {"allOf": [{"$ref": "#"}]},
    "wide": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n0"}},
        "$defs": {
            f"n{at}": {
                "type": "object",
                "properties": {f"p{n}": {"$ref": f"#/$defs/n{at + 1}"} for n in range(10)},
            }
            for at in range(30)
        },
    },
    "deep": json.loads('{"items":' * 200 + "{}" + "}" * 200),
    "odd": {
        "type": ["object", 7],
        "properties": {"a": True, "b": False, "c": {"enum": []}, "d": {"items": [1]}},
    },
    "not": {"type": "object", "not": {"$ref": "#"}, "oneOf": [{"$ref": "#"}, {"type": "null"}]},
}


@pytest.mark.parametrize("profile", ["inline", "openai-strict", "gemini"])
@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_no_schema_is_too_much(profile: str, schema: dict[str, Any]) -> None:
    rules = PROFILES[profile]
    assert rules is not None
    assert len(json.dumps(rewritten(schema, rules))) < 2_000_000
    restored(b'{"a": null, "b": [{"a": "{}"}]}', schema, profile)


def shop() -> Server:
    server = Server("shop", "1")

    @server.tool
    def order(place: Place, count: int = 1, note: str | None = None) -> str:
        return f"{place.name} {place.floor} {place.tags} {count} {note}"

    return server


@pytest.mark.parametrize("mounted", [False, True])
@run
async def test_a_strict_client_is_served_and_checked_with_the_true_schema(mounted: bool) -> None:
    server = shop()
    server.transform(schemas="openai-strict", rename={"order": "buy"})
    if mounted:
        child, server = server, Server("around", "1")
        server.mount(child)
    async with Client(server) as client:
        (tool,) = await client.list_tools()
        assert tool.input_schema["required"] == ["place", "count", "note"]
        given = {"place": {"name": "x", "floor": None, "tags": '{"a": 1}'}, "count": None, "note": None}
        assert (await client.call_tool("buy", given)).text == "x 1 {'a': 1} 1 None"
        wrong = {**given, "place": {"name": "", "floor": None, "tags": None}}
        assert (await client.call_tool("buy", wrong, check=False)).is_error
        assert (await client.call_tool("buy", {**given, "place": None}, check=False)).is_error


@run
async def test_clients_get_the_profile_of_their_name_where_that_is_wanted() -> None:
    server = shop()
    server.transform(schemas={"gemini": "gemini", "": "inline"})
    other = shop()
    other.transform(schemas="auto")

    async def schema(server: Server, name: str) -> str:
        async with Client(server, client_info=Implementation(name, "1")) as client:
            return json.dumps((await client.list_tools())[0].input_schema)

    assert "nullable" in await schema(server, "Gemini-CLI-mcp-client")
    assert "nullable" in await schema(other, "gemini-cli-mcp-client")
    assert "$ref" not in await schema(server, "anybody")
    assert "nullable" not in await schema(server, "anybody")
    assert await schema(other, "anybody") == await schema(shop(), "anybody")


def test_a_profile_that_is_none_is_refused() -> None:
    with pytest.raises(RegistrationError, match="unknown schema profile 'pigeon'"):
        shop().transform(schemas="pigeon")
