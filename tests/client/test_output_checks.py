"""Checking structured results: strict, warn, off; and never a request to follow a reference."""

from __future__ import annotations

import logging
import socket
import sys
from typing import Any

import pytest

from dovetail import Client
from dovetail.client.calling.output_checks import OutputChecks
from dovetail.errors import DovetailError, RemoteProtocolError

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
        with pytest.raises(RemoteProtocolError, match="references to other documents"):
            await client.call_tool("t")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": 5},
        {"type": "object", "properties": []},
        {"$ref": "#/nope"},
        {"pattern": "("},
        {"type": "object", "properties": {"n": {"multipleOf": "x"}}},
    ],
    ids=str,
)
@run
async def test_a_malformed_schema_is_reported_and_the_client_goes_on(schema: Any) -> None:
    async with Client(tool(schema, {"n": 1})) as client:
        await client.list_tools()
        assert (await client.call_tool("t")).data == {"n": 1}
    async with Client(tool(schema, {"n": 1}), validate="strict") as client:
        await client.list_tools()
        with pytest.raises(RemoteProtocolError, match="cannot be used"):
            await client.call_tool("t")


@run
async def test_a_schema_of_nested_references_costs_no_time() -> None:
    definitions: dict[str, Any] = {"a0": {"type": "integer"}}
    for step in range(1, 40):
        definitions[f"a{step}"] = {"anyOf": [{"$ref": f"#/$defs/a{step - 1}"}] * 2}
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/a39"}}, "$defs": definitions}
    async with Client(tool(schema, {"n": "x"}), validate="strict") as client:
        await client.list_tools()
        with pytest.raises(RemoteProtocolError, match="more than 100000 schemas"):
            await client.call_tool("t")


@run
async def test_without_jsonschema_rs_results_are_not_checked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with caplog.at_level(logging.DEBUG, "dovetail.client"):
        async with Client(tool(SCHEMA, {"n": "one"})) as client:
            await client.list_tools()
            assert (await client.call_tool("t")).data == {"n": "one"}
    assert len([one for one in caplog.records if "results are not checked" in one.message]) == 1
    async with Client(tool(SCHEMA, {"n": "one"}), validate="strict") as client:
        await client.list_tools()
        with pytest.raises(DovetailError, match=r"pip install 'dovetail-mcp\[schema\]'"):
            await client.call_tool("t")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="strict"):
        OutputChecks("sometimes")  # type: ignore[arg-type]
