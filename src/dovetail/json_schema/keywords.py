"""Which keywords of JSON Schema hold schemas, and in which shape."""

from __future__ import annotations

from typing import Final

MAX_SCHEMA_DEPTH: Final = 64
"""Levels of one schema, references not followed."""
DEFINITIONS: Final = ("$defs", "definitions")
BY_NAME: Final = frozenset({"properties", "patternProperties", "dependentSchemas", *DEFINITIONS})
"""Keywords that hold schemas by a name of the author's choice."""
LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords that hold a list of schemas."""
SINGLE: Final = frozenset({
    "not", "if", "then", "else", "items", "additionalItems", "additionalProperties", "unevaluatedProperties",
    "unevaluatedItems", "propertyNames", "contains",
})  # fmt: skip
"""Keywords that hold one schema."""
SAME_VALUE: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""Keywords whose schemas apply to the value itself; those of the others apply to its members or items."""
VALUES: Final = frozenset({"const", "enum", "default", "examples"})
"""Keywords that hold values, not schemas."""
ANNOTATIONS: Final = frozenset({
    "title", "description", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$id", "default",
    "contentEncoding", "contentMediaType",
})  # fmt: skip
"""Keywords that assert nothing."""
