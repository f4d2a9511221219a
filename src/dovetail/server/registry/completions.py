"""Completion of arguments of prompts, resource templates and tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from msgspec import UNSET, Struct

from ...errors import RegistrationError
from ...model import Completion
from ..signatures.parameters import read_signature

COMPLETIONS: Final = 100
"""The specification's maximum of values in one response to ``completion/complete``."""


class Completer(Struct, frozen=True, eq=False):
    """A completer function, and its parameters by role."""

    function: Callable[..., Any]
    value: str
    arguments: str | None
    context: str | None

    def keywords(self, value: str, given: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """The keyword arguments for the function."""
        keywords: dict[str, Any] = {self.value: value}
        if self.arguments is not None:
            keywords[self.arguments] = dict(given)
        if self.context is not None:
            keywords[self.context] = context
        return keywords


def completer_of(function: Callable[..., Any]) -> Completer:
    """Map the parameters of a completer. Raises RegistrationError if the function has no parameter for the value."""
    signature = read_signature(function)
    names = [parameter.name for parameter in signature.parameters]
    if not names or len(names) > 2:
        raise RegistrationError(
            f"the completion {signature.name!r} must take the value typed so far"
            " and, optionally, the arguments already given"
        )
    arguments = names[1] if len(names) > 1 else None
    return Completer(signature.call, names[0], arguments, signature.context_parameter)


def completion_of(value: Any) -> Completion:
    """Convert the result of a completer: a `Completion`, or a sequence of values or of (value, label)."""
    if isinstance(value, Completion):
        if value.labels is not UNSET and len(value.labels) != len(value.values):
            raise ValueError(f"{len(value.values)} values have {len(value.labels)} labels: give one for each")
        return value
    if value is None:
        return Completion([])
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"a completion returns a list of strings, not {type(value).__name__}")
    found = list(cast("Iterable[Any]", value))
    pairs = bool(found) and all(isinstance(item, tuple) and len(cast("Any", item)) == 2 for item in found)
    values = [str(item[0] if pairs else item) for item in found]
    more = len(values) > COMPLETIONS
    return Completion(
        values[:COMPLETIONS],
        total=len(values),
        has_more=more if more else UNSET,
        labels=[str(item[1]) for item in found[:COMPLETIONS]] if pairs else UNSET,
    )
