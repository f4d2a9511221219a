"""Error responses of an authorization server (RFC 6749, 5.2)."""

from __future__ import annotations

import re
from typing import Any, Final, cast

import msgspec

from .auth_errors import AuthError, Fault
from .steps import Answer

MAX_ERROR_TEXT: Final = 200
"""Characters shown of an error description."""


_CODE = re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]{1,100}")
_FAULTS: dict[str, Fault] = {
    "access_denied": "user",
    "expired_token": "user",
    "invalid_client": "client",
    "unauthorized_client": "client",
    "invalid_scope": "client",
    "server_error": "authorization server",
    "temporarily_unavailable": "authorization server",
}


def refused(answer: Answer, what: str) -> AuthError:
    """Return the error for an unsuccessful response."""
    code, description = read_error(answer)
    said = code or f"HTTP {answer.status}"
    return refusal(what, said if code else None, description if code else f"HTTP {answer.status}")


def refusal(what: str, code: str | None, description: str | None) -> AuthError:
    """Return the error for a refusal, with the code and description of the authorization server."""
    more = f": {description}" if description else ""
    said = f": {code}{more}" if code else more
    return AuthError(f"{what}{said}", fault=_FAULTS.get(code or "", "authorization server"), error=code)


def read_error(answer: Answer) -> tuple[str | None, str | None]:
    """Return ``error`` and ``error_description`` in a printable form."""
    try:
        said: Any = msgspec.json.decode(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None, None
    if not isinstance(said, dict):
        return None, None
    members = cast("dict[str, Any]", said)
    return code_of(members.get("error")), words_of(members.get("error_description"))


def code_of(value: Any) -> str | None:
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def words_of(value: Any) -> str | None:
    """Return a description as one line of printable characters, truncated."""
    if not isinstance(value, str):
        return None
    line = "".join(each if each.isprintable() else " " for each in value[: 4 * MAX_ERROR_TEXT])
    return " ".join(line.split())[:MAX_ERROR_TEXT] or None
