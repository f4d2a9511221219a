"""Prepared handlers of custom methods: they decode the params and encode the result.

The author's members are decoded apart from those of the protocol (``_meta`` and, on later rounds, ``inputResponses``
and ``requestState``), so a type that forbids unknown members works too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from ...errors import RegistrationError
from ...wire.methods import CustomParams
from .annotation_schemas import Schemas
from .outputs import output_of
from .parameters import read_signature
from .plain_types import encode
from .validation_errors import Problem, ReturnError

_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


class Given(CustomParams, kw_only=True):
    """The decoded params of a custom method."""

    value: Any = None
    """The author's members, decoded as the declared type."""


class MethodFunction:
    """A handler that takes ``params``, a context, both or nothing."""

    def __init__(self, name: str, handler: Any, params: Any = None, result: Any = None) -> None:
        signature = read_signature(handler, name=name)
        if len(signature.parameters) > 1:
            raise RegistrationError(f"the handler of {name!r} takes its params as one value, and a Context")
        parameter = next(iter(signature.parameters), None)
        if params is None:
            declared = Any if parameter is None else parameter.annotation
            params = dict[str, Any] if declared in (Any, dict) else declared
        self.name = name
        self.signature = signature
        self._parameter = None if parameter is None else parameter.name
        self._decode = Schemas(signature.locals).decoder(params)
        self._output = output_of(signature, result, None)

    def read(self, raw: bytes | Raw) -> Given:
        """Decode the params of a request. Raises the exceptions of msgspec, which name the member."""
        given = Given.split(raw)
        given.value = self._decode(given.arguments)
        return given

    def keywords(self, given: Given) -> Callable[[], dict[str, Any]]:
        """Return a function that creates the keywords for each run, because a handler may modify them."""
        name = self._parameter
        if name is None:
            return dict[str, Any]
        values = itertools.chain((given.value,), map(self._decode, itertools.repeat(given.arguments)))
        return lambda: {name: next(values)}

    def write(self, value: Any) -> dict[str, Raw]:
        """Encode the return value as the members of a result; None is an empty result."""
        if value is None:
            return {}
        written = encode(value) if self._output is None else self._output.write(value)
        try:
            return _decode_members(written)
        except msgspec.ValidationError:
            raise ReturnError(self.name, [Problem("", "a result must be an object")]) from None
