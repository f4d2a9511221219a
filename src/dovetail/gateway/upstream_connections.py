"""`UpstreamConnections`: the connections to one upstream, one per downstream principal or legacy session.

Notifications on a connection go to the callers it was opened for; those on the shared connection go to all.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..auth.client.on_behalf_of import ExchangedToken, TokenExchange
from ..auth.core.auth_errors import AuthError
from ..auth.server.current_token import proof_of
from ..client.client_config import ClientOptions
from ..client.connecting.targets import Target
from ..core.channel import Call, Session
from ..core.limits import busy
from ..core.principal import Principal, key_of
from ..core.subscription_hub import PublishedChange
from ..errors import DovetailError, ProtocolError
from ..server.handles import session_folder
from ..wire.methods import Method
from .forwarding import no_access
from .suspended_calls import SuspendedCalls
from .upstream import Upstream
from .upstream_failures import cause_of, displayed_target

RETIRED_SECONDS: Final = 30.0
"""Seconds that calls on a replaced connection may still run."""


UNNAMED: Final = "the upstream server"
"""The name of an upstream without a name."""
Sharing = Literal["auto", "principal", "session"]
"""Which sessions share a connection: those of one principal, or none. "auto": "session" if the server is legacy."""
Key = tuple[Any, ...]
NOBODY: Key = (None,)
"""The key of the shared connection."""


class Caller(Struct, frozen=True):
    """The caller that a connection is opened for."""

    principal: Principal | None = None
    session: Session | None = None
    """None where all sessions of a principal share one connection."""
    token: str | None = None
    """The token to exchange for one of the upstream."""


_NOBODY = Caller()


class UpstreamOptions(Struct, frozen=True, kw_only=True):
    """The options of connections to one upstream."""

    target: Target
    options: ClientOptions
    name: str
    """The name of the upstream in messages to downstream clients."""
    mark: str
    sharing: Sharing
    timeout: float | None
    max_connections: int
    forward_headers: frozenset[str]
    added: Mapping[str, Method]
    """Extension methods that are forwarded."""

    @property
    def place(self) -> str:
        """The name of the upstream for the client that gets an error; without a name its address or command."""
        return f"{UNNAMED} {displayed_target(self.target)}" if self.name == UNNAMED else self.name

    @property
    def exchange(self) -> TokenExchange | None:
        auth: Any = self.options.get("auth")
        return auth if isinstance(auth, TokenExchange) else None


class UpstreamConnections:
    """The connections to one upstream. ``tell`` receives changes, ``down`` the failure of the shared
    connection.
    """

    def __init__(
        self,
        way: UpstreamOptions,
        *,
        tell: Callable[[PublishedChange], None],
        down: Callable[[DovetailError], None],
    ) -> None:
        self.way = way
        self.held = SuspendedCalls()
        self.first: Upstream | None = None
        """The shared connection, which determines the components."""
        self.shared = way.sharing != "session"
        """Whether the sessions of one principal share a connection; a legacy server says no when it is connected."""
        self._tell, self._down = tell, down
        self._ending: dict[asyncio.Task[None], Upstream] = {}
        self._upstreams: OrderedDict[Key, Upstream] = OrderedDict()
        self._opening: dict[Key, asyncio.Task[Upstream]] = {}

    def __iter__(self) -> Iterator[Upstream]:
        return iter(list(self._upstreams.values()))

    async def of(self, call: Call) -> Upstream:
        """Return the connection for the caller.

        Raises:
            ProtocolError: the upstream cannot be reached.
            Refusal: the connection limit is reached and all are in use.
        """
        caller = self._caller(call)
        key = self._key(caller)
        found = self._upstreams.get(key)
        if found is not None and (found is self.first or found.client.state != "backoff"):
            return self._used(key, found, caller)
        if found is not None:
            self.forget(found)  # what it had in its session is lost: a new connection does not have to wait
        was_shared, made = self.shared, await self._made_for(call, key, caller)
        return made if self.shared or not was_shared or call.session is None else await self.of(call)

    def _caller(self, call: Call) -> Caller:
        token = None
        if self.way.exchange is not None:
            token = proof_of(call.principal)
            if token is None:
                text = f"{self.way.name} needs a caller that authenticates with a token"
                raise ProtocolError("dependency_failed", text, data={"maybeExecuted": False})
        return Caller(call.principal, None if self.shared else call.session, token)

    def _used(self, key: Key, found: Upstream, caller: Caller) -> Upstream:
        self._upstreams.move_to_end(key)
        if found.exchanged is not None and caller.token is not None:
            found.exchanged.subject = caller.token
        return found

    async def _made_for(self, call: Call, key: Key, caller: Caller) -> Upstream:
        way = self.way
        if key not in self._opening and not self._has_room():
            raise busy(f"connections to {way.name}")
        try:
            return await self.opened(caller)
        except AuthError as error:
            raise no_access(error, way.name) from error
        except DovetailError as error:
            if call.principal is None:
                self._down(error)
            text = f"{way.place} cannot be reached: {cause_of(error, way.target)}"
            raise ProtocolError("dependency_failed", text, data={"maybeExecuted": False}) from error

    def _key(self, caller: Caller) -> Key:
        key: Key = (key_of(caller.principal),)
        if caller.principal is not None and self.way.exchange is not None:
            # A token with fewer scopes must not use a token that was exchanged for one with more.
            key += (caller.principal.client_id, caller.principal.scopes)
        return key if caller.session is None else (*key, session_folder(caller.session))

    async def opened(self, caller: Caller = _NOBODY) -> Upstream:
        """Return the connection for ``caller`` and open it if needed.

        Raises:
            DovetailError: it cannot be opened.
        """
        key = self._key(caller)
        found = self._upstreams.get(key)
        if found is not None:
            return found
        opening = self._opening.get(key)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(key, caller))
            self._opening[key] = opening
            opening.add_done_callback(partial(self._opened, key))
        # A cancelled caller does not abort the connection: a slow server would never be reached otherwise.
        return await asyncio.shield(opening)

    async def _open(self, key: Key, caller: Caller) -> Upstream:
        found = self.made(self.way, caller)
        try:
            await found.client.open()
        except BaseException:
            # End an unresponsive child process before continuing.
            await found.client.close()
            raise
        found.learn()
        self._share(found)
        if self.first is not None and not self.shared:
            found.assume(self.first)
        found.open = True
        found.state_changed = partial(self._changed, found)
        self._upstreams[key] = found
        return found

    def _share(self, example: Upstream) -> None:
        """Whether connections are shared, as far as the revision of the server decides it."""
        if self.way.sharing == "auto":
            self.shared = example.modern

    def _opened(self, key: Key, opening: asyncio.Task[Upstream]) -> None:
        self._opening.pop(key, None)
        if not opening.cancelled():
            opening.exception()  # mark as retrieved: the callers may be gone

    def made(self, way: UpstreamOptions, caller: Caller = _NOBODY) -> Upstream:
        """Create a connection that is not open yet."""
        exchanged, auth = None, way.options.get("auth")
        if way.exchange is not None:
            auth = exchanged = ExchangedToken(way.exchange, caller.token or "")
        elif callable(auth):
            auth = auth(caller.principal)
        made = Upstream(
            way.target,
            {**way.options, "auth": auth},
            name=way.place,
            held=self.held,
            tell=self._telling(caller),
            timeout=way.timeout,
            forward_headers=way.forward_headers,
            added=way.added,
            mark=way.mark,
        )
        made.exchanged = exchanged
        return made

    def _telling(self, caller: Caller) -> Callable[[PublishedChange], None]:
        if caller.session is not None:
            session_folder(caller.session)  # assigns an id to the session, if it has none
            return partial(self._tell_some, session=caller.session.id)
        if caller.principal is not None:
            return partial(self._tell_some, caller=caller.principal.key)
        return self._tell

    def _tell_some(self, news: PublishedChange, **whom: str | None) -> None:
        self._tell(replace(news, **whom))

    def _changed(self, upstream: Upstream, state: str) -> None:
        if state == "failed":
            self.forget(upstream)

    def _has_room(self) -> bool:
        """Return whether another connection is allowed. Close the longest idle one if needed."""
        if len(self._upstreams) + len(self._opening) < self.way.max_connections:
            return True
        for key, upstream in self._upstreams.items():
            idle = not upstream.busy and upstream is not self.first
            if idle and len(self._ending) < self.way.max_connections:
                self.end(self._upstreams.pop(key))
                return True
        return False

    def end(self, upstream: Upstream, drain: float = RETIRED_SECONDS) -> None:
        """Close a connection without new calls. Running calls may finish within ``drain`` seconds."""
        upstream.open = False
        task = asyncio.get_running_loop().create_task(upstream.client.close(drain))
        self._ending[task] = upstream
        task.add_done_callback(self._ending.pop)

    def session_ended(self, session: Session) -> None:
        """Close the connection of a legacy session that has ended."""
        if session.id is not None:
            name = session_folder(session)
            for key in [key for key in self._upstreams if key[-1] == name]:
                self.end(self._upstreams.pop(key), drain=0)

    def forget(self, upstream: Upstream) -> None:
        """Remove a connection whose client has given up."""
        for key in [key for key, one in self._upstreams.items() if one is upstream]:
            self.end(self._upstreams.pop(key), drain=0)

    def replace(self, way: UpstreamOptions, first: Upstream | None) -> None:
        """Use other options from now on, starting with this connection. Retire the previous connections."""
        for one in self:
            one.successor = first
            self.end(one)
        self.way, self.first, self._upstreams = way, first, OrderedDict()
        if first is not None:
            self._share(first)
            first.open = True
            self._upstreams[NOBODY] = first

    async def close(self) -> None:
        """Close all connections."""
        await self.held.close()
        for opening in (openings := list(self._opening.values())):
            opening.cancel()
        if openings:
            await asyncio.wait(openings)
        upstreams = [*self._upstreams.values(), *self._ending.values()]
        for upstream in upstreams:
            upstream.open = False  # the following disconnects are intended
        self._upstreams.clear()
        self.first = None
        await asyncio.gather(*(upstream.client.close() for upstream in upstreams))
