"""What a handler of SDK 1.x knows about the request it serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic

from typing_extensions import TypeVar

SessionT = TypeVar("SessionT", default=Any)
LifespanContextT = TypeVar("LifespanContextT", default=Any)
RequestT = TypeVar("RequestT", default=Any)


def _none() -> None:
    return None


@dataclass
class RequestContext(Generic[SessionT, LifespanContextT, RequestT]):
    """One request, seen from its handler."""

    request_id: str | int
    meta: Any
    """A `RequestParams.Meta`, or None: not named, since to name it is to make all types of requests."""
    session: SessionT
    lifespan_context: LifespanContextT
    # Made by a factory, so that the class has no attributes of these names: see `LazyRequestContext`.
    experimental: Any = field(default_factory=_none)
    request: RequestT | None = field(default_factory=_none)
    close_sse_stream: Callable[[], Awaitable[None]] | None = field(default_factory=_none)
    close_standalone_sse_stream: Callable[[], Awaitable[None]] | None = field(default_factory=_none)
