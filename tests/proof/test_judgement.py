"""The benchmark judges others, so its own judgement is tested: replies, ends of responses, slopes, promises."""

import json

import pytest
from bench import sockets, targets, workloads
from bench.peers import LEGACY, MODERN
from bench.samples import Figure, Figures, Sample, figure
from bench.soak import alarms
from bench.soak.alarms import Window
from bench.workloads import ECHO, FIRST_ID, TELL, WrongReply


def reply(number: int, text: str = "hello") -> bytes:
    result = {"content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": FIRST_ID + number, "result": result}).encode()


PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}'


def test_right_replies_in_any_order_are_accepted() -> None:
    workloads.check(ECHO, [reply(1), reply(0)], 2)


@pytest.mark.parametrize(
    ("replies", "sent"),
    [
        ([reply(0, "hell")], 1),
        ([reply(0)], 2),
        ([reply(0), reply(0)], 2),
        ([b'{"jsonrpc":"2.0","id":100000,"error":{"code":-1,"message":"no"}}'], 1),
        ([b'{"jsonrpc":"2.0","id":100000,"result":{"content":[],"isError":true}}'], 1),
    ],
    ids=["another text", "one missing", "one twice", "an error", "a tool error"],
)
def test_a_wrong_reply_spoils_the_measurement(replies: list[bytes], sent: int) -> None:
    with pytest.raises(WrongReply):
        workloads.check(ECHO, replies, sent)


def test_a_call_that_should_notify_and_does_not_spoils_the_measurement() -> None:
    workloads.check(TELL, [PROGRESS, reply(0)], 1)
    with pytest.raises(WrongReply):
        workloads.check(TELL, [reply(0)], 1)


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_every_request_of_a_workload_has_one_length_and_its_own_id(era: str) -> None:
    template = workloads.template(ECHO, era)
    first, later = template % FIRST_ID, template % (FIRST_ID + 12_345)
    assert len(first) == len(later)
    assert json.loads(later)["id"] == FIRST_ID + 12_345


PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    b'f\r\ndata: {"a":10}\n\r\n2\r\n\n\n\r\n0\r\n\r\n'
)


@pytest.mark.parametrize("response", [PLAIN, CHUNKED], ids=["plain", "chunked"])
def test_a_response_ends_where_it_ends(response: bytes) -> None:
    assert sockets.http_end(response + b"HTTP/1.1 200") == len(response)
    for cut in range(len(response)):
        assert sockets.http_end(response[:cut]) == -1


def test_events_are_taken_out_of_their_chunks() -> None:
    assert sockets.messages_of(CHUNKED) == [b'{"a":10}']


def test_a_response_that_is_no_success_spoils_the_measurement() -> None:
    with pytest.raises(WrongReply):
        sockets.messages_of(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")


def steady(**changes: float) -> list[Window]:
    """Twenty minutes in which only what is named changes, per minute."""
    return [
        Window(
            minute,
            1000 * (1 + changes.get("rate", 0.0) * minute / 100),
            0.01 * (1 + changes.get("p99", 0.0) * minute / 100),
        )
        for minute in range(20)
    ]


@pytest.mark.parametrize(
    ("changes", "alarmed"),
    [
        ({}, []),
        ({"rate": -1.0, "p99": 2.0}, []),
        ({"rate": -4.5}, ["x: throughput"]),
        ({"p99": 40.0}, ["x: p99"]),
    ],
    ids=["steady", "a little", "slower", "later"],
)
def test_the_alarms_ring_for_slopes(changes: dict[str, float], alarmed: list[str]) -> None:
    found = [slope.name for slope in alarms.slopes("x", steady(**changes)) if slope.alarm]
    assert found == alarmed


def test_one_odd_window_rings_no_alarm() -> None:
    windows = steady()
    windows[-1] = windows[-1]._replace(rate=10.0, p99=9.0)
    assert not [slope for slope in alarms.slopes("x", windows) if slope.alarm]


@pytest.mark.parametrize(("per_minute", "alarmed"), [(0.5, False), (1.1, True)])
def test_the_alarm_for_memory_rings_for_growth(per_minute: float, alarmed: bool) -> None:
    assert alarms.growth("x", [(minute, 50 + per_minute * minute) for minute in range(20)]).alarm is alarmed


def test_the_middle_round_is_the_figure() -> None:
    found = figure(
        [Sample(3, 1, 1), Sample(1, 1, 1), Sample(2, 1, 1)], measure="m", peer="p", workload="w", unit="u"
    )
    assert (found.value, found.spread, found.rounds) == (2, [1, 3], 3)


def test_a_promise_is_kept_missed_or_not_measured() -> None:
    figures = Figures()
    figures.add(Figure("start", "dovetail", "initialize", 200, "ms"))
    figures.add(Figure("start", "sdk", "initialize", 1000, "ms"))
    figures.add(Figure("memory", "dovetail", "at rest", 60, "MiB"))
    figures.add(Figure("memory", "sdk", "at rest", 100, "MiB"))
    found = {verdict.target.text: verdict for verdict in targets.verdicts(figures)}
    assert found["start to first answer against the official SDK"].met is True
    missed = found["resident memory against the official SDK"]
    assert missed.met is False
    assert missed.short_by == pytest.approx(20)
    assert found["an open listen stream"].met is None
