"""Real faults in live servers."""

import asyncio

import pytest
from chaos.running import TRANSPORTS, play
from chaos.scenarios import SCENARIOS, NoDisk, Scenario

pytestmark = pytest.mark.slow
SLACK = 10.0
"""The suite shares the machine; `make chaos` checks the promised times."""


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("one", SCENARIOS)
def test_a_server_recovers_and_other_clients_are_not_affected(one: Scenario, transport: str) -> None:
    try:
        report = asyncio.run(play(one, transport, SLACK))
    except NoDisk as error:
        pytest.skip(str(error))
    assert report.held, report.line()


def test_all_eleven_scenarios_are_there() -> None:
    assert [one.__name__ for one in SCENARIOS] == [
        "process_crash", "network_partition", "memory_exhaustion", "message_flood", "invalid_payload",
        "connection_leak", "slow_consumer", "supervisor_cascade", "disk_full", "cpu_saturation", "large_payload",
    ]  # fmt: skip
