"""Middleware that lets only so many requests through."""

from __future__ import annotations

import inspect
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

from ....mcp.shared.exceptions import McpError
from ....mcp.types import ErrorData
from .middleware import Middleware, MiddlewareContext

_CLIENTS: Final = 10_000
"""Clients that are counted one by one; of more, those who have been silent longest start anew."""


class RateLimitError(McpError):
    """Too many requests."""

    def __init__(self, message: str = "Rate limit exceeded") -> None:
        super().__init__(ErrorData(code=-32000, message=message))


class TokenBucketRateLimiter:
    """A bucket that fills up steadily; a request takes one out."""

    def __init__(self, capacity: int, refill_rate: float) -> None:
        self.capacity = capacity
        self.refill_rate = refill_rate
        self.tokens: float = capacity
        self.last_refill = time.monotonic()

    async def consume(self, tokens: int = 1) -> bool:
        now = time.monotonic()
        self.tokens = min(self.capacity, self.tokens + (now - self.last_refill) * self.refill_rate)
        self.last_refill = now
        if self.tokens < tokens:
            return False
        self.tokens -= tokens
        return True


class SlidingWindowRateLimiter:
    """So many requests in the last so many seconds."""

    def __init__(self, max_requests: int, window_seconds: int) -> None:
        self.max_requests = max_requests
        self.window_seconds = window_seconds
        self.requests: deque[float] = deque()

    async def is_allowed(self) -> bool:
        now = time.monotonic()
        while self.requests and self.requests[0] <= now - self.window_seconds:
            self.requests.popleft()
        if len(self.requests) >= self.max_requests:
            return False
        self.requests.append(now)
        return True


class _PerClient(Middleware):
    global_limit = False

    def __init__(
        self, get_client_id: Callable[[MiddlewareContext[Any]], Any] | None, make: Callable[[], Any]
    ) -> None:
        self.get_client_id = get_client_id
        self._make = make
        self._limiters: OrderedDict[str, Any] = OrderedDict()

    async def _limiter(self, context: MiddlewareContext[Any]) -> Any:
        found = "global" if self.get_client_id is None or self.global_limit else self.get_client_id(context)
        client = await found if inspect.isawaitable(found) else found
        limiter = self._limiters.pop(client, None) or self._make()
        self._limiters[client] = limiter
        if len(self._limiters) > _CLIENTS:
            self._limiters.popitem(last=False)
        return limiter


class RateLimitingMiddleware(_PerClient):
    """So many requests per second, with bursts."""

    def __init__(
        self,
        max_requests_per_second: float = 10.0,
        burst_capacity: int | None = None,
        get_client_id: Callable[[MiddlewareContext[Any]], Any] | None = None,
        global_limit: bool = False,
    ) -> None:
        self.max_requests_per_second = max_requests_per_second
        self.burst_capacity = burst_capacity or int(max_requests_per_second * 2)
        self.global_limit = global_limit
        make = lambda: TokenBucketRateLimiter(self.burst_capacity, max_requests_per_second)  # noqa: E731
        super().__init__(get_client_id, make)

    async def on_request(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        limiter = await self._limiter(context)
        if not await limiter.consume():
            raise RateLimitError("Global rate limit exceeded" if self.global_limit else "Rate limit exceeded")
        return await call_next(context)


class SlidingWindowRateLimitingMiddleware(_PerClient):
    """So many requests in so many minutes."""

    def __init__(
        self,
        max_requests: int,
        window_minutes: int = 1,
        get_client_id: Callable[[MiddlewareContext[Any]], Any] | None = None,
    ) -> None:
        self.max_requests = max_requests
        self.window_seconds = window_minutes * 60
        super().__init__(get_client_id, lambda: SlidingWindowRateLimiter(max_requests, self.window_seconds))

    async def on_request(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        limiter = await self._limiter(context)
        if not await limiter.is_allowed():
            words = (
                f"Rate limit exceeded: {self.max_requests} requests per {self.window_seconds // 60} minutes"
            )
            raise RateLimitError(words)
        return await call_next(context)
