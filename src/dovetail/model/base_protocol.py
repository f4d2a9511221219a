"""Messages of the base protocol: handshake, discovery, progress, logging, cancellation, subscriptions.

``ping``, ``server/discover`` and erlmcp's ``shutdown`` use `RequestParams` and, except for discovery, return
an `EmptyResult`. List-changed notifications, ``notifications/initialized`` and others use
`NotificationParams`.
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
    """Wrap ``capabilities`` in `ClientCapabilities` to query them."""

    protocol_version: str
    capabilities: dict[str, Any]
    client_info: Implementation


class InitializeResult(Result):
    """Wrap ``capabilities`` in `ServerCapabilities` to query them."""

    protocol_version: str
    capabilities: dict[str, Any]
    server_info: Implementation
    instructions: str | UnsetType = UNSET


class DiscoverResult(CacheableResult):
    """The revisions and capabilities of a server. Its server info is in ``_meta``, as in every result."""

    supported_versions: list[str]
    capabilities: dict[str, Any]
    instructions: str | UnsetType = UNSET


class SetLevelRequestParams(RequestParams):
    """Until 2025-11-25. Later each request sets its log level in ``_meta``."""

    level: LoggingLevel


class ProgressNotificationParams(NotificationParams):
    """``progress`` must increase with every notification. ``message`` exists since 2025-03-26."""

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
    """The response to ``request_id`` is no longer needed. Do not send it for unknown requests."""

    request_id: RequestId
    reason: str | UnsetType = UNSET


class ResourceUpdatedNotificationParams(NotificationParams):
    """``uri`` may be below the subscribed URI."""

    uri: str


class SubscriptionFilter(Definition):
    """The notifications that a listen stream requests. ``task_ids`` belongs to the tasks extension."""

    tools_list_changed: bool | UnsetType = UNSET
    prompts_list_changed: bool | UnsetType = UNSET
    resources_list_changed: bool | UnsetType = UNSET
    resource_subscriptions: list[str] | UnsetType = UNSET
    task_ids: list[str] | UnsetType = UNSET


class SubscriptionsListenRequestParams(RequestParams):
    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotificationParams(NotificationParams):
    """The first message of a listen stream: the granted part of the filter."""

    notifications: SubscriptionFilter


class SubscriptionsListenResult(Result):
    """The end of a listen stream. ``_meta`` must contain the subscription id."""
