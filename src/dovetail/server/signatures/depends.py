"""`Depends`: parameters whose values come from functions of the author; clients do not see them.

```python
async def database():
    async with connect() as connection:
        yield connection          # the rest runs after the call, also after an error

@server.tool
async def orders(user: str, db: Database = Depends(database)) -> list[Order]: ...
```

A dependency is a function, a coroutine function, a generator of one value, or a function that returns a context
manager. It may take the `Context` and further dependencies. It runs once per call, for all parameters that use it. A
call that runs again after an input request gets new values.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ContextDecorator,
    asynccontextmanager,
    contextmanager,
)
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ...errors import RegistrationError

if TYPE_CHECKING:
    from ..context import Context
    from .objects import Field
    from .parameters import Signature

CONTEXT = "dovetail_context"
"""The keyword for the context of a function that does not take one, but whose dependencies do."""


class Provider:
    """The source of a parameter's value."""

    __slots__ = ("cache", "function")

    def __init__(self, function: Callable[..., Any], *, cache: bool) -> None:
        self.function = function
        self.cache = cache


def Depends(function: Callable[..., Any], *, cache: bool = True) -> Any:  # noqa: N802  FastAPI's name
    """The default of a parameter that ``function`` provides; with ``cache=False`` each parameter gets its own value."""
    if not callable(function):
        raise RegistrationError(f"Depends takes a function, not {type(function).__name__}")
    return Provider(function, cache=cache)


class _Source(Struct, frozen=True, eq=False):
    """A parsed dependency."""

    function: Callable[..., Any]
    cache: bool
    call: Callable[..., Any]
    is_async: bool
    context_parameter: str | None
    wants: dict[str, _Source]


Read = Callable[..., "Signature"]


def with_dependencies(signature: Signature, read: Read) -> Signature:
    """Return ``signature``, or, if it has parameters with `Depends`, a wrapper that provides them first."""
    wants = {p.name: provider for p in signature.parameters if (provider := _provider(p)) is not None}
    if not wants:
        return signature
    sources = {name: _source(provider, read, ()) for name, provider in wants.items()}
    own, function, is_async = signature.context_parameter, signature.call, signature.is_async

    async def call(**arguments: Any) -> Any:
        context: Context = arguments[own or CONTEXT]
        if own is None:
            del arguments[CONTEXT]
        async with AsyncExitStack() as stack:
            run = _Run(context, stack)
            for name, source in sources.items():
                arguments[name] = await run.value(source)
            runner = context.server.lifecycle.runner
            return await (function(**arguments) if is_async else runner.call(function, **arguments))

    return replace(
        signature,
        call=call,
        is_async=True,
        context_parameter=own or CONTEXT,
        parameters=tuple(p for p in signature.parameters if p.name not in wants),
    )


def _provider(parameter: Field) -> Provider | None:
    if isinstance(parameter.default, Provider):
        return parameter.default
    extras = typing.get_args(parameter.annotation)[1:]
    if typing.get_origin(parameter.annotation) is not typing.Annotated:
        return None
    return next((extra for extra in extras if isinstance(extra, Provider)), None)


def _source(provider: Provider, read: Read, above: tuple[Any, ...]) -> _Source:
    function = provider.function
    name = str(getattr(function, "__name__", type(function).__name__))
    if function in above:
        raise RegistrationError(f"the dependency {name!r} depends on itself")
    signature = read(function, name=name, may_yield=True)
    wants: dict[str, _Source] = {}
    for parameter in signature.parameters:
        inner = _provider(parameter)
        if inner is not None:
            wants[parameter.name] = _source(inner, read, (*above, function))
        elif parameter.required:
            raise RegistrationError(
                f"the dependency {name!r} has the parameter {parameter.name!r}, which has no value: give it a "
                f"default, Depends(…), or annotate it with Context"
            )
    call, is_async = signature.call, signature.is_async
    if inspect.isasyncgenfunction(function):
        call, is_async = asynccontextmanager(call), False
    elif inspect.isgeneratorfunction(function):
        call = contextmanager(call)
    return _Source(function, provider.cache, call, is_async, signature.context_parameter, wants)


class _Run:
    """The dependencies of one call."""

    def __init__(self, context: Context, stack: AsyncExitStack) -> None:
        self._context = context
        self._stack = stack
        self._known: dict[Any, Any] = {}

    async def value(self, source: _Source) -> Any:
        if source.cache and source.function in self._known:
            return self._known[source.function]
        arguments = {name: await self.value(inner) for name, inner in source.wants.items()}
        if source.context_parameter is not None:
            arguments[source.context_parameter] = self._context
        value = await self._entered(await self._made(source, arguments))
        if source.cache:
            self._known[source.function] = value
        return value

    async def _entered(self, made: Any) -> Any:
        if isinstance(made, AbstractAsyncContextManager):
            return await self._stack.enter_async_context(
                typing.cast("AbstractAsyncContextManager[Any]", made)
            )
        if isinstance(made, AbstractContextManager) and isinstance(made, ContextDecorator):
            # A manager made with contextlib. A connection or a file may be a manager too, but is used as a value.
            manager = typing.cast("AbstractContextManager[Any]", made)
            return await self._stack.enter_async_context(_threaded(manager, self._context))
        return typing.cast("Any", made)

    async def _made(self, source: _Source, arguments: dict[str, Any]) -> Any:
        if source.is_async:
            return await source.call(**arguments)
        if inspect.isasyncgenfunction(source.function) or inspect.isgeneratorfunction(source.function):
            return source.call(**arguments)
        return await self._context.server.lifecycle.runner.call(source.call, **arguments)


@asynccontextmanager
async def _threaded(manager: AbstractContextManager[Any], context: Context) -> AsyncGenerator[Any, None]:
    """A synchronous context manager, entered and exited in a worker thread as plain functions are."""
    run: Callable[..., Awaitable[Any]] = context.server.lifecycle.runner.call
    value = await run(manager.__enter__)
    try:
        yield value
    except BaseException as error:
        if not await run(manager.__exit__, type(error), error, error.__traceback__):
            raise
    else:
        await run(manager.__exit__, None, None, None)
