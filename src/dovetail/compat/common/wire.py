"""Between the pydantic models of others and our own structs: what handlers return, on its way out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET
from pydantic import BaseModel

from ... import model as m
from ..mcp import types as t

S = TypeVar("S")
P = TypeVar("P", bound=BaseModel)


def plain(model: BaseModel) -> dict[str, Any]:
    """A model as it goes over the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def struct(model: BaseModel, kind: type[S]) -> S:
    """A pydantic model as our struct ``kind``."""
    return msgspec.convert(plain(model), kind)


def model(value: Any, kind: type[P]) -> P:
    """One of our structs as the pydantic model ``kind``."""
    return kind.model_validate(msgspec.to_builtins(value))


def block(content: Any) -> Any:
    """A content block as ours."""
    return msgspec.convert(plain(content), m.ContentBlock)


def tool_result(
    content: Iterable[Any],
    structured: Any = None,
    *,
    is_error: bool = False,
    meta: dict[str, Any] | None = None,
) -> m.CallToolResult:
    """The result of a tool whose content blocks are pydantic models."""
    blocks: list[Any] = []
    for one in content:
        if type(one) is t.TextContent and one.meta is None and one.annotations is None:
            blocks.append(m.TextContent(one.text))  # what nearly every tool answers
        else:
            blocks.append(block(one))
    result = m.CallToolResult(
        blocks, structured_content=UNSET if structured is None else structured, is_error=is_error
    )
    if meta:
        result.meta = meta
    return result


def failed(text: str) -> m.CallToolResult:
    """The result of a tool that failed."""
    return m.CallToolResult([m.TextContent(text)], is_error=True)
