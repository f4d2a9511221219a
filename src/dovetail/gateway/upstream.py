"""`Upstream`: one connection to an upstream server, its lists, and the routing of its requests to callers."""

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
from ..client.connecting.targets import Target
from ..core.channel import Call
from ..core.subscription_hub import PublishedChange
from ..errors import NAME_ECHO, ProtocolError, RegistrationError
from ..model.meta import APP_MIME_TYPE, APPS_EXTENSION, TASKS_EXTENSION, VIA
from ..server.composition import ListName
from ..server.registry.tool_versions import joined, versions_of
from ..settings import Timeouts
from ..wire.codec import Codec
from ..wire.headers import HeaderMap, header_map
from ..wire.methods import Method
from ..wire.revisions import BY_NAME, Revision
from .forwarding import LONGEST_NAME, ForwardedCall, current
from .providers import ComponentList
from .selectors import Traits
from .suspended_calls import SuspendedCalls

if TYPE_CHECKING:
    from ..auth.client.on_behalf_of import ExchangedToken
    from ..client.client_config import CachedOptions, ClientOptions

log = logging.getLogger("dovetail.gateway")

_SHARED: Final = (
    "several clients share this connection; authenticate the clients, let clients with sessions (before 2026-07-28) "
    'connect with connections="session" (--per-session), or use an upstream of 2026-07-28'
)
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


class ForwardingSampler:
    """A sampler that forwards sampling requests to the downstream client, including tools."""

    supports_tools = True

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self._ask = ask

    def __call__(self, params: Any) -> Any:
        return self._ask(params)


class Upstream:
    """A client of the upstream and its running calls."""

    revision: Revision | None = None
    codec: Codec | None = None
    modern = False
    open = False
    """Whether it has been ready."""
    successor: Upstream | None = None
    """The connection to the process that replaced this server."""
    _late_until = 0.0
    """Until when the server may ask something for a call that was given up."""
    exchanged: ExchangedToken | None = None
    """The token exchange of its principal."""
    _level = len(_LEVELS)
    """The lowest requested log level; initially none."""
    _declared: tuple[Any, Mapping[str, Any]] = (None, {})

    def __init__(
        self,
        target: Target,
        options: ClientOptions,
        *,
        name: str,
        held: SuspendedCalls,
        tell: Callable[[PublishedChange], None],
        timeout: float | None,
        forward_headers: frozenset[str],
        added: Mapping[str, Method],
        mark: str,
    ) -> None:
        self.target, self.name, self.mark = target, name, mark
        """The name in messages to downstream clients."""
        self.plain = options.get("dialect", "official") == "official"
        """Whether results may be forwarded unchanged: the upstream uses no other dialect."""
        self.held, self.timeout = held, timeout
        self.unhurried = Timeouts(idle=None, total=timeout)
        """Timeouts for calls that may become tasks of the upstream."""
        self._tell, self.forward_headers, self.added = tell, forward_headers, added
        self.active: dict[ForwardedCall, None] = {}  # calls whose clients may receive requests
        self._shown: dict[ListName, ComponentList] = {}
        self._fresh: set[ListName] = set()
        """Lists that did not change since they were requested."""
        self._locks: dict[ListName, asyncio.Lock] = {}
        self.harmless: set[str] = set()
        """Tools that may be called twice, according to their annotations."""
        self.traits: dict[str, list[Traits]] = {}
        """By tool: all versions that the upstream declares, newest first."""
        self.as_task: set[str] = set()
        """Tools that an upstream of 2025-11-25 only runs as tasks."""
        self.may_be_task: set[str] = set()
        """Tools that it can run as tasks."""
        self.param_headers: dict[str, HeaderMap] = {}
        self.state_changed: Callable[[str], None] = _nothing
        """Called when the connection is lost, given up or restored."""
        self.watched: set[str] = set()
        self.client = Client(target, **self._told(options))
        self._codecs = self.client.keep_unknown()

    def _told(self, options: ClientOptions) -> ClientOptions:
        # The downstream client validates and caches results itself.
        return {
            **options,
            "validate": "off",
            "cache": False,
            # Lists include components for UI hosts; they are filtered for downstream clients without UI
            # support.
            "capabilities": {**_EXTENSIONS, **(options.get("capabilities") or {})},
            "on_elicit": partial(self._question, "elicitation/create"),
            "on_sample": ForwardingSampler(partial(self._question, "sampling/createMessage")),
            "on_roots": partial(self._question, "roots/list", None),
            "on_log": self._logged,
            "on_list_changed": self._changed,
            "on_resource_updated": self._updated,
            "on_state": self._state,
        }

    def learn(self) -> None:
        """Store the revision of the upstream, which is needed for every call and changes only with the
        connection.
        """
        name = self.client.revision
        self.revision = None if name is None else BY_NAME[name]
        self.modern = self.revision is not None and self.revision.modern
        self.codec = None if name is None else self._codecs[name]
        self._shown.clear()

    def assume(self, other: Upstream) -> None:
        """Use the tool data of another connection to the same server until the tools are listed."""
        self.harmless, self.traits, self.param_headers = other.harmless, other.traits, other.param_headers
        self.as_task, self.may_be_task = other.as_task, other.may_be_task

    def _state(self, state: str) -> None:
        """Report a changed connection state, so that a disconnected upstream is left out of lists."""
        if state == "ready":
            self.learn()
        if state in ("backoff", "failed", "ready") and self.open:
            self.state_changed(state)

    @property
    def busy(self) -> bool:
        return bool(self.active or self.watched or self.client.pending)

    # --- lists
    # ------------------------------------------------------------------------------------------------------------

    def forget_lists(self) -> None:
        """Request every list again when it is needed."""
        self._shown.clear()
        self._fresh.clear()

    def known(self, kind: ListName) -> ComponentList | None:
        """Return the list if it is cached."""
        return self._shown.get(kind)

    async def shown(self, kind: ListName, via: Sequence[str] = ()) -> ComponentList:
        """Return the list, cached until it changes. ``via`` are the proxies that the request has passed.

        Raises:
            DovetailError: it is unavailable.
        """
        found = self._shown.get(kind)
        if found is not None:
            return found
        async with self._locks.setdefault(kind, asyncio.Lock()):
            found = self._shown.get(kind)
            if found is None:
                self._fresh.add(kind)
                found = ComponentList(object(), self._usable(kind, await self._list(kind, via)))
                if kind == "tools":
                    self._know(found.entries)
                if kind in self._fresh:  # else it changed during the request
                    self._shown[kind] = found
            return found

    def _usable(self, kind: ListName, entries: Sequence[Any]) -> list[Any]:
        """Return the components with valid names; log the others."""
        found, others = list[Any](), list[str]()
        for one in entries:
            name = one.uri if kind == "resources" else one.uri_template if kind == "templates" else one.name
            if 0 < len(name) <= LONGEST_NAME and name.isprintable():
                found.append(one)
            else:
                others.append(name)
        if others:  # one line: there may be thousands
            said = self.name, len(others), kind, others[0][:NAME_ECHO]
            log.warning(
                "upstream components left out, invalid names name=%s count=%d list=%s example=%a", *said
            )
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
        """Return the headers of the downstream client that are configured to be forwarded."""
        given: Any = call.scope.get("headers") or ()
        pairs: Any = cast("Mapping[Any, Any]", given).items() if isinstance(given, Mapping) else given
        texts = ((_text(name).lower(), _text(value)) for name, value in pairs)
        return {name: value for name, value in texts if name in self.forward_headers} or None

    def declared_for(self, front: m.ClientCapabilities) -> Mapping[str, Any]:
        """Return the capabilities of a legacy client for a modern upstream; constant within a session."""
        if self._declared[0] is not front:
            # Task capabilities of 2025-11-25 differ; the proxy waits for tasks itself.
            told = {name: value for name, value in front.items() if name != "tasks"}
            self._declared = front, {**told, "extensions": {TASKS_EXTENSION: {}}}
        return self._declared[1]

    # --- requests of the upstream
    # -----------------------------------------------------------------------------------------

    def _whose(self) -> ForwardedCall | None:
        """Return the call that a request of the upstream belongs to: by exchange, or if there is only one
        client.
        """
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
                _SHARED
                if len(self.active) > 1
                else "a call was given up a moment ago"
                if self.active
                else "no call is running"
            )
            raise ProtocolError("method_not_found", f"the receiver of this request is unknown: {many}")
        return await passing.ask(method, params)

    def _logged(self, params: m.LoggingMessageNotificationParams) -> None:
        passing = current.get() or self._whose()
        wanted = None if passing is None else passing.log_level()
        if passing is None or (wanted is None and passing.call.revision.modern):
            return
        if wanted is None or _LEVELS.index(params.level) >= _LEVELS.index(wanted):
            passing.tell("notifications/message", params)

    async def set_level(self, level: str) -> None:
        """Set the log level of the upstream to ``level``, or to a lower one that another client requested.

        Raises:
            DovetailError: the upstream refused it.
        """
        lowest = min(_LEVELS.index(level), self._level)
        if lowest < self._level and self.client.server_capabilities.has("logging"):
            await self.client.set_logging_level(level)
            self._level = lowest

    def _changed(self, kind: str) -> None:
        for name in _CHANGED.get(kind, ()):
            self._shown.pop(name, None)
            self._fresh.discard(name)
        self._tell(PublishedChange(list=kind))  # type: ignore[arg-type]

    def _updated(self, uri: str, metadata: Any = None) -> None:
        self._tell(PublishedChange(uri=uri))


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
