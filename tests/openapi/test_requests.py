"""What arguments a tool has, and the request they become: parameters, bodies, files."""

from base64 import b64encode
from email import message_from_bytes
from typing import Any

import pytest

from dovetail import Client, ProtocolError, Server, ToolError
from tests.support.aio import run

from .recorder import Recorded, Recorder, body, operation, parameter, recorder, spec

Json = dict[str, Any]
PET = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
}


def posting(content: Json, *parameters: Json, path: str = "/pets", **members: Any) -> Json:
    return spec({path: {"post": operation(*parameters, requestBody=content)}}, **members)


async def sent(api: Recorder, described: Json, arguments: Json) -> Recorded:
    async with Client(Server.from_openapi(described, client=api.url)) as client:
        await client.call_tool("call", arguments)
    return api.last


def shown(described: Json) -> Json:
    return (
        Server.from_openapi(described, client="http://127.0.0.1:9")
        .registry.tools["call"]
        .definition.input_schema
    )


@run
async def test_members_of_a_json_body_are_arguments() -> None:
    described = posting(body("application/json", PET), parameter("dry", "query", {"type": "boolean"}))
    assert shown(described) == {
        "type": "object",
        "properties": {"dry": {"type": "boolean"}, **PET["properties"]},
        "required": ["name"],
        "additionalProperties": False,
    }
    async with recorder() as api:
        found = await sent(api, described, {"name": "Rex", "dry": True})
        assert (found.line, found.body) == ("POST /pets?dry=true HTTP/1.1", b'{"name":"Rex"}')
        assert found.headers["content-type"] == "application/json"
        with pytest.raises((ToolError, ProtocolError), match="name"):
            await sent(api, described, {"age": 3})
        assert len(api.requests) == 1


@run
async def test_a_body_that_collides_or_is_no_object_is_one_argument() -> None:
    collides = posting(body("application/json", PET), parameter("name", "query"))
    assert shown(collides)["properties"] == {"name": {}, "body": PET}
    array = posting(body("application/json", {"type": "array", "items": {"type": "integer"}}))
    assert shown(array)["required"] == ["body"]
    choice = posting(body("application/json", {"oneOf": [PET, {"type": "string"}]}))
    assert shown(choice)["properties"]["body"]["oneOf"] == [PET, {"type": "string"}]
    taken = posting(body("application/json", {"type": "string"}), parameter("body", "query"))
    async with recorder() as api:
        found = await sent(api, collides, {"name": "q", "body": {"name": "b"}})
        assert (found.target, found.body) == ("/pets?name=q", b'{"name":"b"}')
        assert (await sent(api, array, {"body": [1, 2]})).body == b"[1,2]"
        found = await sent(api, taken, {"body": "q", "body_2": "b"})
        assert (found.target, found.body) == ("/pets?body=q", b'"b"')


@run
async def test_members_that_an_all_of_brings_together_are_arguments() -> None:
    parts = [
        {"$ref": "#/components/schemas/Pet"},
        {"type": "object", "properties": {"chip": {"type": "string"}}},
    ]
    described = posting(body("application/json", {"allOf": parts}), components={"schemas": {"Pet": PET}})
    assert set(shown(described)["properties"]) == {"name", "age", "chip"}
    async with recorder() as api:
        found = await sent(api, described, {"name": "Rex", "chip": "1"})
    assert found.body == b'{"name":"Rex","chip":"1"}'


@run
async def test_an_open_object_takes_further_members_and_an_optional_body_may_be_left_out() -> None:
    schema = {**PET, "additionalProperties": {"type": "integer"}}
    described = posting(body("application/json", schema, required=False), parameter("q", "query"))
    assert "required" not in shown(described)
    async with recorder() as api:
        found = await sent(api, described, {"q": "x", "name": "Rex", "paws": 4})
        assert (found.target, found.body) == ("/pets?q=x", b'{"name":"Rex","paws":4}')
        found = await sent(api, described, {"q": "x"})
        assert (found.body, found.headers.get("content-type")) == (b"", None)


@run
async def test_what_is_only_read_is_no_argument() -> None:
    schema = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"readOnly": True}, "name": {}},
    }
    assert shown(posting(body("application/json", schema))) == {
        "type": "object",
        "properties": {"name": {}},
        "required": ["name"],
        "additionalProperties": False,
    }


@run
async def test_the_same_name_in_several_places_and_names_that_models_refuse() -> None:
    described = spec({
        "/x/{id}": {
            "get": operation(
                parameter("id", "query"),
                parameter("id", "path"),
                parameter("id", "cookie"),
                parameter("X-Übung/1", "query"),
                parameter("filter[name]", "query"),
                parameter("$top", "query", {"type": "integer"}),
                parameter("q" * 100, "query"),
            )
        }
    })  # fmt: skip
    assert list(shown(described)["properties"]) == [
        *("id", "query_id", "X-_bung_1", "filter_name", "top", "q" * 64, "cookie_id")
    ]
    async with recorder() as api:
        arguments = {"id": 1, "query_id": 2, "cookie_id": 3, "filter_name": "a", "top": 5, "X-_bung_1": "b"}
        found = await sent(api, described, arguments)
    assert found.target == "/x/1?id=2&X-%C3%9Cbung%2F1=b&filter%5Bname%5D=a&%24top=5"
    assert found.headers["cookie"] == "id=3"


@run
async def test_forms() -> None:
    schema = {"type": "object", "properties": {"a": {}, "list": {}, "piped": {}, "deep": {}, "inner": {}}}
    encoding = {"piped": {"style": "pipeDelimited", "explode": False}, "deep": {"style": "deepObject"}}
    described = posting(body("application/x-www-form-urlencoded", schema, encoding=encoding))
    async with recorder() as api:
        arguments = {"a": "x &=ü", "list": [1, 2], "piped": [1, 2], "deep": {"k": 1}, "inner": {"k": 1}}
        found = await sent(api, described, arguments)
    assert found.headers["content-type"] == "application/x-www-form-urlencoded"
    assert found.body == (b"a=x+%26%3D%C3%BC&list=1&list=2&piped=1%7C2&deep%5Bk%5D=1&inner=%7B%22k%22%3A1%7D")


def parts_of(found: Recorded) -> list[tuple[str | None, str | None, str, bytes]]:
    """Name, filename, type and bytes of each part, parsed by another library."""
    head = f"Content-Type: {found.headers['content-type']}\r\n\r\n".encode()
    return [
        (
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
            part.get_content_type(),
            part.get_payload(decode=True),
        )
        for part in message_from_bytes(head + found.body).get_payload()  # pyright: ignore
    ]


@pytest.mark.parametrize(
    "binary", [{"type": "string", "format": "binary"}, {"contentMediaType": "image/png"}]
)
def test_files_in_a_form(binary: Json) -> None:
    @run
    async def files() -> None:
        fields = {
            "photo": binary,
            "more": {"type": "array", "items": binary},
            "note": {},
            "meta": {"type": "object"},
        }
        schema = {"type": "object", "required": ["photo"], "properties": fields}
        encoding = {"photo": {"contentType": "image/png, image/jpeg"}}
        described = posting(body("multipart/form-data", schema, encoding=encoding))
        png = b"\x89PNG\r\n--\x00\xff"
        async with recorder() as api:
            arguments = {
                "photo": b64encode(png).decode(),
                "more": [
                    {"text": "hé", "filename": 'a"\r\nX: 1.txt', "contentType": "text/plain"},
                    {"data": ""},
                ],
                "note": "n\r\n--x",
                "meta": {"k": [1]},
            }
            found = await sent(api, described, arguments)
            for wrong in (
                "no base64!",
                {"text": "a", "data": ""},
                {},
                {"text": "a", "contentType": "x\r\ny"},
                7,
            ):
                with pytest.raises((ToolError, ProtocolError)):
                    await sent(api, described, {"photo": wrong})
        assert parts_of(found) == [
            ("photo", "photo", "image/png", png),
            ("more", "a%22%0D%0AX: 1.txt", "text/plain", "hé".encode()),
            ("more", "more", "application/octet-stream", b""),
            ("note", None, "text/plain", b"n\r\n--x"),
            ("meta", None, "application/json", b'{"k":[1]}'),
        ]

    files()


@run
async def test_the_one_argument_that_cannot_be_sent_is_named() -> None:
    binary = {"type": "string", "format": "binary"}
    fields = {"photo": binary, "more": {"type": "array", "items": binary}, "caption": {"type": "string"}}
    described = posting(body("multipart/form-data", {"type": "object", "properties": fields}))
    good = {"photo": "AAE=", "more": ["AAE="], "caption": "a"}
    async with recorder() as api:
        for name, value in (("photo", "no base64!"), ("more", ["AAE=", "no base64!"])):
            with pytest.raises((ToolError, ProtocolError)) as caught:
                await sent(api, described, good | {name: value})
            assert [one for one in good if one in str(caught.value)] == [name]


@run
async def test_bytes_and_text_as_a_body() -> None:
    octets = posting(body("application/octet-stream", {"type": "string", "format": "binary"}))
    anything = posting(body("image/*", {}))
    text = posting(body("text/plain", {"type": "string"}))
    xml = posting(body("application/xml", {"type": "object"}))
    async with recorder() as api:
        found = await sent(api, octets, {"body": b64encode(b"\0\1").decode()})
        assert (found.body, found.headers["content-type"]) == (b"\0\1", "application/octet-stream")
        found = await sent(api, anything, {"body": {"data": "AAE=", "contentType": "image/png"}})
        assert (found.body, found.headers["content-type"]) == (b"\0\1", "image/png")
        found = await sent(api, text, {"body": "hé"})
        assert (found.body, found.headers["content-type"]) == ("hé".encode(), "text/plain; charset=utf-8")
        assert (await sent(api, xml, {"body": "<a/>"})).body == b"<a/>"


@run
async def test_json_is_preferred_and_parameters_of_the_path_item_are_inherited() -> None:
    content = {
        "multipart/form-data": {"schema": PET},
        "application/vnd.pet+json": {"schema": {"$ref": "#/components/schemas/Pet"}},
    }
    shared = [parameter("v", "query", {"type": "integer"}), parameter("q", "query", {"type": "integer"})]
    own = operation(
        parameter("q", "query", {"type": "string"}), requestBody={"$ref": "#/components/requestBodies/P"}
    )
    described = spec(
        {"/pets": {"parameters": shared, "post": own}},
        components={"schemas": {"Pet": PET}, "requestBodies": {"P": {"content": content, "required": True}}},
    )
    assert shown(described)["properties"]["q"] == {"type": "string"}
    async with recorder() as api:
        found = await sent(api, described, {"v": 1, "q": "x", "name": "Rex"})
    assert (found.target, found.headers["content-type"]) == ("/pets?v=1&q=x", "application/vnd.pet+json")


@run
async def test_a_parameter_with_content_is_json_and_null_is_left_out() -> None:
    filters = parameter("filter", "query", content={"application/json": {"schema": {"type": "object"}}})
    described = spec({"/x": {"get": operation(filters, parameter("q", "query"), parameter("X-A", "header"))}})
    async with recorder() as api:
        found = await sent(api, described, {"filter": {"a": 1}, "q": None, "X-A": "b"})
    assert (found.target, found.headers["x-a"]) == ("/x?filter=%7B%22a%22%3A1%7D", "b")


@run
async def test_the_client_that_is_given_brings_the_authorization() -> None:
    import httpx2

    async with (
        recorder() as api,
        httpx2.AsyncClient(
            base_url=f"{api.url}/v2/", headers={"Authorization": "Bearer s3cret"}, trust_env=False
        ) as http,
    ):
        described = spec({"/x": {"get": operation()}}, servers=[{"url": "https://elsewhere.example/api"}])
        server = Server.from_openapi(described, client=http)
        async with Client(server) as client:
            await client.call_tool("call", {})
        assert (api.last.target, api.last.headers["authorization"]) == ("/v2/x", "Bearer s3cret")
        assert not http.is_closed
