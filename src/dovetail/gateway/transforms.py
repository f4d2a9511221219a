"""What is shown, and under which names: one pipeline for lists and for calls.

A view changes tools on their way out (`show`) and calls on their way in (`inner`), so that what is listed is exactly
what can be called. Several views are applied one after the other, each on what the one before it shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ..core.channel import Call, Channel
from ..drivers.layering import Layer, Respond
from ..errors import ProtocolError, RegistrationError
from ..model import Tool
from ..settings import NAME_ECHO
from ..wire.methods import METHODS

_LIST: Final = METHODS["tools/list"]


class View(Layer):
    """What `Server.transform` puts around a server."""

    def __init__(
        self,
        *,
        only: Collection[str] | None = None,
        without: Collection[str] = (),
        rename: Mapping[str, str] | None = None,
        describe: Mapping[str, str] | None = None,
        hide: Mapping[str, Collection[str]] | None = None,
        fix: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._only = None if only is None else frozenset(only)
        self._without = frozenset(without)
        self._renamed = dict(rename or {})
        self._inner = {new: old for old, new in self._renamed.items()}
        if len(self._inner) != len(self._renamed):
            raise RegistrationError("two tools would have one name: rename them differently")
        self._described = dict(describe or {})
        self._fixed: dict[str, dict[str, Any]] = {name: dict(given) for name, given in (fix or {}).items()}
        hidden = {name: frozenset(given) for name, given in (hide or {}).items()}
        self._hidden = {
            name: hidden.get(name, frozenset()) | self._fixed.get(name, {}).keys()
            for name in {*hidden, *self._fixed}
        }

    def inner(self, name: str) -> str | None:
        """The name that a tool has before this view; None for one it does not show."""
        inner = self._inner.get(name, name)
        shown = (self._only is None or inner in self._only) and inner not in self._without
        return inner if shown and self._renamed.get(inner, inner) == name else None

    def show(self, tools: Iterable[Tool]) -> list[Tool]:
        """The tools as they are after this view."""
        names = ((tool, self._renamed.get(tool.name, tool.name)) for tool in tools)
        return [self._shown(tool) for tool, name in names if self.inner(name) == tool.name]

    async def list_tools(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        found = await proceed(call, channel)
        listed: Any = call.codec.decode_result(_LIST, found) if isinstance(found, Raw) else found
        return replace(listed, tools=self.show(listed.tools), meta=UNSET, result_type=UNSET)

    def _shown(self, tool: Tool) -> Tool:
        name = tool.name
        changes: dict[str, Any] = {}
        if name in self._renamed:
            changes["name"] = self._renamed[name]
        if name in self._described:
            changes["description"] = self._described[name]
        if name in self._hidden:
            changes["input_schema"] = _without(tool.input_schema, self._hidden[name])
        return replace(tool, **changes) if changes else tool

    async def call_tool(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        params = call.params
        name = self.inner(params.name)
        if name is None:
            shown = params.name[:NAME_ECHO]
            raise ProtocolError("tool_not_found", f"Unknown tool: {shown}", data={"tool": shown})
        changes: dict[str, Any] = {} if name == params.name else {"name": name}
        if name in self._hidden:
            changes["arguments"] = self._completed(name, params.arguments)
        return await proceed(replace(call, params=replace(params, **changes)) if changes else call, channel)

    def _completed(self, name: str, arguments: Any) -> Raw:
        """The arguments with those that are fixed; what is hidden cannot be given."""
        given: dict[str, Any] = {} if arguments is UNSET else msgspec.json.decode(arguments)
        if unknown := sorted(given.keys() & self._hidden[name]):
            raise ProtocolError(
                "invalid_params", f"Unknown argument: {unknown[0]}", data={"argument": unknown[0]}
            )
        return Raw(msgspec.json.encode({**given, **self._fixed.get(name, {})}))


def _without(schema: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """A schema of arguments without some of them."""
    members: Mapping[str, Any] = schema.get("properties") or {}
    left = {**schema, "properties": {name: one for name, one in members.items() if name not in names}}
    if "required" in schema:
        left["required"] = [name for name in schema["required"] if name not in names]
    return left
