"""Everything a tool may ask in the middle of a call: a form, a page, the model, the roots. `dovetail run questions.py`

The same lines serve clients of every revision that knows the question.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from dovetail import Context, Elicit, Server, ToolError

server = Server("travel", version="1.0.0")
booked: list[str] = []


@dataclass
class Trip:
    """What has to be known before a trip is booked."""

    days: Annotated[int, "How many nights"]
    travel: Literal["train", "plane", "ship"] = "train"
    newsletter: bool = False


@server.tool(annotations={"destructiveHint": True})
async def book(city: str, ctx: Context) -> str:
    """Book a trip, after two questions that are asked together where the revision can."""
    trip, sure = await ctx.ask_all(Elicit(f"A trip to {city}", Trip), Elicit("Shall it be paid now?", bool))
    if trip.action != "accept" or sure.action != "accept":
        return "Nothing was booked."
    if not 1 <= trip.data.days <= 60:
        raise ToolError("A trip takes 1 to 60 days.")
    await ctx.step("book", booked.append, city)  # once, though answers make the handler run again
    return f"{trip.data.days} days in {city} by {trip.data.travel}, {'paid' if sure.data else 'to be paid'}."


@server.tool
async def pay(amount: float, ctx: Context) -> str:
    """Pay on a page of the bank: the model never sees the entered data."""
    visit = await ctx.elicit_url(
        "Please confirm the payment at your bank.", f"https://bank.example/pay?amount={amount:.2f}"
    )
    return "Paid." if visit.action == "accept" else "Not paid."


@server.tool
async def postcard(city: str, ctx: Context) -> str:
    """Have the client's own model write a postcard."""
    written = await ctx.sample(f"Write a postcard of two sentences from {city}.", max_tokens=200)
    return written.text


@server.tool(annotations={"readOnlyHint": True})
async def projects(ctx: Context) -> list[str]:
    """The folders the user has opened."""
    return [root.uri for root in await ctx.list_roots()]
