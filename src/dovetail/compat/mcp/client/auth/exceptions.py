"""What goes wrong on the way to a token, in the classes of SDK 1.x."""

from __future__ import annotations

from typing import Final

from .....auth.core.problems import AuthError, Fault

_REGISTRATION: Final = {
    "invalid_redirect_uri", "invalid_client_metadata", "invalid_software_statement", "unapproved_software_statement",
}  # fmt: skip
"""The codes of RFC 7591."""


class OAuthFlowError(AuthError):
    """There is no authorization to be had."""

    def __init__(self, message: str = "", *, fault: Fault = "authorization server") -> None:
        super().__init__(message, fault=fault)


class OAuthTokenError(OAuthFlowError):
    """The token endpoint refused."""


class OAuthRegistrationError(OAuthFlowError):
    """The client was not registered."""


def flow_error(error: AuthError) -> OAuthFlowError:
    """``error`` in the class that users of SDK 1.x catch."""
    if isinstance(error, OAuthFlowError):
        return error
    kind = OAuthFlowError if error.error in (None, "access_denied") else OAuthTokenError
    kind = OAuthRegistrationError if error.error in _REGISTRATION else kind
    return kind(error.message, fault=error.fault)
