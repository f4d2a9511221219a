"""Parameters that are put in when a function is called: the context, and what `Depends` promises."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager as AbstractAsync
from contextlib import AbstractContextManager as AbstractSync
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from ..common.signatures import kinds_in, parameters_of

if TYPE_CHECKING:
    from .server.context import Context

current: ContextVar[Context | None] = ContextVar("dovetail_fastmcp_context", default=None)
"""The context of the request that is served here."""


class Dependency:
    """A default value that is made for each call, and left when the call is over."""

    async def __aenter__(self) -> Any:
        raise NotImplementedError

    async def __aexit__(self, *exc: object) -> None: ...


class Depends(Dependency):
    """What ``factory()`` returns, awaits or yields; asked for twice in one call, it is made once."""

    def __init__(self, factory: Callable[..., Any], **_: Any) -> None:
        self.factory = factory


class Injected:
    """What is put into one function."""

    __slots__ = ("contexts", "dependencies", "names")

    def __init__(self, contexts: tuple[str, ...], dependencies: dict[str, Dependency]) -> None:
        self.contexts = contexts
        self.dependencies = dependencies
        self.names = {*contexts, *dependencies}

    async def call(self, call: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``call(function, args, kwargs)``, with what is put in."""
        context = current.get()
        for name in self.contexts:
            kwargs[name] = context
        if not self.dependencies:
            return await call(function, args, kwargs)
        async with AsyncExitStack() as stack:
            kwargs |= await resolve(self.dependencies, stack, {})
            return await call(function, args, kwargs)


def injected_into(function: Any) -> Injected | None:
    """What has to be put into ``function``; None where nothing has."""
    from .server.context import Context

    contexts: list[str] = []
    dependencies: dict[str, Dependency] = {}
    for parameter in parameters_of(function):
        if isinstance(parameter.default, Dependency):
            dependencies[parameter.name] = parameter.default
        elif any(
            isinstance(kind, type) and issubclass(kind, Context) for kind in kinds_in(parameter.annotation)
        ):
            contexts.append(parameter.name)
    return Injected(tuple(contexts), dependencies) if contexts or dependencies else None


async def resolve(
    dependencies: dict[str, Dependency], stack: AsyncExitStack, made: dict[Any, Any]
) -> dict[str, Any]:
    """The values of ``dependencies``; what has to be left is left with ``stack``."""
    values: dict[str, Any] = {}
    for name, dependency in dependencies.items():
        if isinstance(dependency, Depends):
            values[name] = await _made(dependency.factory, stack, made)
        else:
            values[name] = await stack.enter_async_context(dependency)
    return values


async def _made(factory: Callable[..., Any], stack: AsyncExitStack, made: dict[Any, Any]) -> Any:
    if factory in made:
        return made[factory]
    wanted = injected_into(factory)
    arguments: dict[str, Any] = {}
    if wanted is not None:
        arguments = {name: current.get() for name in wanted.contexts}
        arguments |= await resolve(wanted.dependencies, stack, made)
    value: Any = factory(**arguments)
    if inspect.isawaitable(value):
        value = await value
    elif isinstance(value, AbstractAsync):
        value = await stack.enter_async_context(cast("AbstractAsync[Any]", value))
    elif isinstance(value, AbstractSync):
        value = stack.enter_context(cast("AbstractSync[Any]", value))
    made[factory] = value
    return value
