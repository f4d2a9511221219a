"""Conversion of capabilities between revisions. Unknown capabilities are preserved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...shapes import is_object

Capabilities = dict[str, Any]


def without_capabilities(*paths: str) -> Callable[[Capabilities], Capabilities]:
    """Return an edit that removes the capabilities at these paths, such as ``sampling.tools``."""

    def edit(capabilities: Capabilities) -> Capabilities:
        for path in paths:
            name, _, rest = path.partition(".")
            value = capabilities.get(name)
            if rest and is_object(value) and rest in value:
                members = {key: member for key, member in value.items() if key != rest}
                capabilities = _with(capabilities, name, members)
            elif not rest and name in capabilities:
                capabilities = _without(capabilities, name)
        return capabilities

    return edit


def plain_elicitation(capabilities: Capabilities) -> Capabilities:
    """Reduce elicitation to forms, the only kind in 2025-06-18, declared as an empty object."""
    modes = capabilities.get("elicitation")
    if not is_object(modes):
        return capabilities
    if "url" in modes and "form" not in modes:
        return _without(capabilities, "elicitation")
    if "url" in modes or "form" in modes:
        others = {key: v for key, v in modes.items() if key not in ("form", "url")}
        return _with(capabilities, "elicitation", others)
    return capabilities


def on_member(name: str, edit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply an edit to the member of a Struct that holds capabilities."""

    def convert(value: Struct) -> Struct:
        before = getattr(value, name)
        after = edit(before)
        return value if after is before else replace(value, **{name: after})

    return convert


def _with(capabilities: Capabilities, name: str, value: Any) -> Capabilities:
    return type(capabilities)({**capabilities, name: value})


def _without(capabilities: Capabilities, name: str) -> Capabilities:
    return type(capabilities)({key: value for key, value in capabilities.items() if key != name})
