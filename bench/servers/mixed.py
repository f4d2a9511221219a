"""Tools with the signatures that servers have: scalars with defaults, choices, lists, dates, nested classes.

The same functions for every library that reads signatures; ``BENCH_MIXED=N`` adds N of them to a server.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal


class Unit(enum.Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


@dataclass
class Address:
    street: str
    city: str
    country: str = "NO"


@dataclass
class Customer:
    name: str
    address: Address
    tags: list[str] = field(default_factory=list)


@dataclass
class Line:
    sku: str
    count: int
    price: float = 0.0


@dataclass
class Order:
    customer: Customer
    lines: list[Line]
    note: str | None = None


@dataclass
class Receipt:
    total: float
    lines: list[Line]


@dataclass
class Hit:
    title: str
    score: float


async def repeat(text: str) -> str:
    """Say it again."""
    return text


async def total(first: int, second: int = 2) -> int:
    """Add two numbers.

    Args:
        first: One of them.
        second: The other one.
    """
    return first + second


async def search(
    query: str, limit: int = 10, exact: bool = False, fields: list[str] | None = None
) -> list[Hit]:
    """Search for something.

    Args:
        query: What to look for.
        limit: How many to return at most.
        exact: Take the words as they are.
        fields: Where to look.
    """
    return []


async def place_order(order: Order, urgent: bool = False) -> Receipt:
    """Place an order.

    Args:
        order: What to send, and to whom.
        urgent: Send it today.
    """
    return Receipt(0, order.lines)


async def forecast(city: str, unit: Unit = Unit.METRIC, days: Literal[1, 3, 7] = 3) -> dict[str, Any]:
    """The weather to come."""
    return {}


async def schedule(title: str, at: datetime.datetime, minutes: int = 30) -> str:
    """Put something into the calendar."""
    return title


async def customers(ids: list[int], full: bool = False) -> list[Customer]:
    """Read customers."""
    return []


async def configure(settings: dict[str, str], dry_run: bool = True) -> None:
    """Change settings."""


async def distance(start: tuple[float, float], end: tuple[float, float]) -> float:
    """How far it is between two points."""
    return 0.0


def read_file(path: str, encoding: str = "utf-8", lines: int | None = None) -> str:
    """Read a file."""
    return path


async def send(to: Annotated[str, "who gets it"], subject: str, body: str = "") -> bool:
    """Send a letter."""
    return True


async def address_of(customer: Customer) -> Address:
    """Where a customer lives."""
    return customer.address


async def switch(mode: Literal["fast", "slow", "careful"], value: int | str) -> str:
    """Switch the mode."""
    return mode


async def status() -> str:
    """How things are."""
    return "fine"


async def price(lines: list[Line], factor: float = 1.0) -> list[Line]:
    """Price lines again."""
    return lines


SHAPES: tuple[Callable[..., Any], ...] = (
    repeat, total, search, place_order, forecast, schedule, customers, configure, distance, read_file, send,
    address_of, switch, status, price,
)  # fmt: skip


def tools(count: int) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Names and functions of ``count`` tools."""
    for number in range(count):
        function = SHAPES[number % len(SHAPES)]
        yield f"{function.__name__}_{number}", function
