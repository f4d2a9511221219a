"""Calling the application: plain functions at once, async ones beside the connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

log = logging.getLogger("dovetail.client")


def call_back(callback: Callable[..., Any], *arguments: Any) -> None:
    """Call an application's callback; what it raises is its own affair, and logged."""
    try:
        outcome = callback(*arguments)
    except Exception:
        log.exception("a callback failed")
        return
    if asyncio.iscoroutine(outcome):
        run_aside(outcome)


_ASIDE: set[asyncio.Task[Any]] = set()
MOST_ASIDE = 10_000


def run_aside(work: Coroutine[Any, Any, Any]) -> None:
    """Run the coroutine of an async callback; it is kept until done, and its failure is logged.

    A server that notifies faster than the callbacks end must not fill the memory: beyond `MOST_ASIDE`, news are lost.
    """
    if len(_ASIDE) >= MOST_ASIDE:
        work.close()
        log.warning("more than %d callbacks are running; a notification was dropped", MOST_ASIDE)
        return
    task = asyncio.get_running_loop().create_task(work)
    _ASIDE.add(task)
    task.add_done_callback(_finished_aside)


def _finished_aside(task: asyncio.Task[Any]) -> None:
    _ASIDE.discard(task)
    with suppress(asyncio.CancelledError):
        error = task.exception()
        if error is not None:
            log.error("a callback failed", exc_info=error)
