"""Loggers of FastMCP."""

from __future__ import annotations

import logging
from typing import Any


def get_logger(name: str) -> logging.Logger:
    """A logger below ``fastmcp``."""
    return logging.getLogger(name if name.startswith("fastmcp") else f"fastmcp.{name}")


def configure_logging(
    level: Any = "INFO",
    logger: logging.Logger | None = None,
    enable_rich_tracebacks: bool | None = None,
    **_: Any,
) -> None:
    """Write what is logged below ``fastmcp`` to stderr."""
    target = logger or logging.getLogger("fastmcp")
    target.setLevel(level)
    if not target.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        target.addHandler(handler)
    target.propagate = False
