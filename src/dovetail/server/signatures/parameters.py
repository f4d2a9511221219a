"""Reads callables: their parameters with resolved annotations, and their return annotation.

Functions, methods, partials, callable objects and static methods all become a `Signature`. Annotations written as
strings are evaluated in the module of the function, its closure, and the locals of the defining scope while that scope
runs.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, Final

from msgspec import NODEFAULT, Struct

from ...errors import RegistrationError
from . import pydantic_models
from .depends import CONTEXT, with_dependencies
from .docstrings import NOTHING, Docstring, parse
from .objects import ANNOTATIONS_KEPT, Field

_CONTEXT: Final = r"(?:\w+\.)*Context(?:\s*\|\s*None)?|(?:\w+\.)?Optional\[(?:\w+\.)*Context\]"
"""A placeholder for a context class that was imported under TYPE_CHECKING only."""
MISSING: Any = inspect.Parameter.empty
_NAMED = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


class Signature(Struct, frozen=True, eq=False):
    """A parsed callable."""

    call: Callable[..., Any]
    """Takes only keywords, whatever the function takes."""
    name: str
    docstring: Docstring
    parameters: tuple[Field, ...]
    returns: Any
    """The return annotation, `MISSING` without one."""
    context_parameter: str | None
    """The keyword argument of `call` for the context; None without one."""
    is_async: bool
    locals: dict[str, Any]
    """The names of the defining scope, for annotations in the classes that it uses."""
    taken: frozenset[str] | None = None
    """The keywords that ``**arguments`` cannot have, because they are parameters; None without ``**arguments``."""


def read_signature(function: Any, *, name: str | None = None, may_be_open: bool = False) -> Signature:
    """Parse ``function``, and provide the parameters with `Depends`.

    A function with ``**arguments`` is refused unless it ``may_be_open``.

    Raises:
        RegistrationError: it cannot be called with named arguments, or an annotation cannot be resolved.
    """
    return with_dependencies(take_apart(function, name=name, may_be_open=may_be_open), take_apart)


def take_apart(
    function: Any, *, name: str | None = None, may_be_open: bool = False, may_yield: bool = False
) -> Signature:
    """Parse a signature without resolving `Depends`."""
    function = _callable(function, may_yield=may_yield)
    plain, bound = _unwrap(function)
    name = name or _name(function, plain)
    scope = _Scope(plain)
    docstring = parse(getattr(plain, "__doc__", None)) if plain is not None else NOTHING
    parameters: list[Field] = []
    positional: list[str] = []
    context_parameter: str | None = None
    taken: frozenset[str] | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in bound:
            continue  # bound by a partial: a caller must not change it
        if may_be_open and parameter.kind is inspect.Parameter.VAR_KEYWORD:
            taken = bound | _by_keyword(plain)
            continue
        _check(parameter, name, plain)
        annotation = scope.resolve(parameter.annotation, f"parameter {parameter.name!r} of {name!r}")
        key, by_place = parameter.name, parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        if is_context(annotation):
            # The name of a positional parameter is free for an argument in ``**arguments``.
            key = context_parameter = CONTEXT if by_place and may_be_open else key
        else:
            parameters.append(_field(parameter, annotation))
        if by_place:
            positional.append(key)
    return Signature(
        _keywords_only(function, positional),
        name,
        docstring,
        tuple(parameters),
        scope.returns(name),
        context_parameter,
        inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(plain),
        scope.locals,
        taken,
    )


def is_context(annotation: Any) -> bool:
    """Whether ``annotation`` is the context class, or its union with None."""
    if isinstance(annotation, type):
        return getattr(annotation, "__dovetail_context__", False) is True
    if sys.version_info >= (3, 12) and isinstance(annotation, typing.TypeAliasType):
        annotation = annotation.__value__
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if is_union(annotation):
        return any(is_context(member) for member in typing.get_args(annotation))
    origin = typing.get_origin(annotation)
    return getattr(origin, "__dovetail_context__", False) is True


def is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


class _UnresolvedContext:
    """A placeholder for ``Context`` if it was imported under TYPE_CHECKING only."""

    __dovetail_context__ = True


class _Scope:
    """The namespaces in which the annotations of one function are evaluated."""

    def __init__(self, plain: Any) -> None:
        self._annotations: dict[str, Any] = getattr(plain, "__annotations__", {})
        self._globals: dict[str, Any] = getattr(inspect.unwrap(plain), "__globals__", {}) if plain else {}
        self.locals = _defining_locals(plain)

    def resolve(self, annotation: Any, what: str) -> Any:
        try:
            found = self._evaluated(annotation) if isinstance(annotation, str) else annotation
            if found is MISSING or isinstance(found, type) or _settled(found):
                return found

            def probe() -> None: ...

            probe.__annotations__ = {"it": found}
            return typing.get_type_hints(probe, self._globals, self.locals, include_extras=True)["it"]
        except NameError as error:
            if isinstance(annotation, str) and re.fullmatch(_CONTEXT, annotation):
                return _UnresolvedContext
            raise RegistrationError(
                f"the annotation of {what} cannot be resolved: {error}. Define or import the name in the "
                f"module of the function, not only for type checking."
            ) from error
        except (SyntaxError, TypeError) as error:
            raise RegistrationError(f"the annotation of {what} is not a type: {error}") from error

    def _evaluated(self, text: str) -> Any:
        """The value of ``text``. Most annotations are plain names, which are looked up without compiling."""
        for names in (self.locals, self._globals, vars(builtins)):
            if text in names:
                return names[text]
        return eval(_compiled(text), self._globals, self.locals)

    def returns(self, name: str) -> Any:
        annotation = self._annotations.get("return", MISSING)
        return None if annotation is None else self.resolve(annotation, f"the result of {name!r}")


@functools.lru_cache(ANNOTATIONS_KEPT)
def _compiled(text: str) -> types.CodeType:
    return compile(text, "<annotation>", "eval")


def _settled(annotation: Any) -> bool:
    """Whether the annotation is fully evaluated: ``list[str]``, ``int | None``."""
    parts = typing.get_args(annotation)
    return bool(parts) and all(isinstance(part, type) for part in parts)


def _callable(function: Any, *, may_yield: bool) -> Any:
    if isinstance(function, classmethod):
        raise RegistrationError("a classmethod can only be registered through its class: pass Class.method")
    if isinstance(function, staticmethod):
        return function.__func__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not callable(function):
        raise RegistrationError(f"a function is needed, not {type(function).__name__}")
    if inspect.isasyncgenfunction(function) and not may_yield:
        raise RegistrationError("an async generator has no single result: return a list instead")
    return function


def _unwrap(function: Any) -> tuple[Any, frozenset[str]]:
    """The plain function inside, and the keywords that partials have bound."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound.update(function.keywords)
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if inspect.isclass(function):
        function = function.__init__  # pyright: ignore[reportUnknownVariableType]
    return getattr(function, "__func__", function), frozenset(bound)  # pyright: ignore[reportUnknownArgumentType]


def _name(function: Any, plain: Any) -> str:
    name = getattr(function, "__name__", None) or getattr(plain, "__name__", None)
    if not isinstance(name, str) or name in ("<lambda>", "__call__", "__init__"):
        name = type(function).__name__ if name == "__call__" else None
    if name is None:
        raise RegistrationError("this function has no name of its own: give name=…")
    return name


def _check(parameter: inspect.Parameter, name: str, plain: Any) -> None:
    if parameter.kind not in _NAMED:
        raise RegistrationError(f"{name!r} takes {parameter}: every argument must have a name")
    unbound = parameter.name in ("self", "cls") and parameter.annotation is MISSING
    if unbound and "." in getattr(plain, "__qualname__", "").rpartition("<locals>.")[2]:
        raise RegistrationError(
            f"{name!r} is a method without its object: register it on an instance, tool(instance.{name})"
        )


def _field(parameter: inspect.Parameter, annotation: Any) -> Field:
    default, factory, key = parameter.default, None, None
    if pydantic_models.is_field(default):
        annotation = typing.Annotated[Any if annotation is MISSING else annotation, default]
    if field := pydantic_models.field_of(annotation):
        key = field.alias
        if default is MISSING or pydantic_models.is_field(default):
            default, factory = pydantic_models.default_of(field, MISSING)
    if default is None and annotation is not MISSING:
        annotation = annotation | None if isinstance(annotation, type) else typing.Optional[annotation]  # noqa: UP045
    return Field(
        parameter.name,
        Any if annotation is MISSING else annotation,
        key or parameter.name,
        NODEFAULT if default is MISSING else default,
        factory or NODEFAULT,
    )


def _by_keyword(plain: Any) -> frozenset[str]:
    """The names that ``plain`` takes as keywords, ``self`` among them."""
    own = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset(p.name for p in inspect.signature(plain).parameters.values() if p.kind in own)


def _keywords_only(function: Callable[..., Any], positional: list[str]) -> Callable[..., Any]:
    if not positional:
        return function

    def call(**arguments: Any) -> Any:
        return function(*[arguments.pop(name) for name in positional], **arguments)

    return call


def _defining_locals(plain: Any) -> dict[str, Any]:
    """The closure variables of ``plain``, and the locals of the function that is defining it."""
    names: dict[str, Any] = {}
    outer, nested, _ = getattr(plain, "__qualname__", "").rpartition(".<locals>.")
    if nested:
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None:
            if frame.f_code.co_qualname == outer and frame.f_globals is getattr(plain, "__globals__", None):
                names.update(frame.f_locals)
                break
            frame = frame.f_back
    free = plain.__code__.co_freevars if hasattr(plain, "__code__") else ()
    for name, cell in zip(free, plain.__closure__ or () if free else (), strict=True):
        try:
            names.setdefault(name, cell.cell_contents)
        except ValueError:
            pass  # not assigned yet
    return names
