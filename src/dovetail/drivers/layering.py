"""Layers: what stands around every call of a server or a client, put together once.

A layer is a function that takes what answers calls (``respond``) and returns what answers them instead; or a `Layer`,
a class with one method for each operation it cares about. The first layer written is the outermost one. An operation
that no layer cares about is not slowed down by them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Raw, Struct

from ..core.channel import EMPTY, Call, Channel, Notice
from ..errors import DovetailError
from ..settings import NAME_ECHO

log = logging.getLogger("dovetail")

Respond = Callable[[Call, Channel], Awaitable[Struct | Raw]]
"""Answers a call; ``Server.respond`` is one."""
TakeNote = Callable[[Notice], None]
"""Takes note of a notification; ``Server.take_note`` is one."""
Wrapper = Callable[[Respond], Respond]
Door = Callable[[str], Awaitable[DovetailError | None]]

OPERATIONS: Final = {
    "initialize": ("initialize",),
    "discover": ("server/discover",),
    "call_tool": ("tools/call",),
    "list_tools": ("tools/list",),
    "read_resource": ("resources/read",),
    "list_resources": ("resources/list", "resources/templates/list"),
    "get_prompt": ("prompts/get",),
    "list_prompts": ("prompts/list",),
    "complete": ("completion/complete",),
    "subscribe": ("resources/subscribe", "resources/unsubscribe", "subscriptions/listen"),
    "task": ("tasks/create", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"),
}
"""The methods of a `Layer`, and the requests each of them stands around."""


class Layer:
    """Inherit it and write the methods you need; all others stay out of the way.

    ```python
    class Curfew(Layer):
        async def call_tool(self, call, channel, proceed):
            if datetime.now().hour >= 22:
                raise Refusal(1008, hint="we are closed until the morning")
            return await proceed(call, channel)
    ```

    ``proceed`` is the rest: await it with the call (or with another one in its place), or answer yourself, or raise a
    `DovetailError`. ``message`` stands around every request, before the method of its operation. ``notification`` gets
    what is not answered, and does not wait. `attach` is called once with the server or client.
    """

    observes: bool = False
    """It only looks: a client has it also around what it passes on for others."""

    def attach(self, service: Any) -> None:
        """This layer is about to stand around ``service``: a `Server`, or the client's calls."""

    def measure(self) -> Iterable[tuple[str, tuple[str, ...], float]]:
        """What operators want to know of this layer, where they do: a metric of ours, its labels, its value now."""
        return ()

    def stopped(self) -> None:
        """The server has stopped: let go of files and the like. It may start again."""

    async def message(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """Any request at all."""
        return await proceed(call, channel)

    async def initialize(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """``initialize``, with which a legacy session begins."""
        return await proceed(call, channel)

    async def discover(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """``server/discover``."""
        return await proceed(call, channel)

    async def call_tool(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """``tools/call``."""
        return await proceed(call, channel)

    async def list_tools(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """``tools/list``, one page. A server's own pages are `Raw`."""
        return await proceed(call, channel)

    async def read_resource(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """``resources/read``."""
        return await proceed(call, channel)

    async def list_resources(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """``resources/list`` and ``resources/templates/list``, one page."""
        return await proceed(call, channel)

    async def get_prompt(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """``prompts/get``."""
        return await proceed(call, channel)

    async def list_prompts(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """``prompts/list``, one page."""
        return await proceed(call, channel)

    async def complete(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """``completion/complete``."""
        return await proceed(call, channel)

    async def subscribe(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """``resources/subscribe``, ``resources/unsubscribe`` and ``subscriptions/listen``."""
        return await proceed(call, channel)

    async def task(self, call: Call, channel: Channel, proceed: Respond) -> Struct | Raw:
        """The methods of tasks."""
        return await proceed(call, channel)

    def notification(self, notice: Notice, proceed: TakeNote) -> None:
        """A notification."""
        proceed(notice)

    @property
    def shut(self) -> Mapping[str, Any]:
        """Addresses that nobody is let in from, always the same table; while it has any, `at_the_door` is asked."""
        return EMPTY

    async def at_the_door(self, address: str) -> DovetailError | None:
        """Why nobody at ``address`` is served now. Asked over HTTP before a message is read; None: go on."""

    def wrap(self, respond: Respond) -> Respond:
        """What answers in place of ``respond``. A layer that cares about speed writes this one itself."""
        changed = {
            method: cast("Callable[..., Awaitable[Struct | Raw]]", getattr(self, name))
            for name, methods in OPERATIONS.items()
            if getattr(type(self), name) is not getattr(Layer, name)
            for method in methods
        }
        if changed:
            respond = _by_operation(changed, respond)
        if type(self).message is not Layer.message:
            respond = _around(self.message, respond)
        return respond

    def wrap_task(self, run: Respond) -> Respond:
        """What does the work of a task in place of ``run``: ``call_tool`` is over when the task has begun."""
        return run

    def wrap_notes(self, take_note: TakeNote) -> TakeNote:
        """What takes note in place of ``take_note``."""
        if type(self).notification is Layer.notification:
            return take_note

        def noted(notice: Notice) -> None:
            try:
                self.notification(notice, take_note)
            except Exception:
                log.exception("the layer %s failed on %s", type(self).__name__, notice.method)

        return noted


def subject_of(call: Call) -> str:
    """What a call is about: its tool, prompt or resource; empty for all others."""
    params = call.params
    if call.method in ("tools/call", "prompts/get"):
        return params.name[:NAME_ECHO]
    return params.uri[:NAME_ECHO] if call.method == "resources/read" else ""


def _by_operation(changed: dict[str, Callable[..., Awaitable[Struct | Raw]]], inner: Respond) -> Respond:
    def respond(call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
        own = changed.get(call.method)
        return inner(call, channel) if own is None else own(call, channel, inner)

    return respond


def _around(message: Callable[..., Awaitable[Struct | Raw]], inner: Respond) -> Respond:
    return lambda call, channel: message(call, channel, inner)


def compose(service: Any, layers: Sequence[Layer | Wrapper], respond: Respond) -> Respond:
    """``respond`` with ``layers`` around it, the first one outermost; each is attached to ``service`` first.

    Raises:
        TypeError: one of them is no layer.
    """
    for layer in reversed(layers):
        if isinstance(layer, Layer):
            layer.attach(service)
            respond = layer.wrap(respond)
        elif isinstance(layer, type) or not callable(layer):
            raise TypeError(f"a layer is a Layer or a function around respond, not {layer!r}")
        else:
            respond = layer(respond)
    return respond


def doors(layers: Sequence[Layer | Wrapper]) -> list[tuple[Mapping[str, Any], Door]]:
    """Whom to ask about an address before anything is read from it, and whether there is anything to ask."""
    found = (layer for layer in layers if isinstance(layer, Layer))
    return [(one.shut, one.at_the_door) for one in found if type(one).at_the_door is not Layer.at_the_door]


def compose_tasks(layers: Sequence[Layer | Wrapper], run: Respond) -> Respond:
    """``run``, which does the work of tasks, with those of ``layers`` around it that care."""
    for layer in reversed(layers):
        if isinstance(layer, Layer):
            run = layer.wrap_task(run)
    return run


def compose_notes(layers: Sequence[Layer | Wrapper], take_note: TakeNote) -> TakeNote:
    """``take_note`` with those of ``layers`` around it that care for notifications."""
    for layer in reversed(layers):
        if isinstance(layer, Layer):
            take_note = layer.wrap_notes(take_note)
    return take_note
