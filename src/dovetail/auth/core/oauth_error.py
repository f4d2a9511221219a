"""Why an authorization server of ours says no: a code of OAuth, and words for whoever wrote the client."""

from __future__ import annotations


class Denial(Exception):
    """What is answered in place of what was asked for (RFC 6749, 4.1.2.1 and 5.2; RFC 7591, 3.2.2)."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description
        self.status = status


class Unrecognised(Denial):
    """Client or redirect URI are not known: the user is told, and sent nowhere (RFC 6749, 4.1.2.1)."""
