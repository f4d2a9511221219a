"""The decorator that marks a function as a prompt, for a server it is added to later."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from ..decorators import attach


@dataclass(frozen=True, kw_only=True)
class PromptMeta:
    """What `prompt` notes at a function."""

    type: str = "prompt"
    name: str | None = None
    options: dict[str, Any]


def prompt(name_or_fn: Any = None, *, name: str | None = None, **options: Any) -> Any:
    """Mark a function as a prompt."""
    if isinstance(name_or_fn, str):
        name = name_or_fn
    elif name_or_fn is not None:
        return attach(name_or_fn, PromptMeta(name=name, options=options))
    return partial(attach, note=PromptMeta(name=name, options=options))
