"""Kinds of parameters for `check_kinds`: the accepted types, and how an error message names them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

Kind = tuple[Any, str]


class _NotText(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Iterable) and not isinstance(instance, str | bytes)


class Several(metaclass=_NotText):
    """Any iterable but a string: iterating over a string would give single letters."""


def or_none(kind: Kind) -> Kind:
    """The kind, or None."""
    return kind[0] | None, f"{kind[1]}, or None"


TEXT: Final[Kind] = (str, "a string")
FLAG: Final[Kind] = (bool, "True or False")
WHOLE: Final[Kind] = (int, "a whole number")
NUMBER: Final[Kind] = (int | float, "a number")
SECONDS: Final[Kind] = (int | float, "a number of seconds")
NAMES: Final[Kind] = (Several, "a list of strings")
SCOPES: Final[Kind] = (str | Several, "a string of scopes, or a list of them")
MAPPING: Final[Kind] = (Mapping, "a mapping")
PATH: Final[Kind] = (str | cast("type", os.PathLike), "the path of a file or folder")
FUNCTION: Final[Kind] = (Callable, "a function")
CLOCK: Final[Kind] = (Callable, "a function that returns the time")
