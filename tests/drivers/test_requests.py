"""The table of our own requests: each ends exactly once, whatever ends it."""

import asyncio
import gc
import json
from typing import Any
from weakref import ref

import pytest

from dovetail.core.admit import Admission
from dovetail.core.channel import Notice, PeerResponse
from dovetail.core.endpoint import Endpoint
from dovetail.drivers.requests import OnProgress, OutgoingRequest, Requests
from dovetail.errors import ProtocolError, RequestTimeout, SessionLost, TransportError
from dovetail.model import ListRootsResult
from dovetail.settings import Limits, Timeouts
from dovetail.testing import FakeClock
from dovetail.wire.revisions import BY_NAME
from tests.support.aio import run
from tests.support.rawclient import until

LEGACY = "2025-06-18"
MODERN = "2026-07-28"


class Asker:
    """One side of a connection that only asks. What it writes stays here; the test is the peer."""

    def __init__(self, side: Any = "server", revision: str = LEGACY, limits: Limits | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self.clock = FakeClock()
        self.endpoint = Endpoint(Admission(side), limits)
        self.endpoint.establish(BY_NAME[revision], {"roots": {}})
        self.requests = Requests(self.endpoint, self.write, self.clock)

    def write(self, data: bytes) -> None:
        self.sent.append(json.loads(data))

    async def ask(self, limits: Timeouts | None = None, **options: Any) -> "asyncio.Task[Any]":
        """A request that has been sent."""
        method = "roots/list" if self.endpoint.side == "server" else "prompts/list"
        before = len(self.requests.waiting)
        task = asyncio.ensure_future(
            self.requests.request(method, None, limits or Timeouts(None, None, None), **options)
        )
        await until(lambda: len(self.requests.waiting) > before)
        return task

    def peer_says(self, **message: Any) -> None:
        event = self.endpoint.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())
        if isinstance(event, PeerResponse):
            self.requests.answered(event)
        elif isinstance(event, Notice):
            assert self.requests.progressed(event.params)

    @property
    def told(self) -> list[Any]:
        """The ids of cancelled requests."""
        return [one["params"]["requestId"] for one in self.sent if one["method"] == "notifications/cancelled"]


@run
async def test_an_answer_is_decoded_and_ends_the_wait() -> None:
    asker = Asker()
    asked = await asker.ask()
    assert [one["method"] for one in asker.sent] == ["roots/list"]
    asker.peer_says(id=1, result={"roots": []})
    assert await asked == ListRootsResult([])
    assert not asker.requests.waiting
    assert asker.told == []


@run
async def test_an_answer_may_be_had_as_it_came() -> None:
    asker = Asker()
    asked = await asker.ask(raw=True)
    asker.peer_says(id=1, result={"roots": [], "more": 1})
    assert bytes(await asked) == b'{"roots": [], "more": 1}'


@run
async def test_an_error_of_the_peer_is_raised_and_leaves_no_cycle() -> None:
    asker = Asker()
    asked = await asker.ask()
    asker.peer_says(id=1, error={"code": -32601, "message": "no"})
    gc.disable()
    try:
        try:
            await asked
        except ProtocolError as error:
            gone = ref(error)
        del asked
        await asyncio.sleep(0)  # the step that threw it into this task still holds it
        assert gone() is None
    finally:
        gc.enable()
    assert asker.told == []


@pytest.mark.parametrize(
    ("limits", "which"),
    [(Timeouts(idle=2, total=None), "idle"), (Timeouts(idle=5, total=2), "total")],
)
def test_a_timeout_ends_the_wait_and_notifies_the_peer(limits: Timeouts, which: str) -> None:
    @run
    async def scenario() -> None:
        asker = Asker()
        asked, other = await asker.ask(limits), await asker.ask(Timeouts(idle=None, total=9))
        asker.clock.advance(1.9)
        assert asker.told == []
        asker.clock.advance(0.2)
        with pytest.raises(RequestTimeout) as caught:
            await asked
        assert caught.value.limit == which
        assert which in caught.value.message
        assert asker.told == [1]
        asker.peer_says(id=2, result={"roots": []})
        assert await other == ListRootsResult([])
        asker.peer_says(id=1, result={"roots": []})  # too late
        assert asker.endpoint.violations == {"late_answer": 1}

    scenario()


@run
async def test_one_timer_watches_every_limit_and_the_shortest_comes_first() -> None:
    asker = Asker()
    asked = [await asker.ask(Timeouts(idle=None, total=seconds)) for seconds in (3, 1, 2)]
    assert len(asker.clock.waiting) == 1
    for index in (1, 2, 0):
        asker.clock.advance(1.01)
        with pytest.raises(RequestTimeout):
            await asked[index]
    assert not asker.clock.waiting


@pytest.mark.parametrize("meta", [None, {"progressToken": "mine"}], ids=["our token", "the caller's token"])
@pytest.mark.parametrize("listener", [True, False], ids=["a listener", "nobody listens"])
def test_progress_extends_the_idle_limit_and_reaches_its_listener(
    meta: dict[str, Any] | None, listener: bool
) -> None:
    @run
    async def scenario() -> None:
        seen: list[Any] = []
        on_progress: OnProgress | None = (lambda *values: seen.append(values)) if listener else None
        asker = Asker()
        asked = await asker.ask(
            Timeouts(idle=1, total=None), meta=meta, progress=True, on_progress=on_progress
        )
        token = asker.sent[0]["params"]["_meta"]["progressToken"]
        assert token == (1 if meta is None else "mine")
        for step in range(6):
            asker.clock.advance(0.6)  # longer than the limit in sum, shorter each time
            params = {"progressToken": token, "progress": step, "total": 6}
            asker.peer_says(method="notifications/progress", params=params)
        asker.peer_says(id=1, result={"roots": []})
        assert await asked == ListRootsResult([])
        assert seen == ([(step, 6, None) for step in range(6)] if listener else [])

    scenario()


@run
async def test_a_listener_that_fails_does_not_hurt_the_request() -> None:
    def broken(*values: Any) -> None:
        raise ValueError

    asker = Asker()
    asked = await asker.ask(on_progress=broken)
    asker.peer_says(method="notifications/progress", params={"progressToken": 1, "progress": 1})
    asker.peer_says(id=1, result={"roots": []})
    assert await asked == ListRootsResult([])


@run
async def test_the_idle_timeout_stops_while_a_callback_runs() -> None:
    asker = Asker()
    asked = await asker.ask(Timeouts(idle=1, total=None))
    asker.requests.serving += 1
    asker.clock.advance(10)
    assert not asked.done()
    asker.requests.serving -= 1
    asker.requests.touch_all()
    asker.clock.advance(0.9)
    await asyncio.sleep(0)
    assert not asked.done()
    asker.clock.advance(0.2)
    with pytest.raises(RequestTimeout):
        await asked


@run
async def test_a_caller_that_stops_waiting_cancels_on_the_connection_of_its_request() -> None:
    stream: list[bytes] = []
    asker = Asker()
    asked = await asker.ask(write=stream.append)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert [json.loads(data)["method"] for data in stream] == ["roots/list", "notifications/cancelled"]
    assert asker.sent == []
    assert not asker.endpoint.pending


@run
async def test_the_end_of_the_connection_fails_all_and_says_what_may_have_happened() -> None:
    asker = Asker()
    asked = [await asker.ask() for _ in range(3)]
    asker.requests.fail(TransportError("broken off", cause="reset"))
    for one in asked:
        with pytest.raises(SessionLost, match="broken off") as caught:
            await one
        assert (caught.value.cause, caught.value.maybe_executed) == ("reset", True)
    with pytest.raises(SessionLost) as caught:
        await asker.requests.request("roots/list")
    assert not caught.value.maybe_executed
    assert asker.told == []


@run
async def test_one_lost_answer_is_not_the_end_of_the_others() -> None:
    asker = Asker()
    first, second = await asker.ask(), await asker.ask()
    asker.requests.lose(1, TransportError("too large", cause="protocol"))
    with pytest.raises(SessionLost, match="too large"):
        await first
    asker.peer_says(id=2, result={"roots": []})
    assert await second == ListRootsResult([])


@run
async def test_more_than_may_wait_stand_in_a_queue_until_others_end() -> None:
    asker = Asker(limits=Limits(max_outgoing_requests=2))
    asked = [asyncio.ensure_future(asker.requests.request("roots/list")) for _ in range(4)]
    await until(lambda: len(asker.sent) == 2)
    for id in (1, 2, 3, 4):
        await until(lambda id=id: id in asker.requests.waiting)
        assert len(asker.requests.waiting) <= 2
        asker.peer_says(id=id, result={"roots": []})
    assert await asyncio.gather(*asked) == [ListRootsResult([])] * 4


@run
async def test_the_queue_has_limits_and_an_end() -> None:
    asker = Asker(limits=Limits(max_outgoing_requests=1))
    first = await asker.ask()
    with pytest.raises(RequestTimeout, match="no request slot"):
        await asker.requests.request("roots/list", None, Timeouts(idle=None, total=0.01))
    waiting = asyncio.ensure_future(asker.requests.request("roots/list"))
    await asyncio.sleep(0)
    asker.requests.fail(None)
    for one in (first, waiting):
        with pytest.raises(SessionLost):
            await one


# --- links with one exchange per request ---------------------------------------------------------------------


class Exchanging(Asker):
    """Requests that leave by `exchange`; the test ends each by answering it."""

    def __init__(self, revision: str = MODERN) -> None:
        super().__init__("client", revision)
        self.requests.exchange = self.exchange
        self.given: list[OutgoingRequest] = []
        self.closed = 0
        self.open = asyncio.Event()

    async def exchange(self, outgoing: OutgoingRequest) -> None:
        self.given.append(outgoing)
        outgoing.status = 207
        try:
            await self.open.wait()
        finally:
            self.closed += 1


@run
async def test_an_exchange_runs_in_the_task_of_the_caller() -> None:
    asker = Exchanging()
    asked = await asker.ask(raw=True, headers={"X-One": "1"})
    await until(lambda: asker.given)
    assert asker.given[0].task is asked
    assert (asker.given[0].headers, json.loads(asker.given[0].data)["method"]) == (
        {"X-One": "1"},
        "prompts/list",
    )
    asker.peer_says(id=1, result={"prompts": []})
    assert asker.given[0].future.done()
    asker.open.set()
    await asked
    assert asker.requests.last_status == 207


@run
async def test_an_exchange_that_ends_without_an_answer_is_an_error() -> None:
    asker = Exchanging()
    asker.open.set()
    with pytest.raises(TransportError, match="before it sent a response"):
        await asker.requests.request("prompts/list")
    assert not asker.requests.waiting


@pytest.mark.parametrize(("revision", "told"), [(MODERN, []), (LEGACY, [1])])
@pytest.mark.parametrize("ending", ["limit", "caller"])
def test_a_closed_exchange_is_the_cancellation_only_where_the_revision_says_so(
    revision: str, told: list[int], ending: str
) -> None:
    @run
    async def scenario() -> None:
        asker = Exchanging(revision)
        asked = await asker.ask(Timeouts(idle=None, total=1))
        await until(lambda: asker.given)
        if ending == "limit":
            asker.clock.advance(1.1)
        else:
            asked.cancel()
        with pytest.raises(RequestTimeout if ending == "limit" else asyncio.CancelledError):
            await asked
        assert asked.cancelling() == (ending == "caller")
        assert asker.closed == 1
        assert asker.told == told

    scenario()


@run
async def test_a_lost_connection_interrupts_the_exchange() -> None:
    asker = Exchanging()
    asked = await asker.ask()
    await until(lambda: asker.given)
    asker.requests.fail(TransportError("gone", cause="reset"))
    with pytest.raises(SessionLost, match="gone"):
        await asked
    assert asker.closed == 1


@run
async def test_an_answer_without_an_id_is_given_to_the_exchange_it_came_on() -> None:
    asker = Exchanging()
    asked = await asker.ask()
    await until(lambda: asker.given)
    asker.requests.refuse(1, ProtocolError("invalid_request", "no id"))
    asker.open.set()
    with pytest.raises(ProtocolError, match="no id"):
        await asked
    asker.requests.refuse(1, ProtocolError("invalid_request", "again"))  # without a waiter, nothing happens
