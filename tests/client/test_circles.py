"""A call that fails leaves nothing that only the collector could find: a client under load must not wait for it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from dovetail import Client, Server
from dovetail.errors import DovetailError
from dovetail.testing import connect

from ..support.aio import run
from .fake_http import Reply, Request, modern, serving


@pytest.fixture(autouse=True)
def _without_the_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def fails(client: Client, tool: str, **options: float) -> weakref.ref[BaseException]:
    """The innermost error of a call that fails."""
    try:
        await client.call_tool(tool, **options)  # type: ignore[arg-type]
    except DovetailError as error:
        return weakref.ref(error.__cause__ or error)
    raise AssertionError("the call did not fail")


def make_server() -> Server:
    server = Server("s")

    @server.tool
    async def slow() -> str:
        await asyncio.Event().wait()
        return ""

    return server


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_a_call_that_ran_out_of_time_in_memory(revision: str) -> None:
    async with connect(make_server(), revision) as client:
        error = await fails(client, "slow", timeout=0.02)
        await asyncio.sleep(0)
        assert error() is None, gc.get_referrers(error())


def _hanging(request: Request) -> Reply:
    return Reply(hang=True) if request.method == "tools/call" else modern(request)


@run
async def test_a_call_that_ran_out_of_time_over_http() -> None:
    async with serving(_hanging) as (_, url), Client(url, revision="2026-07-28") as client:
        error = await fails(client, "echo", timeout=0.05)
        await asyncio.sleep(0)
        assert error() is None


def _dropping(request: Request) -> Reply:
    return Reply(drop=True) if request.method == "tools/call" else modern(request)


@run
async def test_a_call_whose_connection_broke() -> None:
    async with serving(_dropping) as (_, url), Client(url, revision="2026-07-28") as client:
        error = await fails(client, "echo")
        await asyncio.sleep(0)
        assert error() is None
