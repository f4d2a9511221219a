"""What the events extension says on the wire: params, results, occurrences, and its error codes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType, field

from ...errors import NAME_ECHO, ProtocolError

EXTENSION: Final = "io.modelcontextprotocol/events"
SINCE: Final = "2026-07-28"
"""The first revision that has the extension."""
SUBSCRIPTION_HEADER: Final = "X-MCP-Subscription-Id"
MAX_MILLISECONDS: Final = 10**13
"""The longest time that a client can name, some 300 years. JSON has numbers of any size, a float has not."""

NOT_FOUND: Final = -32023
FORBIDDEN: Final = -32024
RESOURCE_EXHAUSTED: Final = -32025
UNSUPPORTED: Final = -32026
CALLBACK_ENDPOINT_ERROR: Final = -32027

DeliveryMode = Literal["poll", "push", "webhook"]
FailureReason = Literal[
    "connection_refused", "timeout", "tls_error", "http_4xx", "http_5xx", "challenge_failed"
]
"""Why a callback endpoint failed. Nothing else of its response may reach a client."""


class _Message(Struct, rename="camel", omit_defaults=True):
    """The base of all messages."""


class EventDefinition(_Message, kw_only=True):
    """One entry of ``events/list``."""

    name: str
    delivery: list[DeliveryMode]
    description: str | UnsetType = UNSET
    input_schema: dict[str, Any] = {}
    payload_schema: dict[str, Any] = {}
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class ListEventsParams(_Message, kw_only=True):
    cursor: str | None = None


class ListEventsResult(_Message, kw_only=True):
    events: list[EventDefinition]
    next_cursor: str | None = None


class SubscriptionParams(_Message, kw_only=True):
    """What every request for events names."""

    name: str
    arguments: dict[str, Any] = {}
    cursor: str | None = None
    max_age_ms: int | None = None


class PollEventsParams(SubscriptionParams, kw_only=True):
    max_events: int | None = None


class EventOccurrence(_Message, kw_only=True):
    """One event."""

    event_id: str
    name: str
    timestamp: str
    data: Any
    cursor: str | None = None
    meta: dict[str, Any] | UnsetType = field(name="_meta", default=UNSET)


class PollEventsResult(Struct, rename="camel", kw_only=True):
    events: list[EventOccurrence]
    cursor: str | None
    truncated: bool = False
    has_more: bool = False
    next_poll_ms: int = 0


class WebhookAddress(_Message, kw_only=True):
    """``delivery`` of a subscription."""

    url: str
    mode: str = "webhook"
    secret: str | UnsetType = UNSET


class SubscribeEventsParams(SubscriptionParams, kw_only=True):
    delivery: WebhookAddress
    ttl_ms: int | UnsetType | None = UNSET


class UnsubscribeEventsParams(_Message, kw_only=True):
    name: str
    delivery: WebhookAddress
    arguments: dict[str, Any] = {}


class DeliveryStatus(Struct, rename="camel", kw_only=True):
    """How the deliveries of a webhook subscription went."""

    active: bool = True
    last_delivery_at: str | None = None
    last_error: FailureReason | None = None
    failed_since: str | UnsetType = UNSET


class SubscribeEventsResult(Struct, rename="camel", kw_only=True):
    id: str
    refresh_before: str | None
    cursor: str | None
    truncated: bool = False
    delivery_status: DeliveryStatus | UnsetType = UNSET


def iso(moment: float) -> str:
    """Write a Unix time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_of(milliseconds: int) -> float:
    """Return a time that a client has named, in seconds."""
    return min(max(0, milliseconds), MAX_MILLISECONDS) / 1000


def unix(text: str) -> float:
    """Read an ISO 8601 time. Raises ValueError."""
    return datetime.fromisoformat(text).timestamp()


def event_not_found(name: str) -> ProtocolError:
    """The event type does not exist, or the caller may not see it."""
    return ProtocolError(
        "invalid_params",
        f"there is no event type {name[:NAME_ECHO]!r}; events/list has all names",
        data={"kind": "event"},
        code=NOT_FOUND,
    )


def subscription_not_found() -> ProtocolError:
    """Nothing is subscribed under this key."""
    text = "there is no subscription with this name, these arguments and this URL"
    return ProtocolError("invalid_params", text, data={"kind": "subscription"}, code=NOT_FOUND)


def forbidden(text: str) -> ProtocolError:
    """The principal may not subscribe."""
    return ProtocolError("permission_denied", text, data={}, code=FORBIDDEN)


def exhausted(limit: str, maximum: int) -> ProtocolError:
    """A limit of the server is reached."""
    text = f"too many {limit.replace('_', ' ')}: at most {maximum}"
    return ProtocolError(
        "quota_exceeded", text, data={"limit": limit, "max": maximum}, code=RESOURCE_EXHAUSTED
    )


def unsupported(mode: str) -> ProtocolError:
    """The event type does not offer a delivery mode."""
    return ProtocolError(
        "invalid_params",
        f"this event type is not delivered by {mode[:NAME_ECHO]!r}; events/list has its delivery modes",
        data={"feature": "deliveryMode", "value": mode[:NAME_ECHO]},
        code=UNSUPPORTED,
    )


def endpoint_failed(reason: FailureReason) -> ProtocolError:
    """The callback endpoint could not be verified."""
    text = f"the callback endpoint could not be verified ({reason})"
    return ProtocolError("dependency_failed", text, data={"reason": reason}, code=CALLBACK_ENDPOINT_ERROR)


def error_object(error: ProtocolError) -> dict[str, Any]:
    """Write an error for a notification or a webhook."""
    return {
        "code": error.code,
        "message": error.message,
        "data": error.data if error.data is not UNSET else {},
    }
