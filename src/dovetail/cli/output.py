"""The output of the commands: text by default, JSON with ``--json``."""

from __future__ import annotations

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Sequence
from shutil import get_terminal_size
from typing import Any, TextIO, cast

import msgspec
from msgspec import UNSET

from ..client.calling.results import ToolResult
from ..errors import DovetailError, ProtocolError, Refusal
from ..model import GetPromptResult, ReadResourceResult, SkillEntry
from ..telemetry.terminal_sanitizer import printable
from .signatures import PrintedSignature, signature


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
    """Two cells: columns of a table on a terminal, two lines elsewhere. `wrap` breaks a long first cell into lines."""

    cells: tuple[str, str]
    wrap: Callable[[int], Sequence[str]] | None

    def __new__(cls, first: str, second: str, wrap: Callable[[int], Sequence[str]] | None = None) -> Row:
        first, second = (
            each.replace("\n", "\\n") for each in (first, second)
        )  # text of a server cannot imitate lines of the output
        made = super().__new__(cls, f"  {first}\n      {second}" if second else f"  {first}")
        made.cells = first, second
        made.wrap = wrap
        return made


def coloured(stream: TextIO) -> bool:
    """Return whether ``stream`` is a terminal that shows colour, and colour is not disabled (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


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
    """Return the lines, with rows as a table that fits the terminal.

    A first cell longer than half a line has lines without a second column; its second cell follows on the next line.
    """
    columns = get_terminal_size().columns
    firsts = [len(printable(line.cells[0])) for line in lines if isinstance(line, Row)]
    width = max((one for one in firsts if one <= columns // 2), default=0)
    for line in lines:
        if not isinstance(line, Row):
            yield line.indented() if isinstance(line, JsonText) else line
            continue
        first, second = (printable(cell) for cell in line.cells)
        if len(first) <= width:
            yield f"  {first:{width}}  {_cut(second, columns - width - 5)}".rstrip()
            continue
        shown = [first] if line.wrap is None else line.wrap(columns - 3)
        yield from (f"  {_cut(printable(one), columns - 3)}" for one in shown)
        if second:
            yield f"      {_cut(second, columns - 7)}"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def listing(server: dict[str, Any], found: dict[str, Sequence[Any]]) -> Iterator[str]:
    name: dict[str, Any] = server.get("serverInfo") or {}
    title = f"{name.get('name', 'server')} {name.get('version', '')}".strip().replace("\n", "\\n")
    yield f"{title} ({server['revision']})"
    for title, entries in found.items():
        if entries:
            yield ""
            yield Bold(title)
        for entry in entries:
            summary = _description(entry).strip().splitlines()
            shown = signature(entry)
            wrap = None if shown.parameters is None else _wrap(shown)
            yield Row(str(shown), summary[0] if summary else "", wrap)
    if not any(found.values()):
        kinds = "tools, resources or prompts" if "skills" not in found else "skills"
        yield f"The server has no {kinds}."


def _wrap(shown: PrintedSignature) -> Callable[[int], Sequence[str]]:
    return lambda width: [line.replace("\n", "\\n") for line in shown.wrapped(width)]


def _description(entry: Any) -> str:
    if isinstance(entry, SkillEntry):
        return str(entry.frontmatter.get("description", ""))
    return entry.description or ""


class JsonText(str):
    """Text that may be JSON: indented on a terminal, unchanged elsewhere."""

    def indented(self) -> str:
        """Return the text with JSON objects and arrays indented; other text is unchanged."""
        if not self.lstrip().startswith(("{", "[")):
            return self
        try:
            return msgspec.json.format(self.encode(), indent=2).decode()
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return self


def tool_result(result: ToolResult) -> Iterator[str]:
    for block in result.content:
        yield JsonText(_block(block))
    if not result.content and result.structured_content is not None:
        yield formatted(result.structured_content)


def resource(result: ReadResourceResult) -> Iterator[str]:
    for item in result.contents:
        if isinstance(item.text, str):
            yield JsonText(item.text)
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
