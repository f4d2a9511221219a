"""An HTTP API for a model: the exchange rates of a public service, fetched once an hour. `dovetail run http_api.py`

RATES_URL names the service: it answers GET ?base=EUR with {"base": "EUR", "rates": {"NOK": 11.6, …}}.
"""

import json
import os
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from dovetail import Server, ToolError
from dovetail.middleware import Caching, CircuitBreaker, RateLimit

SERVICE = os.environ.get("RATES_URL", "http://127.0.0.1:9999/latest")
LARGEST = 1 << 20

server = Server(
    "rates",
    version="1.0.0",
    middleware=[
        RateLimit(per_client="20/s", burst=40),
        Caching(ttl=3600),  # the same question within an hour is not asked twice
        CircuitBreaker(
            failure_threshold=5, reset_timeout=60
        ),  # a service that is down is left alone for a minute
    ],
)


@dataclass
class Amount:
    value: float
    currency: str


def code(currency: str) -> str:
    """Three letters, or a word about it: nothing else gets into an address."""
    if len(currency) != 3 or not currency.isascii() or not currency.isalpha():
        raise ToolError(f"{currency!r} is no currency; write EUR, NOK, JPY …")
    return currency.upper()


def fetched(base: str) -> dict[str, float]:
    request = Request(f"{SERVICE}?{urlencode({'base': base})}", headers={"Accept": "application/json"})
    try:
        with urlopen(request, timeout=10) as response:
            found: dict[str, Any] = json.loads(response.read(LARGEST))
    except URLError as error:
        raise ConnectionError(f"the service of rates does not answer: {error.reason}") from error
    return {str(name): float(rate) for name, rate in found["rates"].items()}


@server.tool(annotations={"readOnlyHint": True})
def rates(base: str = "EUR") -> dict[str, float]:
    """What one unit of a currency is worth in others."""
    return fetched(code(base))


@server.tool(annotations={"readOnlyHint": True})
def convert(value: float, source: str, target: str) -> Amount:
    """Convert an amount of money."""
    found = fetched(code(source))
    if code(target) not in found:
        raise ToolError(f"There is no rate for {target}.")
    return Amount(round(value * found[code(target)], 2), code(target))
