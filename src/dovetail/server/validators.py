"""Validation against a JSON Schema that an author wrote by hand.

With the extra ``schema`` installed (``pip install 'dovetail[schema]'``) all of JSON Schema is checked, by
jsonschema-rs. Without it a small validator of our own checks the keywords in `smallschema.KEYWORDS`; others
are let pass, and a warning at registration names them. Nothing is ever fetched: a schema that refers to
something outside itself is refused when it is registered.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from ..errors import RegistrationError
from .signatures.problems import MOST, Problem
from .smallschema import KEYWORDS, Validator, keywords_of

Validate = Callable[[Any], list[Problem]]
_log = logging.getLogger("dovetail.server")

_SILENT: Final = frozenset({
    "$schema", "$id", "$comment", "$anchor", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "x-mcp-header",
})  # fmt: skip
"""Keywords that assert nothing."""
_DEEPEST: Final = 64
_DIALECTS: Final = ("2020-12", "2019-09", "draft-07", "draft-06", "draft-04")


def compile_schema(schema: dict[str, Any], what: str, *, object_root: bool = True) -> Validate:
    """A function that lists what is wrong with a value.

    Raises:
        RegistrationError: ``schema`` is not a schema, or reaches outside itself.
    """
    if object_root and schema.get("type") != "object":
        raise _refused(what, 'its root must say "type": "object"')
    dialect: Any = schema.get("$schema", "2020-12")
    if not isinstance(dialect, str) or not any(name in dialect for name in _DIALECTS):
        raise _refused(what, "its $schema names an unknown dialect")
    _check_depth(schema, what)
    library = _library()
    return _builtin(schema, what) if library is None else _full(schema, what, library)


def _library() -> Any:
    try:
        return importlib.import_module("jsonschema_rs")
    except ImportError:
        return None


def _full(schema: dict[str, Any], what: str, library: Any) -> Validate:
    def refuse(uri: str) -> Any:
        raise ValueError("nothing outside the schema is fetched")

    default = {} if "$schema" in schema else {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    try:
        validator = library.validator_for({**default, **schema}, retriever=refuse, mask="the value")
    except Exception as error:
        raise _refused(what, str(error).partition("\n")[0]) from error

    def validate(value: Any) -> list[Problem]:
        found: list[Problem] = []
        for error in validator.iter_errors(value):
            found.append(Problem(_dotted(error.instance_path), _masked(error)))
            if len(found) == MOST:
                break
        return found

    return validate


def _masked(error: Any) -> str:
    """The reason; property names and values of the caller's are left out where the text would show them."""
    text: str = error.message
    return text.partition("\n")[0][:200]


def _dotted(path: list[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _refused(what: str, why: str) -> RegistrationError:
    return RegistrationError(f"{what} cannot be used: {why}", kind="tool_schema_invalid")


def _subschemas(schema: Any) -> Iterator[tuple[str, Any, int]]:
    """Every keyword of a schema with its value and depth."""
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, dict):
            for keyword, value in cast("dict[str, Any]", item).items():
                yield keyword, value, depth
                waiting.append((value, depth + 1))
        elif isinstance(item, list):
            waiting.extend((part, depth + 1) for part in cast("list[Any]", item))


def _check_depth(schema: dict[str, Any], what: str) -> None:
    if any(depth > _DEEPEST for _, _, depth in _subschemas(schema)):
        raise _refused(what, f"it nests deeper than {_DEEPEST} levels")


def _builtin(schema: dict[str, Any], what: str) -> Validate:
    for keyword, value, _ in _subschemas(schema):
        if keyword == "$ref" and isinstance(value, str) and not value.startswith("#"):
            raise _refused(what, "it refers to something outside itself")
        if keyword == "pattern" and isinstance(value, str):
            try:
                re.compile(value)
            except re.error as error:
                raise _refused(what, f"a pattern is wrong: {error}") from error
    if beyond := sorted(keywords_of(schema) - KEYWORDS - _SILENT):
        _log.warning(
            "%s uses %s, which is not checked without the schema extra: pip install 'dovetail[schema]'",
            what,
            ", ".join(beyond),
        )
    return Validator(schema).validate
