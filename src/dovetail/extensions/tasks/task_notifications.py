"""Notifications about a running task: its state to subscribers, its progress to its own session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from ...core.task_views import TASK_VIEWS, detailed_task
from ...errors import DovetailError
from ...model import ProgressNotificationParams
from .task_channel import PROGRESS
from .task_jobs import Job

if TYPE_CHECKING:
    from ...server.dispatcher import Dispatcher


def publish(dispatcher: Dispatcher, job: Job) -> None:
    """Publish the current state of the task."""
    machine = job.machine
    if machine.design == "extension":
        dispatcher.subscriptions.hub.publish_task(detailed_task(machine))
        return
    face = TASK_VIEWS[machine.design]
    _notify_session(job, face.notification, face.status(machine))


def say(dispatcher: Dispatcher, job: Job, params: ProgressNotificationParams) -> None:
    """Publish a progress report of the handler."""
    message = params.message if isinstance(params.message, str) else None
    total = None if params.total is UNSET else params.total
    job.machine.report_progress(message, params.progress, total, dispatcher.clock())
    if message is not None:
        publish(dispatcher, job)


def tell(job: Job, method: str, params: Struct) -> None:
    """Send progress and logs of a task. The extension of 2026-07-28 has neither."""
    machine = job.machine
    if machine.design == "extension" or (method == PROGRESS and machine.progress_token is None):
        return
    _notify_session(job, method, job.related(params))


def _notify_session(job: Job, method: str, params: Struct) -> None:
    session = job.call.session
    if session is None or session.notify is None or session.phase != "ready":
        return
    try:
        session.notify(method, params)
    except DovetailError:
        pass  # this revision has no such notification
