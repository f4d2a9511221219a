"""The output of the commands: text by default, JSON with ``--json``."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from codecs import getincrementaldecoder
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Any, Final, TextIO, cast

import msgspec
from msgspec import UNSET

from ..client.calling.results import ToolResult
from ..errors import DovetailError, ProtocolError, Refusal
from ..model import GetPromptResult, ReadResourceResult, SkillEntry
from ..telemetry.terminal_sanitizer import printable

_BAR: Final = 24
"""Characters of a progress bar."""


class Bold(str):
    """A line in bold on a terminal; subclasses have a colour."""

    style = "1"


class Good(Bold):
    style = "32"


class Doubtful(Bold):
    style = "33"


class Bad(Bold):
    style = "1;31"


class Row(str):
    """Two cells: columns of a table on a terminal, two lines elsewhere."""

    cells: tuple[str, str]

    def __new__(cls, first: str, second: str) -> Row:
        first, second = (
            each.replace("\n", "\\n") for each in (first, second)
        )  # text of a server cannot imitate lines of the output
        made = super().__new__(cls, f"  {first}\n      {second}" if second else f"  {first}")
        made.cells = first, second
        return made


def coloured(stream: TextIO) -> bool:
    """Return whether ``stream`` is a terminal that shows colour, and colour is not disabled (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Bar:
    """A progress bar for one call on a terminal; elsewhere it prints nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = False

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if not self._stream.isatty():
            return
        text = printable(message or "").replace("\n", " ")
        if total:
            done = min(max(progress / total, 0.0), 1.0)
            marks = "#" * round(done * _BAR)
            text = f"[{marks:-<{_BAR}}] {done:4.0%} {text}"
        else:
            text = f"[{progress:g}] {text}"
        self._stream.write(f"\r\x1b[K{text[: get_terminal_size().columns - 1]}")
        self._stream.flush()
        self._shown = True

    @classmethod
    @contextmanager
    def of(cls, options: Namespace) -> Generator[Bar | None]:
        """Show a bar during one call and remove it afterwards; None with ``--json``."""
        bar = None if options.json else cls(sys.stderr)
        try:
            yield bar
        finally:
            if bar is not None:
                bar._close()

    def _close(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def error_members(error: DovetailError) -> dict[str, Any]:
    """Return an error for ``--json``, with all members of an error of the server."""
    found: dict[str, Any] = {"kind": error.kind, "message": error.message}
    if isinstance(error, ProtocolError | Refusal):
        found["code"] = error.code
        if error.retry_after is not None:
            found["retryAfter"] = error.retry_after
    if (hint := hint_of(error)) is not None:
        found["hint"] = hint
    if isinstance(error, ProtocolError) and error.data is not UNSET:
        found["data"] = error.data
    return found


def hint_of(error: DovetailError) -> str | None:
    """Return the hint of a refusal, if it has one."""
    if isinstance(error, Refusal):
        return error.hint
    data: Any = error.data if isinstance(error, ProtocolError) else None
    hint: Any = cast("dict[str, Any]", data).get("hint") if isinstance(data, dict) else None
    return hint if isinstance(hint, str) else None


def report_error(error: DovetailError, command: str, words: Sequence[str]) -> int:
    """Print an error as text or JSON; returns the exit status."""
    ours, status = words[: words.index("--")] if "--" in words else words, getattr(error, "status", 1)
    if "--json" in ours and status != 2:
        # An error of a command without a kind is not an internal error.
        kind = "command_failed" if error.kind == DovetailError.kind else error.kind
        Printer(json=True).json({"error": error_members(error) | {"kind": kind}})
    else:
        sys.stderr.write(f"dovetail {command}: {printable(error.message)}\n")
    return status


class Printer:
    """Writes results to ``stream``, as text or as JSON."""

    def __init__(self, *, json: bool, stream: TextIO | None = None) -> None:
        self._json = json
        self._stream = stream or sys.stdout

    def line(self, text: str = "") -> None:
        """Write a line; characters that the terminal cannot show are escaped."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        shown = printable(text).encode(encoding, "backslashreplace").decode(encoding)
        styled = isinstance(text, Bold) and coloured(self._stream)
        self._stream.write(f"\x1b[{text.style}m{shown}\x1b[0m\n" if styled else f"{shown}\n")  # pyright: ignore

    def json(self, value: Any) -> None:
        self.line(formatted(value))

    def show(self, value: Any, lines: Iterable[str]) -> None:
        """Write ``value`` as JSON, or ``lines`` as text."""
        if self._json:
            self.json(value)
        else:
            for line in aligned(list(lines)) if self._stream.isatty() else lines:
                self.line(line)


def aligned(lines: Sequence[str]) -> Iterator[str]:
    """Return the lines, with rows as a table that fits the terminal."""
    columns = get_terminal_size().columns
    firsts = [len(printable(line.cells[0])) for line in lines if isinstance(line, Row)]
    width = min(max(firsts, default=0), columns // 2)
    for line in lines:
        if not isinstance(line, Row):
            yield line
            continue
        first, second, room = *(printable(cell) for cell in line.cells), columns - width - 5
        short = second if len(second) <= room else second[: room - 1] + "…"
        yield f"  {first:{width}}  {short}".rstrip()


def listing(server: dict[str, Any], found: dict[str, Sequence[Any]]) -> Iterator[str]:
    name: dict[str, Any] = server.get("serverInfo") or {}
    title = f"{name.get('name', 'server')} {name.get('version', '')}".strip().replace("\n", "\\n")
    yield f"{title} ({server['revision']})"
    for title, entries in found.items():
        if entries:
            yield ""
            yield Bold(title)
        for entry in entries:
            name_of = getattr(entry, "uri", None) or getattr(entry, "uri_template", None) or entry.name
            summary = _description(entry).strip().splitlines()
            yield Row(f"{name_of}{_signature(entry)}", summary[0] if summary else "")
    if not any(found.values()):
        kinds = "tools, resources or prompts" if "skills" not in found else "skills"
        yield f"The server has no {kinds}."


def _description(entry: Any) -> str:
    if isinstance(entry, SkillEntry):
        return str(entry.frontmatter.get("description", ""))
    return entry.description or ""


def tool_result(result: ToolResult) -> Iterator[str]:
    for block in result.content:
        yield _block(block)
    if not result.content and result.structured_content is not None:
        yield formatted(result.structured_content)


def resource(result: ReadResourceResult) -> Iterator[str]:
    for item in result.contents:
        if isinstance(item.text, str):
            yield item.text
        else:
            kind = item.mime_type or "application/octet-stream"
            yield f"[{kind}, {_size(item.blob or '')} bytes; --json shows them in base64]"


def prompt(result: GetPromptResult) -> Iterator[str]:
    for message in result.messages:
        yield f"{message.role}:"
        yield _block(message.content, "  ")


def _size(base64: str) -> int:
    """Return the number of bytes."""
    return len(base64.rstrip("=")) * 3 // 4


def _block(block: Any, indent: str = "") -> str:
    kind = getattr(block, "mime_type", "")
    text = getattr(block, "text", None)
    if isinstance(text, str):
        return "\n".join(indent + line for line in text.splitlines()) or indent
    if hasattr(block, "data"):
        return f"{indent}[{kind}, {_size(block.data)} bytes]"
    if hasattr(block, "resource"):
        inner = block.resource
        body = inner.text if isinstance(inner.text, str) else f"[{inner.mime_type or 'bytes'}]"
        return f"{indent}{inner.uri}: {body}"
    return f"{indent}{getattr(block, 'title', None) or getattr(block, 'name', '')} <{block.uri}>"


def formatted(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def stderr_of_child() -> Callable[[bytes], None]:
    """Return a function that writes the stderr of a child process to stderr, made `printable`."""
    decode = getincrementaldecoder("utf-8")(errors="replace").decode

    def write(data: bytes) -> None:
        sys.stderr.write(printable(decode(data)))
        sys.stderr.flush()

    return write


def _signature(entry: Any) -> str:
    """Return the parameters of a tool or prompt; optional ones have a question mark."""
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
