"""A folder for a model: list, read, search and write, and never outside of it. `dovetail run files.py`

FILES_ROOT names the folder (the working directory otherwise).
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dovetail import Server, ToolError

ROOT = Path(os.environ.get("FILES_ROOT", ".")).resolve()
LARGEST = 1 << 20
"""Bytes of a file that is read whole."""
FOUND = 100

server = Server(
    "files", version="1.0.0", instructions="Paths are relative to one folder; nothing else can be reached."
)


@dataclass
class Entry:
    path: str
    folder: bool
    size: int


@dataclass
class Line:
    path: str
    number: int
    text: str


def inside(path: str) -> Path:
    """``path`` below the folder. Links are followed first: one that leads out is outside."""
    found = (ROOT / path).resolve()
    if not found.is_relative_to(ROOT):
        raise ToolError(f"{path} is outside of the folder.")
    return found


def text_of(path: Path) -> str:
    if not path.is_file():
        raise ToolError(f"There is no file {path.relative_to(ROOT)}.")
    if path.stat().st_size > LARGEST:
        raise ToolError(f"{path.relative_to(ROOT)} has more than {LARGEST} bytes.")
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise ToolError(f"{path.relative_to(ROOT)} is no text.") from None


@server.tool(annotations={"readOnlyHint": True})
def list_files(folder: Annotated[str, "Relative to the root; empty for the root"] = "") -> list[Entry]:
    """What lies in a folder."""
    here = inside(folder)
    if not here.is_dir():
        raise ToolError(f"There is no folder {folder}.")
    return [
        Entry(one.relative_to(ROOT).as_posix(), one.is_dir(), one.stat(follow_symlinks=False).st_size)
        for one in sorted(here.iterdir())
    ]


@server.tool(annotations={"readOnlyHint": True})
def read_file(path: str) -> str:
    """The text of a file."""
    return text_of(inside(path))


@server.tool(annotations={"readOnlyHint": True})
def search(word: str, pattern: Annotated[str, "Which files, such as **/*.py"] = "**/*") -> list[Line]:
    """Lines that contain a word."""
    found: list[Line] = []
    for path in sorted(ROOT.glob(pattern)):
        if not path.is_file() or not path.resolve().is_relative_to(ROOT) or path.stat().st_size > LARGEST:
            continue
        lines = path.read_text(errors="replace").splitlines()
        name = path.relative_to(ROOT).as_posix()
        found += [Line(name, number, line) for number, line in enumerate(lines, 1) if word in line]
        if len(found) >= FOUND:
            return found[:FOUND]
    return found


@server.tool(annotations={"destructiveHint": True, "idempotentHint": True})
def write_file(path: str, text: str) -> str:
    """Write a file, and the folders it lies in."""
    target = inside(path)
    if target.is_dir():
        raise ToolError(f"{path} is a folder.")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return f"{len(text)} characters in {target.relative_to(ROOT)}"


@server.resource("files:///{+path}")
def contents(path: str) -> str:
    """A file as a resource."""
    return text_of(inside(path))
