"""Which packages a Python file imports, by its import statements."""

from __future__ import annotations

import ast
import os
from typing import Final

ORIGINALS: Final = frozenset({"fastmcp", "mcp"})
"""The libraries whose servers `dovetail run` serves too."""


def imported_packages(path: str | os.PathLike[str]) -> frozenset[str]:
    """The top-level packages that a file imports; none for a file that cannot be read or parsed."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return frozenset(found)
