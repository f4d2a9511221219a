"""`Retry`: repeat failed calls that are safe to repeat, with exponential backoff.

On a server: tools declared read-only or idempotent, resources and prompts, after an unexpected exception or a
timeout. On a client: repeatable calls, after a refusal with a retry delay.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import UNSET, Raw, Struct

from ..drivers.middleware_chain import Middleware, Next, Request
from ..errors import DovetailError, ProtocolError, Refusal
from ..kinds import INTERNAL_ERROR
from ..server import Server
from ..settings import check_kinds
from ..settings.parameter_kinds import FUNCTION, SECONDS, WHOLE
from .call_outcome import of_error, of_result

RETRY_ATTEMPTS: Final = 3
"""Attempts of one call, by default."""
RETRY_INITIAL_DELAY: Final = 0.1
"""Seconds before the second attempt; each further pause doubles."""
RETRY_MAX_DELAY: Final = 5.0
"""The longest pause between two attempts, in seconds."""


READING: Final = frozenset({"resources/read", "prompts/get", "completion/complete"})


class Retry(Middleware):
    """Repeat failed calls that are safe to repeat, with exponential backoff."""

    def __init__(
        self,
        attempts: int = RETRY_ATTEMPTS,
        initial_delay: float = RETRY_INITIAL_DELAY,
        *,
        max_delay: float = RETRY_MAX_DELAY,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Set how often and how fast to retry.

        Args:
            attempts: Attempts in total, the first one included.
            initial_delay: Seconds before the second attempt; each further delay doubles.
            max_delay: The longest delay between two attempts, in seconds.
            sleep: The function that waits, for tests.
        """
        check_kinds(
            {
                "attempts": WHOLE,
                "initial_delay": SECONDS,
                "max_delay": SECONDS,
                "sleep": FUNCTION,
            },
            locals(),
        )
        if attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {attempts}")
        self._attempts, self._first, self._longest = attempts, initial_delay, max_delay
        self._sleep = sleep
        self._server: Server | None = None
        self.retries = 0

    def attach(self, service: Any) -> None:
        self._server = service if isinstance(service, Server) else None

    async def message(self, request: Request, call_next: Next) -> Struct | Raw:
        if not self._is_safe(request):
            return await call_next(request)
        attempt = 1
        while True:
            wait = min(self._longest, self._first * 2 ** (attempt - 1)) * (0.5 + random.random() / 2)
            try:
                result = await call_next(request)
            except DovetailError as error:
                asked = self._retry_after(error)
                again = asked is not None or of_error(error) == "broken" or self._is_server_failure(error)
                if not again or attempt >= self._attempts or (asked or 0) > self._longest:
                    raise
                wait = max(wait, asked or 0)
            else:
                if attempt >= self._attempts or of_result(result) != "broken":
                    return result
            attempt += 1
            self.retries += 1
            await self._sleep(wait)

    def _is_safe(self, request: Request) -> bool:
        if request.method != "tools/call":
            return request.method in READING
        if self._server is None:
            return bool(request.call.scope.get("repeat"))
        definition = request.component.definition
        notes = UNSET if definition is None else definition.annotations
        if notes is UNSET or request.params.request_state is not UNSET:
            return False
        return notes.get("readOnlyHint") is True or notes.get("idempotentHint") is True

    def _is_server_failure(self, error: DovetailError) -> bool:
        """Return whether the error is a failure of the server, by its code: other implementations send no
        incident id.
        """
        return self._server is None and isinstance(error, ProtocolError) and error.code == INTERNAL_ERROR

    def _retry_after(self, error: DovetailError) -> float | None:
        """Return the requested retry delay. Only a client obeys it."""
        if self._server is not None or not isinstance(error, ProtocolError | Refusal):
            return None
        return error.retry_after
