"""`Middleware`: what stands around the requests of a server, with one method for each kind of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R", covariant=True)


class CallNext(Protocol[T, R]):
    """The rest of the way."""

    def __call__(self, context: MiddlewareContext[T]) -> Awaitable[R]: ...


@dataclass(kw_only=True, frozen=True)
class MiddlewareContext(Generic[T]):
    """One message on its way through the middleware."""

    message: T
    fastmcp_context: Any = None
    source: Literal["client", "server"] = "client"
    type: Literal["request", "notification"] = "request"
    method: str | None = None
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))

    def copy(self, **kwargs: Any) -> MiddlewareContext[T]:
        """The same with other members."""
        return replace(self, **kwargs)


HOOKS: Final = {
    "initialize": "on_initialize",
    "tools/call": "on_call_tool",
    "resources/read": "on_read_resource",
    "prompts/get": "on_get_prompt",
    "tools/list": "on_list_tools",
    "resources/list": "on_list_resources",
    "resources/templates/list": "on_list_resource_templates",
    "prompts/list": "on_list_prompts",
}
"""The method of a `Middleware` for each request."""

Step = Callable[[MiddlewareContext[Any]], Awaitable[Any]]


class Middleware:
    """Inherit it and write the methods you need; each awaits ``call_next(context)`` for the rest."""

    async def __call__(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await self._dispatch_handler(context, call_next)(context)

    def _dispatch_handler(self, context: MiddlewareContext[Any], call_next: Any) -> Step:
        """The methods that care for this message, the general ones outside."""
        step: Any = call_next
        hook = HOOKS.get(context.method or "")
        if hook is not None:
            step = partial(getattr(self, hook), call_next=step)
        general = self.on_request if context.type == "request" else self.on_notification
        return partial(self.on_message, call_next=partial(general, call_next=step))

    async def on_message(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await call_next(context)

    async def on_request(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await call_next(context)

    async def on_notification(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await call_next(context)

    async def on_initialize(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await call_next(context)

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await call_next(context)

    async def on_read_resource(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await call_next(context)

    async def on_get_prompt(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await call_next(context)

    async def on_list_tools(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await call_next(context)

    async def on_list_resources(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await call_next(context)

    async def on_list_resource_templates(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await call_next(context)

    async def on_list_prompts(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await call_next(context)


async def through(middleware: list[Any], context: MiddlewareContext[Any], last: Step) -> Any:
    """Send a message through all of them, the first one outermost."""
    step: Any = last
    for one in reversed(middleware):
        step = partial(one, call_next=step)
    return await step(context)
