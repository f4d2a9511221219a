"""A function as pydantic sees it: what callers give it, and what is put in for them.

Both families validate arguments by pydantic, and hide parameters that nobody outside can fill.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any, Final, Union, cast

from pydantic import Field, TypeAdapter

Validated = tuple[tuple[Any, ...], dict[str, Any]]
EMPTY: Final = inspect.Parameter.empty


def plain_function(function: Any) -> Any:
    """The function behind a static method, a partial or an object that can be called."""
    if isinstance(function, staticmethod | classmethod):
        function = cast("Any", function).__func__
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    return function


def name_of(function: Any) -> str:
    """What a component made of ``function`` is called."""
    target = function.func if isinstance(function, functools.partial) else function
    return target.__name__ if inspect.isroutine(target) or inspect.isclass(target) else type(target).__name__


def hints_of(function: Any) -> dict[str, Any]:
    """The annotations, evaluated. A name that cannot be found leaves its annotation a string."""
    target = plain_function(function)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return _one_by_one(target)


def _one_by_one(target: Any) -> dict[str, Any]:
    """Names of an enclosing function are found too, as long as the function uses them."""
    inner = inspect.unwrap(target)
    try:
        local = inspect.getclosurevars(inner).nonlocals
    except (TypeError, ValueError):
        local = {}
    scope = {**getattr(inner, "__globals__", {}), **cast("dict[str, Any]", local)}
    found: dict[str, Any] = {}
    for name, annotation in getattr(target, "__annotations__", {}).items():
        try:
            found[name] = eval(annotation, scope) if isinstance(annotation, str) else annotation
        except Exception:  # noqa: BLE001  it stays what its author wrote
            found[name] = annotation
    return found


def parameters_of(function: Any) -> list[inspect.Parameter]:
    """The parameters, with evaluated annotations; those of a rewritten ``__signature__`` come first."""
    hints = hints_of(function)
    return [
        parameter.replace(annotation=hints.get(parameter.name, parameter.annotation))
        if parameter.annotation is EMPTY or isinstance(parameter.annotation, str)
        else _kept(parameter, hints)
        for parameter in inspect.signature(function).parameters.values()
    ]


def _kept(parameter: inspect.Parameter, hints: dict[str, Any]) -> inspect.Parameter:
    """``Optional["Name"]`` has its name found only in the hints."""
    evaluated = hints.get(parameter.name, EMPTY)
    nested = any(isinstance(part, typing.ForwardRef) for part in typing.get_args(parameter.annotation))
    return parameter.replace(annotation=evaluated) if nested and evaluated is not EMPTY else parameter


def kinds_in(annotation: Any) -> Iterator[Any]:
    """An annotation and, of a union or ``Annotated``, its parts."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        yield from kinds_in(typing.get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for part in typing.get_args(annotation):
            yield from kinds_in(part)
    else:
        yield annotation if origin is None else origin


def find_parameter(function: Any, kind: type[Any]) -> str | None:
    """The parameter that is annotated with ``kind`` or a subclass; None without."""
    for parameter in parameters_of(function):
        for part in kinds_in(parameter.annotation):
            if isinstance(part, type) and issubclass(part, kind):
                return parameter.name
    return None


class Arguments:
    """What callers give a function: a schema, and a check that returns what to call it with."""

    __slots__ = ("adapter", "parameters", "validate")

    def __init__(self, function: Any, hidden: Collection[str] = ()) -> None:
        self.parameters = [_described(one) for one in parameters_of(function) if one.name not in hidden]
        self.adapter: TypeAdapter[Any] = TypeAdapter(_collector(function, self.parameters))
        self.validate: Callable[[Any], Validated] = self.adapter.validator.validate_python
        """Raises pydantic's ``ValidationError``."""

    def schema(self) -> dict[str, Any]:
        return self.adapter.json_schema()

    async def call(self, function: Any, given: dict[str, Any], /, **hidden: Any) -> Any:
        """What ``function`` returns for what a caller has given."""
        try:
            args, kwargs = self.validate(given)
        except ValueError as error:
            # Theirs comes from `validate_call`, which names the function alone.
            own = name_of(function)
            raise ValueError(str(error).replace(f"call[{own}]", own, 1)) from error
        value = function(*args, **{**kwargs, **hidden})
        return await value if inspect.isawaitable(value) else value


def _collector(function: Any, parameters: list[inspect.Parameter]) -> Any:
    """Looks like ``function`` without its hidden parameters, and returns what it is called with."""

    def collect(*args: Any, **kwargs: Any) -> Validated:
        return args, kwargs

    collect.__name__ = collect.__qualname__ = name_of(function)
    collect.__module__ = getattr(plain_function(function), "__module__", None) or __name__
    collect.__annotations__ = {one.name: one.annotation for one in parameters if one.annotation is not EMPTY}
    vars(collect)["__signature__"] = inspect.Signature(parameters)
    return collect


def _described(parameter: inspect.Parameter) -> inspect.Parameter:
    """``Annotated[int, "how often"]`` is a description."""
    annotation = parameter.annotation
    if typing.get_origin(annotation) is not Annotated:
        return parameter
    kind, *said = typing.get_args(annotation)
    words = [one for one in said if isinstance(one, str)]
    if len(said) != 1 or not words:
        return parameter
    return parameter.replace(annotation=Annotated[kind, Field(description=words[0])])


def is_async(function: Any) -> bool:
    """Calling it gives a coroutine."""
    target = function.func if isinstance(function, functools.partial) else function
    return inspect.iscoroutinefunction(target) or (
        not inspect.isroutine(target) and inspect.iscoroutinefunction(type(target).__call__)
    )
