"""``/metrics``: the metrics of a server, in the formats of Prometheus and OpenMetrics."""

from __future__ import annotations

import hmac
import os

from ..settings import HttpOptions
from ..transports.http.server.guards import Guard
from ..transports.http.server.http_exchange import TEXT_TYPE, Exchange, HttpService
from ..transports.http.server.identity import CallerIdentity
from .auto_instrument import metrics_wanted
from .exposition import OPENMETRICS, PROMETHEUS, wants_openmetrics


class Scraping:
    """Responds to the scrapers of one app.

    A scraper sends the metrics token, if there is one. Without it a protected server takes any token that it accepts
    for calls; ``metrics_token=""`` lets every scraper in.

    Scrapers use the IP address of a machine as `Host`. So `Host` is not checked if there is a token: no page knows it.
    """

    def __init__(
        self, service: HttpService, options: HttpOptions, guard: Guard, identity: CallerIdentity
    ) -> None:
        self.metrics = service.metrics
        self._guard = guard
        self._identity = identity
        self._token = options.metrics_token
        if self._token is None:
            self._token = os.environ.get("DOVETAIL_METRICS_TOKEN") or None
        folder = metrics_wanted(options)
        if isinstance(folder, str):
            self.metrics.join(folder)

    async def answer(self, exchange: Exchange) -> bool:
        headers = exchange.headers
        check = self._guard.page_refusal if self._token else self._guard.refusal
        refusal = check(exchange.local, headers)
        given = headers.get("authorization", "").encode()
        if refusal is not None:
            await exchange.answer(403, f"{refusal}\n".encode(), kind=TEXT_TYPE)
        elif self._token and not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            await exchange.answer(401, b"", [("www-authenticate", "Bearer")])
        elif exchange.method not in ("GET", "HEAD"):
            await exchange.answer(405, headers=[("allow", "GET, HEAD")])
        else:
            if self._token is None and self._identity.authenticates:
                await self._identity.principal_of(exchange)
            openmetrics = wants_openmetrics(headers.get("accept", ""))
            kind = "content-type", OPENMETRICS if openmetrics else PROMETHEUS
            await exchange.answer(200, self.metrics.text(openmetrics=openmetrics), kind=kind)
        return False
