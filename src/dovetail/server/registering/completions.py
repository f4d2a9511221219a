"""Completion of arguments: who completes which argument of which prompt, template or tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from msgspec import UNSET, Struct

from ...errors import RegistrationError
from ...model import Completion
from ..signatures.parameters import read_signature

MOST: Final = 100
"""Values in one answer, by the specification."""


class Completer(Struct, frozen=True, eq=False):
    """One function, and which of its parameters gets what."""

    function: Callable[..., Any]
    value: str
    arguments: str | None
    context: str | None

    def keywords(self, value: str, given: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """What to call the function with."""
        keywords: dict[str, Any] = {self.value: value}
        if self.arguments is not None:
            keywords[self.arguments] = dict(given)
        if self.context is not None:
            keywords[self.context] = context
        return keywords


class Completions:
    """Completers by reference and argument."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._completers: dict[tuple[str, str], Completer] = {}
        self._changed = changed

    def __len__(self) -> int:
        return len(self._completers)

    def add(self, ref: str, argument: str, function: Callable[..., Any]) -> None:
        """Let ``function`` complete ``argument`` of ``ref``.

        Raises:
            RegistrationError: there is one already, or the function takes no value.
        """
        if (ref, argument) in self._completers:
            raise RegistrationError(f"the argument {argument!r} of {ref!r} has a completion already")
        self._completers[ref, argument] = _read(function)
        self._changed()

    def find(self, ref: str, argument: str) -> Completer | None:
        return self._completers.get((ref, argument))


def _read(function: Callable[..., Any]) -> Completer:
    signature = read_signature(function)
    names = [parameter.name for parameter in signature.parameters]
    if not names or len(names) > 2:
        raise RegistrationError(
            f"the completion {signature.name!r} takes the value typed so far"
            " and, if it likes, the arguments already given"
        )
    arguments = names[1] if len(names) > 1 else None
    return Completer(signature.call, names[0], arguments, signature.context_parameter)


def completion_of(value: Any) -> Completion:
    """The answer for what a completer returned: a `Completion`, or any sequence of strings.

    Raises:
        TypeError: it returned something else.
    """
    if isinstance(value, Completion):
        return value
    if value is None:
        return Completion([])
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"a completion returns a list of strings, not {type(value).__name__}")
    values = [str(item) for item in cast("Iterable[Any]", value)]
    more = len(values) > MOST
    return Completion(values[:MOST], total=len(values), has_more=more if more else UNSET)
