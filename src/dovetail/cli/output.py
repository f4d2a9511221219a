"""What the client commands print: for people by default, JSON for scripts."""

from __future__ import annotations

import logging
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence
from json import dumps
from typing import Any, TextIO
from unicodedata import category

import msgspec
from msgspec import UNSET

from ..client.calling.results import ToolResult
from ..model import GetPromptResult, ReadResourceResult


class Printer:
    """Writes results to ``stream``, as text or as JSON."""

    def __init__(self, *, json: bool, stream: TextIO | None = None) -> None:
        self._json = json
        self._stream = stream or sys.stdout

    def line(self, text: str = "") -> None:
        """Write all of it, whatever the terminal can show."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(printable(text).encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def json(self, value: Any) -> None:
        self.line(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())

    # --- list -----------------------------------------------------------------------------------------------------

    def listing(self, server: dict[str, Any], found: dict[str, Sequence[Any]]) -> None:
        if self._json:
            self.json({**server, **found})
            return
        name: dict[str, Any] = server.get("serverInfo") or {}
        self.line(
            f"{name.get('name', 'server')} {name.get('version', '')}".strip() + f" ({server['revision']})"
        )
        for title, entries in found.items():
            if entries:
                self.line()
                self.line(title)
                for entry in entries:
                    self._entry(entry)
        if not any(found.values()):
            self.line("It offers no tools, resources or prompts.")

    def _entry(self, entry: Any) -> None:
        name = getattr(entry, "uri", None) or getattr(entry, "uri_template", None) or entry.name
        self.line(f"  {name}{_signature(entry)}")
        text = entry.description
        if text:
            self.line(f"      {text.strip().splitlines()[0]}")

    # --- call, read, prompt ---------------------------------------------------------------------------------------

    def tool_result(self, result: ToolResult) -> None:
        if self._json:
            self.json(result.raw)
            return
        if result.content:
            for block in result.content:
                self._block(block)
        elif result.structured_content is not None:
            self.json(result.structured_content)

    def resource(self, result: ReadResourceResult) -> None:
        if self._json:
            self.json(result)
            return
        for item in result.contents:
            if isinstance(item.text, str):
                self.line(item.text)
            else:
                kind = item.mime_type or "application/octet-stream"
                self.line(f"[{kind}, {len(item.blob or '') * 3 // 4} bytes; --json shows them in base64]")

    def prompt(self, result: GetPromptResult) -> None:
        if self._json:
            self.json(result)
            return
        for message in result.messages:
            self.line(f"{message.role}:")
            self._block(message.content, "  ")

    def _block(self, block: Any, indent: str = "") -> None:
        kind = getattr(block, "mime_type", "")
        text = getattr(block, "text", None)
        if isinstance(text, str):
            self.line("\n".join(indent + line for line in text.splitlines()) or indent)
        elif hasattr(block, "data"):
            self.line(f"{indent}[{kind}, {len(block.data) * 3 // 4} bytes]")
        elif hasattr(block, "resource"):
            inner = block.resource
            said = inner.text if isinstance(inner.text, str) else f"[{inner.mime_type or 'bytes'}]"
            self.line(f"{indent}{inner.uri}: {said}")
        else:
            self.line(f"{indent}{getattr(block, 'title', None) or getattr(block, 'name', '')} <{block.uri}>")


def printable(text: str) -> str:
    """What a server sent, with escapes for all that would steer the terminal or change the order of what is read.

    They are those of JSON, so that a document stays the same one.
    """
    if text.isprintable():
        return text
    return "".join(dumps(c)[1:-1] if category(c) in _STEERING and c not in _HARMLESS else c for c in text)


_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control and format characters (those of bidirectional text among them), lone surrogates, separators of lines."""
_HARMLESS = "\n\t\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def stderr_of_child() -> Callable[[bytes], None]:
    """Writes what a child says to our stderr, made `printable`."""
    decode = getincrementaldecoder("utf-8")(errors="replace").decode

    def write(data: bytes) -> None:
        sys.stderr.write(printable(decode(data)))
        sys.stderr.flush()

    return write


class _Escaping(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def escape_logs() -> None:
    """Warnings go to stderr, made `printable`: they may quote a server too."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Escaping("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _signature(entry: Any) -> str:
    """The parameters of a tool or prompt, optional ones with a question mark."""
    schema: dict[str, Any] | None = getattr(entry, "input_schema", None)
    if schema is not None:
        required: list[str] = schema.get("required") or []
        properties: dict[str, Any] = schema.get("properties") or {}
        names = [name if name in required else f"{name}?" for name in properties]
        return f"({', '.join(names)})"
    arguments = getattr(entry, "arguments", UNSET)
    if arguments is not UNSET and arguments:
        return f"({', '.join(a.name if a.required else a.name + '?' for a in arguments)})"
    return ""
