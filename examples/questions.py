"""Questions to the user in the middle of a call, on every revision. ``dovetail run questions.py``"""

from dataclasses import dataclass
from typing import Literal

from dovetail import Context, Server, ToolError

server = Server("travel")


@dataclass
class Seat:
    row: int
    side: Literal["window", "aisle"] = "window"


async def charge(flight: str, row: int) -> str:
    """Stands for a payment: it must not happen twice."""
    return f"paid-{flight}-{row}"


@server.tool(annotations={"destructiveHint": True})
async def book(flight: str, ctx: Context) -> str:
    """Book a flight, once the user has chosen a seat and agreed to the price."""
    seat = await ctx.elicit("Which seat?", Seat)
    if seat.action != "accept":
        raise ToolError("no seat was chosen")
    agreed = await ctx.elicit(f"Row {seat.data.row} costs 20 EUR more. Take it?", ["yes", "no"])
    if agreed.action != "accept" or agreed.data != "yes":
        return "nothing was booked"
    receipt = await ctx.step("charge", charge, flight, seat.data.row)
    return f"{flight}, row {seat.data.row}, {seat.data.side}: {receipt}"
