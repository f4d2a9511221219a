"""A schema, compiled once, and what is wrong with a value.

With the extra ``schema`` installed all of JSON Schema is checked, by jsonschema-rs; without it a small validator of our
own checks the usual keywords. Nothing is ever fetched: a schema that refers to something outside itself is refused.
"""

from __future__ import annotations

import importlib
import re
from itertools import islice
from typing import Any, Final

from ..settings import (
    MOST_PROBLEMS,
    REASON_LENGTH,
    SCHEMA_BACKTRACKS,
    SCHEMA_EXPLAINED,
    SCHEMA_STEPS,
    SMALL_SCHEMA_STEPS,
)
from .problem import Problem, SchemaError
from .small import KEYWORDS, SmallValidator
from .weight import Schema, Weight

_SILENT: Final = frozenset({
    "$schema", "$id", "$comment", "$anchor", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "x-mcp-header",
})  # fmt: skip
"""Keywords that assert nothing."""
_NEWEST: Final = "https://json-schema.org/draft/2020-12/schema"
_DIALECTS: Final = ("2020-12", "2019-09", "draft-07", "draft-06", "draft-04")


class Validator:
    """Checks values against ``schema``; ``trusted`` says that its patterns are our author's own.

    Raises:
        SchemaError: it cannot be used; the text says why.
    """

    def __init__(self, schema: Schema, *, trusted: bool) -> None:
        dialect: Any = schema.get("$schema", _NEWEST)
        if not isinstance(dialect, str) or not any(name in dialect for name in _DIALECTS):
            raise SchemaError("its $schema names an unknown dialect")
        self._weight = Weight(schema)
        self._small = SmallValidator(self._weight.document, patterns=trusted)
        library = _library()
        self._full: Any = None
        self._most = SMALL_SCHEMA_STEPS if library is None else SCHEMA_STEPS
        self.unchecked: list[str] = []
        """Keywords of the schema that are let pass, because the extra is not installed."""
        if library is not None:
            self._full = _compile(library, {"$schema": dialect, **schema})
        else:
            self.unchecked = sorted(self._weight.keywords - KEYWORDS - _SILENT)
            _check_patterns(self._weight.patterns)

    def problems(self, value: Any) -> list[Problem]:
        """What is wrong with ``value``, a few things at most and never the value itself; empty when it fits."""
        steps = self._weight.steps(value, self._most)
        if steps > self._most:
            return [Problem("", "is too much work to be checked")]
        if self._full is None:
            return self._small.problems(value)
        if self._full.is_valid(value):
            return []
        # Its own list of errors is made as a whole and holds every alternative: only for what is little work.
        found = self._small.problems(value) if steps <= SMALL_SCHEMA_STEPS else []
        if not found and steps <= SCHEMA_EXPLAINED:
            found = [_problem(error) for error in islice(self._full.iter_errors(value), MOST_PROBLEMS)]
        return found or [Problem("", "does not fit its schema")]


def _library() -> Any:
    try:
        return importlib.import_module("jsonschema_rs")
    except ImportError:
        return None


def _compile(library: Any, schema: Schema) -> Any:
    def refuse(uri: str) -> Any:
        raise ValueError("remote references are never fetched")

    patterns = library.FancyRegexOptions(backtrack_limit=SCHEMA_BACKTRACKS)
    try:
        return library.validator_for(schema, retriever=refuse, mask="the value", pattern_options=patterns)
    except Exception as error:
        raise SchemaError(str(error).partition("\n")[0][:REASON_LENGTH]) from error


def _problem(error: Any) -> Problem:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return Problem(path.lstrip("."), error.message.partition("\n")[0][:REASON_LENGTH])


def _check_patterns(patterns: list[str]) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise SchemaError(f"a pattern is wrong: {error}") from error
