"""A common description of classes with named members: dataclass, TypedDict, NamedTuple, attrs, msgspec Struct.

The parameters of a function are described in the same way.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT, UNSET, Struct, structs
from msgspec.structs import replace

from .docstrings import NOTHING, Docstring, parse

ANNOTATIONS_KEPT: Final = 1024
"""The number of annotations and classes whose schemas are cached for all tools."""


class Field(Struct, frozen=True, eq=False):
    """One member of a class, or one parameter of a function."""

    name: str
    annotation: Any
    key: str
    """Its name on the wire."""
    default: Any = msgspec.field(default_factory=lambda: NODEFAULT)
    factory: Any = msgspec.field(default_factory=lambda: NODEFAULT)
    """Creates the default, if each value needs a new one."""
    optional: bool = False
    """It may be absent without a default (TypedDict's NotRequired)."""

    @property
    def required(self) -> bool:
        return self.default is NODEFAULT and self.factory is NODEFAULT and not self.optional


class Shape(Struct, frozen=True, eq=False):
    """A parsed class."""

    fields: tuple[Field, ...]
    build: Callable[[dict[str, Any]], Any]
    """Creates an object of the class from its members."""
    array: bool = False
    """It is encoded as an array of its members."""
    closed: bool = False
    """It refuses unknown members."""
    tag: tuple[str, Any] | None = None
    """The tag member and its value."""
    native: bool = True
    """msgspec may create it without `build`."""
    name: str = ""
    docstring: Docstring = NOTHING


def shape_of(annotation: Any, scope: Mapping[str, Any]) -> Shape | None:
    """Parse a class, or a generic class with its arguments; None if it has no named members.

    Raises:
        NameError: an annotation of a member refers to an unknown name.
    """
    cls = typing.get_origin(annotation) or annotation
    if not isinstance(cls, type):
        return None
    if annotation is cls and cls in _shapes:
        return _shapes[cls]
    reader = next((reader for matches, reader in _READERS if matches(cls)), None)
    if reader is None:
        return None
    hints = typing.get_type_hints(cls, localns=dict(scope), include_extras=True)
    if variables := getattr(cls, "__parameters__", ()):
        given = typing.get_args(annotation) or (Any,) * len(variables)
        bindings = dict(zip(variables, given, strict=False))
        hints = {name: _filled_in(hint, bindings) for name, hint in hints.items()}
    arguments = [getattr(a, "__name__", "any") for a in typing.get_args(annotation)]
    name = "_".join([cls.__name__, *arguments])
    shape = replace(reader(cls, hints), name=name, docstring=_docstring(cls))
    if annotation is cls:
        if len(_shapes) >= ANNOTATIONS_KEPT:
            _shapes.clear()
        _shapes[cls] = shape
    return shape


_shapes: dict[Any, Shape] = {}
"""A cache of parsed classes: many tools share a few."""


def _filled_in(hint: Any, bindings: dict[Any, Any]) -> Any:
    """An annotation in a generic class, with its type variables replaced."""
    if hint in bindings:
        return bindings[hint]
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(bindings.get(v, Any) for v in variables)] if variables else hint


def _docstring(cls: type[Any]) -> Docstring:
    text = cls.__dict__.get("__doc__")
    generated = isinstance(text, str) and text.startswith(f"{cls.__name__}(")
    return NOTHING if generated else parse(text)


def _make(cls: Any, values: dict[str, Any]) -> Any:
    return cls(**values)


def _struct(cls: Any, hints: dict[str, Any]) -> Shape:
    config = cls.__struct_config__
    fields = tuple(
        Field(f.name, hints[f.name], f.encode_name, f.default, f.default_factory) for f in structs.fields(cls)
    )
    tag = (config.tag_field, config.tag) if config.tag_field is not None else None
    return Shape(fields, partial(_make, cls), config.array_like, config.forbid_unknown_fields, tag)


def _dataclass(cls: Any, hints: dict[str, Any]) -> Shape:
    def field(f: dataclasses.Field[Any]) -> Field:
        default = NODEFAULT if f.default is dataclasses.MISSING else f.default
        factory = NODEFAULT if f.default_factory is dataclasses.MISSING else f.default_factory
        return Field(f.name, hints[f.name], f.name, default, factory)

    return Shape(tuple(field(f) for f in dataclasses.fields(cls) if f.init), partial(_make, cls))


def _attrs(cls: Any, hints: dict[str, Any]) -> Shape:
    nothing = sys.modules["attr"].NOTHING

    def field(a: Any) -> Field:
        default: Any = NODEFAULT if a.default is nothing else a.default
        factory: Any = NODEFAULT
        if hasattr(default, "takes_self"):
            # For a factory that takes the object, UNSET is not passed on: attrs calls it.
            factory = (lambda: UNSET) if default.takes_self else default.factory
            default = NODEFAULT
        return Field(a.name, hints[a.name] if a.type is not None else Any, a.name, default, factory)

    attributes = [a for a in cls.__attrs_attrs__ if a.init]
    aliases = {a.name: getattr(a, "alias", None) or a.name.lstrip("_") for a in attributes}

    def build(values: dict[str, Any]) -> Any:
        try:
            return cls(**{aliases[name]: value for name, value in values.items() if value is not UNSET})
        except (ValueError, TypeError) as error:
            # The messages of attrs validators end with the value.
            raise ValueError(re.split(r": | \(got ", str(error.args[0]))[0]) from None

    validated = any(a.validator is not None for a in attributes)
    return Shape(tuple(field(a) for a in attributes), build, native=not validated)


def _typed_dict(cls: Any, hints: dict[str, Any]) -> Shape:
    def field(key: str) -> Field:
        hint, required = hints[key], key in cls.__required_keys__
        while (origin := typing.get_origin(hint)) in (typing.Required, typing.NotRequired):
            required = origin is typing.Required  # deferred annotations hide these from __required_keys__
            hint = typing.get_args(hint)[0]
        return Field(key, hint, key, optional=not required)

    def build(values: dict[str, Any]) -> Any:
        return {key: value for key, value in values.items() if value is not UNSET}

    return Shape(tuple(field(key) for key in cls.__annotations__), build)


def _named_tuple(cls: Any, hints: dict[str, Any]) -> Shape:
    defaults = cls._field_defaults
    annotated = inspect.get_annotations(cls)
    fields = tuple(
        Field(key, hints[key] if key in annotated else Any, key, defaults.get(key, NODEFAULT))
        for key in cls._fields
    )
    return Shape(fields, partial(_make, cls), array=True, closed=True)


def _is_named_tuple(cls: Any) -> bool:
    return issubclass(cls, tuple) and "_fields" in dir(cls)  # pyright: ignore[reportUnknownArgumentType]


_READERS: tuple[tuple[Callable[[Any], bool], Callable[[Any, dict[str, Any]], Shape]], ...] = (
    (lambda cls: issubclass(cls, Struct), _struct),
    (lambda cls: hasattr(cls, "__attrs_attrs__"), _attrs),
    (dataclasses.is_dataclass, _dataclass),
    (typing.is_typeddict, _typed_dict),
    (_is_named_tuple, _named_tuple),
)
