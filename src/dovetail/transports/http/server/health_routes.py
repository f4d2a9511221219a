"""Health probes: ``/livez`` and ``/readyz``."""

from __future__ import annotations

import msgspec

from .app_state import AppState
from .guards import Guard
from .http_exchange import TEXT_TYPE, Exchange, HttpService


class HealthRoutes:
    """The probes of one app.

    Orchestrators probe by IP address, so `Host` is not checked. Requests from web pages of other sites are refused.
    """

    def __init__(self, service: HttpService, state: AppState, guard: Guard) -> None:
        self._service = service
        self._state = state
        self._guard = guard

    async def live(self, exchange: Exchange) -> bool:
        """``/livez``: 200 as long as the process can respond."""
        if not await self._refused(exchange):
            await exchange.answer(200, b"alive\n", kind=TEXT_TYPE)
        return False

    async def ready(self, exchange: Exchange) -> bool:
        """``/readyz``: 200 if the server takes calls, else 503. JSON names the components, to allowed hosts only."""
        if await self._refused(exchange):
            return False
        health = self._service.health
        if health.monitor.asleep:
            health.monitor.wake()  # a probe is a reason to measure
        status = "draining" if self._state.draining else health.status
        code, headers = (200, ()) if status == "ready" else (503, (("retry-after", "1"),))
        known = self._guard.refusal(exchange.local, exchange.headers) is None
        if known and "application/json" in exchange.headers.get("accept", ""):
            body = msgspec.json.encode({"status": status, "components": health.describe()})
            await exchange.answer(code, body, headers)
        else:
            await exchange.answer(code, f"{status}\n".encode(), headers, TEXT_TYPE)
        return False

    async def _refused(self, exchange: Exchange) -> bool:
        """Refuse a request that a web page of another site has sent, or whose method reads nothing."""
        refusal = self._guard.page_refusal(exchange.local, exchange.headers)
        if refusal is not None:
            await exchange.answer(403, f"{refusal}\n".encode(), kind=TEXT_TYPE)
        elif exchange.method not in ("GET", "HEAD"):
            await exchange.answer(405, headers=[("allow", "GET, HEAD")])
        else:
            return False
        return True
