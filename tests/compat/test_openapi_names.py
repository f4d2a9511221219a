"""An HTTP API whose names occur twice, as FastMCP shows it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from dovetail.compat.fastmcp import Client, FastMCP
from tests.support.aio import run

USER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["name"],
}
BODY = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/User"}}}, "required": True}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
SEEN: list[tuple[str, str, Any]] = []


def described(put: dict[str, Any], *shared: dict[str, Any]) -> dict[str, Any]:
    operation = {"operationId": "update_user", "responses": {"200": {"description": "done"}}, **put}
    return {
        "openapi": "3.1.0",
        "info": {"title": "users", "version": "1"},
        "paths": {"/users/{id}": {"put": operation, "parameters": list(shared)}},
        "components": {
            "schemas": {"User": USER},
            "parameters": {"Id": ID},
            "requestBodies": {"User": BODY},
        },
    }


def answer(request: httpx.Request) -> httpx.Response:
    SEEN.append((request.method, request.url.path, json.loads(request.content)))
    return httpx.Response(200, json={"ok": True})


@pytest.mark.parametrize(
    "spec",
    [
        described({"parameters": [ID], "requestBody": BODY}),
        described(
            {"requestBody": {"$ref": "#/components/requestBodies/User"}},
            {"$ref": "#/components/parameters/Id"},
        ),
    ],
    ids=["written out", "referred to"],
)
@run
async def test_a_name_in_the_address_and_in_the_body_is_two_arguments(spec: dict[str, Any]) -> None:
    SEEN.clear()
    client = httpx.AsyncClient(base_url="http://users", transport=httpx.MockTransport(answer))
    async with client, Client(FastMCP.from_openapi(spec, client)) as mine:
        (tool,) = await mine.list_tools()
        assert tool.inputSchema["properties"].keys() == {"id__path", "id", "name"}
        assert set(tool.inputSchema["required"]) == {"id__path", "name"}
        await mine.call_tool("update_user", {"id__path": 5, "id": 6, "name": "Ann"})
    assert SEEN == [("PUT", "/users/5", {"id": 6, "name": "Ann"})]


@run
async def test_a_name_that_occurs_once_stays_as_it_is() -> None:
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": {"name": {}}}}}}
    spec = described({"parameters": [ID], "requestBody": body})
    client = httpx.AsyncClient(base_url="http://users", transport=httpx.MockTransport(answer))
    async with client, Client(FastMCP.from_openapi(spec, client)) as mine:
        (tool,) = await mine.list_tools()
    assert tool.inputSchema["properties"].keys() == {"id", "name"}


@run
async def test_so_it_is_with_an_application_of_fastapi() -> None:
    fastapi = pytest.importorskip("fastapi")
    pydantic = pytest.importorskip("pydantic")
    user = pydantic.create_model("User", id=(int, 0), name=(str, ...))
    app = fastapi.FastAPI()

    async def update(id: int, body: Any) -> list[Any]:
        return [id, body.id, body.name]

    update.__annotations__ = {"id": int, "body": user, "return": list}
    app.put("/users/{id}", operation_id="update_user")(update)
    async with Client(FastMCP.from_fastapi(app)) as mine:
        result = await mine.call_tool("update_user", {"id__path": 5, "id": 6, "name": "Ann"})
    assert result.structured_content == {"result": [5, 6, "Ann"]}


@run
async def test_an_operation_that_answers_with_a_list_is_wrapped_as_its_schema_is() -> None:
    shown = {"schema": {"type": "array", "items": {"type": "integer"}}}
    listing = {
        "operationId": "numbers",
        "responses": {"200": {"description": "all", "content": {"application/json": shown}}},
    }
    spec = {
        "openapi": "3.1.0",
        "info": {"title": "n", "version": "1"},
        "paths": {"/numbers": {"get": listing}},
    }
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=[1, 2]))
    client = httpx.AsyncClient(base_url="http://numbers", transport=transport)
    async with client, Client(FastMCP.from_openapi(spec, client)) as mine:
        (tool,) = await mine.list_tools()
        assert tool.outputSchema is not None
        assert tool.outputSchema["required"] == ["result"]
        assert (await mine.call_tool("numbers", {})).structured_content == {"result": [1, 2]}
