"""A first server: two tools, a resource, a prompt, one question. `dovetail run examples/quickstart.py`"""

from dovetail import Context, Server, ToolError

server = Server("quickstart", version="1.0.0", instructions="Ask for the price before you book.")


@server.resource("flights://prices", mime_type="application/json")
def prices() -> dict[str, int]:
    return {"Oslo": 120, "Lisbon": 80}


@server.tool
async def price(city: str) -> int:
    """What a flight to a city costs."""
    if city not in prices():
        raise ToolError(f"There is no flight to {city}, only to {', '.join(prices())}.")
    return prices()[city]


@server.tool
async def book(city: str, ctx: Context) -> str:
    """Book a flight. The question works on every revision of the protocol and on every transport."""
    seat = await ctx.elicit("Which seat?", ["window", "aisle"])
    return f"{city}, {seat.data} seat" if seat.action == "accept" else "Nothing was booked."


@server.prompt
def weekend(city: str) -> str:
    return f"Plan a weekend in {city}."
