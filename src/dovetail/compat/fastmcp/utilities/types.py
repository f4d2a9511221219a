"""Media that tools return, and small questions about signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from ...common.media import Audio, File, Image
from ...common.signatures import find_parameter, name_of

__all__ = [
    "Audio", "FastMCPBaseModel", "File", "Image", "NotSet", "NotSetT", "find_kwarg_by_type", "get_cached_typeadapter",
    "get_fn_name",
]  # fmt: skip

NotSetT = type(Ellipsis)
NotSet = ...


class FastMCPBaseModel(BaseModel):
    """What the models of FastMCP inherit."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


def get_fn_name(fn: Callable[..., Any]) -> str:
    """What a component made of ``fn`` is called."""
    return name_of(fn)


def find_kwarg_by_type(fn: Callable[..., Any], kwarg_type: type[Any]) -> str | None:
    """The parameter annotated with ``kwarg_type``; None without."""
    return find_parameter(fn, kwarg_type)


def get_cached_typeadapter(cls: Any) -> TypeAdapter[Any]:
    """A ``TypeAdapter`` of ``cls``."""
    return TypeAdapter(cls)
