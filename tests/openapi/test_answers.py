"""What an API answers: structured content, media, errors with their status; bounds of time and size."""

import logging
from base64 import b64encode
from typing import Any

import pytest

from dovetail import Client, Limits, ProtocolError, Server, ToolError
from dovetail.openapi import Route
from tests.support.aio import run

from .recorder import Recorder, encoded, json_answer, operation, parameter, recorder, spec

Json = dict[str, Any]
PET = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}


def getting(responses: Json | None = None, **members: Any) -> Json:
    return spec({"/x": {"get": operation(responses=responses or {})}}, **members)


async def call(api: Recorder, described: Json, **options: Any) -> Any:
    async with Client(Server.from_openapi(described, client=api.url, **options)) as client:
        return await client.call_tool("call", {})


@run
async def test_the_schema_of_an_answer_is_the_output_schema() -> None:
    described = getting(
        json_answer({"$ref": "#/components/schemas/Pet"}), components={"schemas": {"Pet": PET}}
    )
    async with recorder() as api:
        api.answer = (200, "application/json; charset=utf-8", b'{"name": "Rex"}')
        for revision in ("2025-06-18", "2026-07-28"):
            async with Client(Server.from_openapi(described, client=api.url), revision=revision) as client:
                (tool,) = await client.list_tools()
                assert tool.output_schema == PET
                assert (await client.call_tool("call", {})).data == {"name": "Rex"}


@run
async def test_lists_are_structured_and_several_answers_are_alternatives() -> None:
    several = {**json_answer({"type": "array", "items": PET}), "202": json_answer(PET)["200"]}
    async with recorder() as api:
        api.answer = (200, "application/json", b'[{"name": "Rex"}]')
        for revision in ("2025-03-26", "2025-11-25", "2026-07-28"):
            server = Server.from_openapi(getting(several), client=api.url)
            async with Client(server, revision=revision) as client:
                assert '"name"' in (await client.call_tool("call", {})).text
                assert api.last.line == "GET /x HTTP/1.1"
        assert server.registry.tools["call"].definition.output_schema == {
            "anyOf": [{"type": "array", "items": PET}, PET]
        }


@pytest.mark.parametrize(
    "responses",
    [
        {**json_answer(PET), "204": {"description": "nothing"}},
        {"200": {"description": "", "content": {"text/plain": {"schema": {}}}}},
        {"default": {"description": ""}},
        {"404": json_answer(PET)["200"]},
    ],
)
def test_what_is_not_promised_has_no_output_schema(responses: Json) -> None:
    server = Server.from_openapi(getting(responses), client="http://127.0.0.1:9")
    assert not server.registry.tools["call"].definition.output_schema


@run
async def test_an_answer_that_is_not_as_described_is_shown_but_is_no_success() -> None:
    async with recorder() as api:
        for media, data in (
            ("application/json", b'{"nome": "Rex"}'),
            ("text/html", b"<p>Rex"),
            ("application/json", b"{"),
        ):
            api.answer = (200, media, data)
            with pytest.raises(ToolError, match="does not match its description") as failed:
                await call(api, getting(json_answer(PET)))
            assert data.decode() in str(failed.value.content)


@run
async def test_media_become_content() -> None:
    async with recorder() as api:
        api.answer = (200, "image/png", b"\x89P")
        (image,) = (await call(api, getting())).content
        assert (image.mime_type, image.data) == ("image/png", b64encode(b"\x89P").decode())
        api.answer = (200, "audio/wav", b"R")
        assert (await call(api, getting())).content[0].mime_type == "audio/wav"
        api.answer = (200, "application/pdf", b"%P")
        assert (await call(api, getting())).content[0].resource.blob == b64encode(b"%P").decode()
        api.answer = (200, "text/csv", "a,é".encode())
        assert (await call(api, getting())).text == "a,é"
        api.answer = (204, "", b"")
        assert (await call(api, getting())).content == []
        api.answer = (200, "application/json", b"[1]")
        assert (await call(api, getting())).text == "[1]"


@pytest.mark.parametrize("status", [301, 400, 401, 404, 422, 429, 500, 503, 599])
def test_errors_of_the_api_are_tool_errors_with_status_and_text(status: int) -> None:
    @run
    async def fails() -> None:
        async with recorder() as api:
            api.answer = (status, "application/problem+json", b'{"detail":"broken leg"}')
            api.headers = {"Retry-After": "7", "Location": "http://127.0.0.1:1/"}
            with pytest.raises(ToolError, match=f"HTTP {status}.*broken leg") as failed:
                await call(api, getting(json_answer(PET)))
            assert failed.value.data == {"status": status, "retryAfter": "7"}
            assert len(api.requests) == 1

    fails()


@run
async def test_the_text_of_an_error_is_bounded_and_bytes_are_not_shown() -> None:
    async with recorder() as api:
        api.answer = (500, "text/plain", b"x" * 1_000_000)
        with pytest.raises(ToolError) as failed:
            await call(api, getting())
        assert len(failed.value.message) < 2_100
        api.answer = (500, "application/octet-stream", b"\xff" * 10)
        with pytest.raises(ToolError, match=r"^HTTP 500 Internal Server Error$"):
            await call(api, getting())


@run
async def test_time_and_size_are_bounded_and_the_address_is_not_shown() -> None:
    async with recorder() as api:
        api.silent = True
        with pytest.raises(ToolError, match=r"^the API did not respond in time$"):
            await call(api, getting(), request_timeout=0.05)
        api.silent, api.answer = False, (200, "text/plain", b"x" * 5000)
        with pytest.raises(ToolError, match="more than 4096 bytes"):
            await call(api, getting(), limits=Limits(max_message_bytes=4096))
    with pytest.raises(ToolError, match=r"^the API cannot be reached$"):
        await call(api, getting())


# --- resources ------------------------------------------------------------------------------------------------------

SHOP = spec({
    "/pets": {"get": operation(parameter("limit", "query"), operationId="pets", tags=["read"], summary="All pets")},
    "/pets/{pet-id}": {"get": operation(parameter("pet-id", "path"), operationId="pet", tags=["read"])},
    "/search": {
        "get": operation(parameter("q", "query", required=True), parameter("page", "query"), operationId="find")
    },
    "/orders": {"get": operation(operationId="orders", tags=["admin"]), "post": operation(operationId="order")},
})  # fmt: skip
ROUTES = [
    Route(None, tags=["admin"]),
    Route("resource", methods=["GET"], pattern="^/pets"),
    Route("template", pattern="^/search"),
    Route("resource", pattern="^/orders"),
]


@run
async def test_routes_decide_by_method_path_and_tags_and_the_first_one_counts() -> None:
    server = Server.from_openapi(SHOP, client="http://127.0.0.1:9", routes=ROUTES)
    assert list(server.registry.tools) == ["order"]
    assert list(server.registry.resources) == ["api://shop/pets"]
    assert list(server.registry.templates) == ["api://shop/pets/{pet_id}", "api://shop/search{?q,page}"]
    everything = Server.from_openapi(SHOP, client="http://127.0.0.1:9")
    assert list(everything.registry.tools) == ["pets", "pet", "find", "orders", "order"]
    assert everything.registry.tools["pets"].tags == {"read"}
    assert (everything.name, everything.version) == ("Shop", "7")


@run
async def test_resources_are_read_from_the_api() -> None:
    async with recorder() as api, Client(Server.from_openapi(SHOP, client=api.url, routes=ROUTES)) as client:
        api.answer = (200, "application/json", b'[{"name": "Rex"}]')
        (contents,) = (await client.read_resource("api://shop/pets")).contents
        assert (contents.text, contents.mime_type, contents.uri) == (
            *('[{"name": "Rex"}]', "application/json"),
            "api://shop/pets",
        )
        await client.read_resource("api://shop/pets/a%20b")
        assert api.last.target == "/pets/a%20b"
        await client.read_resource("api://shop/search?q=x%26y&page=2")
        assert api.last.target == "/search?q=x%26y&page=2"
        api.answer = (200, "image/png", b"\x89P")
        (contents,) = (await client.read_resource("api://shop/pets/1")).contents
        assert (contents.blob, contents.mime_type) == (b64encode(b"\x89P").decode(), "image/png")
        before = len(api.requests)
        for uri in (
            "api://shop/pets/..",
            "api://shop/pets/%2e%2e",
            "api://shop/pets/a%2Fb",
            "api://shop/search",
        ):
            with pytest.raises(ProtocolError):
                await client.read_resource(uri)
        assert len(api.requests) == before
        for status, code in ((404, -32602), (403, -32603), (500, -32603)):
            api.answer = (status, "text/plain", b"no")
            with pytest.raises(ProtocolError, match=str(status)) as failed:
                await client.read_resource("api://shop/pets")
            assert failed.value.code == code


def test_a_route_that_cannot_be_used_is_refused() -> None:
    for route in (Route(pattern="("), Route("tools"), Route(methods="GET")):  # pyright: ignore
        with pytest.raises(Exception, match="route"):
            Server.from_openapi(SHOP, client="http://127.0.0.1:9", routes=[route])


# --- names, descriptions, hints -------------------------------------------------------------------------------------


def test_names_are_legal_and_unique_and_may_be_given() -> None:
    described = spec({
        "/a": {"get": operation(operationId="Shop.list Items!"), "put": operation(operationId="Shop.list Items?")},
        "/b/{x}": {"get": {"parameters": [parameter("x", "path")], "responses": {}}},
        "/c": {"get": operation(operationId="y" * 300), "post": operation(operationId="y" * 300)},
        "/d": {"get": operation(operationId="old")},
    })  # fmt: skip
    server = Server.from_openapi(described, client="http://127.0.0.1:9", names={"old": "new"})
    assert list(server.registry.tools) == [
        *("Shop.list_Items", "Shop.list_Items_2", "get_b_x", "y" * 64, "y" * 58 + "_2", "new"),
    ]


def test_descriptions_hints_and_deprecation_are_taken_over() -> None:
    described = spec({
        "/a": {
            "get": operation(parameter("q", "query", description="What for"), summary="Find", description="Finds it."),
            "delete": operation(operationId="remove", deprecated=True),
        }
    })  # fmt: skip
    server = Server.from_openapi(described, client="http://127.0.0.1:9", name="mine", instructions="Look.")
    tool = server.registry.tools["call"].definition
    assert (tool.title, tool.description) == ("Find", "Find\n\nFinds it.")
    assert tool.input_schema["properties"] == {"q": {"description": "What for"}}
    assert tool.annotations == {"readOnlyHint": True, "openWorldHint": True}
    remove = server.registry.tools["remove"].definition
    assert remove.annotations == {
        "readOnlyHint": False,
        "openWorldHint": True,
        "destructiveHint": True,
        "idempotentHint": True,
    }
    assert "deprecated" in str(remove.meta)
    assert remove.description == "DELETE /a"
    assert (server.name, server.instructions) == ("mine", "Look.")


def test_one_operation_that_cannot_be_used_does_not_stop_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    described = spec({
        "/a/{x}": {"get": operation(operationId="undeclared")},
        "/../b": {"get": operation(operationId="climbing")},
        "/c?d": {"get": operation(operationId="query")},
        "//evil.example/x": {"get": operation(operationId="slashes")},
        "/d": {"get": operation({"name": "x", "in": "body"}, operationId="swagger")},
        "/e": {"get": operation(parameter("a\r\nb", "header"), operationId="header")},
        "/f": {"get": operation(parameter("a", "query", style="matrix"), operationId="style")},
        "/g": {"get": operation(operationId="fine")},
        "/h": "nonsense",
    })  # fmt: skip
    with caplog.at_level(logging.WARNING):
        server = Server.from_openapi(described, client="http://127.0.0.1:9/api")
    assert list(server.registry.tools) == ["slashes", "fine"]
    assert len([record for record in caplog.records if "not registered" in record.message]) == 6
    assert encoded(server.registry.tools["fine"].definition.input_schema)


@run
async def test_a_path_with_two_slashes_stays_at_the_api() -> None:
    async with recorder() as api:
        described = spec({"//evil.example/x": {"get": operation()}})
        await call(api, described)
        assert api.last.line == "GET //evil.example/x HTTP/1.1"
