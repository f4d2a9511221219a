"""Returned values as JSON: everything msgspec writes, and a little more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from .scalars import TEXTUAL

UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""What msgspec raises for values that have no JSON: foreign objects, lone surrogates, endless nesting."""


def _hook(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="json", by_alias=True)
    if isinstance(value, TEXTUAL):
        return str(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, Iterable):
        return list(cast("Iterable[Any]", value))
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


_encoder = msgspec.json.Encoder(enc_hook=_hook)
encode = _encoder.encode
"""A value as JSON bytes. Raises TypeError naming the class that has no JSON form."""


def pretty(value: Any) -> str:
    """A value as JSON text to be read by people."""
    return msgspec.json.format(encode(value), indent=2).decode()


def readable(text: str) -> str:
    """``text`` with a question mark for every lone surrogate, as file names may have them: JSON cannot say those."""
    return text if text.isascii() else text.encode(errors="replace").decode()
