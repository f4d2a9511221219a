"""Keep the structure of the official schemas and examples under tests/schemas/, without their sentences.

usage: schemas.py [FOLDER] — FOLDER holds ``2024-11-05.json`` … and defaults to ``$DOVETAIL_SCHEMAS``, then to
``../shared/protocol/schema``; the examples are read from ``examples/`` next to it, where it has one.

What a validator looks at is a fact of the protocol and stays: types, members, constants, bounds, references.
What only a reader looks at (descriptions, titles, examples, comments) goes. Of an example its shape stays: each
string that is more than a word, an address or a number becomes `TEXT`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests" / "schemas"
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
EXAMPLES = "examples-2026-07-28.json"

SENTENCES = frozenset(
    {"description", "title", "examples", "$comment", "markdownDescription", "tsType", "deprecationMessage"}
)
# Their keys are names of the protocol, never keywords: a member may well be called ``description``.
NAMES = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
VALUES = frozenset({"const", "enum", "default"})
WORD = re.compile(r"[^\s@]{1,48}")
# Four letters, so that it may stand for Base64 as well.
TEXT = "text"


def official() -> Path:
    """Where the official schemas are expected; they need not be there."""
    return Path(os.environ.get("DOVETAIL_SCHEMAS") or ROOT.parent / "shared" / "protocol" / "schema")


def stripped(schema: Any) -> Any:
    """Return ``schema`` without what is written for readers."""
    if isinstance(schema, list):
        return [stripped(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in NAMES:
            kept[keyword] = {name: stripped(one) for name, one in value.items()}
        elif keyword in VALUES:
            kept[keyword] = value
        elif keyword not in SENTENCES:
            kept[keyword] = stripped(value)
    return kept


def shape(example: Any) -> Any:
    """Return ``example`` with `TEXT` for each string that is more than a word."""
    if isinstance(example, list):
        return [shape(one) for one in example]
    if isinstance(example, dict):
        return {name: shape(one) for name, one in example.items()}
    return TEXT if isinstance(example, str) and not WORD.fullmatch(example) else example


def shapes(folder: Path) -> dict[str, Any]:
    """The shape of each example in ``folder``, by definition and name."""
    return {
        f"{path.parent.name}/{path.stem}": shape(json.loads(path.read_bytes()))
        for path in sorted(folder.glob("*/*.json"))
    }


def written(document: dict[str, Any]) -> str:
    """Write ``document`` compactly, one definition a line, so that a change shows where it is."""

    def compact(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def lines(members: dict[str, Any]) -> str:
        return (
            "{\n" + ",\n".join(f"{compact(name)}:{compact(value)}" for name, value in members.items()) + "\n}"
        )

    outer = (
        f"{compact(name)}:{lines(value) if name in NAMES else compact(value)}"
        for name, value in document.items()
    )
    return "{\n" + ",\n".join(outer) + "\n}\n"


def kept_files(folder: Path) -> dict[str, str]:
    """What tests/schemas/ is to hold, by file name, according to the official ``folder``."""
    files = {
        f"{name}.json": written(stripped(json.loads((folder / f"{name}.json").read_bytes())))
        for name in REVISIONS
    }
    examples = folder.parent / "examples" / REVISIONS[-1]
    if examples.is_dir():
        files[EXAMPLES] = written(shapes(examples))
    return files


def main() -> int:
    folder = Path(sys.argv[1]) if sys.argv[1:] else official()
    if not all((folder / f"{name}.json").is_file() for name in REVISIONS):
        print(f"the official schemas are not in {folder}", file=sys.stderr)
        return 2
    KEPT.mkdir(exist_ok=True)
    for name, text in kept_files(folder).items():
        (KEPT / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
