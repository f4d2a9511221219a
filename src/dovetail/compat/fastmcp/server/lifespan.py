"""Lifespans that can be put together: ``lifespan`` makes one of a generator, ``|`` joins two."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

Enter = Callable[[Any], AbstractAsyncContextManager[Any]]


class Lifespan:
    """Something around the life of a server."""

    def __init__(self, enter: Enter) -> None:
        self._enter = enter

    @classmethod
    def of(cls, given: Any) -> Enter:
        """What a server was given: a lifespan, a function that makes a context manager, or nothing."""
        return _nothing if given is None else given

    def __call__(self, server: Any) -> AbstractAsyncContextManager[Any]:
        return self._enter(server)

    def __or__(self, other: Any) -> Lifespan:
        """Both, one inside of the other; what they yield is put together."""

        @asynccontextmanager
        async def both(server: Any) -> AsyncGenerator[Any, None]:
            async with self(server) as first, other(server) as second:
                yield {**cast("dict[str, Any]", first or {}), **cast("dict[str, Any]", second or {})}

        return Lifespan(both)


@asynccontextmanager
async def _nothing(_: Any) -> AsyncGenerator[dict[str, Any], None]:
    yield {}


def lifespan(fn: Callable[[Any], Any]) -> Lifespan:
    """A lifespan made of an async generator function."""
    return Lifespan(asynccontextmanager(fn))
