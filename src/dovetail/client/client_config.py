"""Options of clients and calls, and their parsed form `ClientConfig`.

`ClientOptions` and the options of calls are typed dictionaries, shared by `dovetail.Client` and
`dovetail.sync.Client`. `ClientConfig` is parsed once from `ClientOptions`. The options of a call stay
dictionaries.
"""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, cast

from msgspec import Struct, field

from ..drivers.clock import Clock, LoopClock
from ..drivers.middleware_chain import Middleware, Wrapper
from ..model import Implementation
from ..settings import Limits, Reconnect, Timeouts, check_kinds
from ..settings.parameter_kinds import Kind, Several
from ..version import __version__
from ..wire.dialects import Dialect, dialect_of
from ..wire.dialects.dialect import limits_of
from ..wire.frames import RequestId
from ..wire.methods import Method
from ..wire.revisions import BY_NAME
from .auth import RequestAuth, read_auth
from .calling.cache import ResponseCache
from .calling.output_checks import Checking
from .connecting.negotiate import NegotiationPolicy
from .connecting.server_cache import SERVER_CACHE, ServerCache
from .connecting.targets import Target, parse_target

if TYPE_CHECKING:
    from ..extensions.extension import Extension
    from ..manifest.contract import Contract
    from ..telemetry.events import EventReporter

LONG_PROBE: Final = 0.1
"""Smallest discovery timeout, as a fraction of the connect timeout."""
SHORT_PROBE: Final = 1 / 3
"""Largest discovery timeout, as a fraction of the connect timeout: `initialize` needs the rest."""


PROBE_SECONDS: Final = 3.0
"""Seconds without a response to `server/discover` after which a server counts as legacy."""

Callback = Callable[..., Any]
OnProgress = Callable[[float, float | None, str | None], Any]
Headers = Mapping[str, str] | None
Timeout = float | Timeouts | None
T = TypeVar("T")


class ClientOptions(TypedDict, total=False):
    """The options of a client."""

    revision: str
    """"auto" (the default), "modern", "legacy", or one protocol revision."""
    on_elicit: Callback | None
    """Answers elicitation requests of the server; declares the capability."""
    on_sample: Callback | None
    """Answers sampling requests of the server; declares the capability."""
    on_roots: Callback | Sequence[Any] | None
    """Answers requests for the roots of the client, or the roots themselves; declares the capability."""
    on_log: Callback | None
    """Called with each log message of the server."""
    on_list_changed: Callback | None
    """Called when a list of tools, resources or prompts has changed."""
    on_resource_updated: Callback | None
    """Called with the URI of a changed resource and, if it has a second parameter, the metadata of the notification."""
    on_task: Callback | None
    """Called with the state of a task of this client when the server reports it."""
    on_state: Callable[[str], Any] | None
    """Called when the connection changes its state, such as "connected" or "reconnecting"."""
    on_event: Callable[..., Any] | None
    """Called with a `dovetail.telemetry.events.TelemetryEvent` for each request and each change of the connection."""
    reconnect: Reconnect | bool | None
    """How to reconnect after a lost connection; ``False``: never."""
    timeouts: Timeouts | None
    """The timeouts of all calls; each call can have its own."""
    dialect: str | Dialect
    """The dialect of the server: "official" (the default), "erlmcp", "minimcp" or "mcp_client"."""
    headers: Headers
    """HTTP headers of all requests, or a function that returns them."""
    auth: Any
    """"oauth", a bearer token, or an object of `dovetail.auth`."""
    client_info: Implementation | None
    """The name and version that the client sends to the server."""
    capabilities: Mapping[str, Any] | None
    """Capabilities to declare in addition to those of the callbacks."""
    validate: Checking
    """Whether structured results are checked against the tool's output schema: "strict", "warn" or "off"."""
    cache: ResponseCache | bool
    """Whether to cache lists and resources as the server permits, or the cache to use."""
    limits: Limits | None
    """The upper bounds of this client."""
    env: Mapping[str, str] | None
    """Environment variables of the server process, for a command."""
    cwd: str | os.PathLike[str] | None
    """The working directory of the server process, for a command."""
    ssl: Any
    """An ``ssl.SSLContext`` for https, wss and TCP with TLS."""
    on_stderr: Callable[[bytes], None] | None
    """Called with the stderr output of the server process, for a command."""
    http: Any
    """The HTTP client to use instead of the built-in one: an ``httpx2.AsyncClient`` or ``httpx.AsyncClient``,
    or an object with ``session()`` as in `dovetail.client.http_client`."""
    proxy: str | bool
    """The URL of an HTTP proxy; ``False``: no proxy; ``True`` (the default): the proxies of the environment."""
    discovery_timeout: float
    """Seconds to wait for a response to ``server/discover``; by default 3, or less if ``timeouts.connect`` is less."""
    ping_interval: float | None
    """Seconds between pings of a legacy server. An unanswered ping closes the connection and reconnects."""
    clock: Clock | None
    """The clock of all timeouts, for tests."""
    server_cache: ServerCache
    """The revisions of known servers, so that further connections skip the negotiation."""
    middleware: Sequence[Middleware | Wrapper]
    """Middleware around every call, outermost first."""
    extensions: Sequence[Extension]
    """Extensions of the protocol: see `dovetail.extensions`."""
    contract: str | os.PathLike[str] | Contract | None
    """A lock file of `dovetail lock`: calls of tools that differ from it are refused before they are sent."""
    on_message: Callable[[str, bytes], None] | None
    """Called with the sender ("client" or "server") and the bytes of every message."""


class CallOptions(TypedDict, total=False):
    """The options of every call."""

    timeout: Timeout
    """Seconds until the response, or `Timeouts`."""
    headers: Headers
    """HTTP headers of this call; other transports ignore them."""
    on_progress: OnProgress | None
    """Called with progress, total and message of each progress notification."""
    meta: Mapping[str, Any] | None
    """Further members of ``_meta``."""


class CachedOptions(CallOptions, total=False):
    """The options of calls whose results can be cached."""

    fresh: bool
    """Send the request even if its result is cached."""


class ToolCallOptions(CallOptions, total=False):
    """The options of `call_tool`."""

    check: bool
    """Raise `ToolError` when the tool failed (the default), or return its result."""
    idempotency_key: str | None
    """1 to 128 visible ASCII characters. A server with the idempotency extension executes a call with this key once.
    By default the client creates a key, unless the tool is read-only or idempotent."""
    version: str | None
    """The version of the tool; by default the newest."""
    ttl: int | None
    """Milliseconds that a server of 2025-11-25 stores the task; for erlmcp, its maximum duration."""
    task_id: str | None
    """The id of the task; servers of erlmcp only."""
    depends_on: Sequence[str]
    """Tasks that must be completed before this one starts; servers of erlmcp only."""


class RequestOptions(CallOptions, total=False):
    """The options of `request`."""

    repeat: bool
    """Whether to repeat the call after a lost connection; the server may then execute it twice."""
    result: Any
    """The type of the result of an extension method; by default a dict."""
    capability: str | None
    """The capability that the server must declare, such as ``extensions.com.acme/do``."""


class ClientConfig(Struct, frozen=True, kw_only=True, eq=False):
    """The parsed options of one client."""

    target: Target
    origin: str
    """The owner of cached responses: the server's address, or this client if it has none."""
    dialect: Dialect
    policy: NegotiationPolicy
    limits: Limits
    timeouts: Timeouts
    task_total: float | None
    """The explicit total timeouts. Default timeouts do not limit a task that the caller requested."""
    reconnect: Reconnect
    headers: Mapping[str, str]
    auth: RequestAuth | None
    capabilities: Mapping[str, Any]
    cache: ResponseCache | None
    cache_owner: str = field(default_factory=lambda: os.urandom(16).hex())
    """The owner of private cache entries: random, so that no later client has the same."""
    on_elicit: Callback | None = None
    on_sample: Callback | None = None
    on_roots: Callback | Sequence[Any] | None = None
    on_log: Callback | None = None
    on_list_changed: Callback | None = None
    on_resource_updated: Callback | None = None
    on_task: Callback | None = None
    on_state: Callable[[str], Any] | None = None
    events: EventReporter | None = None
    """Receives events."""
    client_info: Implementation = field(default_factory=lambda: Implementation("dovetail", __version__))
    validate: Checking = "warn"
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    ssl: Any = None
    on_stderr: Callable[[bytes], None] | None = None
    http: Any = None
    proxy: str | bool = True
    discovery_timeout: float
    """Seconds without a response to `server/discover` after which a server counts as legacy."""
    ping_interval: float | None = None
    clock: Clock = LoopClock()
    server_cache: ServerCache = SERVER_CACHE
    middleware: Sequence[Middleware | Wrapper] = ()
    methods: Mapping[str, Method] = {}
    """Methods of extensions that the client may call."""
    notifications: Sequence[tuple[str, Any, Callback]] = ()
    """Notifications of extensions: name, type of the params, handler."""
    lifespans: Sequence[Callable[[Any], AbstractAsyncContextManager[Any]]] = ()
    """Context managers of extensions, entered while the client is open."""
    contract: Contract | None = None
    on_message: Callable[[str, bytes], None] | None = None
    next_id: Callable[[], RequestId] | None = None  # ids of requests; by default they count from 1

    def limits_of(self, timeout: Timeout) -> Timeouts:
        """Return the timeouts of one call. A number is the total, and the only limit."""
        if timeout is None:
            return self.timeouts
        if isinstance(timeout, Timeouts):
            return timeout
        return Timeouts(connect=self.timeouts.connect, idle=None, total=timeout)


def read_config(target: Any, options: ClientOptions) -> ClientConfig:
    """Parse a target and its options. None means that an option is not given.

    Raises:
        ValueError: an option has an invalid value.
        TypeError: an option is unknown, or has the wrong type.
    """
    given = cast("dict[str, Any]", {name: value for name, value in options.items() if value is not None})
    _check_kinds(given)
    parsed = parse_target(target)
    dialect = dialect_of(given.pop("dialect", "official"))
    revision, cache, reconnect = (
        given.pop("revision", "auto"),
        given.pop("cache", True),
        given.pop("reconnect", True),
    )
    limits: Timeouts | None = given.pop("timeouts", None)
    timeouts = limits or dialect.timeouts or Timeouts()
    policy = NegotiationPolicy.of(
        revision if revision in BY_NAME or not dialect.versions else dialect.versions[0]
    )
    given.setdefault("discovery_timeout", _probe_seconds(timeouts.connect, alone=not policy.legacy))
    added = _read_extensions(given.pop("extensions", ()))
    declared = _merged(added.pop("capabilities"), given.pop("capabilities", {}))
    middleware = [*given.pop("middleware", ()), *added.pop("middleware")]
    return ClientConfig(
        target=parsed,
        origin=parsed.key or f"client {next(_CLIENTS)}",
        dialect=dialect,
        policy=policy,
        limits=limits_of(dialect, given.pop("limits", None)),
        timeouts=timeouts,
        task_total=None if limits is None else limits.total,
        reconnect=reconnect if isinstance(reconnect, Reconnect) else Reconnect(enabled=reconnect),
        headers=dict(given.pop("headers", ())),
        auth=read_auth(given.pop("auth", None)),
        capabilities={**dialect.client_capabilities, **declared},
        cache=cache if isinstance(cache, ResponseCache) else ResponseCache() if cache else None,
        contract=_read_contract(given.pop("contract", None)),
        **_observed(middleware, given.pop("on_event", None)),
        **added,
        **given,
    )


def _check_kinds(given: Mapping[str, Any]) -> None:
    """Check the types of options that would otherwise fail during a call."""
    check_kinds(_KINDS, given)
    for name, value in given.items():
        if name.startswith("on_") and not callable(value) and (name, type(value)) not in _ROOTS:
            raise TypeError(f"{name} is a function, not {value!r}")


_SECONDS = (int | float, "a number of seconds")
_KINDS: Mapping[str, tuple[Any, str]] = {
    "revision": (str, '"auto", "modern", "legacy" or one revision'),
    "reconnect": (Reconnect | bool, "Reconnect(…), or whether to reconnect"),
    "timeouts": (Timeouts, "Timeouts(connect=…, idle=…, total=…)"),
    "dialect": (str | Dialect, "the name of a dialect"),
    "headers": ((Mapping, list, tuple), "a mapping of names to values"),
    "client_info": ((Implementation, Mapping), 'Implementation("name", "version")'),
    "capabilities": (Mapping, "a mapping of capabilities to their settings"),
    "cache": (ResponseCache | bool, "a ResponseCache(…), or whether to have one"),
    "limits": (Limits, "Limits(…)"),
    "env": (Mapping, "a mapping of names to values"),
    "cwd": ((str, os.PathLike), "the path of a folder"),
    "proxy": (str | bool, "the URL of a proxy, or whether to use those of the environment"),
    "discovery_timeout": _SECONDS,
    "ping_interval": _SECONDS,
    "server_cache": (ServerCache, "ServerCache()"),
    "clock": (Clock, "an object with the methods of a Clock"),
    "middleware": (Several, "a list of middleware"),
    "extensions": ((list, tuple), "a list of extensions"),
}
_ROOTS = (("on_roots", list), ("on_roots", tuple))
_CLIENTS = itertools.count(1)


def _observed(
    middleware: Sequence[Middleware | Wrapper], on_event: Callable[..., Any] | None
) -> dict[str, Any]:
    """The middleware, preceded by tracing and by the reporting of events, where they are enabled."""
    from ..telemetry.auto_instrument import with_tracing  # small; imports only the used parts

    middleware = with_tracing(middleware)
    if on_event is None:
        return {"middleware": middleware}
    from ..telemetry.events import EventReporter

    events = EventReporter("client", on_event)
    return {"middleware": (events, *middleware), "events": events}


def _read_contract(contract: Any) -> Contract | None:
    if contract is None:
        return None
    from ..manifest.contract import Contract, contract_of  # imported only with a contract

    kind: Kind = ((str, os.PathLike, Contract), "the path of a lock file, or a Contract")
    check_kinds({"contract": kind}, {"contract": contract})
    return contract_of(contract)


def _read_extensions(extensions: Sequence[Extension]) -> dict[str, Any]:
    if not extensions:
        return {"capabilities": {}, "middleware": ()}
    from ..extensions.extension import client_options  # imported only with extensions

    return client_options(extensions)


def _merged(ours: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge capabilities of extensions and of the application. The application wins."""
    merged = {**ours, **given}
    for name in ours.keys() & given.keys():
        if isinstance(given[name], Mapping):
            merged[name] = {**ours[name], **given[name]}
    return merged


def _probe_seconds(connect: float | None, *, alone: bool) -> float:
    if connect is None:
        return PROBE_SECONDS
    if alone:
        return connect  # nothing follows it that would need time
    return max(LONG_PROBE * connect, min(PROBE_SECONDS, SHORT_PROBE * connect))


# --- signatures
# -----------------------------------------------------------------------------------------------------

_OPTIONS: dict[str, list[inspect.Parameter]] = {
    f"Unpack[{options.__name__}]": [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=kind.__forward_arg__)
        for name, kind in options.__annotations__.items()
    ]
    for options in (ClientOptions, CallOptions, CachedOptions, ToolCallOptions, RequestOptions)
}


def name_options(cls: type[T]) -> type[T]:
    """Show the members of ``**options`` in the signatures of ``cls``, for ``help`` and tools."""
    for function in vars(cls).values():
        # A wrapped function (`__wrapped__`) has the signature of the original one already.
        if not isinstance(function, FunctionType) or "__wrapped__" in vars(function):
            continue
        if named := _OPTIONS.get(function.__annotations__.get("options", "")):
            signature = inspect.signature(function)
            *shown, _ = signature.parameters.values()
            cast("Any", function).__signature__ = signature.replace(parameters=[*shown, *named])
    return cls
