"""Checking structured results: strict, warn, off; and never a request to follow a reference."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest

from dovetail import Client
from dovetail.client.schemas import OutputChecks, Validator, remote_reference
from dovetail.errors import RemoteProtocolError

from ..support.aio import run
from .scripted import Peer, Scripted, modern, text

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
REMOTE = {"type": "object", "properties": {"n": {"$ref": "http://127.0.0.1:9/schema.json"}}}


def tool(schema: Any, structured: Any) -> Scripted:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message["method"] == "tools/list":
            listed = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}
            base = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
            peer.result(message, {"tools": [listed], **base})
        else:
            more = {} if structured is ... else {"structuredContent": structured}
            peer.result(message, text("x", resultType="complete", **more))

    return modern(answer)


@run
async def test_strict_raises_and_names_the_place() -> None:
    async with Client(tool(SCHEMA, {"n": "one"}), validate="strict") as client:
        await client.list_tools()
        with pytest.raises(RemoteProtocolError, match="'t' breaks its output schema") as caught:
            await client.call_tool("t")
        assert caught.value.kind == "validation_failed"


@run
async def test_warn_logs_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dovetail.client"):
        async with Client(tool(SCHEMA, {"n": "one"}), validate="warn") as client:
            await client.list_tools()
            for _ in range(3):
                assert (await client.call_tool("t")).data == {"n": "one"}
    assert len([record for record in caplog.records if "output schema" in record.message]) == 1


@run
async def test_off_looks_at_nothing() -> None:
    async with Client(tool(SCHEMA, {"n": "one"}), validate="off") as client:
        await client.list_tools()
        assert (await client.call_tool("t")).data == {"n": "one"}


@run
async def test_a_result_that_conforms_or_was_never_listed_passes() -> None:
    async with Client(tool(SCHEMA, {"n": 1}), validate="strict") as client:
        assert (await client.call_tool("t")).data == {"n": 1}
        await client.list_tools()
        assert (await client.call_tool("t")).data == {"n": 1}


@run
async def test_a_missing_structured_result_breaks_the_schema() -> None:
    async with Client(tool(SCHEMA, ...), validate="strict") as client:
        await client.list_tools()
        with pytest.raises(RemoteProtocolError, match="no structuredContent"):
            await client.call_tool("t")


@run
async def test_a_remote_reference_is_refused_and_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("something was fetched")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    async with Client(tool(REMOTE, {"n": 1}), validate="strict") as client:
        await client.list_tools()
        with pytest.raises(RemoteProtocolError, match="never fetched"):
            await client.call_tool("t")


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"$ref": "#/$defs/a"}, None),
        ({"$ref": "https://x/y"}, "https://x/y"),
        ({"properties": {"a": {"items": [{"$dynamicRef": "other.json"}]}}}, "other.json"),
        ({"$defs": {"a": {"$id": "https://x/a"}}, "$ref": "https://x/a"}, None),
        ({"properties": {"$ref": {"type": "string"}}}, None),
        (True, None),
    ],
)
def test_references_that_leave_the_document_are_found(schema: Any, found: str | None) -> None:
    assert remote_reference(schema) == found


def test_schemas_that_are_no_schemas_or_too_large_are_named() -> None:
    assert "cannot be used" in str(Validator({"type": "nonsense"}).problem)
    large = {"anyOf": [{"type": "string"} for _ in range(20_000)]}
    assert "too large" in str(Validator(large).problem)
    assert (
        Validator({"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}).check("x") is None
    )
    assert Validator({"type": ["array", "null"]}).check(None) is None


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="strict"):
        OutputChecks("sometimes")  # type: ignore[arg-type]
