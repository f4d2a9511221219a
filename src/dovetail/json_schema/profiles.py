"""Profiles: the parts of JSON Schema that a model or a client understands.

``spec`` leaves a schema as it is. ``inline`` replaces every ``$ref`` by what it refers to, a few levels deep.
``openai-strict`` is what OpenAI calls strict: every object is closed and has all of its members; optional ones may be
null. ``gemini`` is what Gemini takes as the parameters of a function.

Keywords that a profile lacks are removed, so the written schema accepts more than the original, never less. Recursive
references are followed a few times, and schemas that become too large are truncated: the missing parts accept
anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from .keywords import BY_NAME, LISTS, SINGLE
from .merging import accepts_null, is_free_form, merged, types_of
from .references import Schema, definition_name, resolved, target

MAX_NODES: Final = 10_000
"""Schemas within a schema that are written when references are followed; the rest accepts anything."""
MAX_ROUNDS: Final = 3
"""How often one reference is followed within itself."""
_REFERRING: Final = (
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "$defs",
    "definitions",
    "discriminator",
    "$id",
    "$anchor",
)
"""Keywords without meaning after references are replaced."""
_NOTES: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
_ANYTHING: Final = ("string", "number", "boolean")
_AS_TEXT: Final = "A JSON object, written as text."


class Rules(Struct, frozen=True):
    """The rules of a profile."""

    inline: bool = False
    """References are replaced by what they refer to."""
    keeps: frozenset[str] | None = None
    """The keywords it knows; None for all."""
    formats: frozenset[str] = frozenset()
    """The formats it knows, where keywords are chosen."""
    closed: bool = False
    """Objects have all members and no others; an optional member is null when it is absent."""
    nullable: bool = False
    """A nullable value has its one type and a separate flag (``nullable``)."""


_STRUCTURE: Final = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "title", "description",
    "minimum", "maximum", "minItems", "maxItems", "pattern",
})  # fmt: skip

PROFILES: Final[Mapping[str, Rules | None]] = {
    "spec": None,
    "inline": Rules(inline=True),
    "openai-strict": Rules(
        keeps=_STRUCTURE
        | {"const", "$ref", "$defs", "format", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
        formats=frozenset(
            ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]
        ),
        closed=True,
    ),
    "gemini": Rules(
        inline=True,
        keeps=_STRUCTURE - {"additionalProperties"} | {"format", "nullable", "minLength", "maxLength"},
        formats=frozenset(["date-time", "enum", "int32", "int64", "float", "double"]),
        nullable=True,
    ),
}
"""By name: what a profile knows. None is everything."""


def rewritten(schema: Schema, rules: Rules) -> dict[str, Any]:
    """The schema of arguments, or of results, as ``rules`` have it: an object in any case."""
    writer = _Writer(schema, rules)
    found: Any = writer.plain(schema, ()) if rules.keeps is None else writer.chosen(schema, ())
    members: dict[str, Any] = dict(cast("Schema", found)) if isinstance(found, Mapping) else {}
    if rules.keeps is None:
        return members
    if "properties" not in members:
        members = {
            "type": "object",
            "properties": {},
            **({"required": [], "additionalProperties": False} if rules.closed else {}),
        }
    if writer.defined:
        members["$defs"] = writer.defined
    return members


class _Writer:
    def __init__(self, root: Schema, rules: Rules) -> None:
        self._root, self._rules = root, rules
        self._left = MAX_NODES
        self._cut = 0
        """How often something had to be cut off."""
        self.defined: dict[str, Any] = {}
        """Definitions that are referred to, written so."""
        self._names: dict[str, str] = {}

    # --- only references are replaced ---------------------------------------------------------------------------------

    def plain(self, schema: Any, inside: tuple[str, ...]) -> Any:
        """A schema without references, and otherwise as it is."""
        self._left -= 1
        if not isinstance(schema, Mapping):
            return schema
        members = cast("Schema", schema)
        if self._left < 0:
            self._cut += 1
            return {}
        reference: Any = members.get("$ref")
        beside = {key: one for key, one in members.items() if key not in _REFERRING}
        if reference is None:
            return self._parts(beside, inside)
        found: Any = target(reference, self._root)
        if found is None or inside.count(reference) >= MAX_ROUNDS:
            self._cut += 1
            return self._parts(beside, inside)
        inner: Any = self.plain(found, (*inside, reference))
        if isinstance(inner, dict) and beside.keys() <= _NOTES:
            return {**cast("dict[str, Any]", inner), **beside}
        parts: list[Any] = [inner, self._parts(beside, inside)]
        return {"allOf": parts}

    def _parts(self, members: Schema, inside: tuple[str, ...]) -> dict[str, Any]:
        written = dict(members)
        for key in BY_NAME:
            if isinstance(found := members.get(key), Mapping):
                written[key] = {name: self.plain(one, inside) for name, one in cast("Schema", found).items()}
        for key in SINGLE:
            if isinstance(members.get(key), Mapping):
                before = self._cut
                written[key] = self.plain(members[key], inside)
                if self._cut > before and key in ("not", "if"):
                    # The opposite of more than the truth is less than it.
                    for word in ("not",) if key == "not" else ("if", "then", "else"):
                        written.pop(word, None)
        for key in LISTS:
            if isinstance(found := members.get(key), list):
                before = self._cut
                written[key] = [self.plain(one, inside) for one in cast("list[Any]", found)]
                if self._cut > before and key == "oneOf":
                    written["anyOf"] = written.pop("oneOf")  # several may accept a value now
        if "if" not in written:
            written = {key: one for key, one in written.items() if key not in ("then", "else")}
        return written

    # --- only what is known is kept -----------------------------------------------------------------------------------

    def chosen(self, schema: Any, inside: tuple[str, ...]) -> dict[str, Any]:
        """A schema of the keywords that a profile knows."""
        self._left -= 1
        reference: Any = cast("Schema", schema).get("$ref") if isinstance(schema, Mapping) else None
        if reference is not None:
            if not self._rules.inline and inside:
                return self._referred(cast("Schema", schema), reference)
            if self._left < 0 or inside.count(reference) >= MAX_ROUNDS:
                return self._cut_off(schema)
        elif self._left < 0:
            return self._cut_off(schema)
        found: Schema = merged(schema, self._root)
        return self._kept(found, (*inside, reference or ""))

    def _cut_off(self, schema: Any) -> dict[str, Any]:
        found = merged(schema, self._root)
        types = [kind for kind in types_of(found) if kind != "null"]
        if self._rules.closed or len(types) != 1:
            return self._anything({})
        return {"type": types[0], **({"items": self._anything({})} if types[0] == "array" else {})}

    def _referred(self, schema: Schema, reference: str) -> dict[str, Any]:
        """A reference that stays one: to a definition that is written once."""
        name = self._names.setdefault(reference, _free(definition_name(reference), self._names))
        if name not in self.defined:
            self.defined[name] = {}  # one that refers to itself finds it here
            self.defined[name] = self.chosen(target(reference, self._root), (reference,))
        notes = {key: schema[key] for key in ("title", "description") if key in schema}
        referred: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
        return {**notes, "anyOf": [referred]} if notes else referred

    def _kept(self, found: Schema, inside: tuple[str, ...]) -> dict[str, Any]:
        keeps = self._rules.keeps or frozenset[str]()
        written: dict[str, Any] = {
            key: one for key, one in found.items() if key in keeps and key not in _STRUCTURED
        }
        if found.get("format") not in self._rules.formats:
            written.pop("format", None)
        branches: Any = found.get("anyOf") or found.get("oneOf")
        if branches and not found.get("properties"):
            written.pop("type", None)
            return self._one_of(written, cast("list[Any]", branches), inside)
        if "const" in found and "const" not in keeps:
            written["enum"] = [found["const"]]
        types = list(types_of(found)) or _guessed(found)
        if not types and "enum" not in written and "const" not in written:
            return self._anything(written)
        if "object" in types:
            self._object(written, found, inside, types)
        if "array" in types:
            written["items"] = self._items(found, inside)
        return self._typed(written, types)

    def _object(
        self, written: dict[str, Any], found: Schema, inside: tuple[str, ...], types: list[str]
    ) -> None:
        closed = self._rules.closed
        if closed and is_free_form({**found, "type": "object"}) and len(inside) > 1:
            types[types.index("object")] = "string"
            note = written.get("description")
            written["description"] = f"{note} {_AS_TEXT}" if note else _AS_TEXT
            return
        members: Schema = found.get("properties") or {}
        required: list[str] = [name for name in found.get("required") or () if name in members]
        if members or closed:
            written["properties"] = {
                name: self._member(one, name in required, inside) for name, one in members.items()
            }
        if closed:
            written["required"], written["additionalProperties"] = list(members), False
        elif required:
            written["required"] = required

    def _member(self, schema: Any, required: bool, inside: tuple[str, ...]) -> dict[str, Any]:
        written = self.chosen(schema, inside)
        if required or not self._rules.closed or accepts_null(schema, self._root):
            return written
        return _or_null(written)

    def _items(self, found: Schema, inside: tuple[str, ...]) -> dict[str, Any]:
        first: Any = found.get("prefixItems") or ()
        rest: Any = found.get("items", not first)
        forms = [*first, *([] if rest is False else [rest])]
        written = [self.chosen(form, inside) for form in forms]
        return (
            written[0]
            if len(written) == 1
            else {"anyOf": _distinct(written)}
            if written
            else self._anything({})
        )

    def _one_of(
        self, written: dict[str, Any], branches: list[Any], inside: tuple[str, ...]
    ) -> dict[str, Any]:
        null = [branch for branch in branches if branch == {"type": "null"}]
        forms = _distinct([self.chosen(branch, inside) for branch in branches if branch not in null])
        if self._rules.nullable:
            nullable = (
                {"nullable": True} if null or any(form.pop("nullable", False) for form in forms) else {}
            )
            one = forms[0] if len(forms) == 1 else {"anyOf": forms}
            return {**one, **written, **nullable}
        forms += [{"type": "null"}] if null else []
        return {**written, "anyOf": forms}

    def _typed(self, written: dict[str, Any], types: list[str]) -> dict[str, Any]:
        if not self._rules.nullable:
            return {**written, "type": types[0] if len(types) == 1 else types} if types else written
        values: Any = written.get("enum")
        some = [kind for kind in types if kind != "null"]
        if values is not None and not all(isinstance(value, str) for value in values):
            # It knows choices of texts alone.
            said = "One of " + ", ".join(msgspec.json.encode(value).decode() for value in values) + "."
            written = {key: one for key, one in written.items() if key != "enum"}
            written["description"] = (
                f"{written['description']} {said}" if written.get("description") else said
            )
            if not some:
                return self._anything(written)
        elif values is not None:
            some = ["string"]
        nullable = {"nullable": True} if "null" in types else {}
        if len(some) > 1:
            return {**written, "anyOf": [{"type": kind} for kind in some], **nullable}
        return {**written, "type": some[0] if some else "string", **nullable}

    def _anything(self, written: dict[str, Any]) -> dict[str, Any]:
        kinds = [*_ANYTHING, *([] if self._rules.nullable else ["null"])]
        nullable = {"nullable": True} if self._rules.nullable else {}
        return {**written, "anyOf": [{"type": kind} for kind in kinds], **nullable}


_STRUCTURED: Final = frozenset(
    {"properties", "required", "items", "anyOf", "additionalProperties", "$defs", "$ref", "type"}
)


def _free(name: str, taken: Mapping[str, str]) -> str:
    name = name.replace("#", "") or "root"
    while name in taken.values():
        name += "_"
    return name


def _guessed(found: Schema) -> list[str]:
    """The type that keywords are for, where none is named."""
    if "properties" in found or "additionalProperties" in found:
        return ["object"]
    if "items" in found or "prefixItems" in found:
        return ["array"]
    values: list[Any] = found.get("enum") or [found["const"]] if "const" in found or found.get("enum") else []
    return sorted(
        {next((name for kind, name in _TYPES if isinstance(value, kind)), "object") for value in values}
    )


_TYPES: Final = (
    (str, "string"), (bool, "boolean"), (int, "integer"), (float, "number"), (type(None), "null"), (list, "array"),
)  # fmt: skip


def _or_null(written: dict[str, Any]) -> dict[str, Any]:
    """What is written, or null."""
    kind: Any = written.get("type")
    if "anyOf" in written:
        return {**written, "anyOf": [*written["anyOf"], {"type": "null"}]}
    if kind is None or kind == "object" or "const" in written:
        notes = {key: written[key] for key in ("title", "description") if key in written}
        return {**notes, "anyOf": [written, {"type": "null"}]}
    kinds: list[str] = [kind] if isinstance(kind, str) else kind
    values: Any = written.get("enum")
    return {**written, "type": [*kinds, "null"], **({} if values is None else {"enum": [*values, None]})}


def _distinct(forms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [form for at, form in enumerate(forms) if form not in forms[:at]]


# --- arguments that were written for a closed profile ---


def with_true_schema(value: Any, schema: Schema) -> Any:
    """A value that was written for a closed profile, as ``schema`` itself has it.

    Nulls of optional members are removed. Objects of any members, which a closed profile has as text, are read.
    """
    return _restored(value, schema, schema)


def _restored(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    schema = _branch(value, merged(schema, root), root)
    if isinstance(value, dict):
        members: Mapping[str, Any] = schema.get("properties") or {}
        required = schema.get("required") or ()
        return {
            name: _restored(one, members.get(name, True), root)
            for name, one in cast("dict[str, Any]", value).items()
            if one is not None or name in required or accepts_null(members.get(name, True), root)
        }
    if isinstance(value, list):
        items: Any = schema.get("items", True)
        first: Any = schema.get("prefixItems") or ()
        values = cast("list[Any]", value)
        return [
            _restored(one, first[at] if at < len(first) else items, root) for at, one in enumerate(values)
        ]
    if isinstance(value, str) and is_free_form(schema):
        try:
            found: Any = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
        return cast("Any", found) if isinstance(found, dict) else value
    return value


def _branch(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of several forms that a value may have, the one it has."""
    branches: Any = schema.get("anyOf") or schema.get("oneOf")
    if not branches:
        return schema
    forms = [merged(branch, root) for branch in branches]
    if isinstance(value, dict):
        names = cast("dict[str, Any]", value).keys()
        fitting = [
            one
            for one in forms
            if _fits(cast("dict[str, Any]", value), one, root) and names >= _required(one)
        ]
        return {**schema, **fitting[0]} if fitting else schema
    wanted = "array" if isinstance(value, list) else "object"
    plain = isinstance(value, str) and any("string" in types_of(one) or "enum" in one for one in forms)
    if plain or not isinstance(value, list | str):
        return schema
    return next((one for one in forms if wanted in types_of(one)), schema)


def _fits(value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    members: Mapping[str, Any] = schema.get("properties") or {}
    if "object" not in types_of(schema) or not value.keys() <= members.keys():
        return False
    fixed = {name: resolved(one, root) for name, one in members.items() if name in value}
    return all("const" not in one or one["const"] == value[name] for name, one in fixed.items())


def _required(schema: Mapping[str, Any]) -> set[str]:
    return set(schema.get("required") or ())
