"""From an annotation to the two things made of it: a type msgspec can decode, and a JSON Schema.

One walk makes both, so that they cannot disagree. Where msgspec decodes an annotation by itself the node is
*native* and the annotation is used as it is; one C call then decodes it whole. Everything else becomes a
custom type (see `customs`), and a class that has such a member is decoded through a mirror of it.
"""

from __future__ import annotations

import collections.abc as abc
import enum
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, cast

import msgspec
from msgspec import NODEFAULT, UNSET, UnsetType

from ...errors import RegistrationError
from . import annotations as metadata
from . import constraints
from . import custom_types as customs
from . import pydantic_models as foreign
from .definitions import Definitions
from .objects import Field, Shape, shape_of
from .scalars import ABSTRACT, ARRAYS, MAPPINGS, SCALARS, UNIQUE, textual_format

Mode = Literal["input", "output"]
_UNIONS = (typing.Union, types.UnionType)
_DEPTH = 64


class Node(NamedTuple):
    """One annotation, prepared."""

    type: Any
    """What msgspec is to decode."""
    schema: dict[str, Any]
    native: bool = True
    keys: frozenset[str] = frozenset()
    """The members, when it is an object of a class."""


class Schemas:
    """Prepares annotations that share one document and its ``$defs``."""

    def __init__(self, scope: Mapping[str, Any] | None = None, mode: Mode = "input") -> None:
        self._definitions = Definitions()
        self._scope = scope or {}
        self._mode: Mode = mode
        self._open: dict[Any, type[customs.Custom]] = {}
        self._reentered: set[Any] = set()
        self._depth = 0

    def prepare(self, annotation: Any) -> Node:
        """The node of a whole annotation.

        Raises:
            RegistrationError: there is no JSON for this type.
        """
        node = self.node(annotation)
        return node._replace(type=annotation) if node.native else node

    def node(self, annotation: Any) -> Node:
        """The node of an annotation inside another."""
        self._depth += 1
        try:
            if self._depth > _DEPTH:
                raise RegistrationError(f"{annotation!r} nests deeper than {_DEPTH} levels")
            return self._node(annotation)
        finally:
            self._depth -= 1

    def document(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A schema that stands alone: its root spelled out, with the definitions it refers to."""
        return self._definitions.document(schema)

    def _node(self, annotation: Any) -> Node:
        if annotation in (Any, object) or isinstance(annotation, typing.TypeVar):
            bound = getattr(annotation, "__bound__", None)
            return self.node(bound) if bound is not None else Node(Any, {}, annotation is Any)
        if annotation is None or annotation is type(None):
            return Node(None, {"type": "null"})
        if isinstance(annotation, typing.NewType):
            return self.node(annotation.__supertype__)
        if sys.version_info >= (3, 12) and isinstance(annotation, typing.TypeAliasType):
            return self.node(annotation.__value__)
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            return self._annotated(annotation)
        if origin is Literal:
            return _literal(typing.get_args(annotation))
        if origin in _UNIONS:
            return self._union(annotation, typing.get_args(annotation))
        if foreign.is_foreign(origin or annotation):
            return self._foreign(annotation)
        return self._collection(annotation, origin) or self._scalar(annotation) or self._class(annotation)

    def _annotated(self, annotation: Any) -> Node:
        base, *rest = typing.get_args(annotation)
        notes = metadata.read(rest)
        if notes.foreign:
            return self._foreign(annotation)._replace(native=False)
        node = self.node(base)
        if notes.constraints or notes.predicates:
            if typing.get_origin(base) in _UNIONS:
                members = constraints.distribute(typing.get_args(base), rest, notes)
                node = self._union(typing.Union[members], members)._replace(native=False)  # noqa: UP007
            else:
                kind, native = constraints.apply(base, node.type, notes)
                schema = {**node.schema, **constraints.keywords(node.schema, notes.constraints)}
                node = node._replace(type=kind, schema=schema, native=node.native and native)
        return node._replace(schema={**node.schema, **notes.words})

    def _union(self, annotation: Any, members: Sequence[Any]) -> Node:
        members = [member for member in members if member is not UnsetType]
        nodes = [self.node(member) for member in members]
        schema = {"anyOf": [node.schema for node in nodes]} if len(nodes) > 1 else nodes[0].schema
        if len(nodes) == 1:
            return nodes[0]._replace(native=False)
        native = all(node.native for node in nodes) and _decodes(annotation)
        rebuilt = typing.Union[tuple(node.type for node in nodes)]  # noqa: UP007
        if not _decodes(rebuilt):
            rebuilt = customs.choice(
                [
                    customs.Alternative(node.type, _label(member), node.keys)
                    for node, member in zip(nodes, members, strict=True)
                ]
            )
        return Node(rebuilt, schema, native)

    def _collection(self, annotation: Any, origin: Any) -> Node | None:
        kind = origin or annotation
        if kind is tuple:
            return self._tuple(typing.get_args(annotation))
        if kind not in ARRAYS and kind not in MAPPINGS:
            return None
        nodes = [self.node(argument) for argument in typing.get_args(annotation)]
        concrete = ABSTRACT.get(kind, kind)
        rebuilt = concrete[tuple(node.type for node in nodes)] if nodes else concrete
        native = kind is not abc.Iterable and all(node.native for node in nodes)
        if kind in MAPPINGS:
            schema: dict[str, Any] = {"type": "object"}
            if nodes and nodes[1].schema:
                schema["additionalProperties"] = nodes[1].schema
            if nodes and (names := {k: v for k, v in nodes[0].schema.items() if k in ("enum", "pattern")}):
                schema["propertyNames"] = names
        else:
            schema = {"type": "array"}
            if nodes and nodes[0].schema:
                schema["items"] = nodes[0].schema
            if concrete in UNIQUE:
                schema["uniqueItems"] = True
        return Node(rebuilt, schema, native)

    def _tuple(self, arguments: tuple[Any, ...]) -> Node:
        if not arguments:
            return Node(tuple, {"type": "array"})
        if arguments[-1] is ...:
            node = self.node(arguments[0])
            return Node(tuple[node.type, ...], {"type": "array", "items": node.schema}, node.native)
        nodes = [self.node(argument) for argument in arguments if argument != ()]
        native = all(node.native for node in nodes)
        return Node(tuple[*(node.type for node in nodes)], _array(nodes, len(nodes)), native)

    def _scalar(self, annotation: Any) -> Node | None:
        if annotation in SCALARS:
            return Node(annotation, dict(SCALARS[annotation]))
        if not isinstance(annotation, type):
            return None
        if issubclass(annotation, enum.Enum):
            return _enum(annotation)
        textual = textual_format(cast("type[Any]", annotation))
        return (
            None
            if textual is None
            else Node(customs.textual(cast("type[Any]", annotation)), textual, native=False)
        )

    def _class(self, annotation: Any) -> Node:
        if annotation in self._open:
            self._reentered.add(annotation)
            return Node(self._open[annotation], self._definitions.reference(annotation))
        try:
            shape = shape_of(annotation, self._scope)
        except NameError as error:
            raise RegistrationError(
                f"an annotation in {_label(annotation)} cannot be resolved: {error}"
            ) from error
        if shape is None:
            return self._foreign(annotation)
        image = self._open[annotation] = customs.mirror(shape.name)
        reference = self._definitions.reference(annotation, shape.name)
        nodes = [self.node(field.annotation) for field in shape.fields]
        del self._open[annotation]
        self._reentered.discard(annotation)
        self._definitions.define(annotation, _object(shape, nodes))
        customs.reflect(
            image, [_member(f, n) for f, n in zip(shape.fields, nodes, strict=True)], shape.build,
            array=shape.array, closed=shape.closed, tag=shape.tag,
        )  # fmt: skip
        native = shape.native and all(node.native for node in nodes) and _decodes(annotation)
        # While a class around this one is open, nobody knows yet whether that one will need a mirror.
        kind = annotation if native and not self._reentered else image
        return Node(kind, reference, native, frozenset(field.key for field in shape.fields))

    def _foreign(self, annotation: Any) -> Node:
        if not foreign.is_foreign(typing.get_origin(annotation) or annotation) and foreign.module() is None:
            raise RegistrationError(f"{_label(annotation)} has no JSON form: use a dataclass or a plain type")
        adapter = foreign.Adapter(annotation)
        schema = adapter.schema("validation" if self._mode == "input" else "serialization")
        keys = frozenset(cast("dict[str, Any]", schema.get("properties", {})))
        return Node(
            customs.custom(_label(annotation), adapter.decode), self._definitions.adopt(schema), False, keys
        )


def _literal(values: tuple[Any, ...]) -> Node:
    schema = _enumerated(values)
    annotation = Literal[values]
    if all(value is None or type(value) in (str, int, bool) for value in values) and _decodes(annotation):
        return Node(annotation, schema)
    return Node(customs.one_of([(_plain(value), value) for value in values]), schema, native=False)


def _enum(annotation: type[enum.Enum]) -> Node:
    if issubclass(annotation, enum.Flag):
        return Node(annotation, {"type": "integer", "minimum": 0}, _decodes(annotation))
    values = [member.value for member in annotation]
    schema = _enumerated([_plain(value) for value in values])
    if _decodes(annotation):
        return Node(annotation, schema)
    return Node(customs.one_of([(_plain(m.value), m) for m in annotation]), schema, native=False)


def _enumerated(values: Sequence[Any]) -> dict[str, Any]:
    plain = [_plain(value) for value in values]
    schema: dict[str, Any] = {"const": plain[0]} if len(plain) == 1 else {"enum": plain}
    kinds: set[Any] = {type(value) for value in plain}
    if len(kinds) == 1 and (kind := SCALARS.get(kinds.pop())):
        schema = {"type": kind["type"], **schema}
    return schema


def _object(shape: Shape, nodes: Sequence[Node]) -> dict[str, Any]:
    required = [field.key for field in shape.fields if field.required]
    if shape.array:
        schema = _array(nodes, len(required))
    else:
        properties = {f.key: _property(f, n, shape) for f, n in zip(shape.fields, nodes, strict=True)}
        if shape.tag is not None:
            properties = {shape.tag[0]: {"const": shape.tag[1]}, **properties}
            required.insert(0, shape.tag[0])
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        if shape.closed:
            schema["additionalProperties"] = False
    schema["title"] = shape.name
    if shape.docstring.summary:
        schema["description"] = shape.docstring.summary
    return schema


def _property(field: Field, node: Node, shape: Shape) -> dict[str, Any]:
    return described(node.schema, shape.docstring.parameters.get(field.name), field.default)


def described(schema: dict[str, Any], description: str | None, default: Any = NODEFAULT) -> dict[str, Any]:
    """``schema`` with a description, unless it has one, and with a default that JSON can write."""
    result = dict(schema)
    if description:
        result.setdefault("description", description)
    if default is not NODEFAULT and default is not UNSET:
        try:
            result["default"] = _plain(default)
        except (TypeError, ValueError):
            pass  # only Python can say it: the argument is optional all the same
    return result


def _array(nodes: Sequence[Node], required: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "minItems": required, "maxItems": len(nodes)}
    if nodes:
        schema["prefixItems"] = [node.schema for node in nodes]
    return schema


def _member(field: Field, node: Node) -> customs.Member:
    if field.optional:
        return customs.Member(field.name, typing.Union[node.type, UnsetType], field.key, UNSET)  # noqa: UP007
    return customs.Member(field.name, node.type, field.key, field.default, field.factory)


def _decodes(annotation: Any) -> bool:
    """Whether msgspec takes the annotation as it is."""
    try:
        msgspec.json.Decoder(annotation, dec_hook=customs.hook)
    except Exception:  # noqa: BLE001 - TypeError, NameError: whatever it is, a custom type does better
        return False
    return True


def _plain(value: Any) -> Any:
    """``value`` as plain JSON. Raises TypeError when JSON cannot say it."""
    plain = msgspec.json.decode(msgspec.json.encode(value))
    if plain is None and value is not None:
        raise TypeError("not a JSON value")  # NaN and infinity are written as null
    return plain


def _label(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation).replace("typing.", "")
