"""Check URIs and media types at registration, and explain why an unknown URI cannot be read.

A registered URI is found without these checks. Only an unknown one is examined, so that the error can say why: too
long, invalid, a template, or not found.
"""

from __future__ import annotations

from typing import NamedTuple

from ...errors import URI_ECHO, ProtocolError, RegistrationError
from ...lazy_pattern import lazy_pattern
from ...model.content import is_media_type
from .uri_templates import MATCHED_URI_LENGTH

_SCHEME = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.\-]*:")
# A host without user, port or brackets, then the end of the authority.
_PLAIN_HOST = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.\-]*://[A-Za-z0-9._~\-]*(?![^/?#])")
_TEMPLATE = lazy_pattern(r"\{[+?]?[A-Za-z_][A-Za-z0-9_,]*\*?\}")
# RFC 3986, Appendix A, with the letters of RFC 3987: forbidden characters, and invalid percent-encoding.
_ILLEGAL = lazy_pattern(r"[\x00-\x20\x7f\"<>\\^`{|}]|%(?![0-9A-Fa-f]{2})")


class UriFault(NamedTuple):
    """What is wrong with a URI: a kind of `errors.KINDS`, and a message."""

    kind: str
    reason: str


def uri_fault(uri: str, longest: int = MATCHED_URI_LENGTH) -> UriFault | None:
    """What is wrong with ``uri``; None if it is valid by RFC 3986 or 3987."""
    if len(uri) > longest:
        return UriFault("uri_too_long", f"the URI has more than {longest} characters")
    if _ILLEGAL.search(uri):
        return UriFault("uri_syntax_error", "the URI has a forbidden character or invalid percent-encoding")
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
    """The error for an unknown URI."""
    data = {"uri": uri[:URI_ECHO]}
    if len(uri) <= longest and _TEMPLATE.search(uri):
        return ProtocolError("resource_template_not_found", data=data)
    fault = uri_fault(uri, longest)
    if fault is None:
        return ProtocolError("resource_not_found", data=data)
    return ProtocolError(fault.kind, fault.reason, data=data)


def check_uri(uri: str) -> None:
    """Refuse a URI under which no resource can be registered."""
    fault = uri_fault(uri)
    if fault is not None:
        raise RegistrationError(f"{uri[:URI_ECHO]!r}: {fault.reason}", kind=fault.kind)


def check_media_type(text: str | None, what: str) -> None:
    """Refuse an invalid media type."""
    if text is not None and not is_media_type(text):
        raise RegistrationError(
            f"{what} has the media type {text!r}: write it like text/plain", kind="invalid_mime_type"
        )
