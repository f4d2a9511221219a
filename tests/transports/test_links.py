"""What every link promises, whatever it is made of."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dovetail.settings import Limits
from tests.support.aio import run
from tests.support.waiting import turns

from .recorder import PAIRS, Recorder, pair

Scenario = Callable[[Recorder, Recorder], Awaitable[None]]


def on_every_link(*kinds: str, limits: Limits | None = None, echo: bool = False) -> Any:
    """Run a test of (left, right) on each kind of link."""

    def decorate(scenario: Scenario) -> Any:
        @pytest.mark.parametrize("kind", kinds or tuple(PAIRS))
        def test(kind: str) -> None:
            @run
            async def joined() -> None:
                async with pair(kind, limits, echo=echo) as (left, right):
                    await scenario(left, right)

            joined()

        test.__name__ = scenario.__name__
        return test

    return decorate


@on_every_link()
async def test_messages_arrive_whole_and_in_order(left: Recorder, right: Recorder) -> None:
    sent = [b'{"n":%d}' % n for n in range(500)]
    for message in sent[:250]:
        left.link.send(message)
    left.link.send_many(sent[250:])
    await right.until(lambda: len(right.messages) == 500)
    assert right.messages == sent


@on_every_link(echo=True)
async def test_both_directions_at_once(left: Recorder, right: Recorder) -> None:
    for n in range(100):
        left.link.send(b"[%d]" % n)
    await left.until(lambda: len(left.messages) == 100)
    assert left.messages == right.messages


@on_every_link()
async def test_a_message_of_many_chunks_comes_out_whole(left: Recorder, right: Recorder) -> None:
    message = b'"' + b"x" * 3_000_000 + b'"'
    left.link.send(message)
    await right.until(lambda: right.messages)
    assert right.messages == [message]


@on_every_link("tcp", "unix", "pipes")
async def test_a_newline_between_tokens_does_not_cut_a_message(left: Recorder, right: Recorder) -> None:
    left.link.send(b'{"a":\n1}')
    left.link.send_many([b"[1,\n2]", b"[3]"])
    await right.until(lambda: len(right.messages) == 3)
    assert right.messages == [b'{"a": 1}', b"[1, 2]", b"[3]"]


@on_every_link(limits=Limits(max_message_bytes=1000))
async def test_a_message_over_the_limit_is_reported_and_not_delivered(
    left: Recorder, right: Recorder
) -> None:
    left.link.send(b"x" * 1000)
    left.link.send(b"x" * 1001)
    await right.until(lambda: right.too_large)
    assert right.too_large == [1000]
    assert right.messages == [b"x" * 1000]


@on_every_link("pipes", "memory", limits=Limits(max_message_bytes=1000))
async def test_a_pipe_goes_on_after_a_message_over_the_limit(left: Recorder, right: Recorder) -> None:
    left.link.send(b"x" * 3000)
    left.link.send(b"[1]")
    await right.until(lambda: right.messages)
    assert right.messages == [b"[1]"]
    assert right.too_large == [1000]


@on_every_link("pipes", limits=Limits(max_message_bytes=1000))
async def test_a_line_without_end_ends_the_connection(left: Recorder, right: Recorder) -> None:
    left.link.send(b"x" * 200_000)
    await right.until(lambda: right.losses)
    assert right.losses[0].cause == "protocol"


@on_every_link("tcp", limits=Limits(max_message_bytes=1000))
async def test_tcp_disconnects_after_a_message_over_the_limit(left: Recorder, right: Recorder) -> None:
    left.link.send(b"x" * 3000)
    await left.until(lambda: left.has_ended or left.losses)
    assert right.too_large == [1000]


@on_every_link()
async def test_nothing_is_delivered_while_reading_is_paused(left: Recorder, right: Recorder) -> None:
    right.link.pause()
    left.link.send(b"[1]")
    right.link.send(b"[2]")
    await left.until(lambda: left.messages)
    assert right.messages == []
    right.link.resume()
    await right.until(lambda: right.messages)


@on_every_link(limits=Limits(max_write_buffer_bytes=50_000))
async def test_drain_waits_while_the_peer_does_not_read(left: Recorder, right: Recorder) -> None:
    right.link.pause()
    sent = 0
    while not left.link.blocked:
        left.link.send(b"x" * 9_999)
        sent += 1
        await asyncio.sleep(0)
        assert sent < 2000, "the link never says that it is full"
    waiting = asyncio.ensure_future(left.link.drain())
    await turns()
    assert not waiting.done()
    right.link.resume()
    await waiting
    await right.until(lambda: len(right.messages) == sent)


@on_every_link(limits=Limits(max_write_buffer_bytes=50_000))
async def test_messages_of_a_client_that_does_not_read_are_not_read(left: Recorder, right: Recorder) -> None:
    """Flow control of one direction blocks the other, so that an unread response stops further requests."""
    right.link.pause()
    while not left.link.blocked:
        left.link.send(b"x" * 9_999)
        await asyncio.sleep(0)
    right.link.send(b"[1]")
    await turns()
    assert left.messages == []
    right.link.resume()
    await left.until(lambda: left.messages)


@on_every_link()
async def test_close_delivers_pending_messages_and_both_sides_are_notified_of_the_end_once(
    left: Recorder, right: Recorder
) -> None:
    for n in range(100):
        left.link.send(b"[%d]" % n)
    left.link.close()
    await right.until(lambda: right.has_ended or right.losses)
    assert len(right.messages) == 100
    right.link.close()
    await right.until(lambda: right.losses)
    await left.until(lambda: left.losses)
    left.link.close()
    left.link.abort()
    left.link.send(b"[0]")
    await asyncio.sleep(0)
    assert left.losses == [None]
    assert right.losses == [None]


@on_every_link()
async def test_abort_closes_both_sides_although_neither_reads(left: Recorder, right: Recorder) -> None:
    right.link.pause()
    for _ in range(100):
        left.link.send(b"x" * 9_999)
    left.link.abort()
    await left.until(lambda: left.losses)
    right.link.resume()
    await right.until(lambda: right.has_ended or right.losses)


@on_every_link("tcp", "unix", "pipes")
async def test_the_last_line_counts_without_its_newline(left: Recorder, right: Recorder) -> None:
    right.link.data_received(b"[1]\r\n\n  \n[2]")
    left.link.close()
    await right.until(lambda: right.has_ended)
    assert [message.strip() for message in right.messages] == [b"[1]", b"[2]"]


@on_every_link("tcp", "pipes")
async def test_bytes_cut_anywhere_give_the_same_messages(left: Recorder, right: Recorder) -> None:
    data = b'{"a":1}\n\n[2]\r\n"three"\n'
    for size in range(1, len(data) + 1):
        right.messages.clear()
        for start in range(0, len(data), size):
            right.link.data_received(data[start : start + size])
        assert [message.strip() for message in right.messages] == [b'{"a":1}', b"[2]", b'"three"'], size
