"""Migrate one program, from bytes to bytes."""

from __future__ import annotations

import libcst as cst
from libcst.metadata import MetadataWrapper

from ...errors import DovetailError
from .imports import Importing, used
from .program_analysis import Reading, family
from .rewriting import MARK, Rewriting


def migrate(source: bytes) -> bytes:
    """Return the migrated program of ``source``.

    Raises:
        DovetailError: ``source`` is not Python, or has no server.
    """
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise DovetailError(f"not valid Python: line {error.raw_line}: {error.message}") from None
    except (SyntaxError, LookupError, ValueError) as error:
        raise DovetailError(f"not valid Python: {error}") from None
    try:
        return _migrate(_with_marks(module))
    except RecursionError:
        raise DovetailError("the program is nested too deeply to be analysed") from None


def _migrate(module: cst.Module) -> bytes:
    wrapper, reading = MetadataWrapper(module), Reading()
    wrapper.visit(reading)
    if not reading.servers and not reading.low_level and not _concerned(reading):
        raise DovetailError("the program has no server of FastMCP or of the official SDK")
    rewriting = Rewriting(reading)
    rewritten = wrapper.visit(rewriting)
    importing = Importing(used(wrapper.module), used(rewritten), rewriting.names, rewriting.needed)
    return rewritten.visit(importing).bytes


def _with_marks(module: cst.Module) -> cst.Module:
    """Move comments above the first statement from the module to this statement."""
    lines = module.header
    place = next(
        (at for at, line in enumerate(lines) if line.comment and line.comment.value.startswith(MARK)), None
    )
    first = module.body[0] if module.body else None
    if place is None or not isinstance(first, cst.SimpleStatementLine):
        return module
    first = first.with_changes(leading_lines=[*lines[place:], *first.leading_lines])
    return module.with_changes(header=lines[:place], body=[first, *module.body[1:]])


def _concerned(reading: Reading) -> bool:
    """Return whether the program has a server: it imports one of the libraries, or was migrated."""
    return "dovetail" in reading.others or any(
        family(name) in ("fastmcp", "mcp") for name in reading.imported.values()
    )
