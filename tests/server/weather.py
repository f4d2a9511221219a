"""The server most tests of servers talk to: one of everything."""

from dataclasses import dataclass
from typing import Any

import pytest

from dovetail import Server
from tests.support.peer import LEGACY
from tests.support.schemas import REVISIONS

every_revision = pytest.mark.parametrize("revision", REVISIONS)


every_legacy = pytest.mark.parametrize("revision", LEGACY)


@dataclass
class Forecast:
    city: str
    degrees: float


def build(**options: Any) -> Server:
    server = Server("weather", "1.2.3", "Ask before you travel.", title="Weather", **options)

    @server.tool
    async def forecast(city: str, days: int = 3) -> Forecast:
        """What the weather will be.

        Args:
            city: Where.
        """
        return Forecast(city, 20.5 + days)

    @server.tool(
        title="Shout", annotations={"readOnlyHint": True}, version="2", deprecated="use whisper", tags=["x"]
    )
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    @server.tool
    def broken() -> str:
        """Fail."""
        raise RuntimeError("secret detail")

    @server.resource("weather://{city}/now", mime_type="application/json", title="Now")
    async def now(city: str) -> dict[str, str]:
        """The weather now."""
        return {"city": city}

    @server.resource("weather://about")
    def about() -> str:
        """About."""
        return "All about weather"

    @server.prompt
    def plan(city: str, days: int = 1) -> str:
        """Plan a trip."""
        return f"Plan {days} days in {city}"

    @server.completion(ref="plan", argument="city")
    async def cities(value: str, arguments: dict[str, Any]) -> list[str]:
        return [city for city in ("Oslo", "Osaka", "Rome") if city.startswith(value)] + list(
            arguments.values()
        )

    return server
