"""Why there is no authorization: what went wrong, whose fault it is, and what would help."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ...errors import DovetailError

Fault: TypeAlias = Literal["server", "authorization server", "client", "user", "network"]


class AuthError(DovetailError):
    """A client could not be authorized.

    ``fault`` says who can change that, ``advice`` what to do. No secret is ever part of the message. ``error`` is the
    code of OAuth that an authorization server gave (``invalid_grant``, ``access_denied``), where it gave one.
    """

    kind = "authorization_failed"

    def __init__(self, message: str, *, fault: Fault, advice: str = "", error: str | None = None) -> None:
        super().__init__(f"{message} ({advice})" if advice else message)
        self.plain = message
        self.fault: Fault = fault
        self.advice = advice
        self.error = error
