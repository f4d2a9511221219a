"""Whether a URI and a media type are written as they must be, and what is told of those that are not.

What is registered is found whatever it looks like; only an address that nobody knows is looked at closely, to
say why: too long, no URI at all, the template itself, or simply not there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...errors import URI_ECHO, ProtocolError, RegistrationError
from ...model.content import is_media_type
from .uri_templates import MATCHED_URI_LENGTH

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
# A host without user, port or brackets, then the end of the authority.
_PLAIN_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[A-Za-z0-9._~\-]*(?![^/?#])")
_TEMPLATE = re.compile(r"\{[+?]?[A-Za-z_][A-Za-z0-9_,]*\*?\}")
# RFC 3986, Appendix A, with the letters of RFC 3987: what no part of a URI may hold, and a broken escape.
_ILLEGAL = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]|%(?![0-9A-Fa-f]{2})")


class UriFault(NamedTuple):
    """What is wrong with a URI: a kind of `errors.KINDS`, and the sentence for people."""

    kind: str
    reason: str


def uri_fault(uri: str, longest: int = MATCHED_URI_LENGTH) -> UriFault | None:
    """What is wrong with ``uri``; None for one that is written as RFC 3986 (or 3987) wants it."""
    if len(uri) > longest:
        return UriFault("uri_too_long", f"the URI has more than {longest} characters")
    if _ILLEGAL.search(uri):
        return UriFault("uri_syntax_error", "the URI holds characters that none may, or a broken escape")
    if not _SCHEME.match(uri):
        return UriFault("invalid_uri", "a URI begins with a scheme, like weather://")
    if _PLAIN_HOST.match(uri):
        return None
    from urllib.parse import urlsplit  # it takes time to load

    try:
        urlsplit(uri).port  # noqa: B018  reading it is the check
    except ValueError:
        return UriFault("uri_syntax_error", "host and port of the URI cannot be read")
    return None


def not_there(uri: str, longest: int) -> ProtocolError:
    """What a client is told that asked for an address nobody knows."""
    data = {"uri": uri[:URI_ECHO]}
    if len(uri) <= longest and _TEMPLATE.search(uri):
        return ProtocolError("resource_template_not_found", data=data)
    fault = uri_fault(uri, longest)
    if fault is None:
        return ProtocolError("resource_not_found", data=data)
    return ProtocolError(fault.kind, fault.reason, data=data)


def check_uri(uri: str) -> None:
    """Refuse what cannot be registered under ``uri``."""
    fault = uri_fault(uri)
    if fault is not None:
        raise RegistrationError(f"{uri[:URI_ECHO]!r}: {fault.reason}", kind=fault.kind)


def check_media_type(text: str | None, what: str) -> None:
    """Refuse a media type that is none."""
    if text is not None and not is_media_type(text):
        raise RegistrationError(
            f"{what} has the media type {text!r}: write it like text/plain", kind="invalid_mime_type"
        )
