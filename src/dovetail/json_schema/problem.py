"""What can be wrong: with a value, and with a schema."""

from __future__ import annotations

from msgspec import Struct


class Problem(Struct, frozen=True):
    """One thing that is wrong."""

    path: str
    """Like ``filter.dates[0]``; empty for the whole."""
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class SchemaError(ValueError):
    """The schema is malformed, has a reference to another document, or is too large; the text says which."""
