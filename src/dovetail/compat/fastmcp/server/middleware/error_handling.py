"""Middleware for what goes wrong: errors that are counted and translated, requests that are tried again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from ....mcp.shared.exceptions import McpError
from ....mcp.types import ErrorData
from ...exceptions import FastMCPError, NotFoundError
from .middleware import Middleware, MiddlewareContext

_CODES: Final = {
    ValueError: (-32602, "Invalid params"), TypeError: (-32602, "Invalid params"),
    FileNotFoundError: (-32001, "Resource not found"), KeyError: (-32001, "Resource not found"),
    NotFoundError: (-32001, "Not found"), PermissionError: (-32000, "Permission denied"),
    TimeoutError: (-32000, "Request timeout"),
}  # fmt: skip


class ErrorHandlingMiddleware(Middleware):
    """Logs and counts errors, and gives them a code of the protocol."""

    def __init__(
        self,
        logger: logging.Logger | None = None,
        include_traceback: bool = False,
        error_callback: Callable[[Exception, MiddlewareContext[Any]], None] | None = None,
        transform_errors: bool = True,
    ) -> None:
        self.logger = logger or logging.getLogger("fastmcp.errors")
        self.include_traceback = include_traceback
        self.error_callback = error_callback
        self.transform_errors = transform_errors
        self.error_counts: dict[str, int] = {}

    def get_error_stats(self) -> dict[str, int]:
        """How often each kind of error happened, by method."""
        return dict(self.error_counts)

    async def on_message(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        try:
            return await call_next(context)
        except Exception as error:
            self._note(error, context)
            if not self.transform_errors or isinstance(error, McpError | FastMCPError):
                raise
            raise self._transformed(error) from error

    def _note(self, error: Exception, context: MiddlewareContext[Any]) -> None:
        method = context.method or "unknown"
        key = f"{type(error).__name__}:{method}"
        self.error_counts[key] = self.error_counts.get(key, 0) + 1
        self.logger.error(
            "Error in %s: %s: %s", method, type(error).__name__, error, exc_info=self.include_traceback
        )
        if self.error_callback is not None:
            try:
                self.error_callback(error, context)
            except Exception as failed:  # noqa: BLE001  one error is enough
                self.logger.error("Error in error callback: %s", failed)

    @staticmethod
    def _transformed(error: Exception) -> McpError:
        found = next(
            (words for kind, words in _CODES.items() if isinstance(error, kind)), (-32603, "Internal error")
        )
        return McpError(ErrorData(code=found[0], message=f"{found[1]}: {error}"))


class RetryMiddleware(Middleware):
    """Tries a request again that failed for a passing reason."""

    def __init__(
        self, max_retries: int = 3, base_delay: float = 1.0, max_delay: float = 60.0,
        backoff_multiplier: float = 2.0,
        retry_exceptions: tuple[type[Exception], ...] = (ConnectionError, TimeoutError),
        logger: logging.Logger | None = None,
    ) -> None:  # fmt: skip
        self.max_retries = max_retries
        self.base_delay = base_delay
        self.max_delay = max_delay
        self.backoff_multiplier = backoff_multiplier
        self.retry_exceptions = retry_exceptions
        self.logger = logger or logging.getLogger("fastmcp.retry")

    def _should_retry(self, error: Exception) -> bool:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, self.retry_exceptions):
                return True
            cause = cause.__cause__
        return False

    async def on_request(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        delay = self.base_delay
        for attempt in range(self.max_retries + 1):
            try:
                return await call_next(context)
            except Exception as error:
                if attempt == self.max_retries or not self._should_retry(error):
                    raise
                self.logger.warning(
                    "Request %s failed (attempt %d), tried again: %s", context.method, attempt + 1, error
                )
            await asyncio.sleep(min(delay, self.max_delay))
            delay *= self.backoff_multiplier
        raise AssertionError("the last attempt returned or raised")
