"""Extensions of the protocol, for ``Server(extensions=[…])`` and ``Client(extensions=[…])``.

`Extension` in `extension` is their base class. `apps` has MCP Apps (tools whose results a host shows as a page),
`events` tells clients what has happened, `idempotency` runs calls with a key once, `server_card` publishes where a
server is reached, `skills` serves skills from folders and from code, `tasks` has tools that run as tasks. A name is
loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .apps import App, Apps
    from .events.client_events import EventsClient
    from .events.event_types import Event, EventBatch
    from .events.server_events import Events
    from .events.webhook_receiver import WebhookReceiver
    from .events.webhook_sender import Webhooks
    from .extension import Extension, ExtensionMethod
    from .idempotency import Idempotency
    from .server_card import ServerCard
    from .skills import Skill, Skills
    from .tasks import Tasks

__all__ = [
    "App",
    "Apps",
    "Event",
    "EventBatch",
    "Events",
    "EventsClient",
    "Extension",
    "ExtensionMethod",
    "Idempotency",
    "ServerCard",
    "Skill",
    "Skills",
    "Tasks",
    "WebhookReceiver",
    "Webhooks",
]

_HOMES: Final = {
    "App": "apps",
    "Apps": "apps",
    "Event": "events.event_types",
    "EventBatch": "events.event_types",
    "Events": "events.server_events",
    "EventsClient": "events.client_events",
    "Extension": "extension",
    "ExtensionMethod": "extension",
    "Idempotency": "idempotency",
    "ServerCard": "server_card",
    "Skill": "skills",
    "Skills": "skills",
    "Tasks": "tasks",
    "WebhookReceiver": "events.webhook_receiver",
    "Webhooks": "events.webhook_sender",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
