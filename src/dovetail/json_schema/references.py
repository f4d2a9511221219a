"""Local references of one schema: ``#``, ``#/a/pointer``. Nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

Schema = Mapping[str, Any]


def target(reference: Any, root: Schema) -> Any:
    """The schema that a reference within ``root`` points at; None if there is none, or if it is another document's."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return None  # an anchor
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = cast("Schema", found).get(step)
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(cast("list[Any]", found)):
            found = cast("list[Any]", found)[int(step)]
        else:
            return None
    return cast("Any", found) if isinstance(found, Mapping | bool) else None
