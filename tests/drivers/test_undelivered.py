"""Notifications that cannot be delivered: logged once for each connection, and counted."""

import asyncio
import json
import logging
import socket

import pytest

from dovetail import Limits, Server
from dovetail.drivers.duplex import lifespan
from dovetail.transports import tcp
from tests.support.aio import run
from tests.support.waiting import until

COUNTED = "dovetail_notifications_dropped_total"
UPDATED = "notifications/resources/updated"
LARGE = "x" * 200_000


@run
async def test_what_a_client_does_not_read_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("news", "1", dialect="erlmcp", limits=Limits(max_subscriptions=3))
    metrics = server.metrics

    @server.resource("news://today")
    def today() -> str:
        return ""

    def counted() -> float:
        return metrics.read(COUNTED, method=UPDATED)

    caplog.set_level(logging.WARNING, "dovetail")
    async with lifespan(server.dispatcher):
        listener = await tcp.listen(server.dispatcher)
        client = socket.create_connection(listener.address[:2])
        client.setblocking(False)
        opened = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"},
        }
        for message in (
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opened},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "resources/subscribe",
                "params": {"uri": "news://today"},
            },
        ):
            client.sendall(json.dumps(message).encode() + b"\n")
        heard = b""
        while b'"id":2' not in heard:
            heard += await asyncio.get_running_loop().sock_recv(client, 65536)
        for number in range(1000):  # the socket, then the write buffer, then the three that wait
            await server.notify_resource_updated("news://today", {"text": LARGE, "number": number})
            await asyncio.sleep(0)
            if counted():
                break
        assert counted() == 1
        client.close()
        await until(lambda: counted() == 4)
        await listener.close()
    first, last = (record.getMessage() for record in caplog.records)
    reason = "the client does not read; 3 notifications wait already"
    assert first == f"notification not delivered method={UPDATED} reason={reason!r}"
    assert last == "notifications not delivered count=4"
