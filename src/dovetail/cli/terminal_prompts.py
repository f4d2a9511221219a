"""Show elicitation requests of a server at the terminal and read the answers."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

from ..model import ElicitRequestParams
from ..telemetry.terminal_sanitizer import printable

_YES = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


async def ask(request: ElicitRequestParams) -> Any:
    """Show the request and read the answer; an empty line takes the default, Ctrl-D cancels."""
    try:
        return await asyncio.to_thread(_ask, request)
    except EOFError:
        return "cancel"


def _ask(request: ElicitRequestParams) -> Any:
    sys.stderr.write(f"\n{printable(request.message)}\n")
    if request.mode == "url":
        sys.stderr.write(f"  {printable(str(request.url))}\n")
        return (
            "accept"
            if _read("Open this URL in a browser. Continue? [y/N] ").lower() in ("y", "yes")
            else "decline"
        )
    schema: dict[str, Any] = request.requested_schema or {}
    required = schema.get("required") or ()
    answers: dict[str, Any] = {}
    for name, field in cast("dict[str, Any]", schema.get("properties") or {}).items():
        value = _field(name, field, required=name in required)
        if value is not None:
            answers[name] = value
    return answers


def _field(name: str, field: dict[str, Any], *, required: bool) -> Any:
    """Ask for one field until the answer is valid; None: omitted."""
    hint = _hint(field)
    label = printable(str(field.get("title") or name))
    while True:
        text = _read(f"  {label}{hint}: ").strip()
        if not text:
            if "default" in field or not required:
                return field.get("default")
            sys.stderr.write("  (required; Ctrl-D cancels)\n")
            continue
        value = _value(text, field)
        if value is not None:
            return value
        sys.stderr.write("  (not valid)\n")


def _hint(field: dict[str, Any]) -> str:
    choices = _choices(field)
    parts = ["/".join(choices)] if choices else [str(field.get("type", ""))]
    if "default" in field:
        parts.append(f"default {field['default']}")
    return printable(f" ({', '.join(part for part in parts if part)})")


def _choices(field: dict[str, Any]) -> list[str]:
    source = field.get("items") or field
    if isinstance(source.get("enum"), list):
        return [str(choice) for choice in source["enum"]]
    titled = cast("list[dict[str, Any]]", source.get("oneOf") or source.get("anyOf") or [])
    return [str(choice["const"]) for choice in titled if "const" in choice]


def _value(text: str, field: dict[str, Any]) -> Any:
    """Convert the answer to the type of the field; None if it is not valid."""
    choices = _choices(field)
    kind = field.get("type")
    if kind == "array":
        picked = [part.strip() for part in text.split(",") if part.strip()]
        return picked if not choices or set(picked) <= set(choices) else None
    if choices:
        return text if text in choices else None
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except ValueError:
        return None
    return _YES.get(text.lower()) if kind == "boolean" else text


def _read(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")
