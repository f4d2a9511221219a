"""`RemoteProvider`: an upstream server as a mounted provider, with connections, lists, calls and
subscriptions.

An unreachable upstream is left out of lists and retried. Clients are notified when it returns.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from .. import model as m
from ..auth.core.auth_errors import AuthError
from ..client.connecting.targets import parse_target
from ..client.http_client import StatusError
from ..core.channel import Call, Channel, Session
from ..core.rights import Rights
from ..core.subscription_hub import LIST_KINDS, PublishedChange
from ..drivers.middleware_chain import Component
from ..errors import DovetailError, ProtocolError, TransportError
from ..model.meta import VIA
from ..server.composition import ListName, TaskTool
from ..server.server import Server
from ..wire.headers import HeaderMap
from ..wire.methods import METHODS, Method
from .extension_methods import forwarded_methods
from .forwarding import ForwardedCall
from .providers import ComponentList, LoopError
from .selectors import Traits
from .upstream import Upstream
from .upstream_connections import UNNAMED, Sharing, UpstreamConnections, UpstreamOptions

if TYPE_CHECKING:
    from ..client.client_config import ClientOptions

UPSTREAMS_KEPT: Final = 256
"""Upstream connections of one proxy: one per principal, or half of them during a replacement. When the limit
is reached, the connection that was idle longest is closed; if all are in use, a new one is refused.
"""
UPSTREAM_RETRY: Final = (0.5, 30.0)
"""Delay between connection attempts in seconds: the first, and the longest."""
MEETING_SECONDS: Final = 5.0
"""Seconds that a connecting client waits for the lists of an upstream that depend on the caller."""
LONGEST_CHAIN: Final = 8
"""Proxies in a row, and gateways that start each other."""


log = logging.getLogger("dovetail.gateway")


class RemoteProvider:
    """The upstream at ``target``. ``auth`` in the options may be a function of the downstream principal.

    With a `TokenExchange`, only principals with a token can use the upstream. With a function, this also
    applies if the upstream refuses a connection without a principal. The components of such an upstream are
    known after the first caller connects.
    """

    def __init__(
        self,
        target: Any,
        options: ClientOptions,
        *,
        name: str | None = None,
        connections: Sharing = "auto",
        timeout: float | None = None,
        forward_headers: Iterable[str] = (),
        forward_methods: Mapping[str, str | None] | Iterable[str] = (),
        max_connections: int = UPSTREAMS_KEPT,
    ) -> None:
        parsed = parse_target(target)
        self.label = name or parsed.label
        self.added: Mapping[str, Method] = forwarded_methods(forward_methods)
        self._mark = secrets.token_hex(8)
        """Identifies requests that return to this proxy."""
        way = UpstreamOptions(
            target=parsed,
            options=options,
            name=name or UNNAMED,
            mark=self._mark,
            sharing=connections,
            timeout=timeout,
            max_connections=max_connections,
            forward_headers=frozenset(header.lower() for header in forward_headers),
            added=self.added,
        )
        self._connections = UpstreamConnections(way, tell=self._tell, down=self._down)
        self._followers: list[Callable[[PublishedChange], None]] = []
        self._server: Server | None = None
        self._trying: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._personal = way.exchange is not None
        """Whether every connection needs a principal."""
        self.patience: float | None = None
        """Seconds that `start` waits for the upstream at most."""
        self.problem: DovetailError | None = None
        """Why the upstream server cannot be reached; None while it can."""

    @property
    def first(self) -> Upstream | None:
        """The shared connection, which determines the components."""
        return self._connections.first

    # --- lifecycle
    # --------------------------------------------------------------------------------------------------------

    async def start(self, parent: Server) -> None:
        """Connect; an unreachable upstream is retried."""
        self._server = parent
        if (
            store := parent.lifecycle.inherited_store
            if parent.lifecycle.store is None
            else parent.lifecycle.store
        ) is not None:
            self._connections.held.share(store)
        if self._personal:
            return
        begun = self._later(self._begin())
        try:
            await asyncio.wait([begun], timeout=self.patience)
        except BaseException:
            begun.cancel()
            raise
        if begun.done():
            begun.result()
        else:
            self.problem = TransportError("the upstream is not ready yet", cause="timeout")
            log.warning("upstream not ready, left out for now name=%s", self.label)
            begun.add_done_callback(self._begun_late)

    def _begun_late(self, begun: asyncio.Task[None]) -> None:
        if not begun.cancelled() and self.problem is None:
            log.info("upstream ready name=%s", self.label)
            self._lists_changed()

    async def _begin(self) -> None:
        try:
            await self.connect()
        except DovetailError as error:
            self._personal = callable(self._connections.way.options.get("auth")) and _turned_away(error)
            if not self._personal:
                self._down(error)

    async def prepare_client(self, call: Call) -> None:
        if not self._personal:
            return
        with suppress(DovetailError, TimeoutError):
            async with asyncio.timeout(MEETING_SECONDS):
                await (await self._connections.of(call)).shown("tools")

    async def connect(self) -> Upstream:
        """Open the shared connection.

        Raises:
            DovetailError: the upstream server cannot be reached.
        """
        first = await self._connections.opened()
        with suppress(ProtocolError):  # but not a `Refusal`, which ends a loop of gateways
            await first.shown("tools")  # tool schemas must be known before the first call
        self._connections.first, self.problem = first, None
        first.state_changed = self._state_changed
        return first

    async def replace(self, target: Any, **options: Unpack[ClientOptions]) -> None:
        """Switch to the server at ``target``. Running calls end at the previous one; the lists change.

        Raises:
            DovetailError: it cannot be reached; nothing has changed.
        """
        way = self._connections.way
        way = replace(way, target=parse_target(target), options={**way.options, **options})
        self._personal = way.exchange is not None
        if self._personal:  # the next caller connects
            self._connections.replace(way, None)
            self._lists_changed()
            return
        fresh = self._connections.made(way)
        try:
            await fresh.client.open()
            fresh.learn()
            with suppress(ProtocolError):
                await fresh.shown("tools")
        except BaseException:
            await fresh.client.close()
            raise
        for uri in {uri for one in self._connections for uri in one.watched}:
            with suppress(DovetailError):  # the new server may not have it
                await fresh.client.subscribe_resource(uri)
                fresh.watched.add(uri)
        if self._trying is not None:
            self._trying.cancel()
        self.problem, fresh.state_changed = None, self._state_changed
        self._connections.replace(way, fresh)
        self._lists_changed()

    def _lists_changed(self) -> None:
        for kind in LIST_KINDS:
            self._tell(PublishedChange(list=kind))

    def _state_changed(self, state: str) -> None:
        """Handle a state change of the shared connection, which represents the upstream."""
        if state == "ready":
            self.problem = None
            log.info("upstream reconnected name=%s", self.label)
        elif self.problem is None:
            self.problem = TransportError("the connection was lost", cause="closed")
            log.warning("upstream disconnected, left out for now name=%s", self.label)
        if state == "failed" and self.first is not None:  # the client has given up: open a new connection
            lost, self._connections.first = self.first, None
            self._connections.forget(lost)
            self._down(self.problem or TransportError("the connection was lost", cause="closed"))
        self._lists_changed()

    def _later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def _down(self, error: DovetailError) -> None:
        if self.problem is None:
            from ..transports.child import without_stderr  # rarely needed

            log.warning("upstream unreachable, left out name=%s: %s", self.label, without_stderr(error))
        self.problem = error
        if self._trying is None or self._trying.done():
            self._trying = asyncio.get_running_loop().create_task(self._try_again(), name="dovetail-upstream")

    async def _try_again(self) -> None:
        pause, longest = UPSTREAM_RETRY
        while True:
            await asyncio.sleep(pause)
            try:
                await self.connect()
            except DovetailError as error:
                self.problem = error
                pause = min(2 * pause, longest)
                continue
            log.info("upstream reconnected name=%s", self.label)
            self._lists_changed()
            return

    async def stop(self) -> None:
        tasks = [task for task in (self._trying, *self._background) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._connections.close()

    def _check(self, call: Call) -> Sequence[str]:
        """Return the proxies that a call has passed.

        Raises:
            LoopError: this proxy is among them, or there are too many.
        """
        found: Any = call.meta.get(VIA)
        via = (
            [one for one in cast("list[Any]", found) if isinstance(one, str)]
            if isinstance(found, list)
            else []
        )
        if self._mark in via or len(via) >= LONGEST_CHAIN:
            text = (
                f"{self._connections.way.name} is part of a proxy loop"
                if self._mark in via
                else "too many proxies in a row"
            )
            raise LoopError("dependency_failed", text)
        return via

    # --- provider
    # ---------------------------------------------------------------------------------------------------------

    @property
    def _example(self) -> Upstream | None:
        """A connection from which common properties of the upstream are read."""
        return self.first or next(iter(self._connections), None)

    @property
    def capabilities(self) -> m.ServerCapabilities:
        example = self._example
        if example is None:
            # Until the upstream has answered, its lists are unknown: a client that connects now must be able
            # to request them later.
            unknown = self._personal or self.problem is not None
            return m.ServerCapabilities(_ANYTHING if unknown else {})
        found, revision = example.client.server_capabilities, example.revision
        row = METHODS["completion/complete"]
        # 2024-11-05 has completion without a capability: newer downstream clients need the capability.
        if revision is None or row.needs(revision) is not None or not {"prompts", "resources"} & found.keys():
            return found
        return m.ServerCapabilities({**found, "completions": {}})

    def tool_names(self) -> Iterable[str]:
        return {name for upstream in self._connections for name in upstream.traits}

    @property
    def param_headers(self) -> Mapping[str, HeaderMap]:
        return {} if self._example is None else self._example.param_headers

    async def shown(self, kind: ListName, call: Call) -> ComponentList:
        if self.problem is not None and call.principal is None:
            raise self.problem
        via = self._check(call) if VIA in call.meta else ()
        return await (await self._connections.of(call)).shown(kind, via)

    def known(self, kind: ListName, call: Call) -> ComponentList | None:
        if self.problem is not None or call.principal is not None or VIA in call.meta:
            return None
        return None if self.first is None or not self._connections.shared else self.first.known(kind)

    def is_static(self, kind: ListName) -> bool:
        return self._connections.shared

    def forget_lists(self) -> None:
        """Request every list again when it is needed, for servers that do not notify changes."""
        for upstream in self._connections:
            upstream.forget_lists()

    async def has(self, kind: ListName, name: str, call: Call) -> bool:
        kinds: tuple[ListName, ...] = ("resources", "templates") if kind == "resources" else (kind,)
        try:
            shown = [(each, await self.shown(each, call)) for each in kinds]
        except DovetailError:
            return False
        return any(_is_called(each, one, name) for each, found in shown for one in found.entries)

    async def traits(self, name: str, call: Call) -> Sequence[Traits]:
        try:
            upstream = await self._connections.of(call)
            await upstream.shown("tools", self._check(call))
        except DovetailError:
            return ()
        return upstream.traits.get(name, ())

    @property
    def name(self) -> str:
        return self._connections.way.name

    def component(self, kind: ListName, name: str) -> Component | None:
        example = self._example
        found = () if kind != "tools" or example is None else example.traits.get(name, ())
        if not found:
            return None
        return Component(name, "tool", found[0].version, found[0].tags, self.name)

    def unwrapped(self, call: Call) -> Call | None:
        return None  # unknown for tools of an upstream

    def task_tool(self, name: str) -> TaskTool | None:
        """Return task support: a modern upstream decides per call, one of 2025-11-25 declares it per tool."""
        asked = self._connections if self.first is None else (self.first,)
        if self._example is None:
            return None
        able = any(one.modern or name in one.may_be_task for one in asked)
        must = any(name in one.as_task for one in asked)
        support = "required" if must else "optional" if able else "forbidden"
        return TaskTool(name, support, asks_first=True, upstream=True)

    def respond(self, call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
        assert self._server is not None
        if VIA in call.meta:
            self._check(call)
        connections = self._connections
        if call.principal is None and connections.first is not None and connections.shared:
            return ForwardedCall(
                self._server, connections.first, call, channel
            ).run()  # most calls: no key is made
        return self._respond(self._server, call, channel)

    async def _respond(self, server: Server, call: Call, channel: Channel) -> Struct | Raw:
        return await ForwardedCall(server, await self._connections.of(call), call, channel).run()

    async def set_level(self, call: Call, channel: Channel) -> None:
        try:
            await (await self._connections.of(call)).set_level(call.params.level)
        except DovetailError as error:
            log.info("upstream log level not set name=%s: %s", self.label, error.message)

    async def watch(self, uri: str, call: Call) -> None:
        upstream = await self._connections.of(call)
        if uri not in upstream.watched:
            await upstream.client.subscribe_resource(uri)
            upstream.watched.add(uri)

    def unwatch(self, uri: str) -> None:
        for upstream in self._connections:
            if uri in upstream.watched:
                upstream.watched.discard(uri)
                self._later(self._unsubscribe(upstream, uri))

    async def _unsubscribe(self, upstream: Upstream, uri: str) -> None:
        try:
            await upstream.client.unsubscribe_resource(uri)
        except DovetailError as error:
            log.info("upstream unsubscribe failed name=%s: %s", self.label, error.message)

    async def sees(self, uri: str, call: Call) -> bool:
        return True  # the upstream has notified this principal

    def rights_of(self, uri: str) -> Rights:
        return ()

    def find_routes(self, path: str) -> list[Any]:
        return []  # an upstream serves only protocol methods

    def session_ended(self, session: Session) -> None:
        self._connections.session_ended(session)

    def follow(self, tell: Callable[[PublishedChange], None]) -> None:
        self._followers.append(tell)

    def _tell(self, news: PublishedChange) -> None:
        for follow in self._followers:
            follow(news)


_ANYTHING: Mapping[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
}


def _turned_away(error: DovetailError) -> bool:
    """Return whether the upstream requires authentication."""
    said = isinstance(error, AuthError) or error.kind == "authentication_failed"
    return said or (isinstance(error, StatusError) and error.status in (401, 403))


def _is_called(kind: str, one: Any, name: str) -> bool:
    """Return whether a definition stands for ``name``. For templates this is an approximation."""
    if kind == "resources":
        return one.uri == name
    if kind == "templates":
        return name == one.uri_template or name.startswith(one.uri_template.partition("{")[0])
    return one.name == name
