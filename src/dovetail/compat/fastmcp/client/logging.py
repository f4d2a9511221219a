"""What a client hears of a server's log."""

from collections.abc import Awaitable, Callable

from ...mcp.types import LoggingMessageNotificationParams as LogMessage

LogHandler = Callable[[LogMessage], Awaitable[None]]

__all__ = ["LogHandler", "LogMessage"]
