"""A calendar for a model: appointments, free time, and a question when two meet. `dovetail run appointments.py`

CALENDAR_STORE keeps the appointments (memory otherwise); with --http and auth, each user has a calendar of their own.
"""

import os
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import msgspec

from dovetail import Context, Server, StateError, ToolError

server = Server("calendar", version="1.0.0", store=os.environ.get("CALENDAR_STORE"))
nobodys: list[dict[str, Any]] = []
"""The calendar without a principal, as on stdio."""
DAY = (time(8), time(18))


@dataclass(order=True)
class Appointment:
    begin: datetime
    end: datetime
    title: str


@dataclass
class Gap:
    begin: datetime
    end: datetime


async def load(ctx: Context) -> list[Appointment]:
    try:
        kept = await ctx.state.get("appointments", [])
    except StateError:
        kept = nobodys
    return msgspec.convert(kept, list[Appointment])


async def save(ctx: Context, appointments: list[Appointment]) -> None:
    kept = msgspec.to_builtins(sorted(appointments))
    try:
        await ctx.state.set("appointments", kept)
    except StateError:
        nobodys[:] = kept


def checked(begin: datetime, end: datetime) -> tuple[datetime, datetime]:
    """Both in UTC where they name no zone, and in order."""
    first, last = (one if one.tzinfo else one.replace(tzinfo=UTC) for one in (begin, end))
    if last <= first:
        raise ToolError("An appointment ends after it begins.")
    return first, last


@server.tool(annotations={"readOnlyHint": True})
async def agenda(day: date, ctx: Context) -> list[Appointment]:
    """The appointments of a day."""
    return [one for one in await load(ctx) if one.begin.date() <= day <= one.end.date()]


@server.tool
async def add(title: str, begin: datetime, end: datetime, ctx: Context) -> str:
    """Make an appointment; asks if there is one already."""
    begin, end = checked(begin, end)
    appointments = await load(ctx)
    met = [one.title for one in appointments if one.begin < end and begin < one.end]
    if met:
        sure = await ctx.elicit(f"At that time there is {', '.join(met)}. Make it all the same?", bool)
        if sure.action != "accept" or not sure.data:
            return "Nothing was added."
    await save(ctx, [*appointments, Appointment(begin, end, title)])
    return f"{title}: {begin:%d %B, %H:%M} to {end:%H:%M}"


@server.tool(annotations={"destructiveHint": True, "idempotentHint": True})
async def remove(title: str, begin: datetime, ctx: Context) -> str:
    """Take an appointment out."""
    begin, _ = checked(begin, begin + timedelta(1))
    appointments = await load(ctx)
    rest = [one for one in appointments if (one.title, one.begin) != (title, begin)]
    if len(rest) == len(appointments):
        raise ToolError(f"There is no {title} at that time.")
    await save(ctx, rest)
    return f"{title} was taken out."


@server.tool(annotations={"readOnlyHint": True})
async def free(day: date, minutes: int, ctx: Context) -> list[Gap]:
    """Where there is room on a day, between 8 and 18 o'clock in UTC."""
    at, close = (datetime.combine(day, hour, UTC) for hour in DAY)
    gaps: list[Gap] = []
    for one in await agenda(day, ctx):
        if one.begin - at >= timedelta(minutes=minutes):
            gaps.append(Gap(at, min(one.begin, close)))
        at = max(at, one.end)
    return [*gaps, Gap(at, close)] if close - at >= timedelta(minutes=minutes) else gaps
