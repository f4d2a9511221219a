"""Middleware that logs every request and notification."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

from pydantic_core import to_json

from .middleware import Middleware, MiddlewareContext


def default_serializer(data: Any) -> str:
    return to_json(data, fallback=str).decode()


class BaseLoggingMiddleware(Middleware):
    """What both kinds have in common."""

    def __init__(
        self, *, logger: logging.Logger | None = None, log_level: int = logging.INFO,
        include_payloads: bool = False, include_payload_length: bool = False,
        estimate_payload_tokens: bool = False, max_payload_length: int | None = 1000,
        methods: list[str] | None = None, payload_serializer: Callable[[Any], str] | None = None,
    ) -> None:  # fmt: skip
        self.logger = logger or logging.getLogger("fastmcp.middleware.logging")
        self.log_level = log_level
        self.include_payloads = include_payloads
        self.include_payload_length = include_payload_length
        self.estimate_payload_tokens = estimate_payload_tokens
        self.max_payload_length = max_payload_length
        self.methods = methods
        self.payload_serializer = payload_serializer or default_serializer

    def _before(self, context: MiddlewareContext[Any]) -> dict[str, Any]:
        said: dict[str, Any] = {
            "event": f"{context.type}_start", "source": context.source, "method": context.method or "unknown",
        }  # fmt: skip
        if self.include_payloads or self.include_payload_length or self.estimate_payload_tokens:
            payload = self.payload_serializer(context.message)
            if self.include_payload_length:
                said["payload_length"] = len(payload)
            if self.estimate_payload_tokens:
                said["payload_tokens"] = len(payload) // 4
            if self.include_payloads:
                most = self.max_payload_length
                said["payload"] = payload if most is None or len(payload) <= most else payload[:most] + "..."
                said["payload_type"] = type(context.message).__name__
        return said

    def _write(self, level: int, said: dict[str, Any]) -> None:
        self.logger.log(level, "%s", " ".join(f"{name}={value}" for name, value in said.items()))

    async def on_message(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        if self.methods and context.method not in self.methods:
            return await call_next(context)
        self._write(self.log_level, self._before(context))
        began = time.perf_counter()
        said: dict[str, Any] = {"method": context.method or "unknown", "source": context.source}
        try:
            result = await call_next(context)
        except Exception as error:
            taken = round((time.perf_counter() - began) * 1000, 2)
            self._write(
                logging.ERROR,
                {"event": f"{context.type}_error", **said, "duration_ms": taken, "error": str(error)},
            )
            raise
        taken = round((time.perf_counter() - began) * 1000, 2)
        self._write(self.log_level, {"event": f"{context.type}_success", **said, "duration_ms": taken})
        return result


class LoggingMiddleware(BaseLoggingMiddleware):
    """Logs in words."""


class StructuredLoggingMiddleware(BaseLoggingMiddleware):
    """Logs JSON."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_payload_length=None, **options)

    def _write(self, level: int, said: dict[str, Any]) -> None:
        self.logger.log(level, "%s", json.dumps(said))
