"""Somebody's HTTP API as tools. ``API=https://api.example.com dovetail run http_api.py``"""

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from dovetail import Server, ToolError
from dovetail.layers import Cache, RateLimit

server = Server("weather-api", layers=[RateLimit(total="10/s", burst=20), Cache(ttl=60)])


def ask(path: str, **query: object) -> Any:
    """GET ``path`` and read JSON; what is wrong is told to the model in one sentence."""
    url = f"{os.environ['API']}{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.loads(answer.read(1 << 20))
    except urllib.error.HTTPError as error:
        error.close()
        raise ToolError(
            "there is no such city" if error.code == 404 else f"the API says {error.code}"
        ) from None
    except OSError:
        raise ToolError("the API cannot be reached: try again later") from None


@server.tool(annotations={"readOnlyHint": True, "openWorldHint": True})
def forecast(city: str, days: int = 3) -> dict[str, Any]:
    """How the weather of a city will be."""
    return ask(f"/forecast/{urllib.parse.quote(city, safe='')}", days=days)
