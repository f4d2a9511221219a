"""Checking a tool's structured result against the output schema it declared.

Three settings: "strict" raises, "warn" logs once per tool, "off" looks at nothing. A schema that refers to another
document is refused as a whole: remote references are never fetched, and a reference that cannot be followed must not
turn into "everything is fine". Needs jsonschema-rs; without it "warn" does nothing and "strict" says what to install.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, cast

from ..errors import DovetailError, RemoteProtocolError

Checking = Literal["strict", "warn", "off"]

log = logging.getLogger("dovetail.client")

LARGEST_SCHEMA = 10_000
"""Nodes of a schema that is compiled at all; validators of a hostile size are not built."""


class Validator:
    """Checks results of one tool. ``problem`` says why its schema cannot be used."""

    def __init__(self, schema: Any) -> None:
        self.problem: str | None = None
        self._check: Callable[[Any], str | None] = _accept
        if count_nodes(schema, LARGEST_SCHEMA) >= LARGEST_SCHEMA:
            self.problem = "the output schema is too large"
            return
        remote = remote_reference(schema)
        if remote is not None:
            self.problem = f"the output schema refers to {remote!r}, and remote references are never fetched"
            return
        self._check, self.problem = _compile(schema)

    def check(self, value: Any) -> str | None:
        """What is wrong with ``value``, or None."""
        return self.problem or self._check(value)


class OutputChecks:
    """The validators of one client, by tool; a changed schema gets a new one."""

    def __init__(self, checking: Checking) -> None:
        if checking not in ("strict", "warn", "off"):
            raise ValueError(f'validate must be "strict", "warn" or "off", not {checking!r}')
        self._strict = checking == "strict"
        self.enabled = checking != "off" and (self._strict or _installed())
        self._validators: dict[str, tuple[Any, Validator]] = {}
        self._warned: set[str] = set()

    def forget(self) -> None:
        self._validators.clear()
        self._warned.clear()

    def check(self, tool: str, schema: Any, value: Any, *, present: bool) -> None:
        """Check a result of ``tool``; ``present``: it had structured content at all.

        Raises:
            RemoteProtocolError: strict, and the result breaks its schema (kind ``validation_failed``).
        """
        known = self._validators.get(tool)
        if known is None or known[0] is not schema:
            known = (schema, Validator(schema))
            self._validators[tool] = known
        problem = known[1].check(value) if present else "the result has no structuredContent"
        if problem is None:
            return
        message = f"the result of tool {tool!r} breaks its output schema: {problem}"
        if self._strict:
            raise RemoteProtocolError("validation_failed", message)
        if tool not in self._warned:
            self._warned.add(tool)
            log.warning("%s", message)


def remote_reference(schema: Any) -> str | None:
    """The first reference that leaves the document, or None."""
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            for name, value in cast("dict[str, Any]", node).items():
                if name in ("$ref", "$dynamicRef") and isinstance(value, str) and not value.startswith("#"):
                    if not _has_id(schema, value):
                        return value
                elif isinstance(value, dict | list):
                    stack.append(value)
        elif isinstance(node, list):
            stack.extend(cast("list[Any]", node))
    return None


def count_nodes(schema: Any, most: int) -> int:
    """Objects and arrays in ``schema``, counted up to ``most``."""
    stack, count = [schema], 0
    while stack and count < most:
        node = stack.pop()
        count += 1
        children = (
            cast("dict[str, Any]", node).values() if isinstance(node, dict) else cast("list[Any]", node)
        )
        stack.extend(cast("Any", child) for child in children if isinstance(child, dict | list))
    return count


def _has_id(schema: Any, reference: str) -> bool:
    """Whether a subschema calls itself by this name, so that the reference stays inside."""
    name = reference.partition("#")[0]
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            table = cast("dict[str, Any]", node)
            if table.get("$id") == name:
                return True
            stack.extend(table.values())
        elif isinstance(node, list):
            stack.extend(cast("list[Any]", node))
    return False


def _accept(value: Any) -> str | None:
    return None


def _installed() -> bool:
    from importlib.util import find_spec

    return find_spec("jsonschema_rs") is not None


def _compile(schema: Any) -> tuple[Callable[[Any], str | None], str | None]:
    try:
        import jsonschema_rs as engine
    except ImportError:
        raise DovetailError(
            "validating results needs jsonschema-rs: pip install 'dovetail[schema]'", kind="missing_extra"
        ) from None

    def refuse(uri: str) -> Any:
        raise ValueError(f"remote reference {uri}")

    try:
        made: Any = cast("Any", engine).Draft202012Validator
        if isinstance(schema, dict) and "$schema" in schema:
            made = cast("Any", engine).validator_cls_for(schema)
        validator = made(schema, retriever=refuse)
    except (ValueError, TypeError, RecursionError) as error:
        return _accept, f"the output schema cannot be used: {_first_line(error)}"

    def check(value: Any) -> str | None:
        try:
            validator.validate(value)
        except cast("Any", engine).ValidationError as error:
            return _first_line(error)
        return None

    return check, None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
