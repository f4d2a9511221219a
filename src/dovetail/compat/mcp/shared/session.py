"""Names that others know from here; the sessions are `ServerSession` and `ClientSession`."""

from typing import Protocol

from ..server.session import ServerSession as BaseSession
from ..types import CancelledNotification, ClientNotification


class ProgressFnT(Protocol):
    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


__all__ = ["BaseSession", "CancelledNotification", "ClientNotification", "ProgressFnT"]
