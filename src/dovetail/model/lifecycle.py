"""The conversation itself: handshake and discovery, progress, logs, cancellation, changes, subscriptions.

``ping``, ``server/discover`` and erlmcp's ``shutdown`` need no more than `RequestParams` and answer with `EmptyResult`,
discovery apart. List-changed notifications, ``notifications/initialized`` and the like carry `NotificationParams`.
"""

from typing import Any

from msgspec import UNSET, UnsetType

from .struct_base import (
    CacheableResult,
    Definition,
    Implementation,
    LoggingLevel,
    NotificationParams,
    Number,
    ProgressToken,
    RequestId,
    RequestParams,
    Result,
)

__all__ = [
    "CancelledNotificationParams", "DiscoverResult", "InitializeRequestParams", "InitializeResult",
    "LoggingMessageNotificationParams", "ProgressNotificationParams", "ResourceUpdatedNotificationParams",
    "SetLevelRequestParams", "SubscriptionFilter", "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams", "SubscriptionsListenResult",
]  # fmt: skip


class InitializeRequestParams(RequestParams):
    """Wrap ``capabilities`` in `ClientCapabilities` to ask it questions."""

    protocol_version: str
    capabilities: dict[str, Any]
    client_info: Implementation


class InitializeResult(Result):
    """Wrap ``capabilities`` in `ServerCapabilities` to ask it questions."""

    protocol_version: str
    capabilities: dict[str, Any]
    server_info: Implementation
    instructions: str | UnsetType = UNSET


class DiscoverResult(CacheableResult):
    """What a server speaks and offers. Its name stands in ``_meta``, as on every result."""

    supported_versions: list[str]
    capabilities: dict[str, Any]
    instructions: str | UnsetType = UNSET


class SetLevelRequestParams(RequestParams):
    """Until 2025-11-25; later each request says in ``_meta`` what it wants logged."""

    level: LoggingLevel


class ProgressNotificationParams(NotificationParams):
    """``progress`` must grow with every notification; ``message`` exists since 2025-03-26."""

    progress_token: ProgressToken
    progress: Number
    total: Number | UnsetType = UNSET
    message: str | UnsetType = UNSET


class LoggingMessageNotificationParams(NotificationParams):
    """``data`` is any JSON, ``null`` included."""

    level: LoggingLevel
    data: Any
    logger: str | UnsetType = UNSET


class CancelledNotificationParams(NotificationParams):
    """The answer to ``request_id`` is not wanted any more. Send none for a request you do not know."""

    request_id: RequestId
    reason: str | UnsetType = UNSET


class ResourceUpdatedNotificationParams(NotificationParams):
    """``uri`` may lie below the one that was subscribed to."""

    uri: str


class SubscriptionFilter(Definition):
    """What a listen stream is to report. ``task_ids`` belongs to the tasks extension."""

    tools_list_changed: bool | UnsetType = UNSET
    prompts_list_changed: bool | UnsetType = UNSET
    resources_list_changed: bool | UnsetType = UNSET
    resource_subscriptions: list[str] | UnsetType = UNSET
    task_ids: list[str] | UnsetType = UNSET


class SubscriptionsListenRequestParams(RequestParams):
    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotificationParams(NotificationParams):
    """The first message of a listen stream: the part of the filter that will be honoured."""

    notifications: SubscriptionFilter


class SubscriptionsListenResult(Result):
    """The end of a listen stream. ``_meta`` must name the subscription."""
