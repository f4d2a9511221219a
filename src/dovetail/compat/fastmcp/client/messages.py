"""What a client hears without having asked."""

from __future__ import annotations

from typing import Any, Final

from ...mcp import types as t

_HOOKS: Final = {
    "notifications/message": "on_logging_message",
    "notifications/tools/list_changed": "on_tool_list_changed",
    "notifications/resources/list_changed": "on_resource_list_changed",
    "notifications/prompts/list_changed": "on_prompt_list_changed",
    "notifications/resources/updated": "on_resource_updated",
}


class MessageHandler:
    """Inherit it and write the hooks of what is to be heard; give it to ``Client(message_handler=…)``."""

    async def __call__(self, message: t.ServerNotification) -> None:
        await self.dispatch(message)

    async def dispatch(self, message: t.ServerNotification) -> None:
        """Call the hooks: that of everything, that of notifications, that of this kind."""
        await self.on_message(message)
        await self.on_notification(message)
        notification: Any = message.root
        hook = _HOOKS.get(notification.method)
        if hook is not None:
            await getattr(self, hook)(notification)

    async def on_message(self, message: t.ServerNotification) -> None: ...
    async def on_notification(self, message: t.ServerNotification) -> None: ...
    async def on_logging_message(self, message: t.LoggingMessageNotification) -> None: ...
    async def on_tool_list_changed(self, message: t.ToolListChangedNotification) -> None: ...
    async def on_resource_list_changed(self, message: t.ResourceListChangedNotification) -> None: ...
    async def on_prompt_list_changed(self, message: t.PromptListChangedNotification) -> None: ...
    async def on_resource_updated(self, message: t.ResourceUpdatedNotification) -> None: ...


__all__ = ["MessageHandler"]
