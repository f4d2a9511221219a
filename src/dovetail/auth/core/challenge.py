"""``WWW-Authenticate`` challenges: parse and write them (RFC 9110 section 11, RFC 6750 section 3).

write(Challenge("Bearer", {"resource_metadata": url, "scope": "mail:read"}))
for challenge in read(response_headers): challenge.parameters.get("scope")
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

CHALLENGE_LENGTH: Final = 16 << 10
"""Characters that are read of one WWW-Authenticate header."""
CHALLENGES_READ: Final = 16
"""Challenges that are read of one response."""

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TOKEN68: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*(?=[ \t]*(?:,|$))")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_UNSAFE: Final = re.compile(r"[^\x20-\x7e]")
_SPACE: Final = re.compile(r"[ \t]*")
_GAP: Final = re.compile(r"[ \t,]*")


class Challenge(Struct, frozen=True):
    """One challenge: a scheme and its parameters."""

    scheme: str
    parameters: Mapping[str, str] = {}
    """Parameter names are lower case."""
    token68: str | None = None

    @property
    def bearer(self) -> bool:
        return self.scheme.lower() == "bearer"

    @property
    def scopes(self) -> tuple[str, ...] | None:
        """The requested scopes in order; None if the challenge names none."""
        text = self.parameters.get("scope")
        return None if text is None else tuple(dict.fromkeys(text.split()))


def bearer(
    *,
    resource_metadata: str | None = None,
    scope: str | None = None,
    error: str | None = None,
    description: str | None = None,
) -> Challenge:
    """Return the challenge of a protected resource. Parameters that are None are left out."""
    parameters = {
        "error": error,
        "error_description": description,
        "scope": scope,
        "resource_metadata": resource_metadata,
    }
    return Challenge("Bearer", {name: value for name, value in parameters.items() if value is not None})


def proving(challenge: Challenge, algorithms: Iterable[str]) -> Challenge:
    """Return the DPoP challenge for a token bound to a key (RFC 9449, 7.1)."""
    return Challenge("DPoP", {**challenge.parameters, "algs": " ".join(algorithms)})


def write(challenge: Challenge) -> str:
    """Return the header value. Characters that are not allowed in a header are replaced."""
    said = ", ".join(f'{name}="{_escape(value)}"' for name, value in challenge.parameters.items())
    return f"{challenge.scheme} {said}" if said else challenge.scheme


def read(values: str | Iterable[str]) -> list[Challenge]:
    """Parse the challenges of one or several headers, in order. A malformed header is read up to the error."""
    found: list[Challenge] = []
    for value in (values,) if isinstance(values, str) else values:
        _read_one(value[:CHALLENGE_LENGTH], found)
        if len(found) >= CHALLENGES_READ:
            break
    return found[:CHALLENGES_READ]


def _read_one(text: str, found: list[Challenge]) -> None:
    at = _after(_GAP, text, 0)
    while at < len(text) and len(found) < CHALLENGES_READ:
        scheme = _TOKEN.match(text, at)
        if scheme is None:
            return
        at = _after(_SPACE, text, scheme.end())
        token68 = _TOKEN68.match(text, at) if at > scheme.end() else None
        if token68 is not None:
            found.append(Challenge(scheme[0], {}, token68[0]))
            at = _after(_GAP, text, token68.end())
            continue
        parameters: dict[str, str] = {}
        at = _read_parameters(text, at, parameters)
        found.append(Challenge(scheme[0], parameters))


def _read_parameters(text: str, at: int, parameters: dict[str, str]) -> int:
    """Parse ``name=value, …`` into ``parameters``. Return the start of the next challenge, or the end."""
    while True:
        at = _after(_GAP, text, at)
        name = _TOKEN.match(text, at)
        if name is None:
            return len(text)
        equals = _after(_SPACE, text, name.end())
        if text[equals : equals + 1] != "=":
            return at  # the scheme of the next challenge
        start = _after(_SPACE, text, equals + 1)
        quoted = _QUOTED.match(text, start)
        value = quoted or _TOKEN.match(text, start)
        if value is None:
            return len(text)
        said = value[0] if quoted is None else _ESCAPED.sub(r"\1", quoted[1])
        parameters.setdefault(name[0].lower(), said)
        at = value.end()


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _escape(value: str) -> str:
    return _UNSAFE.sub("?", value).replace("\\", "\\\\").replace('"', '\\"')
