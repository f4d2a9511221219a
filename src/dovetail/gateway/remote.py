"""A server behind, as a part of a server in front: one connection for each principal, lists, calls, subscriptions.

A server that is down is left out of lists and tried again; when it comes back everybody hears that the lists changed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from msgspec import Raw, Struct

from .. import model as m
from ..auth.client.exchange import ExchangedToken, TokenExchange
from ..auth.core.problems import AuthError
from ..auth.server.proven import proof_of
from ..client.connecting.targets import Target, parse_target
from ..core.channel import Call, Channel
from ..core.principal import Principal, key_of
from ..core.rights import Rights
from ..core.subscriptions import LIST_KINDS, News
from ..errors import DovetailError, ProtocolError, TransportError
from ..model.meta import VIA
from ..server.elsewhere import ListName, TaskTool
from ..wire.headers import HeaderMap
from ..wire.methods import METHODS
from .bounds import LONGEST_CHAIN, RETIRED_SECONDS, UPSTREAM_RETRY, UPSTREAMS_KEPT
from .held import HeldCalls
from .parts import LoopError, Shown
from .passing import Passing, no_access
from .selecting import Traits
from .upstream import Upstream

if TYPE_CHECKING:
    from ..client.config import ClientOptions
    from ..server.server import Server

log = logging.getLogger("dovetail.gateway")

Sharing = Literal["principal", "session"]


class RemotePart:
    """The server at ``target``. ``auth`` of the options may be a function of the principal in front.

    With a `TokenExchange` it is there for principals with a token alone: nobody else has a connection, or sees it.
    """

    def __init__(
        self,
        target: Any,
        options: ClientOptions,
        *,
        name: str | None = None,
        connections: Sharing = "principal",
        timeout: float | None = None,
        pass_headers: Iterable[str] = (),
    ) -> None:
        self._target = parse_target(target)
        self._options = options
        self.name = name or "the server behind"
        """How clients in front are told of it."""
        self.label = name or self._target.label
        self._shared = connections == "principal"
        self._timeout = timeout
        self._pass_headers = frozenset(header.lower() for header in pass_headers)
        self._held = HeldCalls()
        self._upstreams: OrderedDict[tuple[Any, ...], Upstream] = OrderedDict()
        self._opening: dict[tuple[Any, ...], asyncio.Lock] = {}
        self._followers: list[Callable[[News], None]] = []
        self._server: Server | None = None
        self._trying: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._mark = secrets.token_hex(8)
        """By which a request that comes back here is known."""
        self.first: Upstream | None = None
        """The connection that was made to learn what there is."""
        self.problem: DovetailError | None = None
        """Why the server behind cannot be reached; None while it can."""

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self, parent: Server) -> None:
        """Connect; a server that is down is tried again and again."""
        self._server = parent
        if self._exchange is not None:
            return
        try:
            await self.connect()
        except DovetailError as error:
            self._down(error)

    async def connect(self) -> Upstream:
        """The connection of nobody in particular.

        Raises:
            DovetailError: the server behind cannot be reached.
        """
        first = await self._opened(self._key(None, None), None)
        with suppress(ProtocolError):  # but not a `Refusal`, with which a circle of gateways ends
            await first.shown("tools")  # what calls have to look like is known before the first one comes
        self.first, self.problem = first, None
        first.state_changed = self._state_changed
        return first

    async def replace(self, target: Any, **options: Unpack[ClientOptions]) -> None:
        """Be the server at ``target`` from now on; calls under way end where they began, and lists have changed.

        Raises:
            DovetailError: it cannot be reached; then all stays as it was.
        """
        parsed, merged = parse_target(target), _merged(self._options, options)
        if _exchange_of(merged) is not None:  # whoever calls next connects
            self.first, before = None, list(self._upstreams.values())
            self._target, self._options, self._upstreams = parsed, merged, OrderedDict()
            self._retire(before)
            return
        fresh = self._made(None, None, parsed, merged)
        try:
            await fresh.client.open()
            fresh.learn()
            with suppress(ProtocolError):
                await fresh.shown("tools")
        except BaseException:
            await fresh.client.close()
            raise
        for uri in {uri for one in self._upstreams.values() for uri in one.watched}:
            with suppress(DovetailError):  # it may be gone with the change
                await fresh.client.subscribe_resource(uri)
                fresh.watched.add(uri)
        before, fresh.open = list(self._upstreams.values()), True
        self._target, self._options = parsed, merged
        self._upstreams = OrderedDict({self._key(None, None): fresh})
        if self._trying is not None:
            self._trying.cancel()
        self.first, self.problem = fresh, None
        fresh.state_changed = self._state_changed
        self._retire(before)

    def _retire(self, before: list[Upstream]) -> None:
        for kind in LIST_KINDS:
            self._tell(News(list=kind))
        for one in before:
            one.open = False
            self._later(one.client.close(drain=RETIRED_SECONDS))

    def _state_changed(self, state: str) -> None:
        """The connection of nobody in particular stands for the server: it is down, or back."""
        if state == "ready":
            self.problem = None
            log.info("%s is back", self.label)
        elif self.problem is None:
            self.problem = TransportError("the connection was lost", cause="closed")
            log.warning("%s went away and is left out until it is back", self.label)
        if state == "failed" and self.first is not None:  # its client tries no more: another one does
            lost, self.first = self.first, None
            self._upstreams = OrderedDict(
                (key, one) for key, one in self._upstreams.items() if one is not lost
            )
            self._down(self.problem or TransportError("the connection was lost", cause="closed"))
            self._later(lost.client.close())
        for kind in LIST_KINDS:
            self._tell(News(list=kind))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _down(self, error: DovetailError) -> None:
        if self.problem is None:
            log.warning("%s is down and left out: %s", self.label, error.message)
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
            log.info("%s is back", self.label)
            for kind in LIST_KINDS:
                self._tell(News(list=kind))
            return

    async def stop(self) -> None:
        tasks = [task for task in (self._trying, *self._background) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._held.close()
        upstreams = list(self._upstreams.values())
        for upstream in upstreams:
            upstream.open = False  # what happens now is meant
        self._upstreams.clear()
        self.first = None
        await asyncio.gather(*(upstream.client.close() for upstream in upstreams))

    # --- connections --------------------------------------------------------------------------------------------------

    @property
    def _exchange(self) -> TokenExchange | None:
        return _exchange_of(self._options)

    def _key(self, principal: Principal | None, session: Any) -> tuple[Any, ...]:
        key: tuple[Any, ...] = (key_of(principal),)
        if principal is not None and self._exchange is not None:
            # A token that may do less must not use what was exchanged for one that may do more.
            key += (principal.client_id, principal.scopes)
        return key if self._shared or session is None else (*key, id(session))

    async def _upstream(self, call: Call) -> Upstream:
        """The connection for whoever calls.

        Raises:
            ProtocolError: the server behind cannot be reached.
        """
        key, token = self._key(call.principal, call.session), None
        if self._exchange is not None:
            token = proof_of(call.principal)
            if token is None:
                text = f"{self.name} is there only for callers who log in with a token"
                raise ProtocolError("dependency_failed", text, data={"maybeExecuted": False})
        found = self._upstreams.get(key)
        if found is not None:
            self._upstreams.move_to_end(key)
            if found.exchanged is not None and token is not None:
                found.exchanged.subject = token
            return found
        try:
            return await self._opened(key, call.principal, token)
        except AuthError as error:
            raise no_access(error, self.name) from error
        except DovetailError as error:
            if call.principal is None:
                self._down(error)
            text = f"{self.name} cannot be reached"
            raise ProtocolError("dependency_failed", text, data={"maybeExecuted": False}) from error

    async def _opened(
        self, key: tuple[Any, ...], principal: Principal | None, token: str | None = None
    ) -> Upstream:
        async with self._opening.setdefault(key, asyncio.Lock()):
            found = self._upstreams.get(key)
            if found is None:
                found = self._made(principal, token)
                try:
                    await found.client.open()
                except BaseException:
                    await (
                        found.client.close()
                    )  # a process that does not answer is ended before anybody goes on
                    raise
                found.learn()
                found.open = True
                self._upstreams[key] = found
                self._make_room()
        self._opening.pop(key, None)
        return found

    def _made(
        self,
        principal: Principal | None,
        token: str | None = None,
        target: Target | None = None,
        given: ClientOptions | None = None,
    ) -> Upstream:
        options, exchanged = self._options if given is None else given, None
        auth: Any = options.get("auth")
        if isinstance(auth, TokenExchange):
            auth = exchanged = ExchangedToken(auth, token or "")
        elif callable(auth):
            auth = auth(principal)
        made = Upstream(
            target or self._target,
            _merged(options, {"auth": auth}),
            name=self.name,
            held=self._held,
            tell=self._tell,
            timeout=self._timeout,
            pass_headers=self._pass_headers,
            mark=self._mark,
        )
        made.exchanged = exchanged
        return made

    def _check(self, call: Call) -> Sequence[str]:
        """The proxies that a call came through.

        Raises:
            LoopError: this one is among them, or there are too many.
        """
        found: Any = call.meta.get(VIA)
        via = (
            [one for one in cast("list[Any]", found) if isinstance(one, str)]
            if isinstance(found, list)
            else []
        )
        if self._mark in via or len(via) >= LONGEST_CHAIN:
            text = f"{self.name} leads back to itself" if self._mark in via else "too many proxies in a row"
            raise LoopError("dependency_failed", text)
        return via

    def _make_room(self) -> None:
        for key, upstream in list(self._upstreams.items()):
            if len(self._upstreams) <= UPSTREAMS_KEPT:
                return
            if not upstream.busy and upstream is not self.first:
                del self._upstreams[key]
                self._later(upstream.client.close(drain=RETIRED_SECONDS))

    # --- the part -----------------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> m.ServerCapabilities:
        if self.first is None:
            # What a server has that nobody may ask without a token, its lists tell those who have one.
            return m.ServerCapabilities({} if self._exchange is None else _ANYTHING)
        found, revision = self.first.client.server_capabilities, self.first.revision
        row = METHODS["completion/complete"]
        # 2024-11-05 has completion, but no capability for it: newer clients in front would not ask without one.
        if revision is None or row.needs(revision) is not None or not {"prompts", "resources"} & found.keys():
            return found
        return m.ServerCapabilities({**found, "completions": {}})

    @property
    def param_headers(self) -> Mapping[str, HeaderMap]:
        return {} if self.first is None else self.first.param_headers

    async def shown(self, kind: ListName, call: Call) -> Shown:
        if self.problem is not None and call.principal is None:
            raise self.problem
        via = self._check(call) if VIA in call.meta else ()
        return await (await self._upstream(call)).shown(kind, via)

    def known(self, kind: ListName, call: Call) -> Shown | None:
        if self.problem is not None or call.principal is not None or VIA in call.meta:
            return None
        return None if self.first is None or not self._shared else self.first.known(kind)

    def steady(self, kind: ListName) -> bool:
        return self._shared

    async def has(self, kind: ListName, name: str, call: Call) -> bool:
        kinds: tuple[ListName, ...] = ("resources", "templates") if kind == "resources" else (kind,)
        try:
            shown = [(each, await self.shown(each, call)) for each in kinds]
        except DovetailError:
            return False
        return any(_is_called(each, one, name) for each, found in shown for one in found.entries)

    async def traits(self, name: str, call: Call) -> Sequence[Traits]:
        try:
            upstream = await self._upstream(call)
            await upstream.shown("tools", self._check(call))
        except DovetailError:
            return ()
        return upstream.traits.get(name, ())

    def task_tool(self, name: str) -> TaskTool | None:
        """A modern server says when it has made a task; one of 2025-11-25 says beforehand which tools may be some."""
        if self.first is None:
            return None
        able = self.first.modern or name in self.first.may_be_task
        return TaskTool(name, "optional" if able else "forbidden", asks_first=True, behind=True)

    def respond(self, call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
        assert self._server is not None
        if VIA in call.meta:
            self._check(call)
        if (
            call.principal is None and self._shared and self.first is not None
        ):  # most calls: no key is made for them
            return Passing(self._server, self.first, call, channel).run()
        return self._respond(self._server, call, channel)

    async def _respond(self, server: Server, call: Call, channel: Channel) -> Struct | Raw:
        return await Passing(server, await self._upstream(call), call, channel).run()

    async def watch(self, uri: str, call: Call) -> None:
        upstream = await self._upstream(call)
        if uri not in upstream.watched:
            await upstream.client.subscribe_resource(uri)
            upstream.watched.add(uri)

    def unwatch(self, uri: str) -> None:
        for upstream in self._upstreams.values():
            if uri in upstream.watched:
                upstream.watched.discard(uri)
                self._later(self._unsubscribe(upstream, uri))

    async def _unsubscribe(self, upstream: Upstream, uri: str) -> None:
        try:
            await upstream.client.unsubscribe_resource(uri)
        except DovetailError as error:
            log.info("%s: a subscription could not be ended: %s", self.label, error.message)

    def rights_of(self, uri: str) -> Rights:
        return ()

    def follow(self, tell: Callable[[News], None]) -> None:
        self._followers.append(tell)

    def _tell(self, news: News) -> None:
        for follow in self._followers:
            follow(news)


_ANYTHING: Mapping[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
}


def _exchange_of(options: ClientOptions) -> TokenExchange | None:
    auth: Any = options.get("auth")
    return auth if isinstance(auth, TokenExchange) else None


def _merged(options: ClientOptions, more: ClientOptions) -> ClientOptions:
    return {**options, **more}


def _is_called(kind: str, one: Any, name: str) -> bool:
    """Whether a definition stands for ``name``; what a template matches, its server alone knows for certain."""
    if kind == "resources":
        return one.uri == name
    if kind == "templates":
        return name == one.uri_template or name.startswith(one.uri_template.partition("{")[0])
    return one.name == name
