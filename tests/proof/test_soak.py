"""The alarms of the soak test on known series: leaks raise an alarm, and noise does not."""

import random
import subprocess
import sys

import pytest
from bench.soak import alarms, weights
from bench.soak.alarms import Points, Window
from bench.soak.histogram import Histogram
from bench.soak.weights import STAYS

from tests.support.held import held

MINUTES = [number / 6 for number in range(60)]
"""The windows of a whole run: ten minutes, ten seconds each."""


def restless(seed: int, *, rate: float = 0.0, p99: float = 0.0) -> list[Window]:
    """Ten minutes on a busy machine: rates are off by 20 %, tails by 40 %, and one window in ten is disturbed."""
    chance = random.Random(seed)

    def at(level: float, per_minute: float, minute: float, noise: float, worse: float) -> float:
        odd = worse if chance.random() < 0.1 else 1.0
        return level * (1 + per_minute * minute / 100) * chance.lognormvariate(0, noise) * odd

    return [
        Window(minute, at(500, rate, minute, 0.2, 0.4), at(0.01, p99, minute, 0.4, 5.0)) for minute in MINUTES
    ]


def heavy(seed: int, per_minute: float) -> Points:
    """Memory with the saw-teeth of a garbage collector that comes every fifty seconds."""
    chance = random.Random(seed)
    return [
        (minute, 160 + per_minute * minute + (number % 5) * 0.3 + chance.gauss(0, 0.2))
        for number, minute in enumerate(MINUTES)
    ]


def verdicts(windows: list[Window]) -> list[str]:
    return [slope.verdict for slope in alarms.slopes("x", windows)]


SEEDS = range(20)


def test_noise_alone_rings_no_alarm() -> None:
    found = [verdict for seed in SEEDS for verdict in verdicts(restless(seed))]
    assert "ALARM" not in found
    assert found.count("ok") >= 38  # a whole run is long enough to say so


def test_a_planted_slope_of_throughput_rings() -> None:
    assert {verdicts(restless(seed, rate=-8.0))[0] for seed in SEEDS} == {"ALARM"}


def test_a_planted_slope_of_the_tail_rings() -> None:
    found = [verdicts(restless(seed, p99=20.0))[1] for seed in SEEDS]
    assert "ok" not in found
    assert found.count("ALARM") >= 18


def test_a_slope_of_just_the_named_size_is_hardly_ever_called_fine() -> None:
    found = [verdict for seed in SEEDS for verdict in verdicts(restless(seed, rate=-5.5, p99=12.0))]
    assert found.count("ok") <= 2  # of 40: the interval holds in 95 of 100 cases


def test_a_planted_leak_rings_and_its_absence_does_not() -> None:
    assert {alarms.growth("x", heavy(seed, 1.2)).verdict for seed in SEEDS} == {"ALARM"}
    assert {alarms.growth("x", heavy(seed, 0.0)).verdict for seed in SEEDS} == {"ok"}


def test_a_leak_that_no_process_shows_alone_rings_for_all_together() -> None:
    weights = {name: heavy(seed, 0.5) for seed, name in enumerate(("one", "two", "three"))}
    assert {alarms.growth(name, points).verdict for name, points in weights.items()} == {"ok"}
    assert alarms.growth("all", alarms.together(weights)).verdict == "ALARM"


def test_a_run_too_short_to_tell_is_unsure_and_not_fine() -> None:
    assert set(verdicts(restless(1)[:6])) == {"unsure"}
    assert set(verdicts([])) == {"unsure"}
    assert alarms.growth("x", []).verdict == "unsure"


def test_traffic_that_has_stopped_is_not_fine() -> None:
    stopped = [Window(minute, 500.0 if minute < 5 else 0.0, 0.01) for minute in MINUTES]
    assert verdicts(stopped)[0] != "ok"


def test_a_histogram_finds_quantiles_within_two_percent_and_does_not_grow() -> None:
    times = Histogram()
    size = held(times)
    for number in range(1, 10_001):
        times.add(number / 1e4)
    assert times.quantile(0.5) == pytest.approx(0.5, rel=0.02)
    assert times.quantile(0.99) == pytest.approx(0.99, rel=0.02)
    assert times.count / times.total == pytest.approx(10_000 / 5000.5)
    times.add(0.0)
    times.add(1e9)
    assert held(times) < size + 200  # a few numbers outgrew those the interpreter keeps anyway
    times.clear()
    assert (times.count, times.total, times.quantile(0.99)) == (0, 0.0, 0.0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_servers_that_stay_are_weighed_under_their_names() -> None:
    script = "import sys; print('here', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, f"{STAYS}stdio modern"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert weights.stayers() == {"stdio modern": child.pid}
        found = weights.weigh({})
        child.communicate(b"")
    assert set(found) == {"stdio modern server", "clients"}
    assert all(weight > 1 for weight in found.values())
