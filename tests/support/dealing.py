"""How tests are dealt out to the processes of pytest-xdist.

What is in one file stays together: it shares fixtures, and thousands of pieces of work would cost the one who deals
them more than some of the tests. Files that want what there is only one of are one piece together. The longest pieces
begin first: one that begins last leaves the other process with nothing to do.

`pytest.mark.xdist_group` cannot say this: xdist 3.8 writes the group into a field that pytest 9.2 does not read any
more, so that nothing was kept together.
"""

import os
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    # They fill a machine, and measure what others feel of it.
    "tests/attacks/test_attacks.py": "the machine",
    "tests/chaos/test_chaos.py": "the machine",
    # One browser takes as much as it can get.
    "tests/inspector/": "the browser",
    "tests/auth/test_chromium.py": "the browser",
}
LONGEST = (
    "the machine",
    "the browser",
    "tests/stores/test_redis.py",
    "tests/model/test_round_trip.py",
    "tests/http/test_ending.py",
    "tests/cli/test_run.py",
    "tests/cli/test_call.py",
    "tests/cli/test_json.py",
    "tests/auth/test_oidc_provider.py",
    "tests/workers/test_worker.py",
    "tests/auth/test_commands.py",
    "tests/proof/test_drivers.py",
    "tests/attacks/test_fuzz.py",
    "tests/auth/test_proxy.py",
    "tests/tooling/test_migrate_runs.py",
    "tests/http/test_workers.py",
    "tests/gateway/test_gateway.py",
    "tests/workers/test_kills_over_http.py",
    "tests/workers/test_mixed_clients.py",
    "tests/telemetry/test_tracing.py",
    "tests/server/test_once.py",
    "tests/auth/test_their_clients_log_in.py",
    "tests/cli/test_unusable_stores.py",
    "tests/cli/test_terminal.py",
    "tests/test_wheel.py",
)
"""The pieces that take longest, the longest first: `pytest --durations=0`, summed over a file."""


def piece(nodeid: str) -> str:
    """What a test is dealt out with."""
    file = nodeid.partition("::")[0]
    return TOGETHER.get(file) or TOGETHER.get(file.rpartition("/")[0] + "/") or file


def longest_first(items: list[pytest.Item]) -> None:
    """Bring tests into the order in which they are dealt out, if they are."""
    rank = {name: number for number, name in enumerate(LONGEST)}
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: rank.get(piece(item.nodeid), len(rank)))


class Dealing(LoadScopeScheduling):
    """Whoever has little left to do gets the next piece."""

    def _split_scope(self, nodeid: str) -> str:
        return piece(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Dealing | None:
    if config.getoption("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # the number of tests says little about how long they take
    return Dealing(config, log)
