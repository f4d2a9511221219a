"""Scopes: lists of names (RFC 6749 section 3.3), and which of them imply others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def scope_list(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return scopes in order without duplicates. ``given`` is a space-separated string, or several strings.

    Raises:
        ValueError: a scope is not valid.
    """
    words = given.split() if isinstance(given, str) else given
    scopes = tuple(dict.fromkeys(words))
    wrong = next((scope for scope in scopes if not _SCOPE.fullmatch(scope)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is not a scope: visible ASCII without spaces, quotes and backslashes")
    return scopes


def scope_text(scopes: Iterable[str]) -> str | None:
    """Return scopes as a string for requests and challenges, sorted; None without scopes."""
    return " ".join(sorted(set(scopes))) or None


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the granted scopes: ``scope`` (RFC 9068, RFC 7662), or ``scp`` at some providers.

    A value that is neither a string nor a list of strings grants nothing.
    """
    found = claims.get("scope", claims.get("scp"))
    if isinstance(found, str):
        return frozenset(found.split())
    if isinstance(found, list):
        return frozenset(scope for scope in cast("list[Any]", found) if isinstance(scope, str))
    return frozenset()


class Hierarchy:
    """Which scopes imply others: ``Hierarchy({"mail": ["mail:read", "mail:send"]})``."""

    def __init__(self, implied: Mapping[str, str | Iterable[str]] | None = None) -> None:
        self._implied = {scope: scope_list(others) for scope, others in (implied or {}).items()}

    def expand(self, scopes: frozenset[str]) -> frozenset[str]:
        """Return ``scopes`` and all scopes they imply, also indirectly."""
        if not self._implied:
            return scopes
        whole, open_ = set(scopes), list(scopes)
        while open_:
            new = set(self._implied.get(open_.pop(), ())) - whole
            whole |= new
            open_ += new
        return frozenset(whole)
