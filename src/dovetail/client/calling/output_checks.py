"""Validation of structured tool results against the declared output schema.

"strict" raises, "warn" logs once per tool, "off" skips the check. A schema with remote references is rejected
as a whole: they are never fetched, and must not count as valid. Without jsonschema-rs, "warn" checks nothing
and "strict" raises an error with the install command.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Literal, cast

from ... import extras
from ...errors import RemoteProtocolError
from ...json_schema.problem import SchemaError
from ...json_schema.validation import Validator

CHECKED_AT_ONCE: Final = 1000
"""Structured results with more values are validated in a thread."""

Checking = Literal["strict", "warn", "off"]

log = logging.getLogger("dovetail.client")


class OutputChecks:
    """The validators of one client by tool; a changed schema gets a new one."""

    def __init__(self, checking: Checking) -> None:
        if checking not in ("strict", "warn", "off"):
            raise ValueError(f'validate must be "strict", "warn" or "off", not {checking!r}')
        self._strict = checking == "strict"
        self.enabled = self._strict or (checking == "warn" and extras.installed("jsonschema_rs"))
        if checking == "warn" and not self.enabled:
            log.debug("results are not checked against output schemas: %s", extras.install("jsonschema_rs"))
        self._validators: dict[str, tuple[Any, Validator | str]] = {}
        """By tool: its schema, and its validator or the reason why it has none."""
        self._warned: set[str] = set()

    def forget(self) -> None:
        self._validators.clear()
        self._warned.clear()

    async def check(self, tool: str, schema: Any, value: Any, *, present: bool) -> None:
        """Validate a result of ``tool``. ``present``: it has structured content.

        Large values and new schemas are processed in a thread.

        Raises:
            RemoteProtocolError: strict, and the result does not match its schema (kind ``validation_failed``).
        """
        known = self._validators.get(tool)
        if not present:
            problem = "the result has no structuredContent"
        elif known is None or known[0] is not schema or _is_large(value):
            problem = await asyncio.to_thread(self._problem, tool, schema, value)
        else:
            problem = self._problem(tool, schema, value)
        if problem is None:
            return
        message = f"the result of tool {tool!r} breaks its output schema: {problem}"
        if self._strict:
            raise RemoteProtocolError("validation_failed", message)
        if tool not in self._warned:
            self._warned.add(tool)
            log.warning("%s", message)

    def _problem(self, tool: str, schema: Any, value: Any) -> str | None:
        known = self._validators.get(tool)
        if known is None or known[0] is not schema:
            known = self._validators[tool] = (schema, self._validator(schema))
        validator = known[1]
        if isinstance(validator, str):
            return validator
        problem = validator.problem(value)
        return None if problem is None else str(problem)

    def _validator(self, schema: Any) -> Validator | str:
        try:
            return Validator(schema)
        except SchemaError as error:
            return f"the output schema cannot be used: {error}"


def _is_large(value: Any) -> bool:
    """Return whether ``value`` has too many values to validate on the event loop."""
    waiting, seen = [value], 0
    while waiting and seen <= CHECKED_AT_ONCE:
        item = waiting.pop()
        if isinstance(item, dict | list):
            inside = cast("dict[str, Any] | list[Any]", item)
            seen += len(inside)
            waiting += inside.values() if isinstance(inside, dict) else inside
    return seen > CHECKED_AT_ONCE
