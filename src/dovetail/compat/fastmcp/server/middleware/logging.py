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


def _get_duration_ms(start_time: float, /) -> float:
    return round((time.perf_counter() - start_time) * 1000, 2)


class BaseLoggingMiddleware(Middleware):
    """What both kinds have in common; the names are those that subclasses of theirs know."""

    structured_logging: bool = False

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
        self.payload_serializer = payload_serializer

    def _serialize_payload(self, context: MiddlewareContext[Any]) -> str:
        if self.payload_serializer is None:
            return default_serializer(context.message)
        try:
            return self.payload_serializer(context.message)
        except Exception as error:  # noqa: BLE001  a log that cannot be written as wished is written all the same
            said = f"{context.type} {context.method} {context.source}"
            self.logger.warning("Failed to serialize payload due to %s: %s.", error, said)
            return default_serializer(context.message)

    def _create_before_message(self, context: MiddlewareContext[Any]) -> dict[str, Any]:
        said = _event(context, "start")
        if self.include_payloads or self.include_payload_length or self.estimate_payload_tokens:
            payload = self._serialize_payload(context)
            if self.estimate_payload_tokens:
                said["payload_tokens"] = len(payload) // 4
            if self.include_payload_length:
                said["payload_length"] = len(payload)
            if self.include_payloads:
                most = self.max_payload_length
                said["payload"] = payload if not most or len(payload) <= most else payload[:most] + "..."
                said["payload_type"] = type(context.message).__name__
        return said

    def _create_after_message(self, context: MiddlewareContext[Any], start_time: float) -> dict[str, Any]:
        return {**_event(context, "success"), "duration_ms": _get_duration_ms(start_time)}

    def _create_error_message(
        self, context: MiddlewareContext[Any], start_time: float, error: Exception
    ) -> dict[str, Any]:
        said = {**_event(context, "error"), "duration_ms": _get_duration_ms(start_time)}
        return {**said, "error": str(error)}

    def _format_message(self, message: dict[str, Any]) -> str:
        if self.structured_logging:
            return json.dumps(message)
        return " ".join(f"{name}={value}" for name, value in message.items())

    def _log_message(self, message: dict[str, Any], log_level: int | None = None) -> None:
        self.logger.log(log_level or self.log_level, self._format_message(message))

    async def on_message(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        if self.methods and context.method not in self.methods:
            return await call_next(context)
        self._log_message(self._create_before_message(context))
        began = time.perf_counter()
        try:
            result = await call_next(context)
        except Exception as error:
            self._log_message(self._create_error_message(context, began, error), logging.ERROR)
            raise
        self._log_message(self._create_after_message(context, began))
        return result


def _event(context: MiddlewareContext[Any], what: str) -> dict[str, Any]:
    method = context.method or "unknown"
    return {"event": f"{context.type}_{what}", "method": method, "source": context.source}


class LoggingMiddleware(BaseLoggingMiddleware):
    """Logs in words."""


class StructuredLoggingMiddleware(BaseLoggingMiddleware):
    """Logs JSON."""

    structured_logging = True

    def __init__(self, *, logger: logging.Logger | None = None, **options: Any) -> None:
        logger = logger or logging.getLogger("fastmcp.middleware.structured_logging")
        super().__init__(logger=logger, max_payload_length=None, **options)
