"""`Denial`: an OAuth error response of the proxy: an error code and a description."""

from __future__ import annotations


class Denial(Exception):
    """An OAuth error response (RFC 6749, 4.1.2.1 and 5.2; RFC 7591, 3.2.2)."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description
        self.status = status


class Unrecognised(Denial):
    """The client or the redirect URI is unknown: show an error page, do not redirect (RFC 6749, 4.1.2.1)."""
