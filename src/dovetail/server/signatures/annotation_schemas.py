"""Converts an annotation to a type that msgspec can decode, and to a JSON Schema.

One recursive walk creates both, so they cannot disagree. An annotation that msgspec supports is *native* and used
unchanged; one C call then decodes it. Any other becomes a custom type (see `custom_types`), and a class with such a
member is decoded through a generated Struct with the same members (a mirror).
"""

from __future__ import annotations

import collections.abc as abc
import enum
import functools
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import NODEFAULT, UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from ...errors import RegistrationError
from ...json_schema.references import definition_name
from ...shapes import is_list, is_object
from . import constraints, custom_types, pydantic_models
from .docstrings import Docstring
from .objects import ANNOTATIONS_KEPT, Field, Shape, shape_of
from .plain_types import ARRAYS, MAPPINGS, SCALARS, textual_schema

ANNOTATION_DEPTH: Final = 64
"""The maximum nesting of an annotation."""


Mode = Literal["input", "output"]
Schema = dict[str, Any]
_UNIONS = (typing.Union, types.UnionType)


class Node(Struct, frozen=True, eq=False):
    """One prepared annotation."""

    type: Any
    """The type that msgspec decodes."""
    schema: dict[str, Any]
    native: bool = True
    keys: frozenset[str] = frozenset()
    """The members, if it is an object of a class."""


class Definitions:
    """Named schemas that refer to each other, and the document built from them."""

    def __init__(self) -> None:
        self._schemas: dict[str, Schema] = {}
        self._names: dict[Any, str] = {}

    def reference(self, owner: Any, name: str = "") -> Schema:
        """A reference to the definition of ``owner``, named ``name`` if that is free."""
        if owner not in self._names:
            self._names[owner] = self._free(name)
            self._schemas[self._names[owner]] = {}
        return {"$ref": f"#/$defs/{self._names[owner]}"}

    def define(self, owner: Any, schema: Schema) -> None:
        """Set the definition of ``owner``."""
        self._schemas[self._names[owner]] = schema

    def adopt(self, schema: Schema) -> Schema:
        """Move the definitions of a foreign schema into this document, renamed where a name is taken."""
        theirs: dict[str, Schema] = schema.pop("$defs", {})
        names: dict[str, str] = {}
        for name, definition in theirs.items():
            taken = name in self._schemas and self._schemas[name] != definition
            names[name] = self._free(name) if taken else name
        for name, definition in theirs.items():
            self._schemas[names[name]] = _renamed(definition, names)
        return _renamed(schema, names)

    def document(self, schema: Schema) -> Schema:
        """A self-contained schema: the root, and the definitions that it refers to."""
        root = dict(schema)
        if "$ref" in root:
            root = {**self._schemas[definition_name(root.pop("$ref"))], **root}
        used = self._reachable(root) if self._schemas else None
        if used:
            root["$defs"] = {name: self._schemas[name] for name in self._schemas if name in used}
        return root

    def _free(self, name: str) -> str:
        number, free = 2, name
        while free in self._schemas:
            free, number = f"{name}_{number}", number + 1
        return free

    def _reachable(self, root: Schema) -> set[str]:
        found: set[str] = set()
        waiting: list[Any] = [root]
        while waiting:
            item = waiting.pop()
            if is_list(item):
                waiting.extend(item)
            elif is_object(item):
                waiting.extend(item.values())
                name = definition_name(item.get("$ref"))
                if name in self._schemas and name not in found:
                    found.add(name)
                    waiting.append(self._schemas[name])
        return found


class Schemas(Definitions):
    """Prepares annotations that share one document and its ``$defs``."""

    def __init__(self, scope: Mapping[str, Any] | None = None, mode: Mode = "input") -> None:
        super().__init__()
        self._scope = scope or {}
        self._mode: Mode = mode
        self._open: dict[Any, type[custom_types.Custom]] = {}
        self._reentered: set[Any] = set()
        self._depth = 0

    def prepare(self, annotation: Any) -> Node:
        """The node of a whole annotation.

        Raises:
            RegistrationError: the type has no JSON representation.
        """
        node = self.node(annotation)
        return replace(node, type=annotation) if node.native else node

    def decoder(self, annotation: Any) -> Callable[[bytes | Raw], Any]:
        """The decoder of JSON as this annotation."""
        return decoder_of(self.prepare(annotation).type)

    def node(self, annotation: Any) -> Node:
        """The node of a nested annotation."""
        self._depth += 1
        try:
            if self._depth > ANNOTATION_DEPTH:
                raise RegistrationError(f"{annotation!r} nests deeper than {ANNOTATION_DEPTH} levels")
            return self._node(annotation)
        finally:
            self._depth -= 1

    def _node(self, annotation: Any) -> Node:
        if isinstance(annotation, type) and annotation in SCALARS:
            return Node(annotation, dict(SCALARS[annotation]))
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
            return _literal(annotation)
        if origin in _UNIONS:
            return self._union(annotation, typing.get_args(annotation))
        if pydantic_models.is_foreign(origin or annotation):
            return self._foreign(annotation)
        return self._collection(annotation, origin) or self._scalar(annotation) or self._class(annotation)

    def _annotated(self, annotation: Any) -> Node:
        base, *rest = typing.get_args(annotation)
        notes = constraints.read_metadata(rest)
        if notes.pydantic:
            return replace(self._foreign(annotation), native=False)
        node = self.node(base)
        if notes.constrains:
            if typing.get_origin(base) in _UNIONS:
                members = constraints.distributed(typing.get_args(base), rest, notes)
                node = replace(self._union(typing.Union[members], members), native=False)  # noqa: UP007
            else:
                kind, native = constraints.constrained(base, node.type, notes)
                schema = {**node.schema, **constraints.keywords(node.schema, notes.constraints)}
                node = replace(node, type=kind, schema=schema, native=node.native and native)
        return replace(node, schema={**node.schema, **notes.words})

    def _union(self, annotation: Any, members: Sequence[Any]) -> Node:
        members = [member for member in members if member is not UnsetType]
        nodes = [self.node(member) for member in members]
        if len(nodes) == 1:
            return replace(nodes[0], native=False)
        native = all(node.native for node in nodes) and _decodes(annotation)
        rebuilt = typing.Union[tuple(node.type for node in nodes)]  # noqa: UP007
        if not _decodes(rebuilt):
            told = zip(map(_label, members), nodes, strict=True)
            rebuilt = custom_types.choice([(label, node.type, node.keys) for label, node in told])
        return Node(rebuilt, {"anyOf": [node.schema for node in nodes]}, native)

    def _collection(self, annotation: Any, origin: Any) -> Node | None:
        kind = origin or annotation
        if kind is tuple:
            return self._tuple(typing.get_args(annotation))
        if kind not in ARRAYS and kind not in MAPPINGS:
            return None
        nodes = [self.node(argument) for argument in typing.get_args(annotation)]
        concrete = ARRAYS.get(kind) or MAPPINGS[kind]
        rebuilt = concrete[tuple(node.type for node in nodes)] if nodes else concrete
        native = kind is not abc.Iterable and all(node.native for node in nodes)
        if kind in MAPPINGS:
            schema: dict[str, Any] = {"type": "object"}
            if nodes and nodes[1].schema:
                schema["additionalProperties"] = nodes[1].schema
            if nodes and (names := {k: v for k, v in nodes[0].schema.items() if k in ("enum", "pattern")}):
                schema["propertyNames"] = names
            if nodes and nodes[0].type is not str and not _decodes(rebuilt):
                raise RegistrationError(f"{_label(annotation)} has keys that are not strings")
        else:
            schema = {"type": "array"}
            if nodes and nodes[0].schema:
                schema["items"] = nodes[0].schema
            if concrete is not list:
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
        if not isinstance(annotation, type):
            return None
        if issubclass(annotation, enum.Enum):
            return _enum(annotation)
        kind = cast("type[Any]", annotation)
        schema = textual_schema(kind)
        return None if schema is None else Node(custom_types.textual(kind), schema, native=False)

    def _class(self, annotation: Any) -> Node:
        if annotation in self._open:
            self._reentered.add(annotation)
            return Node(self._open[annotation], self.reference(annotation))
        try:
            shape = shape_of(annotation, self._scope)
        except NameError as error:
            raise RegistrationError(
                f"an annotation in {_label(annotation)} cannot be resolved: {error}"
            ) from error
        if shape is None:
            return self._foreign(annotation)
        types: list[Any] = []
        image = self._open[annotation] = custom_types.mirror(shape, types)
        reference = self.reference(annotation, shape.name)
        nodes = [self.node(field.annotation) for field in shape.fields]
        types += [node.type for node in nodes]
        del self._open[annotation]
        self._reentered.discard(annotation)
        self.define(annotation, _class_schema(shape, nodes))
        native = shape.native and all(node.native for node in nodes) and _decodes(annotation)
        # While the enclosing class is incomplete, it is unknown whether that class needs a mirror.
        kind = annotation if native and not self._reentered else image
        return Node(kind, reference, native, frozenset(field.key for field in shape.fields))

    def _foreign(self, annotation: Any) -> Node:
        if pydantic_models.module() is None:
            raise RegistrationError(f"{_label(annotation)} has no JSON form: use a dataclass or a plain type")
        adapter = pydantic_models.Adapter(annotation)
        schema = adapter.schema("validation" if self._mode == "input" else "serialization")
        keys = frozenset(cast("dict[str, Any]", schema.get("properties", {})))
        kind = custom_types.custom(_label(annotation), adapter.decode)
        return Node(kind, self.adopt(schema), False, keys)


def _literal(annotation: Any) -> Node:
    values = typing.get_args(annotation)
    native = all(value is None or type(value) in (str, int, bool) for value in values)
    return _closed(annotation, [(_plain(value), value) for value in values], native=native)


def _enum(annotation: type[enum.Enum]) -> Node:
    if issubclass(annotation, enum.Flag):
        return Node(annotation, {"type": "integer", "minimum": 0}, _decodes(annotation))
    return _closed(annotation, [(_plain(member.value), member) for member in annotation])


def _closed(annotation: Any, values: list[tuple[Any, Any]], *, native: bool = True) -> Node:
    """An enumeration of values, each as JSON and as Python value."""
    plain = [written for written, _ in values]
    schema: Schema = {"const": plain[0]} if len(plain) == 1 else {"enum": plain}
    kinds: set[Any] = {type(value) for value in plain}
    if len(kinds) == 1 and (kind := SCALARS.get(kinds.pop())):
        schema = {"type": kind["type"], **schema}
    if native and _decodes(annotation):
        return Node(annotation, schema)
    return Node(custom_types.one_of(values), schema, native=False)


def _class_schema(shape: Shape, nodes: Sequence[Node]) -> Schema:
    if shape.array:
        schema = _array(nodes, sum(field.required for field in shape.fields))
    else:
        schema = object_schema(shape.fields, nodes, shape.docstring, closed=shape.closed, tag=shape.tag)
    schema["title"] = shape.name
    if shape.docstring.summary:
        schema["description"] = shape.docstring.summary
    return schema


def object_schema(
    fields: Sequence[Field],
    nodes: Sequence[Node],
    docstring: Docstring,
    *,
    closed: bool,
    tag: tuple[str, Any] | None = None,
) -> Schema:
    """The schema of an object with these members. Descriptions come from the types, else from the docstring."""
    properties = {
        field.key: _described(node.schema, docstring.parameters.get(field.name), field.default)
        for field, node in zip(fields, nodes, strict=True)
    }
    required = [field.key for field in fields if field.required]
    if tag is not None:
        properties = {tag[0]: {"const": tag[1]}, **properties}
        required.insert(0, tag[0])
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if closed:
        schema["additionalProperties"] = False
    return schema


def _described(schema: Schema, description: str | None, default: Any) -> Schema:
    """``schema`` with a description, unless it has one, and with the default, if JSON can represent it."""
    result = dict(schema)
    if description:
        result.setdefault("description", description)
    if default is not NODEFAULT and default is not UNSET:
        try:
            result["default"] = _plain(default)
        except (TypeError, ValueError):
            pass  # the default has no JSON form; the argument is optional anyway
    return result


def _array(nodes: Sequence[Node], required: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "minItems": required, "maxItems": len(nodes)}
    if nodes:
        schema["prefixItems"] = [node.schema for node in nodes]
    return schema


def decoder_of(kind: Any) -> Callable[[bytes | Raw], Any]:
    """The decoder of JSON as ``kind``, the type of a node."""
    return msgspec.json.Decoder(kind, dec_hook=custom_types.hook).decode


def _decodes(annotation: Any) -> bool:
    """Whether msgspec supports the annotation unchanged."""
    try:
        return _decodes_hashable(annotation)
    except TypeError:  # metadata of an Annotated may be anything
        return _decodes_hashable.__wrapped__(annotation)


@functools.lru_cache(ANNOTATIONS_KEPT)
def _decodes_hashable(annotation: Any) -> bool:
    try:
        decoder_of(annotation)
    except Exception:  # noqa: BLE001 - TypeError, NameError: whatever it is, a custom type does better
        return False
    return True


def _plain(value: Any) -> Any:
    """``value`` as plain JSON data. Raises TypeError if JSON cannot represent it."""
    if value is None or type(value) in (str, int, bool):
        return value
    plain = msgspec.json.decode(msgspec.json.encode(value))
    if plain is None:
        raise TypeError("not a JSON value")  # NaN and infinity are written as null
    return plain


def _label(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation).replace("typing.", "")


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    if is_list(schema):
        return [_renamed(item, names) for item in schema]
    if not is_object(schema):
        return schema
    result = {key: _renamed(value, names) for key, value in schema.items()}
    target = definition_name(result.get("$ref"))
    if target in names:
        result["$ref"] = f"#/$defs/{names[target]}"
    return result
