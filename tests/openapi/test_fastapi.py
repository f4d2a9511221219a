"""A FastAPI application as a server: in this process, without a socket, with its lifespan."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from fastapi import Cookie, FastAPI, File, Form, Header, HTTPException, Query, Request, UploadFile
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from dovetail import Client, DovetailError, Limits, ProtocolError, Server, ToolError
from dovetail.openapi import Route
from tests.support.aio import run
from tests.support.waiting import HANG

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")


class Pet(BaseModel):
    name: str
    age: int | None = None
    friends: list["Pet"] = []


class Shop:
    """An application, and what happened to it."""

    def __init__(self) -> None:
        self.life: list[str] = []
        self.cancelled = asyncio.Event()
        self.app = app = FastAPI(title="Pets", version="3", lifespan=self.lifespan)

        @app.get("/pets/{pet_id}", operation_id="get_pet", tags=["pets"])
        async def get_pet(pet_id: int, request: Request, words: Annotated[list[str], Query()] = []) -> Pet:  # noqa: B006
            """One pet."""
            if pet_id == 404:
                raise HTTPException(404, "no such pet")
            return Pet(name=" ".join([request.state.greeting, str(pet_id), *words]))

        @app.post("/pets", operation_id="add_pet")
        async def add_pet(
            pet: Pet, x_token: Annotated[str, Header()], sid: Annotated[str, Cookie()] = ""
        ) -> dict[str, Any]:
            return {
                "pet": pet.name,
                "friends": [one.name for one in pet.friends],
                "token": x_token,
                "sid": sid,
            }

        @app.post("/photos", operation_id="upload")
        async def upload(
            photo: Annotated[UploadFile, File()], note: Annotated[str, Form()]
        ) -> dict[str, Any]:
            return {
                "name": photo.filename,
                "type": photo.content_type,
                "size": len(await photo.read()),
                "note": note,
            }

        @app.get("/slow", operation_id="slow")
        async def slow() -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return ""

        @app.get("/broken", operation_id="broken")
        async def broken() -> str:
            raise RuntimeError("the secret of the house")

        @app.get("/endless", operation_id="endless")
        async def endless() -> StreamingResponse:
            async def stream() -> AsyncIterator[bytes]:
                while True:
                    yield b"x" * 1000

            return StreamingResponse(stream(), media_type="text/plain")

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        self.life.append("up")
        yield {"greeting": "hello"}
        self.life.append("down")


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_application_serves_every_revision(revision: str) -> None:
    @run
    async def serves() -> None:
        shop = Shop()
        server = Server.from_fastapi(shop.app)
        assert shop.life == []
        async with Client(server, revision=revision) as client:
            found = await client.call_tool("get_pet", {"pet_id": 7, "words": ["a", "b&c"]})
            assert '"hello 7 a b&c"' in found.text
            if revision >= "2025-06-18":
                assert found.data == {"name": "hello 7 a b&c", "age": None, "friends": []}
            assert shop.life == ["up"]
        assert shop.life == ["up", "down"]

    serves()


@run
async def test_bodies_headers_cookies_and_files_arrive() -> None:
    async with Client(Server.from_fastapi(Shop().app)) as client:
        pet = {"name": "Rex", "friends": [{"name": "Tom", "friends": []}]}
        found = await client.call_tool("add_pet", {**pet, "x-token": "t", "sid": "s;1"})
        assert found.data == {"pet": "Rex", "friends": ["Tom"], "token": "t", "sid": "s%3B1"}
        photo = {"text": "hé", "filename": "a.txt", "contentType": "text/plain"}
        found = await client.call_tool("upload", {"photo": photo, "note": "n"})
        assert found.data == {"name": "a.txt", "type": "text/plain", "size": 3, "note": "n"}


@run
async def test_what_the_application_refuses_is_a_tool_error() -> None:
    async with Client(Server.from_fastapi(Shop().app)) as client:
        with pytest.raises(ToolError, match=r"HTTP 404 Not Found.*no such pet") as failed:
            await client.call_tool("get_pet", {"pet_id": 404})
        assert failed.value.data == {"status": 404}
        with pytest.raises((ToolError, ProtocolError), match="pet_id"):
            await client.call_tool("get_pet", {"pet_id": "x"})
        with pytest.raises(ToolError, match="HTTP 500") as failed:
            await client.call_tool("broken", {})
        assert "secret" not in str(failed.value)


@run
async def test_time_and_size_are_bounded_in_process_too() -> None:
    shop = Shop()
    async with Client(Server.from_fastapi(shop.app, request_timeout=0.05)) as client:
        with pytest.raises(ToolError, match="did not respond in time"):
            await client.call_tool("slow", {})
        await asyncio.wait_for(shop.cancelled.wait(), HANG)
    async with Client(Server.from_fastapi(shop.app, limits=Limits(max_message_bytes=50_000))) as client:
        with pytest.raises(ToolError, match="more than 50000 bytes"):
            await client.call_tool("endless", {})


@run
async def test_routes_options_and_subclasses() -> None:
    class Mine(Server):
        pass

    shop = Shop()
    server = Mine.from_fastapi(
        shop.app, routes=[Route("resource", tags=["pets"]), Route(None)], name="zoo", version="9"
    )
    assert type(server) is Mine
    async with Client(server) as client:
        (template,) = await client.list_resource_templates()
        assert template.uri_template == "api://zoo/pets/{pet_id}{?words}"
        (contents,) = (await client.read_resource("api://zoo/pets/5?words=x")).contents
        assert contents.text == '{"name":"hello 5 x","age":null,"friends":[]}'
        assert dict(server.registry.tools) == {}


@run
async def test_a_lifespan_run_by_the_host_or_failing() -> None:
    shop = Shop()
    async with Client(Server.from_fastapi(shop.app, run_lifespan=False)) as client:
        await client.call_tool("add_pet", {"name": "Rex", "x-token": "t"})
    assert shop.life == []

    @asynccontextmanager
    async def fails(app: FastAPI) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    server = Server.from_fastapi(FastAPI(lifespan=fails))
    with pytest.raises(DovetailError, match="no database"):
        await server.lifecycle.start()


@run
async def test_it_can_be_mounted_like_any_other_server() -> None:
    shop = Shop()
    parent = Server("parent")
    parent.mount(Server.from_fastapi(shop.app), prefix="pets")
    async with Client(parent) as client:
        assert "hello 1" in (await client.call_tool("pets_get_pet", {"pet_id": 1})).text
        assert shop.life == ["up"]
    assert shop.life == ["up", "down"]


@run
async def test_an_operation_without_content_has_succeeded() -> None:
    app, done = FastAPI(), list[int]()

    @app.delete("/things/{number}", status_code=204, operation_id="remove")
    def remove(number: int) -> None:
        done.append(number)

    @app.post("/things", status_code=205, operation_id="reset")
    def reset() -> None:
        done.append(0)

    async with Client(Server.from_fastapi(app)) as client:
        for name, arguments in (("remove", {"number": 7}), ("reset", {})):
            result = await client.call_tool(name, arguments)
            assert (result.is_error, result.content) == (False, [])
    assert done == [7, 0]
