"""One connection to a server behind, for one principal: what it shows, and whose its questions are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from .. import model as m
from ..client import Client
from ..core.channel import Call
from ..core.subscriptions import Change
from ..errors import NAME_ECHO, ProtocolError, RegistrationError
from ..model.meta import APP_MIME_TYPE, APPS_EXTENSION, TASKS_EXTENSION, VIA
from ..server.composition import ListName
from ..server.registry.tool_versions import joined, versions_of
from ..settings import Timeouts
from ..wire.codec import Codec
from ..wire.headers import HeaderMap, header_map
from ..wire.methods import Method
from ..wire.revisions import BY_NAME, Revision
from .forwarding import LONGEST_NAME, Passing, current
from .providers import Shown
from .selectors import Traits
from .suspended_calls import HeldCalls

if TYPE_CHECKING:
    from ..auth.client.on_behalf_of import ExchangedToken
    from ..client.client_config import CachedOptions, ClientOptions

log = logging.getLogger("dovetail.gateway")

LATE_SECONDS: Final = 30.0
"""Seconds after a call was given up, in which a legacy server may still ask something for it."""

_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_EXTENSIONS: Final = {"extensions": {APPS_EXTENSION: {"mimeTypes": [APP_MIME_TYPE]}}}
_CHANGED: Final[Mapping[str, tuple[ListName, ...]]] = {
    "tools": ("tools",),
    "resources": ("resources", "templates"),
    "prompts": ("prompts",),
}
_NEEDS: Final[Mapping[ListName, str]] = {
    "tools": "tools",
    "resources": "resources",
    "templates": "resources",
    "prompts": "prompts",
}


class Sampler:
    """Samples by asking the client in front, which may use tools."""

    supports_tools = True

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self._ask = ask

    def __call__(self, params: Any) -> Any:
        return self._ask(params)


class Upstream:
    """A client of the server behind, and the calls that are under way there."""

    revision: Revision | None = None
    codec: Codec | None = None
    modern = False
    open = False
    """It has been ready once."""
    successor: Upstream | None = None
    """The connection to the process that replaced this server."""
    _late_until = 0.0
    """Until when the server may ask something for a call that was given up."""
    exchanged: ExchangedToken | None = None
    """What the token of its principal is exchanged by."""
    _level = len(_LEVELS)
    """From which on it logs; nobody has said yet."""
    _declared: tuple[Any, Mapping[str, Any]] = (None, {})

    def __init__(
        self,
        target: Any,
        options: ClientOptions,
        *,
        name: str,
        held: HeldCalls,
        tell: Callable[[Change], None],
        timeout: float | None,
        forward_headers: frozenset[str],
        added: Mapping[str, Method],
        mark: str,
    ) -> None:
        self.name, self.mark = name, mark
        """How clients in front are told of it."""
        self.plain = options.get("dialect", "official") == "official"
        """Whether its results may be passed on as they are: no dialect has other words for them."""
        self.held, self.timeout = held, timeout
        self.unhurried = Timeouts(idle=None, total=timeout)
        """For calls of which the server behind may make tasks."""
        self._tell, self.forward_headers, self.added = tell, forward_headers, added
        self.active: dict[Passing, None] = {}  # calls of clients that may be asked something
        self._shown: dict[ListName, Shown] = {}
        self._fresh: set[ListName] = set()
        """Lists that were asked for since they changed."""
        self._locks: dict[ListName, asyncio.Lock] = {}
        self.harmless: set[str] = set()
        """Tools that may be called twice, as far as their authors say."""
        self.traits: dict[str, list[Traits]] = {}
        """Of each tool all versions, as far as the server behind tells, the newest first."""
        self.as_task: set[str] = set()
        """Tools that a server of 2025-11-25 runs as tasks only."""
        self.may_be_task: set[str] = set()
        """Tools that it runs as tasks if asked."""
        self.param_headers: dict[str, HeaderMap] = {}
        self.state_changed: Callable[[str], None] = _nothing
        """Told that the connection was lost, given up or made anew."""
        self.watched: set[str] = set()
        self.client = Client(target, **self._told(options))
        self._codecs = self.client.keep_unknown()

    def _told(self, options: ClientOptions) -> ClientOptions:
        # The client in front checks and keeps what it gets by itself.
        return {
            **options,
            "validate": "off",
            "cache": False,
            # Lists have what is for the pages of hosts alone, too: who shows none is not shown it in front.
            "capabilities": {**_EXTENSIONS, **(options.get("capabilities") or {})},
            "on_elicit": partial(self._question, "elicitation/create"),
            "on_sample": Sampler(partial(self._question, "sampling/createMessage")),
            "on_roots": partial(self._question, "roots/list", None),
            "on_log": self._logged,
            "on_list_changed": self._changed,
            "on_resource_updated": self._updated,
            "on_state": self._state,
        }

    def learn(self) -> None:
        """Know what is spoken behind: asked for with every call, and only another connection changes it."""
        name = self.client.revision
        self.revision = None if name is None else BY_NAME[name]
        self.modern = self.revision is not None and self.revision.modern
        self.codec = None if name is None else self._codecs[name]
        self._shown.clear()

    def assume(self, other: Upstream) -> None:
        """Take the tools of another connection to the same server to be those of this one, until they are listed."""
        self.harmless, self.traits, self.param_headers = other.harmless, other.traits, other.param_headers
        self.as_task, self.may_be_task = other.as_task, other.may_be_task

    def _state(self, state: str) -> None:
        """A server that went away is left out of lists until it is back."""
        if state == "ready":
            self.learn()
        if state in ("backoff", "failed", "ready") and self.open:
            self.state_changed(state)

    @property
    def busy(self) -> bool:
        return bool(self.active or self.watched or self.client.pending)

    # --- what it shows ------------------------------------------------------------------------------------------------

    def forget_lists(self) -> None:
        """Request every list anew when it is wanted next."""
        self._shown.clear()
        self._fresh.clear()

    def known(self, kind: ListName) -> Shown | None:
        """The list, if it was asked for since it changed."""
        return self._shown.get(kind)

    async def shown(self, kind: ListName, via: Sequence[str] = ()) -> Shown:
        """The list as it is now; asked for once until it changes, by whom the proxies ``via`` lead to.

        Raises:
            DovetailError: it cannot be had.
        """
        found = self._shown.get(kind)
        if found is not None:
            return found
        async with self._locks.setdefault(kind, asyncio.Lock()):
            found = self._shown.get(kind)
            if found is None:
                self._fresh.add(kind)
                found = Shown(object(), self._usable(kind, await self._list(kind, via)))
                if kind == "tools":
                    self._know(found.entries)
                if kind in self._fresh:  # else it has changed since it was told
                    self._shown[kind] = found
            return found

    def _usable(self, kind: ListName, entries: Sequence[Any]) -> list[Any]:
        """What has a name that can be told and shown; the rest is left out."""
        found, others = list[Any](), list[str]()
        for one in entries:
            name = one.uri if kind == "resources" else one.uri_template if kind == "templates" else one.name
            if 0 < len(name) <= LONGEST_NAME and name.isprintable():
                found.append(one)
            else:
                others.append(name)
        if others:  # one line: there may be thousands
            said = self.name, len(others), kind, others[0][:NAME_ECHO]
            log.warning("%s: %d of its %s are left out: their names are none, such as %a", *said)
        return found

    async def _list(self, kind: ListName, via: Sequence[str]) -> list[Any]:
        client = self.client
        asked: CachedOptions = {"fresh": True, "meta": {VIA: [*via, self.mark]}}
        if not client.server_capabilities.has(_NEEDS[kind]):
            return []
        match kind:
            case "tools":
                return list(await client.list_tools(**asked))
            case "resources":
                return list(await client.list_resources(**asked))
            case "templates":
                return list(await client.list_resource_templates(**asked))
            case "prompts":
                return list(await client.list_prompts(**asked))

    def _know(self, tools: Sequence[m.Tool]) -> None:
        self.harmless = {tool.name for tool in tools if _is_harmless(tool)}
        self.traits = {tool.name: _versions(tool) for tool in tools}
        legacy = not self.modern and self.client.server_capabilities.has("tasks")
        support = {tool.name: tool.execution.task_support for tool in tools if legacy and tool.execution}
        self.as_task = {name for name, said in support.items() if said == "required"}
        self.may_be_task = {name for name, said in support.items() if said in ("required", "optional")}
        self.param_headers = {}
        for tool in tools:
            with suppress(RegistrationError):
                if mapped := header_map(tool.input_schema):
                    self.param_headers[tool.name] = mapped

    def headers(self, call: Call) -> dict[str, str] | None:
        """The headers of the client in front that are passed on, because somebody said so."""
        given: Any = call.scope.get("headers") or ()
        pairs: Any = cast("Mapping[Any, Any]", given).items() if isinstance(given, Mapping) else given
        texts = ((_text(name).lower(), _text(value)) for name, value in pairs)
        return {name: value for name, value in texts if name in self.forward_headers} or None

    def declared_for(self, front: m.ClientCapabilities) -> Mapping[str, Any]:
        """What a modern server is told that a legacy client can do; that of a session is always the same."""
        if self._declared[0] is not front:
            # What 2025-11-25 says of tasks is said in another way; we wait for them in the place of the client.
            told = {name: value for name, value in front.items() if name != "tasks"}
            self._declared = front, {**told, "extensions": {TASKS_EXTENSION: {}}}
        return self._declared[1]

    # --- what it says -------------------------------------------------------------------------------------------------

    def _whose(self) -> Passing | None:
        """The call on whose exchange we are, or the only one there is, or any of one and the same client."""
        found = current.get()
        if found is not None and found in self.active:
            return found
        clients = {
            (id(each.call.session), each.call.principal and each.call.principal.key) for each in self.active
        }
        modern = any(each.call.session is None for each in self.active)
        if modern and asyncio.get_running_loop().time() < self._late_until:
            return None
        if len(self.active) == 1 or (len(clients) == 1 and not modern):
            return next(reversed(self.active))
        return None

    def abandon(self) -> None:
        """A call was given up. What the server asks now may be meant for the client of that call."""
        self._late_until = asyncio.get_running_loop().time() + LATE_SECONDS

    async def _question(self, method: str, params: Any) -> Struct:
        passing = self._whose()
        if passing is None:
            many = (
                "several clients are being served on one connection"
                if len(self.active) > 1
                else "a call was given up a moment ago"
                if self.active
                else "no call is under way"
            )
            raise ProtocolError("method_not_found", f"it cannot be told whom to ask: {many}")
        return await passing.ask(method, params)

    def _logged(self, params: m.LoggingMessageNotificationParams) -> None:
        passing = current.get() or self._whose()
        wanted = None if passing is None else passing.log_level()
        if passing is None or (wanted is None and passing.call.revision.modern):
            return
        if wanted is None or _LEVELS.index(params.level) >= _LEVELS.index(wanted):
            passing.tell("notifications/message", params)

    async def set_level(self, level: str) -> None:
        """Have it log from ``level`` on, or from a lower one that somebody else wants.

        Raises:
            DovetailError: it does not.
        """
        lowest = min(_LEVELS.index(level), self._level)
        if lowest < self._level and self.client.server_capabilities.has("logging"):
            await self.client.set_logging_level(level)
            self._level = lowest

    def _changed(self, kind: str) -> None:
        for name in _CHANGED.get(kind, ()):
            self._shown.pop(name, None)
            self._fresh.discard(name)
        self._tell(Change(list=kind))  # type: ignore[arg-type]

    def _updated(self, uri: str, metadata: Any = None) -> None:
        self._tell(Change(uri=uri))


def _versions(tool: m.Tool) -> list[Traits]:
    newest = Traits.of(tool)
    older = [version for version in versions_of(tool) if version != newest.version]
    return [newest, *(replace(newest, key=joined(tool.name, one), version=one) for one in older)]


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _nothing(state: str) -> None: ...


def _is_harmless(tool: m.Tool) -> bool:
    notes = tool.annotations
    return bool(notes) and (notes.get("readOnlyHint") is True or notes.get("idempotentHint") is True)
