"""The definitions that lists show, from a prepared function and what was said about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from ...errors import RegistrationError
from ...model import Icon, Prompt, Resource, ResourceTemplate, Tool, ToolExecution
from ...wire.dialects.base import VENDOR
from ..signatures.functions import Function
from .options import SharedOptions, ToolOptions


def tool_definition(prepared: Function, description: str | None, options: ToolOptions) -> Tool:
    """The tool as ``tools/list`` shows it; what no revision has a member for goes into ``_meta``."""
    tool = Tool(prepared.name, prepared.input_schema)
    if prepared.output_schema is not None:
        tool.output_schema = prepared.output_schema
    task = options.get("task", "forbidden")
    if task != "forbidden":
        tool.execution = ToolExecution(task_support=task)
    describe(tool, description, options)
    _add_meta(tool, {"version": options.get("version"), "deprecated": options.get("deprecated") or None})
    return tool


def given(value: Any) -> Any:
    return UNSET if value is None else value


def describe(
    definition: Tool | Resource | ResourceTemplate | Prompt, description: str | None, options: SharedOptions
) -> None:
    definition.description = description or UNSET
    definition.title = given(options.get("title"))
    icons = options.get("icons")
    if icons:
        definition.icons = [_icon(icon) for icon in icons]
    annotations = options.get("annotations")
    if annotations and not isinstance(definition, Prompt):
        definition.annotations = dict(annotations)
    meta = options.get("meta")
    if meta:
        definition.meta = dict(meta)
    tags = options.get("tags")
    if tags:
        _add_meta(definition, {"tags": sorted(tags)})


def _add_meta(definition: Any, members: Mapping[str, Any]) -> None:
    own = {VENDOR + name: value for name, value in members.items() if value is not None}
    if own:
        definition.meta = {**(definition.meta or {}), **own}


def _icon(icon: Icon | Mapping[str, Any]) -> Icon:
    icon = icon if isinstance(icon, Icon) else msgspec.convert(icon, Icon)
    if not icon.src.startswith(("https:", "data:")):
        # revisions.md: other schemes are to be refused by whoever shows the icon.
        raise RegistrationError(f"an icon is an https: or data: URI, not {icon.src[:40]!r}")
    return icon
