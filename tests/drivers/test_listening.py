"""The end of a listen stream on a shared pipe is sent twice, because two pages of the specification require it."""

import json
from typing import Any

from dovetail import Server
from dovetail.core.endpoint import Endpoint
from dovetail.drivers.duplex import Duplex
from dovetail.settings import Limits
from dovetail.transports.memory import connect
from tests.support.aio import run
from tests.support.schemas import validate
from tests.support.transcripts import Listener

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def listen(id: int | str, **wishes: Any) -> bytes:
    params = {"notifications": wishes, "_meta": META}
    request = {"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}
    return json.dumps(request).encode()


@run
async def test_a_server_that_stops_completes_its_listen_streams_and_cancels_them() -> None:
    server, listener = Server("s"), Listener()
    duplex = Duplex(Endpoint(server.dispatcher.admission, server.limits), server.dispatcher)
    link, _ = connect(listener, duplex)
    for id in (7, "seven"):
        link.send(listen(id))
        assert (await listener.next())["method"] == "notifications/subscriptions/acknowledged"
    server.subscriptions.end_listening()
    said = [await listener.next() for _ in range(4)]
    for message in said:
        validate(message, "2026-07-28")
    results = [message["id"] for message in said if "result" in message]
    cancelled = [message["params"]["requestId"] for message in said if "method" in message]
    assert sorted(results, key=str) == sorted(cancelled, key=str) == [7, "seven"]
    for id in (7, "seven"):
        order = [m.get("id", m.get("params", {}).get("requestId")) for m in said]
        assert "result" in said[order.index(id)]
    link.close()
    await duplex.wait_closed()


@run
async def test_a_listen_that_is_refused_is_not_cancelled_on_top() -> None:
    server, listener = Server("s"), Listener()
    duplex = Duplex(Endpoint(server.dispatcher.admission, server.limits), server.dispatcher)
    link, _ = connect(listener, duplex)
    link.send(listen(1, taskIds=["x"]))
    assert (await listener.next())["error"]["code"] == -32021
    link.send(b"{")
    assert (await listener.next())["error"]["code"] == -32700
    link.close()
    await duplex.wait_closed()


@run
async def test_streams_that_leak_on_a_pipe_are_refused_until_one_is_left() -> None:
    server, listener = Server("s", limits=Limits(max_streams=2)), Listener()
    duplex = Duplex(Endpoint(server.dispatcher.admission, server.limits), server.dispatcher)
    link, _ = connect(listener, duplex)
    for id in (1, 2):
        link.send(listen(id))
        assert (await listener.next())["method"] == "notifications/subscriptions/acknowledged"
    link.send(listen(3))
    refused = await listener.next()
    assert (refused["id"], refused["error"]["code"]) == (3, 1060)
    assert refused["error"]["data"]["retryAfterMs"] > 0
    leave = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "_meta": META}}
    link.send(json.dumps(leave).encode())
    link.send(listen(4))
    assert (await listener.next())["method"] == "notifications/subscriptions/acknowledged"
    link.close()
    await duplex.wait_closed()
