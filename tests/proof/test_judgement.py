"""The benchmark judges others, so its own judgement is tested: replies, ends of responses, slopes, promises."""

import json
import time

import pytest
from bench import report, rounds, sockets, targets, workloads
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
    """Twenty minutes in which only the given values change, per minute."""
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
        ({"rate": -4.9}, []),
        ({"rate": -5.1}, ["x: throughput"]),
        ({"p99": 40.0}, ["x: p99"]),
    ],
    ids=["steady", "a little", "almost", "slower", "later"],
)
def test_the_alarms_ring_for_slopes(changes: dict[str, float], alarmed: list[str]) -> None:
    found = [slope.name for slope in alarms.slopes("x", steady(**changes)) if slope.verdict == "ALARM"]
    assert found == alarmed


def test_one_odd_window_rings_no_alarm() -> None:
    windows = steady()
    windows[-1] = windows[-1]._replace(rate=10.0, p99=9.0)
    assert not [slope for slope in alarms.slopes("x", windows) if slope.verdict == "ALARM"]


@pytest.mark.parametrize(("per_minute", "alarmed"), [(0.5, False), (1.1, True)])
def test_the_alarm_for_memory_rings_for_growth(per_minute: float, alarmed: bool) -> None:
    weights = [(float(minute), 50 + per_minute * minute) for minute in range(20)]
    assert (alarms.growth("x", weights).verdict == "ALARM") is alarmed


def test_the_middle_round_is_the_figure() -> None:
    found = figure(
        [Sample(3, 1, 1), Sample(1, 1, 1), Sample(2, 1, 1)], measure="m", peer="p", workload="w", unit="u"
    )
    assert (found.value, found.spread, found.rounds) == (2, [1, 3], 3)


def test_the_best_round_is_the_limit() -> None:
    rounds_of_the_limit = [Sample(3, 1, 1), Sample(1, 1, 1), Sample(2, 1, 1)]
    what = {"measure": "m", "peer": "limit", "workload": "w"}
    assert figure(rounds_of_the_limit, unit="calls/s", **what).value == 3
    assert figure(rounds_of_the_limit, unit="µs", **what).value == 1


def test_a_promise_is_kept_missed_or_not_measured() -> None:
    figures = Figures()
    figures.add(Figure("start", "dovetail", "initialize", 200, "ms", transport="stdio"))
    figures.add(Figure("start", "sdk", "initialize", 1000, "ms", transport="stdio"))
    figures.add(Figure("memory", "dovetail", "at rest", 60, "MiB", transport="stdio"))
    figures.add(Figure("memory", "sdk", "at rest", 100, "MiB", transport="stdio"))
    found = {verdict.target.text: verdict for verdict in targets.verdicts(figures)}
    assert found["start to first answer against the official SDK"].met is True
    missed = found["resident memory against the official SDK"]
    assert missed.met is False
    assert missed.short_by == pytest.approx(20)
    assert found["an open listen stream"].met is None


def test_every_figure_carries_its_ratios_to_the_limit_and_to_us() -> None:
    figures = Figures()
    for peer, rate, latency in (("limit", 1000, 10), ("dovetail", 500, 20), ("sdk", 50, 300)):
        what = {"transport": "tcp", "era": MODERN}
        figures.add(Figure("rate_64", peer, "echo", rate, "calls/s", **what))
        figures.add(Figure("latency_p50", peer, "echo", latency, "µs", **what))
    found = {(one["measure"], one["peer"]): one for one in report.as_data(figures)}
    assert found["rate_64", "dovetail"]["to_limit"] == 0.5
    assert found["latency_p50", "dovetail"]["to_limit"] == 2
    assert found["rate_64", "sdk"]["dovetail_times_better"] == 10
    assert found["latency_p50", "sdk"]["dovetail_times_better"] == 15
    assert "to_limit" not in found["rate_64", "limit"]


def test_a_share_of_the_limit_is_judged_by_runs_that_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "BEGUN", time.monotonic())  # it is not late yet
    speed, order = iter([1.0, 1.0, 2.0, 2.0, 0.1, 0.1, 1.0, 5.0]), list[str]()

    def run(name: str, rate: float) -> Sample:
        order.append(name)
        return Sample(rate * next(speed), 7, 1.0)

    found = rounds.side_by_side(lambda: run("ours", 30.0), lambda: run("limit", 60.0), 3)
    assert order[2:] == ["limit", "ours", "ours", "limit", "limit", "ours"]
    assert [one.value for one in found] == pytest.approx([0.5, 0.5, 2.5])
    share = figure(
        found, measure="share_64", peer="dovetail", workload="ask", unit="", transport="http", era=MODERN
    )
    assert share.value == pytest.approx(0.5)


def test_rows_are_in_the_order_of_their_numbers() -> None:
    names = ["echo with 1000 tools", "echo with 50 tools", "echo with 1 tool"]
    assert sorted(names, key=report.by_number) == names[::-1]


def test_cases_take_turns_and_a_failing_one_is_dropped_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "BEGUN", time.monotonic())  # it is not late yet
    order: list[str] = []

    def case(name: str) -> Sample:
        order.append(name)
        if name == "b":
            raise WrongReply("no")
        return Sample(1, 1, 1)

    skipped: list[str] = []
    cases = {name: (lambda name=name: case(name)) for name in "abc"}
    found = rounds.interleave(cases, 2, skipped)
    assert order == ["a", "b", "c", "c", "a"]
    assert {name: len(samples) for name, samples in found.items()} == {"a": 2, "c": 2}
    assert skipped == ["b: no"]


def test_a_late_run_repeats_nothing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "LATE", -1.0)
    skipped: list[str] = []
    found = rounds.interleave({"a": lambda: Sample(1, 1, 1)}, 3, skipped)
    assert len(found["a"]) == 1
    assert skipped == ["2 of 3 rounds of a and its like: it was too late"]
