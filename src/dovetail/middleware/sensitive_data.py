"""Detection and redaction of secrets and personal data, by member name and by pattern."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

MAX_SECRET_LENGTH: Final = 32 << 10
"""Characters of whatever the patterns of `redaction.SECRETS` find; none of them finds more."""
MAX_LOGGED_DEPTH: Final = 6
"""Levels of arguments that are logged."""
MAX_LOGGED_ITEMS: Final = 50
"""Items of one array or members of one object that are logged."""
MAX_LOGGED_LENGTH: Final = 500
"""Characters of one text that are logged."""


MASK: Final = "[masked]"
_SECRET_NAME: Final = re.compile(
    r"pass(word|wd|phrase)?|secret|token|(api|access|auth|signing)[_-]?key|credential|authori[sz]ation|cookie|private|session|\bpin\b|cvv",
    re.IGNORECASE,
)
SECRETS: Final[Mapping[str, re.Pattern[str]]] = {
    "private_key": re.compile(
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,20000}-----END [A-Z ]{0,30}PRIVATE KEY-----"
    ),
    "jwt": re.compile(r"\beyJ[\w-]{8,4000}\.[\w-]{4,8000}\.[\w-]{4,2000}\b"),
    "bearer": re.compile(r"\b[Bb]earer\s{1,4}[\w.~+/=-]{12,4000}"),
    "api_key": re.compile(
        r"\b(?:sk|pk|rk)[-_](?:live|test|ant|proj)?[-_]?[A-Za-z0-9_-]{16,200}\b|\bAKIA[0-9A-Z]{16}\b"
        r"|\bgh[pousr]_[A-Za-z0-9]{30,255}\b|\bxox[abprs]-[A-Za-z0-9-]{10,200}\b|\bAIza[\w-]{35}\b"
    ),
}
PERSONAL: Final[Mapping[str, re.Pattern[str]]] = {
    "email": re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b"),
    "card": re.compile(r"\b(?:\d{4}[ -]?){3}\d{1,7}\b"),
    "iban": re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
    "phone": re.compile(r"(?<![\w+])\+\d{1,3}(?:[ -]?\d{2,4}){2,5}\b"),
}


def is_secret_name(name: str) -> bool:
    """Return whether a member with this name probably holds a secret."""
    return _SECRET_NAME.search(name) is not None


def redacted(value: Any, depth: int = MAX_LOGGED_DEPTH) -> Any:
    """Return ``value`` redacted and shortened for a log."""
    if isinstance(value, str):
        head = value[: MAX_LOGGED_LENGTH + MAX_SECRET_LENGTH]  # do not search megabytes on the event loop
        masked = head
        for pattern in SECRETS.values():
            masked = pattern.sub(MASK, masked)
        if len(head) < len(value):  # the end may be a truncated secret
            masked = masked[:-MAX_SECRET_LENGTH]
        cut = len(masked) > MAX_LOGGED_LENGTH or len(head) < len(value)
        return f"{masked[:MAX_LOGGED_LENGTH]}… ({len(value)} characters)" if cut else masked
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        if depth <= 0:
            return f"({len(members)} members)"
        return {
            str(name)[:MAX_LOGGED_LENGTH]: MASK if is_secret_name(str(name)) else redacted(member, depth - 1)
            for name, member in list(members.items())[:MAX_LOGGED_ITEMS]
        }
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return (
            [redacted(item, depth - 1) for item in items[:MAX_LOGGED_ITEMS]]
            if depth > 0
            else f"({len(items)} items)"
        )
    return value


def one_line(record: Mapping[str, Any]) -> str:
    """Return a record as one line of ASCII JSON, without newlines and escape sequences from its values."""
    return json.dumps(record, separators=(",", ":"), default=str).replace("\x7f", "\\u007f")
