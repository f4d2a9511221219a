"""Names that others know from here; the sessions are `ServerSession` and `ClientSession`."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..server.session import ServerSession as BaseSession
from ..types import CancelledNotification, ClientNotification

ProgressFnT = Callable[[float, float | None, str | None], Any]
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


class RequestResponder(Generic[_Asked, _Answer]):
    """What annotations of message handlers name; such a handler hears of notifications, requests have callbacks."""


__all__ = ["BaseSession", "CancelledNotification", "ClientNotification", "ProgressFnT", "RequestResponder"]
