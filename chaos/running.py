"""Run one scenario: the server, the fault, the bystander and the report."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .report import Broken, Found, Report
from .scenarios import SETTINGS, WANTED, Scenario, small_disk
from .site import Bystander, Site, site

TRANSPORTS: Final = ("http", "stdio")
LIMIT: Final = 90.0
"""Seconds one scenario may take."""
MAX_STDERR_SHOWN: Final = 2000


async def play(scenario: Scenario, transport: str, slack: float = 1.0) -> Report:
    """Run it, with a bystander from before the trouble to after it.

    Raises:
        NoDisk: the scenario needs a disk that this machine does not let us make.
    """
    name = scenario.__name__
    report = Report(name, transport, None, 0, 0)
    undo: Callable[[], object] | None = None
    with tempfile.TemporaryDirectory(prefix="chaos-") as place:
        folder = Path(place)
        try:
            if name == "disk_full":
                undo = small_disk(folder)
            async with asyncio.timeout(LIMIT), site(transport, folder, **SETTINGS.get(name, {})) as found:
                found.slack = slack
                await _beside(scenario, found, report)
        except (Broken, TimeoutError, OSError, EOFError) as error:
            said = (
                (folder / "stderr.txt").read_text(errors="replace")
                if (folder / "stderr.txt").exists()
                else ""
            )
            report.problem = f"{type(error).__name__}: {error} {said[-MAX_STDERR_SHOWN:]}"
        finally:
            if undo is not None:
                undo()
    return report


async def _beside(scenario: Scenario, found: Site, report: Report) -> None:
    # With a session, so that the server distinguishes the bystander from the faulty client.
    async with found.client(revision="2025-11-25") as client:
        await client.list_tools()
        bystander = Bystander(client, writes=report.scenario != "disk_full")
        stop = asyncio.Event()
        living = asyncio.create_task(bystander.live(stop))
        try:
            report.found = await scenario(found)
        finally:
            stop.set()
            await living
        report.data_loss = await bystander.lost()
        report.cascading_failures = len(bystander.failures)
        report.problem = "; ".join(bystander.failures[:2])
        _check(report, report.found)


def _check(report: Report, found: Found) -> None:
    wanted = WANTED.get(report.scenario)
    if found.refusal != wanted:
        report.problem += f"refused with {found.refusal}, not {wanted}"
