"""Custom methods and notifications, which the author adds to those of the protocol.

Each becomes a row of the server's admission table, so it is checked, routed and answered like a protocol method, on
every transport and on the revisions that it names.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from ...core.channel import Notice
from ...core.principal import Principal
from ...errors import RegistrationError
from ...lazy_pattern import lazy_pattern
from ...wire.dialects import OFFICIAL, Dialect
from ...wire.methods import METHODS, NOT_REMOVED, Kind, Method, Reader
from ...wire.revisions import BY_NAME
from .component_options import Run, check, read_rights
from .component_tables import Registered

if TYPE_CHECKING:
    from ..dispatcher import Dispatcher
    from ..signatures.method_signatures import MethodFunction

log = logging.getLogger("dovetail.server")

_NAME: Final = lazy_pattern(r"[!-~]{1,128}")
"""Allowed names: they are sent in the header ``Mcp-Method``."""
_RESERVED: Final = "rpc."
"""JSON-RPC 2.0, Request object: names with this prefix are reserved."""
_EXTENSION: Final = "extensions."
_ROOTS: Final = "notifications/roots/list_changed"


class NotificationOptions(TypedDict, total=False):
    """Options of `Server.add_notification`."""

    params: Any
    """The type of the params: a Struct, dataclass, TypedDict or model; by default the annotation of the handler."""
    since: str | None
    """The first revision that supports it; by default the oldest."""
    until: str | None
    """The last revision that supports it; by default the newest."""
    timeout: float | None
    """Seconds that the handler can run."""
    run: Run
    """Where the handler runs: in a "thread", in a "process", or on the event loop (the default of async functions)."""


class MethodOptions(NotificationOptions, total=False):
    """Options of `Server.method` and `Server.add_method`."""

    result: Any
    """The type of the result; by default the return annotation of the handler."""
    capability: str | None
    """A capability that is declared with the method, such as ``extensions.com.acme/do``."""
    opt_in: bool
    """Refuse modern clients that do not declare the extension (-32021)."""
    may_ask: bool
    """Whether the handler may send input requests on 2026-07-28 (the default)."""
    cacheable: bool
    """Results have the server's ``ttl_ms`` and ``cache_scope`` for modern clients."""
    scopes: Collection[str]
    """Scopes that a caller needs."""
    auth: Callable[[Principal | None], bool] | None
    """Decides by the principal whether a caller may use it."""
    limit: int | None
    """Calls that run at the same time; further calls wait in a queue."""
    queue: int
    """Calls that can wait, 100 by default; further calls are refused with 1004."""


class RegisteredMethod(Registered, kw_only=True, eq=False):
    """A registered custom method."""

    function: MethodFunction
    row: Method


class CustomMethods:
    """The custom methods and notifications of one server."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._added: dict[str, RegisteredMethod] = {}
        self._running: set[asyncio.Task[None]] = set()
        """The notifications whose handlers are running."""

    def add_method(
        self, name: str, handler: Callable[..., Any], **options: Unpack[MethodOptions]
    ) -> RegisteredMethod:
        """`Server.add_method`."""
        check(options, MethodOptions, f"the method {name!r}")
        capability = options.get("capability")
        if options.get("opt_in") and not (capability or "").startswith(_EXTENSION):
            what = f"opt_in of the method {name!r} needs the capability of an extension"
            raise RegistrationError(f"{what}: set capability='{_EXTENSION}…'")
        entry = self._add(name, "request", handler, options)
        dispatcher = self._dispatcher
        dispatcher.methods[name] = partial(dispatcher.run_method, entry)
        if capability is not None and not dispatcher.capabilities.has(capability):
            dispatcher.add_capability(capability)
        return entry

    def add_notification(
        self, name: str, handler: Callable[..., Any], **options: Unpack[NotificationOptions]
    ) -> RegisteredMethod:
        """`Server.add_notification`."""
        check(options, NotificationOptions, f"the notification {name!r}")
        entry = self._add(name, "notification", handler, options)
        if entry.context_parameter is not None:
            self.remove(name)
            raise RegistrationError(
                f"the handler of the notification {name!r} has a Context, which only handlers of requests can have"
            )
        return entry

    def remove(self, name: str) -> None:
        """Remove a method or notification that was added. Its capability stays declared."""
        if self._added.pop(name, None) is None:
            raise RegistrationError(f"there is no method {name!r} to remove")
        dispatcher = self._dispatcher
        dispatcher.methods.pop(name, None)
        del dispatcher.admission.methods.custom[name]
        dispatcher.offer()

    def _add(
        self, name: str, kind: Kind, handler: Callable[..., Any], options: Mapping[str, Any]
    ) -> RegisteredMethod:
        dispatcher = self._dispatcher
        check_name(name, dispatcher.dialect)
        if name in self._added:
            other = self._added[name].row.extension
            of = "" if other is None else f" by the extension {other!r}"
            raise RegistrationError(f"the method name {name!r} is already registered{of}; remove it first")
        from ..signatures.method_signatures import MethodFunction  # most servers add no method

        function = MethodFunction(name, handler, options.get("params"), options.get("result"))
        capability = options.get("capability")
        row = Method(
            name=name,
            kind=kind,
            sender="client",
            since=_index(options.get("since"), 1),
            until=_index(options.get("until"), NOT_REMOVED),
            params=Reader(function.read),
            capability=capability,
            extension=extension_of(capability),
            opt_in=options.get("opt_in", False),
            may_request_input=options.get("may_ask", True),
            cacheable=options.get("cacheable", False),
        )
        if row.since > row.until:
            raise RegistrationError(f"{name!r} has a last revision that is older than its first")
        entry = self._added[name] = RegisteredMethod(
            name=name,
            function=function,
            row=row,
            context_parameter=function.signature.context_parameter,
            rights=read_rights(options, f"method {name!r}"),
            call=dispatcher.runner.prepare(
                function.signature, f"method {name!r}", options, dispatcher.settings.timeout
            ),
        )
        dispatcher.admission.methods.custom[name] = row
        dispatcher.offer()
        return entry

    # --- notifications --------------------------------------------------------------------------------------

    def handle_notification(self, notice: Notice) -> None:
        """Run the handler of a notification, if there is one."""
        entry = self._added.get(notice.method)
        changed = self._dispatcher.subscriptions.roots_changed
        if entry is not None:
            work = _handle(entry.name, lambda: entry.call(**entry.function.keywords(notice.params)()))
        elif notice.method == _ROOTS and changed is not None and notice.session is not None:
            work = _handle(_ROOTS, partial(self._dispatcher.runner.call, changed, notice.session))
        else:
            if (composition := self._dispatcher.registry.composition) is not None:
                composition.receive_notification(notice)
            return
        if len(self._running) >= self._dispatcher.limits.max_requests_per_connection:
            work.close()
            log.warning("dropped %s: too many notifications are being handled", notice.method)
            return
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """Cancel the handlers of notifications that still run."""
        for task in self._running:
            task.cancel()


def check_name(name: str, dialect: Dialect = OFFICIAL) -> None:
    """Raises RegistrationError: the name is not allowed for a custom method."""
    if not _NAME.fullmatch(name):
        problem = "must have 1 to 128 visible ASCII characters"
    elif name in METHODS or name in dialect.inbound_methods or name.startswith(_RESERVED):
        problem = "belongs to the protocol"
    else:
        return
    raise RegistrationError(f"the method name {name!r} {problem}")


def extension_of(capability: str | None) -> str | None:
    """The id of the extension that a capability declares; None for other capabilities."""
    return capability.removeprefix(_EXTENSION) if capability and capability.startswith(_EXTENSION) else None


async def _handle(name: str, run: Callable[[], Awaitable[Any]]) -> None:
    try:
        await run()
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException:
        log.exception("the handler of %s failed", name)


def _index(name: str | None, default: int) -> int:
    if name is None:
        return default
    if name not in BY_NAME:
        raise RegistrationError(f"there is no revision {name!r}: use one of {', '.join(BY_NAME)}")
    return BY_NAME[name].index
