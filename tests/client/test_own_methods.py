"""Extension methods, called through `Client.request`, over every transport and revision."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from dovetail import (
    CapabilityError,
    Client,
    LocalProtocolError,
    ProtocolError,
    RegistrationError,
    RequestTimeout,
    Server,
    sync,
)
from dovetail.model import ListToolsResult
from dovetail.transports import tcp

from ..support.aio import run
from ..support.everything import Numbers, build
from ..support.faces import FILE
from ..support.rawclient import REVISIONS
from .test_own_server import client, serving

CALLBACKS: dict[str, Any] = {"on_sample": lambda request: "yes", "on_roots": ["file:///a"]}


@asynccontextmanager
async def target(transport: str) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:
        if transport == "memory":
            yield build()
        elif transport == "stdio":
            yield [sys.executable, "-m", "dovetail.cli.main", "run", FILE]
        elif transport == "tcp":
            listener = await tcp.listen(build().dispatcher)
            stack.push_async_callback(listener.close)
            yield "tcp://{}:{}".format(*listener.address[:2])
        else:
            url = await stack.enter_async_context(serving(build()))
            yield url if transport == "http" else url.replace("http", "ws")


class Total(msgspec.Struct):
    total: int


@dataclass
class Pay:
    order: int


class Paid(TypedDict):
    order: int
    words: str


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("transport", ["memory", "http", "websocket", "tcp", "stdio"])
@run
async def test_it_is_called_like_any_other(transport: str, revision: str) -> None:
    if (transport, revision) == ("http", "2024-11-05"):
        return  # which has another transport over HTTP
    async with target(transport) as server, client(server, revision, **CALLBACKS) as connected:
        told: list[float] = []
        total = await connected.request(
            "acme/sum",
            Numbers([1, 2, 3]),
            result=Total,
            capability="extensions.com.acme/sum",
            on_progress=lambda progress, *_: told.append(progress),
        )
        assert (total, told) == (Total(6), [1, 2, 3])
        assert (await connected.request("acme/echo", {"a": 1}))["said"] == {"a": 1}
        paid = await connected.request("acme/seat", Pay(7), result=Paid)
        assert (paid["order"], paid["words"]) == (7, "yes")
        with pytest.raises(ProtocolError) as caught:
            await connected.request("acme/sum", {"numbers": ["x"]})
        assert (caught.value.code, "$.numbers[0]" in caught.value.message) == (-32602, True)
        with pytest.raises(ProtocolError) as caught:
            await connected.request("acme/unknown")
        assert caught.value.kind == "method_not_found"


def acme() -> Server:
    server = Server("acme")
    server.add_method("acme/none", lambda: None)
    server.add_method("acme/text", lambda: {"total": "many"})
    return server


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_without_a_type_the_result_is_the_same_dict_in_both_eras(revision: str) -> None:
    async with Client(acme(), revision=revision) as connected:
        assert await connected.request("acme/none") == {}
        assert await connected.request("acme/text", None) == {"total": "many"}


@run
async def test_a_result_that_does_not_fit_is_the_servers_fault() -> None:
    async with Client(acme()) as connected:
        with pytest.raises(ProtocolError) as caught:
            await connected.request("acme/text", result=Total)
        assert (caught.value.kind, "$.total" in caught.value.message) == ("validation_failed", True)


@run
async def test_what_is_not_offered_or_no_object_is_never_sent() -> None:
    sent: list[bytes] = []
    async with Client(acme(), on_message=lambda way, data: sent.append(data)) as connected:
        before = len(sent)
        with pytest.raises(CapabilityError, match=r"extensions\.com\.acme/do"):
            await connected.request("acme/none", capability="extensions.com.acme/do")
        for params in (5, [1], object()):
            with pytest.raises(LocalProtocolError):
                await connected.request("acme/none", params)
        assert len(sent) == before


@run
async def test_it_has_the_limits_of_any_other_call() -> None:
    server = acme()
    server.add_method("acme/slow", asyncio.Event().wait)
    async with Client(server) as connected:
        with pytest.raises(RequestTimeout):
            await connected.request("acme/slow", timeout=0.01)


@run
async def test_the_protocols_own_methods_are_read_as_before() -> None:
    async with Client(build()) as connected:
        listed = await connected.request("tools/list", {})
        assert isinstance(listed, ListToolsResult)
        with pytest.raises(LocalProtocolError):
            await connected.request("tools/call", {"name": 5})
        called = await connected.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        assert called.structured_content == {"total": 3}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("transport", ["memory", "http", "websocket", "tcp", "stdio"])
@run
async def test_notifications_go_both_ways(transport: str, revision: str) -> None:
    if (transport, revision) == ("http", "2024-11-05"):
        return
    async with target(transport) as server, client(server, revision) as connected:
        plain: list[Any] = []
        typed: asyncio.Queue[Total] = asyncio.Queue()
        connected.add_notification("acme/heard", plain.append)
        connected.add_notification("acme/counted", typed.put_nowait, params=Total)
        await connected.notify("acme/seen", {"word": revision})
        while (seen := (await connected.request("acme/was_seen"))["seen"]) != [{"word": revision}]:
            assert not seen
        assert (plain[0], await typed.get()) == ({"words": ["a"]}, Total(0))


@run
async def test_the_protocols_notifications_have_their_own_callbacks() -> None:
    async with Client(build()) as connected:
        with pytest.raises(RegistrationError, match="is a notification of the protocol"):
            connected.add_notification("notifications/message", print)


def test_without_an_event_loop_too() -> None:
    heard: list[Any] = []
    with sync.Client(build()) as connected:
        connected.add_notification("acme/heard", heard.append)
        assert connected.request("acme/sum", {"numbers": [4]}, result=Total) == Total(4)
        connected.notify("acme/seen", {"word": 1})
        while connected.request("acme/was_seen") != {"seen": [{"word": 1}]}:
            assert len(heard) < 1000
    assert heard[0] == {"words": ["a"]}
