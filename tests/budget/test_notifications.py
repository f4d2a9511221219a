"""What it costs to tell many listeners over HTTP: Python calls of ours for each of them, and no task.

What goes out is written once for all; what differs is the id of a listen request, or the number of an event.
"""

import asyncio
import json
from typing import Literal

import pytest

from dovetail import Server
from dovetail.transports.http.server.builtin_server import HttpConnection
from tests.budget.test_http import LOCAL, Builtin, Measured, Said, opened, sent
from tests.support.aio import run
from tests.support.waiting import until
from tests.support.web import modern, modern_headers, request

URI = "news://today"
CALLS = {"modern": 9, "legacy": 20}
"""For each listener."""
Era = Literal["modern", "legacy"]


class Crowd:
    """One app with legacy or modern listeners."""

    def __init__(self, era: Era) -> None:
        self.server = Server("news")
        self.server.resource(URI, name="today")(lambda: "old")
        self.measured = Measured(self.server, "builtin")
        self.ears: list[Said] = []
        self._era = era
        self._listening: list[HttpConnection] = []

    async def grow(self, count: int) -> None:
        while len(self.ears) < count:
            await (self._listen() if self._era == "modern" else self._join())
        await until(lambda: all(ear.pieces for ear in self.ears))

    async def _listen(self) -> None:
        wish = {"notifications": {"resourceSubscriptions": [URI]}}
        message = modern("subscriptions/listen", wish, id=len(self.ears))
        body = json.dumps(message).encode()
        self._open(modern_headers(message), body, "POST")

    async def _join(self) -> None:
        session = await opened(self.measured, "2025-11-25")
        await self.measured.post(request("resources/subscribe", {"uri": URI}), session)
        self._open(session, b"", "GET")

    def _open(self, headers: dict[str, str], body: bytes, method: str) -> None:
        lower = {name.lower(): value for name, value in headers.items()}
        self.ears.append(Said())
        app: Builtin = self.measured.app
        connection = app.connect(self.ears[-1])
        sent(connection, method, {"host": LOCAL, "content-length": str(len(body)), **lower}, body)
        self._listening.append(connection)

    async def tell(self) -> tuple[int, int]:
        """Publish once; how many calls and tasks of ours that took until all have heard."""
        before = [len(ear.pieces) for ear in self.ears]

        async def publish() -> None:
            await self.server.notify_resource_updated(URI)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        await self.measured.count(publish())
        assert [len(ear.pieces) for ear in self.ears] == [count + 1 for count in before]
        return len(self.measured.calls), self.measured.tasks

    async def cheapest(self) -> tuple[int, int]:
        """The least of a few times: on a busy machine what the app does by the clock falls into some of them."""
        return min([await self.tell() for _ in range(5)])

    async def leave(self) -> None:
        for connection in self._listening:
            connection.connection_lost(None)
        await self.measured.app.drain(0)


@pytest.mark.parametrize("era", CALLS)
def test_a_notification_costs_few_calls_for_each_listener_and_no_task(era: Era) -> None:
    @run
    async def scenario() -> None:
        crowd = Crowd(era)
        await crowd.grow(20)
        await crowd.tell()  # what is made once is made
        few, _ = await crowd.cheapest()
        await crowd.grow(60)
        many, tasks = await crowd.cheapest()
        assert (many - few) / 40 <= CALLS[era], "\n".join(crowd.measured.calls[-40:])
        assert tasks == 0
        written = [name for name in crowd.measured.calls if "_outgoing" in name]
        assert len(written) == 1, "it is written once"
        await crowd.leave()

    scenario()


@run
async def test_each_listener_gets_its_own_id() -> None:
    crowd = Crowd("modern")
    await crowd.grow(3)
    await crowd.tell()
    told = [json.loads(ear.pieces[-1].partition(b"data: ")[2]) for ear in crowd.ears]
    assert [one["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for one in told] == [0, 1, 2]
    assert {one["params"]["uri"] for one in told} == {URI}
    await crowd.leave()
