"""The ``$defs`` of one schema document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

Schema = dict[str, Any]


class Definitions:
    """Named schemas that refer to each other, and the document that is made with them."""

    def __init__(self) -> None:
        self._schemas: dict[str, Schema] = {}
        self._names: dict[Any, str] = {}

    def reference(self, owner: Any, name: str = "") -> Schema:
        """A reference to the definition of ``owner``, which is called ``name`` if that is free."""
        if owner not in self._names:
            self._names[owner] = self._free(name)
            self._schemas[self._names[owner]] = {}
        return {"$ref": f"#/$defs/{self._names[owner]}"}

    def define(self, owner: Any, schema: Schema) -> None:
        """Say what the reference to ``owner`` means."""
        self._schemas[self._names[owner]] = schema

    def adopt(self, schema: Schema) -> Schema:
        """Move the definitions of a foreign schema among ours, under another name where theirs is taken."""
        theirs: dict[str, Schema] = schema.pop("$defs", {})
        names: dict[str, str] = {}
        for name, definition in theirs.items():
            taken = name in self._schemas and self._schemas[name] != definition
            names[name] = self._free(name) if taken else name
        for name, definition in theirs.items():
            self._schemas[names[name]] = _renamed(definition, names)
        return _renamed(schema, names)

    def document(self, schema: Schema) -> Schema:
        """A schema that stands alone: its root spelled out, with the definitions it refers to."""
        root = dict(schema)
        if "$ref" in root:
            root = {**self._schemas[_target(root.pop("$ref"))], **root}
        used = self._reachable(root)
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
            if isinstance(item, list):
                waiting.extend(cast("list[Any]", item))
            elif isinstance(item, dict):
                schema = cast("Schema", item)
                waiting.extend(schema.values())
                name = _target(schema.get("$ref"))
                if name in self._schemas and name not in found:
                    found.add(name)
                    waiting.append(self._schemas[name])
        return found


def _target(reference: Any) -> str:
    return reference.rpartition("/")[2] if isinstance(reference, str) else ""


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(item, names) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    result = {key: _renamed(value, names) for key, value in cast("Schema", schema).items()}
    target = _target(result.get("$ref"))
    if target in names:
        result["$ref"] = f"#/$defs/{names[target]}"
    return result
