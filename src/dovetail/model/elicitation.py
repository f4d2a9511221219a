"""Elicitation: a server asks the user, by a form of primitive fields or by sending them to a URL.

The schemas of a form and of its fields travel as plain dicts, so that every keyword survives.
"""

from typing import Any, Literal, Self, TypeAlias

from msgspec import UNSET, UnsetType

from .base import NotificationParams, RequestParams, Result, TaskMetadata

__all__ = [
    "ElicitAction", "ElicitRequestFormParams", "ElicitRequestParams", "ElicitRequestURLParams",
    "ElicitResult", "ElicitationCompleteNotificationParams",
]  # fmt: skip

ElicitAction: TypeAlias = Literal["accept", "decline", "cancel"]


class ElicitRequestParams(RequestParams):
    """One question, in one of two modes; absent means ``form``.

    The schema knows two definitions that no member tells apart for certain; the names
    `ElicitRequestFormParams` and `ElicitRequestURLParams` mean this Struct.
    Build it with `form` or `for_url`.
    """

    message: str
    mode: Literal["form", "url"] | UnsetType = UNSET
    requested_schema: dict[str, Any] | UnsetType = UNSET
    url: str | UnsetType = UNSET
    elicitation_id: str | UnsetType = UNSET
    """In 2025-11-25 only: names the URL question in `ElicitationCompleteNotificationParams`."""
    task: TaskMetadata | UnsetType = UNSET
    """In 2025-11-25 only: run this request as a task."""

    def __post_init__(self) -> None:
        if self.mode == "url":
            if self.url is UNSET:
                raise ValueError("a question in url mode needs `url`")
        elif self.requested_schema is UNSET:
            raise ValueError("a question in form mode needs `requestedSchema`")

    @classmethod
    def form(cls, message: str, requested_schema: dict[str, Any]) -> Self:
        """Ask the user to fill in a flat object of primitive fields."""
        return cls(message, requested_schema=requested_schema)

    @classmethod
    def for_url(cls, message: str, url: str, elicitation_id: str | UnsetType = UNSET) -> Self:
        """Ask the user to do something at ``url``."""
        return cls(message, mode="url", url=url, elicitation_id=elicitation_id)


ElicitRequestFormParams: TypeAlias = ElicitRequestParams
ElicitRequestURLParams: TypeAlias = ElicitRequestParams


class ElicitResult(Result):
    """``content`` comes with ``accept`` in form mode only. Check it against the form before using it."""

    action: ElicitAction
    content: dict[str, Any] | UnsetType = UNSET


class ElicitationCompleteNotificationParams(NotificationParams):
    """The user is done at the URL. In 2025-11-25 only."""

    elicitation_id: str
