"""A calendar: appointments with times, overlaps refused. ``dovetail run diary.py``"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from dovetail import Server, ToolError

server = Server("diary", instructions="Times are local and have no zone.")


@dataclass
class Appointment:
    title: str
    begins: datetime
    ends: datetime


appointments: list[Appointment] = []


@server.tool
def add(title: str, begins: datetime, minutes: int = 60) -> Appointment:
    """Add an appointment, unless there is one at that time."""
    if minutes < 1:
        raise ToolError("an appointment takes at least a minute")
    new = Appointment(title, begins, begins + timedelta(minutes=minutes))
    for other in appointments:
        if other.begins < new.ends and new.begins < other.ends:
            raise ToolError(f"{other.title!r} takes from {other.begins:%H:%M} to {other.ends:%H:%M}")
    appointments.append(new)
    return new


@server.tool(annotations={"readOnlyHint": True})
def day(when: date) -> list[Appointment]:
    """The appointments of one day, in order."""
    return sorted((one for one in appointments if one.begins.date() == when), key=lambda one: one.begins)


@server.prompt
def plan(when: date) -> str:
    """Ask for a plan of one day."""
    return f"Look at my appointments on {when:%A, %d %B %Y} and say when I can have lunch."


@server.completion(ref="plan", argument="when")
def days(value: str) -> list[Any]:
    """Days that have something in them."""
    return sorted(
        {f"{one.begins:%Y-%m-%d}" for one in appointments if f"{one.begins:%Y-%m-%d}".startswith(value)}
    )
