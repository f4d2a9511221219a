"""One server in a client's file: put in, taken out, read, with everything else left as it was written.

JSON is edited by `jsonc`. TOML and YAML are edited by whole blocks, as the clients write them, and what is not written
so is refused rather than guessed at: ``--print`` shows what to put in by hand.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from ..shapes import is_object
from . import jsonc
from .clients import KnownClient


class ConfigError(ValueError):
    """The file cannot be edited safely; it was left alone."""


def put(client: KnownClient, text: str, name: str, entry: Mapping[str, Any]) -> str:
    """``text`` with the server ``name``."""
    if client.form == "json":
        return jsonc.put(text, (*_section(client, text), name), entry)
    before = take(client, text, name)
    if client.form == "toml":
        gap = "" if not before or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
        return _checked_toml(before + gap + snippet(client, name, entry))
    return _put_yaml(client.section, before, _yaml(name, entry))


def take(client: KnownClient, text: str, name: str) -> str:
    """``text`` without the server ``name``."""
    if client.form == "json":
        return jsonc.take(text, (*_section(client, text), name)) if text.strip() else text
    if client.form == "toml":
        _checked_toml(text)
        head = rf"{client.section}\.(?:{re.escape(name)}|\"{re.escape(name)}\")"
        block = re.compile(rf"^\[{head}(?:\.[^\]]*)?\][^\n]*\n?(?:(?!\[)[^\n]*(?:\n|\Z))*", re.MULTILINE)
        return _checked_toml(block.sub("", text))
    if name not in _yaml_names(client.section, text):
        return text
    begin = text.index(f"{client.section}:")
    block = re.compile(
        rf"^  (['\"]?){re.escape(name)}\1:[^\n]*\n?(?: {{4,}}[^\n]*(?:\n|\Z)|[ ]*\n)*", re.MULTILINE
    )
    after = text[:begin] + block.sub("", text[begin:], count=1)
    if not _yaml_names(client.section, after):  # nothing below it would be null, which is no table
        after = re.sub(
            rf"^{client.section}:[ \t]*$", f"{client.section}: {{}}", after, count=1, flags=re.MULTILINE
        )
    return after


def listed(client: KnownClient, text: str) -> dict[str, Any]:
    """The servers in the file, as it writes them."""
    if client.form == "yaml":
        return {name: {} for name in _yaml_names(client.section, text)}
    found: Any = jsonc.read(text) if client.form == "json" else tomllib.loads(text)
    for name in _section(client, text):
        found = found.get(name) if is_object(found) else None
    return found if is_object(found) else {}


def _section(client: KnownClient, text: str) -> tuple[str, ...]:
    """Where the servers of this file are: some files have a member for them that others of the client lack."""
    if client.nested is not None and text.strip():
        found: Any = jsonc.read(text)
        inside = found.get(client.section) if is_object(found) else None
        if is_object(inside) and is_object(inside.get(client.nested)) and "type" not in inside[client.nested]:
            return (client.section, client.nested)
    return (client.section,)


def snippet(client: KnownClient, name: str, entry: Mapping[str, Any]) -> str:
    """What to put in by hand."""
    if client.form == "json":
        return json.dumps({client.section: {name: entry}}, indent=2, ensure_ascii=False) + "\n"
    if client.form == "toml":
        lines = [f"[{client.section}.{name}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in entry.items()]
        return "\n".join(lines) + "\n"
    return f"{client.section}:\n{_yaml(name, entry)}"


def _yaml(name: str, entry: Mapping[str, Any]) -> str:
    lines = [f"  {name}:"]
    for key, value in {**entry, "name": name}.items():
        lines.append(f"    {key}: {json.dumps(value, ensure_ascii=False)}")  # JSON is YAML
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        members = ", ".join(f"{json.dumps(str(k))} = {_toml(v)}" for k, v in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return f"{{ {members} }}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(one) for one in value)}]"  # pyright: ignore[reportUnknownVariableType]
    # A basic string of TOML takes the escapes of JSON, but for the one character both leave as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _checked_toml(text: str) -> str:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the file is no TOML: {error}") from None
    return text


def _put_yaml(section: str, text: str, block: str) -> str:
    head = re.search(rf"^{section}:[ \t]*(\{{\}})?[ \t]*(#[^\n]*)?$", text, re.MULTILINE)
    if head is None:
        if re.search(rf"^['\"]?{section}['\"]?[ \t]*:", text, re.MULTILINE) or "\t" in text:
            raise ConfigError(f"{section} is written in a way that is not edited here")
        gap = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{gap}{section}:\n{block}"
    _yaml_names(section, text)
    return f"{text[: head.start()]}{section}:\n{block}{text[head.end() :].lstrip(chr(10))}"


def _yaml_names(section: str, text: str) -> list[str]:
    """The names in the section; refused where it is not indented by two."""
    head = re.search(rf"^{section}:[ \t]*(?:\{{\}})?[ \t]*(?:#[^\n]*)?$", text, re.MULTILINE)
    if head is None:
        return []
    names: list[str] = []
    for line in text[head.end() :].splitlines():
        if not line.strip() or line.lstrip().startswith("#") or line.startswith("    "):
            continue
        if not line.startswith("  "):
            break
        found = re.match(r"  (['\"]?)([^'\"\s:][^'\":]*)\1:", line)
        if found is None:
            raise ConfigError(f"{section} is written in a way that is not edited here")
        names.append(found[2])
    return names
