"""Loggers."""

from __future__ import annotations

import logging
from typing import Literal


def get_logger(name: str) -> logging.Logger:
    """A logger called ``name``."""
    return logging.getLogger(name)


def configure_logging(level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO") -> None:
    """Write what is logged to stderr."""
    logging.basicConfig(level=level, format="%(message)s", handlers=[logging.StreamHandler()])
