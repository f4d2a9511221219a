"""URI templates: the part of RFC 6570 that can be matched unambiguously.

- ``{name}`` is one path segment or a part of one;
- ``{+name}`` and ``{name*}`` may span segments (at most one of them in a template);
- ``{?a,b}`` at the end are query members, any of which may be absent.

Matching is linear in the length of the URI: no regular expression, no backtracking. Values are
percent-decoded once. Decoding must not allow path traversal, so values with ``.`` or ``..`` as a segment, with a slash
inside one segment, with a backslash or a control character never match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ...errors import RegistrationError

MATCHED_URI_LENGTH: Final = 8192
"""The longest URI that is matched against templates; a longer one does not match."""


_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.\-]*:"
_EXPRESSION: Final = r"\{([^{}]*)\}"
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_BROKEN: Final = r"%(?![0-9A-Fa-f]{2})"
_DRIVE: Final = r"[A-Za-z]:"


class _Variable(Struct, frozen=True):
    name: str
    spanning: bool
    rooted: bool
    """It may begin with a slash, because no slash precedes it."""


class UriTemplate:
    """A template, parsed once.

    Raises:
        RegistrationError: (kind ``invalid_uri_template``) it could be matched in more than one way; the text says what
        to change.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        path, self._query = _split_query(text)
        self._literals, self._variables = _parse(path, text)
        names = [variable.name for variable in self._variables]
        self.optional: tuple[str, ...] = self._query
        self.variables: tuple[str, ...] = (*names, *self._query)
        if len(set(self.variables)) != len(self.variables):
            raise _invalid(text, "a variable appears twice")
        spanning = [index for index, variable in enumerate(self._variables) if variable.spanning]
        if len(spanning) > 1:
            raise _invalid(text, "only one variable may span segments")
        self._pivot = spanning[0] if spanning else len(self._variables) - 1
        """The variable that takes the rest when those before and after it have taken the least."""

    def match(self, uri: str) -> dict[str, str] | None:
        """The values of the variables in ``uri``, or None. Absent query members are not in the dict."""
        if len(uri) > MATCHED_URI_LENGTH:
            return None
        query = ""
        if self._query:
            uri, _, query = uri.partition("?")
        if not self._variables:
            return self._match_query({}, query) if uri == self._literals[0] else None
        values = self._match_path(uri)
        return None if values is None else self._match_query(values, query)

    def expand(self, values: Mapping[str, str]) -> str | None:
        """The URI with these ``values``; None if one of the path is missing."""
        from urllib.parse import quote  # it takes time to load

        parts = [self._literals[0]]
        for variable, literal in zip(self._variables, self._literals[1:], strict=True):
            value = values.get(variable.name)
            if not value:
                return None
            parts += [quote(value, safe="/" if variable.spanning else ""), literal]
        members = [f"{name}={quote(values[name], safe='')}" for name in self._query if name in values]
        return "".join(parts) + ("?" + "&".join(members) if members else "")

    def _match_path(self, uri: str) -> dict[str, str] | None:
        """Match the variables before and after the pivot, each with its shortest value; the pivot takes the rest."""
        literals, variables, pivot = self._literals, self._variables, self._pivot
        if not uri.startswith(literals[0]) or not uri.endswith(literals[-1]):
            return None
        start, end = len(literals[0]), len(uri) - len(literals[-1])
        found: dict[str, str] = {}
        for index in range(pivot):
            stop = uri.find(literals[index + 1], start + 1, end)
            if stop < 0:
                return None
            found[variables[index].name] = uri[start:stop]
            start = stop + len(literals[index + 1])
        for index in range(len(variables) - 1, pivot, -1):
            stop = uri.rfind(literals[index], start, end - 1)
            if stop < 0:
                return None
            found[variables[index].name] = uri[stop + len(literals[index]) : end]
            end = stop
        if start >= end:
            return None
        found[variables[pivot].name] = uri[start:end]
        return _decoded(found, variables)

    def _match_query(self, values: dict[str, str], query: str) -> dict[str, str] | None:
        for pair in query.split("&") if query else ():
            name, _, text = pair.partition("=")
            if name not in self._query:
                continue  # an unknown query member; RFC 6570 allows it
            value = _percent_decoded(text.replace("+", "%20"))
            if value is None or name in values:
                return None
            values[name] = value
        return values


def _split_query(text: str) -> tuple[str, tuple[str, ...]]:
    head, mark, tail = text.partition("{?")
    if not mark:
        return text, ()
    names, brace, rest = tail.partition("}")
    if not brace or rest:
        raise _invalid(text, "{?…} must be the end")
    for name in names.split(","):
        if not re.fullmatch(_NAME, name):
            raise _invalid(text, f"{name!r} is not a name")
    return head, tuple(names.split(","))


def _parse(path: str, text: str) -> tuple[list[str], list[_Variable]]:
    pieces = re.split(_EXPRESSION, path)
    literals = pieces[::2]
    variables = [_variable(*pair, text) for pair in zip(pieces[1::2], literals, strict=False)]
    if any("{" in literal or "}" in literal for literal in literals):
        raise _invalid(text, "a brace is not closed")
    if "" in literals[1:-1]:
        raise _invalid(text, "two variables touch: put something between them")
    if not re.match(_SCHEME, literals[0]):
        raise _invalid(text, "a URI begins with a scheme, like weather://")
    return literals, variables


def _variable(expression: str, before: str, text: str) -> _Variable:
    name = expression.removeprefix("+") if expression.startswith("+") else expression.removesuffix("*")
    if not re.fullmatch(_NAME, name):
        raise _invalid(
            text, f"{{{expression}}} is not supported: use {{name}}, {{+name}}, {{name*}} or {{?a,b}}"
        )
    rooted = not before.endswith("/") or before.endswith("://")
    return _Variable(name, spanning=name != expression, rooted=rooted)


def _invalid(text: str, why: str) -> RegistrationError:
    return RegistrationError(f"invalid URI template {text!r}: {why}", kind="invalid_uri_template")


def _decoded(found: dict[str, str], variables: list[_Variable]) -> dict[str, str] | None:
    values: dict[str, str] = {}
    for variable in variables:
        text = found[variable.name]
        if not variable.spanning and ("?" in text or "#" in text):
            return None  # the segment ends there
        value = _percent_decoded(text)
        if value is None or not _harmless(value, variable):
            return None
        values[variable.name] = value
    return values


def _percent_decoded(text: str) -> str | None:
    if "%" not in text:
        return text
    if re.search(_BROKEN, text):
        return None
    from urllib.parse import unquote_to_bytes

    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        return None


def _harmless(value: str, variable: _Variable) -> bool:
    """Whether the decoded value cannot escape its directory when a handler joins it to a path."""
    if "\\" in value or any(character < " " or character == "\x7f" for character in value):
        return False
    segments = value.split("/")
    if ".." in segments or "." in segments:
        return False
    if not variable.spanning:
        return len(segments) == 1
    return variable.rooted or not (value.startswith("/") or re.match(_DRIVE, value))
