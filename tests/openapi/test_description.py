"""Descriptions, wherever they come from: JSON, YAML, 3.0, 3.1; schemas; and hostile ones, which are bounded."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, DovetailError, RegistrationError, Server
from dovetail.json_schema.validation import Validator
from tests.support.aio import run

from .recorder import body, encoded, json_answer, operation, parameter, recorder, spec

Json = dict[str, Any]
HERE = "http://127.0.0.1:9"
PLAIN = spec({"/x": {"get": operation()}})
YAML = """\
openapi: 3.0.3
info: {title: Yaml, version: 2024-01-01}
paths:
  /x/{id}:
    get:
      operationId: call
      parameters:
        - {name: id, in: path, required: true, schema: {type: string, enum: [no, yes, on, 1.5, 0x1F]}}
        - {name: day, in: query, schema: {type: string, default: 2024-01-01, nullable: true}}
      responses:
        200: {description: fine, content: {application/json: {schema: {$ref: '#/components/schemas/Node'}}}}
components:
  schemas:
    Node:
      type: object
      properties:
        next: {$ref: '#/components/schemas/Node'}
        size: {type: integer, minimum: 0, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: false}
"""


def tool(described: Any, **options: Any) -> Any:
    return Server.from_openapi(described, client=HERE, **options).registry.tools["call"].definition


@run
async def test_a_description_is_a_dict_text_bytes_a_path_or_a_url() -> None:
    text = json.dumps(PLAIN)
    async with recorder() as api:
        api.answer = (200, "application/json", b"\xef\xbb\xbf" + text.encode())
        for described in (PLAIN, text, f"\n {text}", text.encode(), f"{api.url}/openapi.json"):
            server = await asyncio.to_thread(Server.from_openapi, described, client=HERE)
            assert list(server.registry.tools) == ["call"]
        api.answer = (404, "text/plain", b"")
        with pytest.raises(RegistrationError, match="HTTP 404"):
            await asyncio.to_thread(Server.from_openapi, f"{api.url}/openapi.json")
    with pytest.raises(RegistrationError, match="cannot be fetched"):
        Server.from_openapi(f"{api.url}/openapi.json")


def test_paths(tmp_path: Path) -> None:
    for name, text in (("a.json", json.dumps(PLAIN)), ("b.yaml", YAML)):
        file = tmp_path / name
        file.write_text(text)
        for path in (file, str(file)):
            assert list(Server.from_openapi(path, client=HERE).registry.tools) == ["call"]
    with pytest.raises(RegistrationError, match="No such file"):
        Server.from_openapi(tmp_path / "c.json", client=HERE)


def test_without_the_extra_yaml_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(DovetailError, match=r"pip install 'dovetail-mcp\[openapi\]'"):
        Server.from_openapi(YAML, client="http://127.0.0.1")


def test_yaml_is_read_as_1_2() -> None:
    server = Server.from_openapi(YAML, client=HERE)
    assert server.version == "2024-01-01"
    found = server.registry.tools["call"].definition
    assert found.input_schema["properties"] == {
        "id": {"type": "string", "enum": ["no", "yes", "on", 1.5, 31]},
        "day": {"type": ["string", "null"], "default": "2024-01-01"},
    }
    size = {"type": "integer", "exclusiveMinimum": 0, "maximum": 9}
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "size": size}}
    assert found.output_schema == {**node, "$defs": {"Node": node}}


@pytest.mark.parametrize(
    ("described", "words"),
    [
        ({"swagger": "2.0", "paths": {}}, "2.0"),
        ({"openapi": "4.0.0"}, "4.0.0"),
        ({}, "not an OpenAPI"),
        ({"openapi": "3.1.0"}, "has no paths"),
        ({"openapi": "3.1.0", "paths": []}, "has no paths"),
        ({"openapi": "3.1.0", "components": {}}, "has no paths"),
        ("{", "cannot be read"),
        ("a: [\n", "cannot be read"),
        ("- a\n- b\n", "not an object"),
        (b"\xff\xfe{", "cannot be read"),
        ("a: !!python/object/apply:os.system [id]\n", "tag .* is not supported"),
        ("openapi: 3.1.0\nopenapi: 3.1.0\n", "line 2: the key 'openapi' occurs twice"),
        ("openapi: 3.1.0\na: &a [*a]\n", "line 2: the alias 'a' names no finished value"),
    ],
)
def test_what_is_no_description_is_refused(described: Any, words: str) -> None:
    with pytest.raises(RegistrationError, match=words):
        Server.from_openapi(described, client=HERE)


# --- where the API is -----------------------------------------------------------------------------------------------


@run
async def test_the_first_server_counts_where_no_client_says_otherwise() -> None:
    async with recorder() as api:
        host, port = api.url.rsplit(":", 1)
        servers = [
            {
                "url": f"{host}:{{port}}/{{v}}/",
                "variables": {"port": {"default": port}, "v": {"default": "v3"}},
            }
        ]
        async with Client(Server.from_openapi({**PLAIN, "servers": servers})) as client:
            await client.call_tool("call", {})
        assert api.last.target == "/v3/x"


@run
async def test_a_description_from_a_url_leads_to_its_own_host_alone() -> None:
    async with recorder() as api:
        for servers, target in (([{"url": "/v2"}], "/v2/x"), ([{"url": "v2"}], "/docs/v2/x"), ([], "/x")):
            api.answer = (200, "application/json", encoded({**PLAIN, "servers": servers}))
            server = await asyncio.to_thread(Server.from_openapi, f"{api.url}/docs/openapi.json")
            async with Client(server) as client:
                await client.call_tool("call", {})
            assert api.last.target == target
        api.answer = (
            200,
            "application/json",
            encoded({**PLAIN, "servers": [{"url": "https://evil.example"}]}),
        )
        with pytest.raises(RegistrationError, match="another host"):
            await asyncio.to_thread(Server.from_openapi, f"{api.url}/docs/openapi.json")


@pytest.mark.parametrize(
    "client", [None, "", "ftp://x", "http://", "http://h/a/../b", "http://h/?q=1", "http://h:x/"]
)
def test_a_description_without_a_server_url_is_refused(client: Any) -> None:
    with pytest.raises(RegistrationError, match="the base URL of the API is unknown"):
        Server.from_openapi(PLAIN, client=client)


def test_a_client_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="AsyncClient"):
        Server.from_openapi(PLAIN, client=object())


# --- schemas --------------------------------------------------------------------------------------------------------


def test_nullable_of_3_0() -> None:
    kinds: Json = {
        "plain": {"type": "string", "nullable": True, "enum": ["a"]},
        "either": {"nullable": True, "oneOf": [{"type": "string"}, {"type": "integer"}]},
        "all": {"type": "object", "nullable": True, "allOf": [{"$ref": "#/components/schemas/P"}]},
        "any": {"nullable": True},
    }
    components = {
        "schemas": {"P": {"type": "object", "example": 1, "xml": {}, "x-y": 2, "discriminator": {}}}
    }
    described = spec(
        {"/x": {"get": operation(*(parameter(name, "query", kinds[name]) for name in kinds))}},
        version="3.0.1",
        components=components,
    )
    found = tool(described).input_schema
    assert found["properties"] == {
        "plain": {"type": ["string", "null"], "enum": ["a", None]},
        "either": {"anyOf": [{"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "null"}]},
        "all": {"anyOf": [{"type": "object", "allOf": [{"$ref": "#/$defs/P"}]}, {"type": "null"}]},
        "any": {},
    }
    assert found["$defs"] == {"P": {"type": "object"}}
    check = Validator(found)
    assert check.problem({"plain": None, "either": None, "all": None}) is None
    assert check.problem({"plain": "b"})


def test_only_what_is_needed_is_taken_along_and_what_leads_nowhere_is_anything() -> None:
    schemas = {
        "A": {"type": "object", "properties": {"b": {"$ref": "#/components/schemas/B~1x"}}},
        "B/x": {"type": "string"},
        "C": {"type": "integer"},
    }
    answer = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/components/schemas/A", "description": "kept in 3.1"},
            "gone": {"$ref": "#/components/schemas/Gone"},
            "far": {"$ref": "https://evil.example/schema.json"},
            "secret": {"writeOnly": True},
        },
    }
    described = spec(
        {"/x": {"get": operation(responses=json_answer(answer))}}, components={"schemas": schemas}
    )
    assert tool(described).output_schema == {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "description": "kept in 3.1"}, "gone": {}, "far": {}},
        "$defs": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B_1x"}}},
            "B_1x": {"type": "string"},
        },
    }


@pytest.mark.parametrize(
    "schemas",
    [
        {"A": {"$ref": "#/components/schemas/A"}},
        {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
        {"A": {"allOf": [{"$ref": "#/components/schemas/A"}]}},
        {
            "A": {"anyOf": [{"not": {"$ref": "#/components/schemas/B"}}]},
            "B": {"oneOf": [{"$ref": "#/components/schemas/A"}]},
        },
    ],
)
def test_cycles_without_an_end_are_cut(schemas: Json) -> None:
    described = spec(
        {"/x": {"post": operation(requestBody=body("application/json", {"$ref": "#/components/schemas/A"}))}},
        components={"schemas": schemas},
    )
    schema = tool(described).input_schema
    Validator(schema)
    assert "$ref" not in str(schema["properties"]) or schema["$defs"]["A"] == {}


# --- hostile ones ---------------------------------------------------------------------------------------------------


def nested(levels: int) -> Json:
    found: Json = {}
    for _ in range(levels):
        found = {"properties": {"a": found}}
    return found


def chain(length: int) -> Json:
    links = {f"S{n}": {"allOf": [{"$ref": f"#/components/schemas/S{n + 1}"}]} for n in range(length)}
    return {"schemas": {**links, f"S{length}": {}}}


def referring(components: Json, name: str = "S0") -> Json:
    answer = json_answer({"$ref": f"#/components/schemas/{name}"})
    return spec({"/x": {"get": operation(responses=answer)}}, components=components)


def looped() -> Json:
    found = spec({"/x": {"get": operation()}})
    found["components"] = found
    return found


BOMB = "openapi: 3.1.0\na: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "described",
    [
        looped(),
        spec({}, deep=nested(5000)),
        BOMB,
        "openapi: 3.1.0\nx: " + "[" * 200_000,
        "openapi: 3.1.0\nx:\n " + "- " * 100_000,
        "openapi: 3.1.0\nx: " + "1" * 5000,
        '{"a":' * 50_000,
    ],
    ids=["holds itself", "deep", "laughs", "deep yaml", "deep lists of yaml", "a long number", "deep json"],
)
def test_too_deep_or_too_many_values_are_refused_in_time(described: Any) -> None:
    begun = time.process_time()
    with pytest.raises(RegistrationError):
        Server.from_openapi(described, client=HERE)
    assert time.process_time() - begun < 20


def test_references_in_large_numbers_are_bounded() -> None:
    begun = time.process_time()
    long = tool(referring(chain(20_000)))
    wide = {
        f"S{n}": {"type": "object", "properties": {"a": {"$ref": f"#/components/schemas/S{n + 1}"}}}
        for n in range(9000)
    }
    large = tool(referring({"schemas": wide}))
    twice = {f"S{n}": {"allOf": [{"$ref": f"#/components/schemas/S{n + 1}"}] * 2} for n in range(200)}
    doubled = tool(referring({"schemas": twice}))
    assert time.process_time() - begun < 20
    assert all(len(encoded(found.output_schema or {})) < 1_000_000 for found in (long, large, doubled))


def test_the_number_of_operations_and_parameters_is_bounded() -> None:
    many = spec({f"/{n}": {"get": operation(operationId=f"o{n}")} for n in range(5001)})
    with pytest.raises(RegistrationError, match="5000 operations"):
        Server.from_openapi(many, client=HERE)
    wide = spec({"/x": {"get": operation(*(parameter(f"p{n}", "query") for n in range(201)))}})
    assert list(Server.from_openapi(wide, client=HERE).registry.tools) == []


@run
async def test_schemas_that_say_nonsense_do_no_harm() -> None:
    nonsense: Json = {
        "type": 7, "enum": "a", "required": True, "properties": [], "items": 3, "allOf": {}, "pattern": "(",
        "minimum": "x",
    }  # fmt: skip
    async with recorder() as api:
        described = spec({"/x": {"get": operation(parameter("q", "query", nonsense))}})
        async with Client(Server.from_openapi(described, client=api.url)) as client:
            await client.call_tool("call", {"q": "a"})
        assert api.last.target == "/x?q=a"


def test_a_large_description_is_read_in_time() -> None:
    """As large as those of the largest public APIs: a thousand operations over five hundred schemas."""
    schemas = {
        f"S{n}": {
            "type": "object",
            "properties": {f"p{m}": {"type": "string", "description": "words"} for m in range(20)}
            | {"next": {"$ref": f"#/components/schemas/S{(n * 7) % 500}"}},
        }
        for n in range(500)
    }
    paths = {
        f"/r{n}/{{id}}": {
            "put": {
                **operation(parameter("id", "path"), operationId=f"o{n}"),
                "requestBody": body("application/json", {"$ref": f"#/components/schemas/S{n % 500}"}),
                "responses": json_answer({"$ref": f"#/components/schemas/S{n % 500}"}),
            }
        }
        for n in range(1000)
    }
    begun = time.process_time()
    server = Server.from_openapi(spec(paths, components={"schemas": schemas}), client=HERE)
    assert len(server.registry.tools) == 1000
    assert time.process_time() - begun < 20
