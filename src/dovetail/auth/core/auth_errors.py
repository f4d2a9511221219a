"""`AuthError`: a failed authorization, with the party at fault and advice."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ...errors import DovetailError

Fault: TypeAlias = Literal["server", "authorization server", "client", "user", "network"]


class AuthError(DovetailError):
    """A client could not be authorized.

    ``fault`` says who can fix it, ``advice`` how. The message never contains a secret. ``error`` is the OAuth
    error code of the authorization server (``invalid_grant``, ``access_denied``), if any.
    """

    kind = "authorization_failed"

    def __init__(self, message: str, *, fault: Fault, advice: str = "", error: str | None = None) -> None:
        super().__init__(f"{message} ({advice})" if advice else message)
        self.plain = message
        self.fault: Fault = fault
        self.advice = advice
        self.error = error
