"""Functions that can be made tools of later: those in whose signatures nothing can be wrong.

To build the models of a function's arguments takes longer than all else about it, and nobody needs them before the
tools are listed or called. An author's mistake has to be said where the tool is registered, though: so whatever
pydantic might refuse is read at once, and this says what it cannot refuse.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, Union

from pydantic.fields import FieldInfo

from .....common.signatures import EMPTY, hints_of, parameters_of

_KINDS: Final = (str, int, float, bool, None, type(None), Any, dict, list, EMPTY)
_HOLDERS: Final = (list, dict, Union, types.UnionType)
_VALUES: Final = (str, int, float, bool, type(None))
_UNSET: Final = FieldInfo().default


def can_wait(fn: Callable[..., Any], context: str | None, options: Mapping[str, Any]) -> bool:
    """Whether a tool of ``fn`` can be made later; ``context`` is the parameter that gets the context."""
    if not inspect.isroutine(fn) or fn.__name__ == "<lambda>" or not _are_plain(options):
        return False
    wanted = [one for one in parameters_of(fn) if one.name != context]
    return all(
        not one.name.startswith("_") and _is_plain(one.annotation) and _is_value(one.default)
        for one in wanted
    ) and _is_plain(hints_of(fn).get("return", EMPTY))


def _are_plain(options: Mapping[str, Any]) -> bool:
    """Texts, and no wish that a signature may not fulfil."""
    texts = {"name", "title", "description"}
    return all(
        value is None or (name in texts and type(value) is str) or (name == "structured_output" and not value)
        for name, value in options.items()
    )


def _is_plain(annotation: Any) -> bool:
    """A type that pydantic knows, whatever stands around it."""
    if any(annotation is one for one in _KINDS):
        return True
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _is_plain(parts[0]) and all(isinstance(one, str) or _only_tells(one) for one in parts[1:])
    if origin is Literal:
        return all(type(one) in _VALUES for one in parts)
    return any(origin is one for one in _HOLDERS) and all(_is_plain(one) for one in parts)


def _is_value(default: Any) -> bool:
    return default is EMPTY or type(default) in _VALUES or _only_tells(default)


def _only_tells(said: Any) -> bool:
    """A `Field` with nothing but words and a plain default: a bound may not fit the type."""
    return (
        type(said) is FieldInfo
        and not said.metadata
        and said.alias is said.validation_alias is said.discriminator is said.json_schema_extra is None
        and said.default_factory is None
        and (said.default is ... or said.default is _UNSET or type(said.default) in _VALUES)
    )
