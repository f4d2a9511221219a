"""Several versions of a tool under one name: their order, and how a client names one.

Versions are numbers with dots, a ``v`` before them or not, compared number by number (``1.10`` is newer than ``1.9``,
``1`` is ``1.0``); letters after them, or what follows a hyphen, make a version that comes before it (``2.0-rc.1``,
``2.0b1``); what follows a plus sign does not count. A date such as ``2026-07-28`` is its three numbers. Anything else
is older than all of these and compared as text.

A client names a version as ``name@version``, or in ``_meta`` with the key of Dovetail or of FastMCP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from ...errors import RegistrationError
from ...lazy_pattern import lazy_pattern
from ...model import Tool
from ...model.meta import FASTMCP, VERSION
from ...wire.dialects.dialect import VENDOR

VERSIONS: Final = VENDOR + "versions"
"""The ``_meta`` member of a tool that lists all versions, newest first."""
TAGS: Final = VENDOR + "tags"

_FOREIGN: Final = (FASTMCP, "_fastmcp")
_ALLOWED: Final = lazy_pattern(r"[!-?A-~]{1,64}")  # visible ASCII except @, which separates the version
_DATE: Final = lazy_pattern(r"(\d{4})-(\d\d)-(\d\d)")
_NUMBERS: Final = lazy_pattern(
    r"[vV]?(\d+(?:\.\d+)*)(?:-([0-9A-Za-z.-]+)|[._]?([A-Za-z][0-9A-Za-z.]*))?(?:\+.*)?"
)
_PIECES: Final = lazy_pattern(r"\d+|[A-Za-z]+")

Order = tuple[int, tuple[int, ...], tuple[Any, ...], str]


def order(version: str | None) -> Order:
    """A sort key for versions; equal for two spellings of one version."""
    if version is None:
        return (0, (), (), "")
    found = _NUMBERS.fullmatch(_DATE.sub(r"\1.\2.\3", version))
    if found is None:
        return (1, (), (), version)
    numbers = [int(number[:18]) for number in found[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    before = found[2] or found[3]
    if before is None:
        return (2, tuple(numbers), ((1,),), "")
    pieces = tuple(
        (0, int(piece[:18]), "") if piece.isdigit() else (1, 0, piece) for piece in _PIECES.findall(before)
    )
    return (2, tuple(numbers), ((0,), *pieces), "")


def check_version(version: str | None, what: str) -> None:
    """Refuse a version that cannot follow an ``@``."""
    if version is not None and not _ALLOWED.fullmatch(version):
        raise RegistrationError(
            f"the version of {what} is 1 to 64 visible characters without '@', not {version[:80]!r}"
        )


def split(name: str) -> tuple[str, str | None]:
    """Split a name into the plain name and the version at its end."""
    base, at, version = name.rpartition("@")
    return (base, version) if at and base and version else (name, None)


def joined(name: str, version: str | None) -> str:
    return name if version is None else f"{name}@{version}"


def asked_for(meta: Mapping[str, Any]) -> str | None:
    """The version that the ``_meta`` of a call requests."""
    version = _member(meta, VERSION)
    return version if isinstance(version, str) and version else None


def version_of(tool: Tool) -> str | None:
    """The version of a definition."""
    return asked_for(tool.meta or {})


def tags_of(tool: Tool) -> frozenset[str]:
    """The tags of a definition."""
    found = _member(tool.meta or {}, TAGS)
    return frozenset(filter(_is_text, cast("list[Any]", found))) if isinstance(found, list) else frozenset()


def versions_of(tool: Tool) -> list[str]:
    """All versions that a definition lists."""
    found = _member(tool.meta or {}, VERSIONS)
    return list(filter(_is_text, cast("list[Any]", found))) if isinstance(found, list) else []


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _member(meta: Mapping[str, Any], key: str) -> Any:
    found = meta.get(key)
    if found is not None:
        return found
    for name in _FOREIGN:
        members = meta.get(name)
        if isinstance(members, dict):
            return cast("dict[str, Any]", members).get(key.removeprefix(VENDOR))
    return None
