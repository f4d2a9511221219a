"""`Handlers`: who answers which request, by the request's type.

The types of the protocol are kept by name and made when somebody looks: a server registers a dozen, and is asked
for a few of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, Final, Self

from ... import types

Handler = Callable[[Any], Awaitable[Any]]
_PROTOCOL: Final = types.__name__ + "."


class Handlers(MutableMapping[type, Handler]):
    """To programs a dict of types and handlers."""

    def __init__(self, given: Mapping[type, Handler] = MappingProxyType({})) -> None:
        self.by_name: dict[str | type, Handler] = {}
        """A type that the program has made itself stands here as it is."""
        self.update(given)

    def __getitem__(self, kind: type) -> Handler:
        try:
            return self.by_name[_key(kind)]
        except KeyError:
            raise KeyError(kind) from None

    def __setitem__(self, kind: type, handler: Handler) -> None:
        self.by_name[_key(kind)] = handler

    def __delitem__(self, kind: type) -> None:
        del self.by_name[_key(kind)]

    def __iter__(self) -> Iterator[type]:
        return iter([getattr(types, key) if isinstance(key, str) else key for key in self.by_name])

    def __len__(self) -> int:
        return len(self.by_name)

    def __ior__(self, more: Mapping[type, Handler]) -> Self:
        self.update(more)
        return self

    def __or__(self, more: Mapping[type, Handler]) -> dict[type, Handler]:
        return {**self, **more}

    def __repr__(self) -> str:
        return repr(dict(self))

    def copy(self) -> dict[type, Handler]:
        return dict(self)

    @property
    def names(self) -> set[str]:
        """The names of the types: none of them has to be made to know these."""
        return {key if isinstance(key, str) else key.__name__ for key in self.by_name}


def _key(kind: type) -> str | type:
    return kind.__name__ if kind.__module__.startswith(_PROTOCOL) else kind
