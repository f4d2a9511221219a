"""Find the packages that a Python file imports."""

from __future__ import annotations

import ast
import os
from typing import Final

ORIGINALS: Final = frozenset({"fastmcp", "mcp"})
"""The libraries whose servers `dovetail run` can serve."""


def imported_packages(path: str | os.PathLike[str]) -> frozenset[str]:
    """Return the top-level packages that a file imports; none if it cannot be read or parsed."""
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
