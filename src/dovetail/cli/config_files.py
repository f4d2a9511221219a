"""Set, remove and list servers in the configuration file of a client, without changes to the rest of the file.

`jsonc`, `toml_files` and `yaml_files` edit the three formats. Their result is parsed again; unless it differs in
exactly this one server, the file is not written.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final, Protocol

from ..shapes import is_object
from . import jsonc, toml_files, yaml_files
from .known_clients import Form, KnownClient


class _Editor(Protocol):
    """The functions of a format's module. ``path`` is the section and the name of an entry."""

    def read(self, text: str, /) -> Any: ...
    def put(self, text: str, path: tuple[str, ...], entry: Mapping[str, Any], /) -> str: ...
    def take(self, text: str, path: tuple[str, ...], /) -> str: ...
    def snippet(self, section: str, name: str, entry: Mapping[str, Any], /) -> str: ...


_EDITORS: Final[Mapping[Form, _Editor]] = {"json": jsonc, "toml": toml_files, "yaml": yaml_files}
_MARK: Final = "\ufeff"


class ConfigFileError(ValueError):
    """The file cannot be edited safely and was not changed."""


def put(client: KnownClient, text: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return ``text`` with the server ``name``."""
    return _edit(client, text, name, _entry(client, name, entry))


def take(client: KnownClient, text: str, name: str) -> str:
    """Return ``text`` without the server ``name``."""
    return _edit(client, text, name, None)


def listed(client: KnownClient, text: str) -> dict[str, Any]:
    """Return the servers in the file, as written."""
    found: Any = _EDITORS[client.form].read(text.removeprefix(_MARK))
    for name in _section(client, found):
        found = found.get(name) if is_object(found) else None
    return found if is_object(found) else {}


def snippet(client: KnownClient, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text to insert by hand."""
    return _EDITORS[client.form].snippet(client.section, name, _entry(client, name, entry))


def _entry(client: KnownClient, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    # Every entry of a YAML file repeats its name: goose ignores an entry without it.
    return {**entry, "name": name} if client.form == "yaml" else dict(entry)


def _section(client: KnownClient, found: Any) -> tuple[str, ...]:
    """Return the section of the servers: files of one client can differ in it."""
    inside: Any = found.get(client.section) if is_object(found) else None
    if client.nested is not None and is_object(inside):
        nested: Any = inside.get(client.nested)
        if is_object(nested) and "type" not in nested:
            return (client.section, client.nested)
    return (client.section,)


def _edit(client: KnownClient, whole: str, name: str, entry: dict[str, Any] | None) -> str:
    text = whole.removeprefix(_MARK)
    editor = _EDITORS[client.form]
    before: Any = editor.read(text)
    section = _section(client, before)
    wanted = _changed(before, section, name, entry)
    if _same(wanted, before, section):
        return whole
    after = (
        editor.take(text, (*section, name)) if entry is None else editor.put(text, (*section, name), entry)
    )
    try:
        found: Any = editor.read(after)
    except ValueError:
        found = None
    if not _same(wanted, found, section):
        raise ConfigFileError(f"{'.'.join(section)} is written in a form that Dovetail cannot edit")
    return whole[: len(whole) - len(text)] + after


def _changed(found: Any, section: tuple[str, ...], name: str, entry: dict[str, Any] | None) -> Any:
    """Return the content that the edited file must have."""
    wanted = inside = copy.deepcopy(found)
    for step in section:
        if not is_object(inside):
            raise ConfigFileError("the file does not contain an object")
        if inside.get(step) is None:
            inside[step] = {}
        inside = inside[step]
    if not is_object(inside):
        raise ConfigFileError(f"{section[-1]!r} is not an object")
    if entry is None:
        inside.pop(name, None)
    else:
        inside[name] = entry
    return wanted


def _same(first: Any, second: Any, section: tuple[str, ...]) -> bool:
    """Return whether two files have the same content; TOML has no empty section."""
    if not is_object(first) or not is_object(second):
        return bool(first == second)
    if len(section) == 1:
        return {section[0]: {}, **first} == {section[0]: {}, **second}
    return first == second
