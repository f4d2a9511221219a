"""Middleware that logs how long requests take."""

from __future__ import annotations

import logging
import time
from typing import Any

from .middleware import HOOKS, Middleware, MiddlewareContext


class TimingMiddleware(Middleware):
    """Logs how long every request takes."""

    def __init__(self, logger: logging.Logger | None = None, log_level: int = logging.INFO) -> None:
        self.logger = logger or logging.getLogger("fastmcp.timing")
        self.log_level = log_level

    def _label(self, context: MiddlewareContext[Any]) -> str:
        return f"Request {context.method or 'unknown'}"

    async def on_request(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        label, began, ended = self._label(context), time.perf_counter(), "completed"
        try:
            return await call_next(context)
        except Exception:
            ended = "failed after"
            raise
        finally:
            taken = (time.perf_counter() - began) * 1000
            self.logger.log(self.log_level, "%s %s %.2fms", label, ended, taken)


class DetailedTimingMiddleware(TimingMiddleware):
    """The same, and says which tool, resource or prompt it was."""

    def __init__(self, logger: logging.Logger | None = None, log_level: int = logging.INFO) -> None:
        super().__init__(logger or logging.getLogger("fastmcp.timing.detailed"), log_level)

    def _label(self, context: MiddlewareContext[Any]) -> str:
        if context.method not in HOOKS:
            return super()._label(context)
        message = context.message
        what = getattr(message, "name", None) or getattr(message, "uri", None)
        words = HOOKS[context.method].removeprefix("on_").replace("_", " ").capitalize()
        return words if what is None else f"{words} '{what}'"
