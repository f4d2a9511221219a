"""News on its way to a store that is away, full or slow: in order, and what was lost is said to be."""

import asyncio

import pytest

from dovetail.stores import MemoryStore, StoreError, StoreFull, StoreUnavailable
from dovetail.stores import send_queue as module
from dovetail.stores.send_queue import SendQueue
from tests.support.aio import run
from tests.support.waiting import HANG, turns, until


class Away(MemoryStore):
    """A store that takes no news while ``error`` says why not."""

    def __init__(self) -> None:
        super().__init__()
        self.error: StoreError | None = None
        self.taken: list[tuple[str, bytes]] = []
        self.tries = 0

    async def publish(self, topic: str, message: bytes) -> None:
        self.tries += 1
        if self.error is not None:
            raise self.error
        self.taken.append((topic, message))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEND_QUEUE_RETRY_DELAY", 0.01)


@pytest.mark.parametrize("error", [StoreUnavailable("away"), StoreFull()])
@run
async def test_messages_wait_for_an_unavailable_or_full_store_and_are_sent_in_order(
    error: StoreError,
) -> None:
    store = Away()
    outbox = SendQueue(store, 10)
    store.error = error
    for number in range(3):
        outbox.put("news", b"%d" % number)
    await turns(50)
    assert store.taken == []
    store.error = None
    await until(lambda: store.taken == [("news", b"0"), ("news", b"1"), ("news", b"2")])
    await outbox.close()


@run
async def test_listeners_learn_that_messages_were_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "SEND_QUEUE_TIMEOUT", 0.05)
    store = Away()
    outbox = SendQueue(store, 10)
    store.error = StoreUnavailable("away")
    outbox.put("news", b"lost")
    await until(lambda: "publish to other processes failed" in caplog.text)
    store.error = None
    # No further message is published, and still it is delivered.
    await until(lambda: store.taken == [("", b"")])
    outbox.put("news", b"next")
    await until(lambda: store.taken == [("", b""), ("news", b"next")])
    await outbox.close()


@run
async def test_listeners_learn_that_the_queue_has_overflowed() -> None:
    store = Away()
    outbox = SendQueue(store, 3)
    for number in range(5):
        outbox.put("news", b"%d" % number)
    await until(lambda: len(store.taken) == 4)
    assert store.taken == [("", b""), ("news", b"2"), ("news", b"3"), ("news", b"4")]
    await outbox.close()


@run
async def test_an_entry_that_no_store_accepts_does_not_block_the_queue() -> None:
    store = Away()
    outbox = SendQueue(store, 10)
    store.error = StoreError("too large")
    outbox.put("news", b"large")
    await turns(5)
    store.error = None
    outbox.put("news", b"small")
    await until(lambda: store.taken[-1:] == [("news", b"small")])
    assert store.taken[0] == ("", b"")
    await outbox.close()


@run
async def test_a_send_queue_closes_without_waiting() -> None:
    store = Away()
    outbox = SendQueue(store, 10)
    store.error = StoreUnavailable("away")
    outbox.put("news", b"1")
    await turns(5)
    async with asyncio.timeout(HANG):
        await outbox.close()


@run
async def test_a_store_that_refuses_everything_does_not_block_other_work() -> None:
    store = Away()
    outbox = SendQueue(store, 10)
    store.error = StoreError("of a newer version")
    outbox.put("news", b"1")
    await until(lambda: store.tries > 3)
    before = store.tries
    await turns(50)
    assert store.tries - before < 10, "it tries now and then"
    await outbox.close()
