"""The servers of the public page, for the tests that use it as a reader would."""

from dataclasses import dataclass

import pytest

from dovetail import Context, Server, ToolError

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
ASKING = REVISIONS[2:]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

every_revision = pytest.mark.parametrize("revision", REVISIONS)


@dataclass
class Seat:
    row: int
    letter: str = "A"


@dataclass
class Booking:
    flight: str
    seat: Seat
    paid: int
    note: str


@dataclass
class FromDataclass:
    city: str


def travel() -> tuple[Server, list[str]]:
    """The server of the page, and the list of its payments."""
    server = Server("weather", version="1.0.0", instructions="Ask before you travel.")
    payments: list[str] = []

    async def charge(flight: str) -> int:
        payments.append(flight)
        return 120

    @server.tool(
        title="Book",
        annotations={"destructiveHint": True},
        timeout=30,
        limit=8,
        run="thread",
        task="optional",
    )
    async def book(flight: str, ctx: Context) -> Booking:
        """Book a flight."""
        seat = await ctx.elicit("Which seat?", Seat)
        if seat.action != "accept":
            raise ToolError("No seat chosen")
        paid = await ctx.step("pay", charge, flight)
        await ctx.report_progress(1, 2, "paid")
        words = await ctx.sample("Write a thank-you note", max_tokens=200)
        return Booking(flight, seat.data, paid, words.text)

    return server, payments


def forecaster() -> Server:
    server = Server("weather", version="1.0.0", instructions="Ask before you travel.")

    @server.tool
    async def forecast(city: str, days: int = 3) -> FromDataclass:
        """The weather of the days to come.

        Args:
            city: where
            days: how many
        """
        if city == "Atlantis":
            raise ToolError("There is no such city")
        return FromDataclass(f"{city} for {days}")

    @server.resource("weather://{city}/now", mime_type="application/json")
    async def now(city: str) -> dict[str, str]:
        return {"city": city}

    @server.resource("weather://cities")
    def cities() -> str:
        return "Oslo"

    @server.prompt
    def plan(city: str) -> str:
        """Plan a trip."""
        return f"Plan a trip to {city}"

    return server
