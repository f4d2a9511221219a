"""Estimate the tokens that lists cost a model: ``dovetail list TARGET --tokens``.

One token is counted for four characters of the name, title, description and schema or arguments of a component, as
compact JSON. Models count differently, by about a third for English text and schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

_CHARACTERS: Final = 4
_MEMBERS: Final = ("name", "uri", "uri_template", "title", "description", "input_schema", "arguments")


def tokens(entry: Any) -> int:
    """Return the tokens of one component."""
    members = {name: msgspec.structs.asdict(entry).get(name, UNSET) for name in _MEMBERS}
    text = msgspec.json.encode({name: one for name, one in members.items() if one is not UNSET}).decode()
    return -(-len(text) // _CHARACTERS)


def as_json(found: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the tokens of each component, each list, and in total."""
    costs = {kind: {_name(entry): tokens(entry) for entry in entries} for kind, entries in found.items()}
    lists = {kind: sum(each.values()) for kind, each in costs.items()}
    return {"total": sum(lists.values()), "lists": lists, "entries": costs}


def lines(found: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Return the lines of a report, the most expensive component first."""
    for kind, entries in found.items():
        if entries:
            costs = sorted(
                ((tokens(entry), _name(entry)) for entry in entries), key=lambda one: (-one[0], one[1])
            )
            yield f"{sum(cost for cost, _ in costs):8} {kind}"
            yield from (f"{cost:8}   {name}" for cost, name in costs)
    yield f"{as_json(found)['total']:8} tokens in total (estimate: four characters each)"


def _name(entry: Any) -> str:
    members = msgspec.structs.asdict(entry)
    return next(members[name] for name in ("uri", "uri_template", "name") if name in members)
