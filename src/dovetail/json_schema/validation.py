"""Validation of JSON values by jsonschema-rs (extra ``schema``).

References to other documents are refused, never fetched. Patterns run in the regular-expression engine of
jsonschema-rs, which gives up after `_MAX_BACKTRACKS` steps.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, Final, cast

from .. import extras
from .problem import Problem, SchemaError
from .size import Schema, measure

REASON_LENGTH: Final = 1000
"""Characters of a reason why a value or a schema cannot be used."""

_MAX_BACKTRACKS: Final = 100_000
"""Backtracking steps of one pattern on one string."""
_MASK: Final = "the value"
"""Stands for the value in messages, which may be secret."""
_MAX_EXPLAINED: Final = 20_000
"""Comparisons up to which jsonschema-rs is asked what is wrong; it takes about 25 µs for each one that fails."""


class Validator:
    """Checks values against ``schema``, which is compiled once.

    Raises:
        SchemaError: the schema cannot be used; the text says why.
        DovetailError: jsonschema-rs is not installed (kind ``missing_extra``).
    """

    def __init__(self, schema: Schema) -> None:
        library = _library()
        self._size = measure(schema)
        patterns = library.FancyRegexOptions(backtrack_limit=_MAX_BACKTRACKS)
        try:
            self._compiled: Any = library.validator_for(
                schema, retriever=_refuse, mask=_MASK, pattern_options=patterns
            )
        except library.ValidationError as error:
            raise SchemaError(str(_problem(error))) from error
        except Exception as error:  # the library raises ValueError and its own errors of references
            raise SchemaError(_first_line(error)) from error
        self._error: type[Exception] = library.ValidationError

    def problem(self, value: Any) -> Problem | None:
        """The first thing that is wrong with ``value``, without the value itself; None when it fits."""
        if self._compiled.is_valid(value):
            return None
        if self._explaining(value) <= _MAX_EXPLAINED:
            try:
                self._compiled.validate(value)
            except self._error as error:
                return _problem(error)
        return Problem("", "does not fit its schema")

    def _explaining(self, value: Any) -> int:
        """At most how many comparisons an explanation takes. It follows all alternatives, so they multiply."""
        count, depth = 0, 0
        level = [value]
        while level and count <= _MAX_EXPLAINED:
            count, depth = count + len(level), depth + 1
            level = [inside for item in level for inside in _inside(item)]
        limit = _MAX_EXPLAINED + 1
        levels = min(depth, limit.bit_length()) if self._size.is_recursive else 1
        return min(count * self._size.comparisons**levels, limit)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _library() -> Any:
    try:
        return importlib.import_module("jsonschema_rs")
    except ImportError:
        raise extras.missing("jsonschema_rs", "checking values against a JSON Schema") from None


def _refuse(uri: str) -> Any:
    raise ValueError("references to other documents are not followed")


def _problem(error: Any) -> Problem:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return Problem(path.lstrip("."), _first_line(error.message))


def _first_line(error: object) -> str:
    return str(error).partition("\n")[0][:REASON_LENGTH]
