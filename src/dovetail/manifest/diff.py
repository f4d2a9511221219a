"""Compare two manifests, and classify each change by its effect on clients.

- **breaking**: a call or result that was valid may no longer be;
- **hint**: the annotations of a tool have changed (read-only, destructive, …), which clients use for decisions;
- **widening**: new values are accepted, and all old calls are still valid;
- **wording**: texts for people and models have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from ..json_schema.comparison import narrower
from ..json_schema.comparison_parts import Reason, plain
from ..model import ToolAnnotations
from ..shapes import is_object
from .lock import Entries, Manifest

Kind = Literal["breaking", "hint", "widening", "wording"]
KINDS: Final[tuple[Kind, ...]] = ("breaking", "hint", "widening", "wording")
"""The most severe first."""
_HINTS: Final = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_TASKS: Final = {("forbidden", "optional"): "widening", ("required", "optional"): "widening"}


class ManifestChange(Struct, frozen=True, omit_defaults=True):
    """One difference."""

    kind: Kind
    component: str
    """tool, resource, resource template, prompt or server."""
    name: str
    text: str
    path: str = ""
    """The path in the component: ``input.city``."""

    def __str__(self) -> str:
        where = f" {self.path}" if self.path else ""
        return f"{self.kind}: {self.component} {self.name}{where}: {self.text}"


def compare(old: Manifest, new: Manifest) -> list[ManifestChange]:
    """Return all differences, the most severe first."""
    found = [
        *_listed("tool", old.tools, new.tools),
        *_listed("resource", old.resources, new.resources),
        *_listed("resource template", old.resource_templates, new.resource_templates),
        *_listed("prompt", old.prompts, new.prompts),
    ]
    if old.server.get("instructions") != new.server.get("instructions"):
        name = str(new.server.get("name", ""))
        found.append(ManifestChange("wording", "server", name, "the instructions have changed"))
    return sorted(found, key=lambda change: (KINDS.index(change.kind), change.component, change.name))


def renamed(old: Entries, new: Entries) -> dict[str, str]:
    """Find renamed components: with the same schemas, which no other component has."""
    gone = {name: _shape(entry) for name, entry in old.items() if name not in new}
    come = {name: _shape(entry) for name, entry in new.items() if name not in old}
    found: dict[str, str] = {}
    for before, shape in gone.items():
        same = [name for name, other in come.items() if other == shape and name not in found.values()]
        alike = [name for name in same if new[name].get("description") == old[before].get("description")]
        if len(alike or same) == 1:
            found[before] = (alike or same)[0]
    return found


def _shape(entry: Mapping[str, Any]) -> Any:
    words = ("name", "title", "description", "uri", "uriTemplate")
    return plain({name: value for name, value in entry.items() if name not in words})


def _listed(component: str, old: Entries, new: Entries) -> Iterator[ManifestChange]:
    moved = renamed(old, new)
    for name in old:
        if name in moved:
            yield ManifestChange("breaking", component, name, f"was renamed to {moved[name]}")
        elif name not in new:
            yield ManifestChange("breaking", component, name, "is gone")
        else:
            yield from changes_of(component, name, old[name], new[name])
    for name in new:
        if name not in old and name not in moved.values():
            yield ManifestChange("widening", component, name, "is new")


def changes_of(
    component: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[ManifestChange]:
    """Return the changes of one component."""
    for word in ("title", "description"):
        if old.get(word) != new.get(word):
            yield ManifestChange("wording", component, name, f"the {word} has changed")
    if component == "tool":
        yield from _tool(name, old, new)
    elif component == "prompt":
        yield from _prompt(name, old, new)
    elif old.get("mimeType") != new.get("mimeType"):
        text = f"the media type was {old.get('mimeType')}, is {new.get('mimeType')}"
        yield ManifestChange("breaking" if old.get("mimeType") else "widening", component, name, text)


def _tool(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[ManifestChange]:
    before, after = old.get("inputSchema", {}), new.get("inputSchema", {})
    yield from _schema(name, "input", before, after, narrower(before, after))
    yield from _defaults(name, before, after, "input")
    before, after = old.get("outputSchema"), new.get("outputSchema")
    if before is not None and after is None:
        yield ManifestChange("breaking", "tool", name, "no longer has a structured result", "output")
    elif before is None and after is not None:
        yield ManifestChange("widening", "tool", name, "now has a structured result", "output")
    elif before is not None:
        yield from _schema(name, "output", before, after, narrower(after, before))
    yield from _hints(name, old.get("annotations") or {}, new.get("annotations") or {})
    was, now = _task_support(old), _task_support(new)
    if was != now:
        kind: Any = _TASKS.get((was, now), "breaking")
        yield ManifestChange(kind, "tool", name, f"running as a task was {was}, is {now}")


def _task_support(tool: Mapping[str, Any]) -> str:
    execution: dict[str, str] = tool.get("execution") or {}
    return execution.get("taskSupport", "forbidden")


def _schema(name: str, side: str, old: Any, new: Any, lost: list[Reason]) -> Iterator[ManifestChange]:
    for reason in lost:
        yield ManifestChange("breaking", "tool", name, reason.text, side + reason.path)
    if lost or old == new:
        return
    if plain(old) == plain(new):
        yield ManifestChange("wording", "tool", name, "the texts in the schema have changed", side)
        return
    more = narrower(new, old) if side == "input" else narrower(old, new)
    texts = [f"{(reason.path or 'the schema').lstrip('.')}" for reason in more]
    if more:
        what = "accepts more" if side == "input" else "promises more"
        yield ManifestChange("widening", "tool", name, f"{what}: {', '.join(dict.fromkeys(texts))}", side)
    else:
        yield ManifestChange(
            "wording", "tool", name, "the schema is written differently, with the same meaning", side
        )


def _defaults(name: str, old: Any, new: Any, path: str) -> Iterator[ManifestChange]:
    """Find changed defaults, which affect calls without the argument."""
    members, others = old.get("properties"), new.get("properties")
    if not is_object(members) or not is_object(others):
        return
    for key, was in members.items():
        now = others.get(key)
        if not is_object(was) or not is_object(now):
            continue
        if "default" in was and "default" in now and was["default"] != now["default"]:
            text = f"the default was {was['default']!r}, is {now['default']!r}"
            yield ManifestChange("breaking", "tool", name, text, f"{path}.{key}")
        yield from _defaults(name, was, now, f"{path}.{key}")


def _hints(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[ManifestChange]:
    before, after = ToolAnnotations(old), ToolAnnotations(new)
    for hint, member in _HINTS.items():
        was, now = getattr(before, member), getattr(after, member)
        if was != now:
            yield ManifestChange("hint", "tool", name, f"{hint} was {_word(was)}, is {_word(now)}")
    if old.get("title") != new.get("title"):
        yield ManifestChange("wording", "tool", name, "the title in the annotations has changed")


def _prompt(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[ManifestChange]:
    before = {one["name"]: one for one in old.get("arguments") or ()}
    after = {one["name"]: one for one in new.get("arguments") or ()}
    for key in before.keys() - after.keys():
        yield ManifestChange("breaking", "prompt", name, "is gone", key)
    for key, one in after.items():
        known = before.get(key)
        needed = one.get("required") is True
        if known is None:
            yield ManifestChange(
                "breaking" if needed else "widening",
                "prompt",
                name,
                "is new" + ", and required" * needed,
                key,
            )
        elif needed != (known.get("required") is True):
            text = "is required now" if needed else "is optional now"
            yield ManifestChange("breaking" if needed else "widening", "prompt", name, text, key)
        elif known != one:
            yield ManifestChange("wording", "prompt", name, "its texts have changed", key)


def _word(value: bool) -> str:
    return "true" if value else "false"
