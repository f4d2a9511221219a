"""What a client is told: the options people type, spelt once, and the one object that goes through the client.

`ClientOptions` and the options of calls are typed dictionaries, shared by `dovetail.Client` and `dovetail.sync.Client`.
`ClientConfig` is what `ClientOptions` mean, read once. The options of one call stay the dictionary they came as.
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
from ..settings import LONG_PROBE, SHORT_PROBE, Limits, Reconnect, Timeouts, check_kinds
from ..version import __version__
from ..wire.dialects import Dialect, dialect_of
from ..wire.dialects.dialect import limits_of
from ..wire.frames import RequestId
from ..wire.methods import Method
from ..wire.revisions import BY_NAME
from .auth import RequestAuth, read_auth
from .calling.cache import ResponseCache
from .calling.output_checks import Checking
from .connecting.negotiate import Policy
from .connecting.server_cache import SERVER_CACHE, ServerCache
from .connecting.targets import Target, parse_target

if TYPE_CHECKING:
    from ..extensions.base import Extension
    from ..manifest.contract import Contract
    from ..telemetry.events import Events

PROBE_SECONDS: Final = 3.0
"""How long a server may be silent about `server/discover` before it is taken for a legacy one."""

Callback = Callable[..., Any]
OnProgress = Callable[[float, float | None, str | None], Any]
Headers = Mapping[str, str] | None
Timeout = float | Timeouts | None
T = TypeVar("T")


class ClientOptions(TypedDict, total=False):
    """What a client takes beside its target."""

    revision: str
    """"auto", "modern", "legacy" or one revision."""
    on_elicit: Callback | None
    on_sample: Callback | None
    on_roots: Callback | Sequence[Any] | None
    """These three answer the server's questions in both eras; having one is what declares the capability."""
    on_log: Callback | None
    on_list_changed: Callback | None
    on_resource_updated: Callback | None
    """Told the URI and, if it has a second parameter, what the server says of the update."""
    on_task: Callback | None
    """Told the state of a task of ours whenever the server tells it."""
    on_state: Callable[[str], Any] | None
    on_event: Callable[..., Any] | None
    """Told what happens to requests and to the connection: a `dovetail.telemetry.events.TelemetryEvent` each time."""
    reconnect: Reconnect | bool | None
    timeouts: Timeouts | None
    dialect: str | Dialect
    headers: Headers
    auth: Any
    client_info: Implementation | None
    capabilities: Mapping[str, Any] | None
    """What to declare beside what the callbacks do."""
    validate: Checking
    """Whether structured results are checked against the tool's output schema: "strict", "warn" or "off"."""
    cache: ResponseCache | bool
    limits: Limits | None
    env: Mapping[str, str] | None
    cwd: str | os.PathLike[str] | None
    ssl: Any
    on_stderr: Callable[[bytes], None] | None
    http: Any
    """Who sends HTTP requests in place of our own client: an ``httpx2.AsyncClient`` or ``httpx.AsyncClient``,
    or an object of yours with ``session()`` as in `dovetail.client.http_client`."""
    proxy: str | bool
    """A proxy's URL, False for none, True (the default) for the proxies of the environment."""
    discovery_timeout: float
    """Seconds a server may be silent about `server/discover`; by default 3, or what ``timeouts.connect`` leaves."""
    ping_interval: float | None
    """Seconds between pings of a legacy server; the connection is made anew when one is not answered."""
    clock: Clock | None
    server_cache: ServerCache
    middleware: Sequence[Middleware | Wrapper]
    """What stands around every call, the outermost first: `dovetail.middleware`, or functions around ``respond``."""
    extensions: Sequence[Extension]
    """Extensions of the protocol: `dovetail.extensions`."""
    contract: str | os.PathLike[str] | Contract | None
    """A lock file (`dovetail lock`): a tool that is not what it says is refused before it is called."""
    on_message: Callable[[str, bytes], None] | None
    """Called with the sender ("client" or "server") and the bytes of every message."""


class CallOptions(TypedDict, total=False):
    """What every call takes."""

    timeout: Timeout
    """The total in seconds, or `Timeouts`."""
    headers: Headers
    """Headers of this call, over HTTP and HTTP+SSE; elsewhere a message has none."""
    on_progress: OnProgress | None
    meta: Mapping[str, Any] | None
    """Members of ``_meta``."""


class CachedOptions(CallOptions, total=False):
    """What calls take whose answers may be kept."""

    fresh: bool
    """Ask the server even when the answer is cached."""


class ToolOptions(CallOptions, total=False):
    """What `call_tool` takes."""

    check: bool
    """Raise `ToolError` when the tool failed (the default), or return its result."""
    idempotency_key: str | None
    """1 to 128 visible ASCII characters: however often it is sent, a server that keeps state runs the call once.
    Without it such a server is sent one of our own, unless the tool is known to do no harm when it is run twice."""
    version: str | None
    """Which version of the tool to call, where its server has several; without it the newest."""
    ttl: int | None
    """Milliseconds a 2025-11-25 server should keep the task; those an erlmcp server may work on it."""
    task_id: str | None
    """The task's id, in place of one the server makes; erlmcp's servers alone take it."""
    depends_on: Sequence[str]
    """Tasks that have to be completed before this one begins; erlmcp's servers alone know of it."""


class RequestOptions(CallOptions, total=False):
    """What `request` takes."""

    repeat: bool
    """The call does no harm when the server runs it twice: repeat it when the connection is lost."""
    result: Any
    """The type to read the result of a method as that is none of the protocol's; without it, a dict of its members."""
    capability: str | None
    """What its server must have declared, such as ``extensions.com.acme/do``."""


class ClientConfig(Struct, frozen=True, kw_only=True, eq=False):
    """What the options of one client mean."""

    target: Target
    origin: str
    """Whose answers the cache keeps: the server's address, or this very client where it has none."""
    dialect: Dialect
    policy: Policy
    limits: Limits
    timeouts: Timeouts
    task_total: float | None
    """The total of limits that were asked for: those we assume are no limits of a task that somebody asked for."""
    reconnect: Reconnect
    headers: Mapping[str, str]
    auth: RequestAuth | None
    capabilities: Mapping[str, Any]
    cache: ResponseCache | None
    cache_owner: str = field(default_factory=lambda: os.urandom(16).hex())
    """The owner of private entries in the cache: random, so that no later client ever has the same."""
    on_elicit: Callback | None = None
    on_sample: Callback | None = None
    on_roots: Callback | Sequence[Any] | None = None
    on_log: Callback | None = None
    on_list_changed: Callback | None = None
    on_resource_updated: Callback | None = None
    on_task: Callback | None = None
    on_state: Callable[[str], Any] | None = None
    events: Events | None = None
    """Whoever is told what happens."""
    client_info: Implementation = field(default_factory=lambda: Implementation("dovetail", __version__))
    validate: Checking = "warn"
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    ssl: Any = None
    on_stderr: Callable[[bytes], None] | None = None
    http: Any = None
    proxy: str | bool = True
    discovery_timeout: float
    """Seconds a server may be silent about `server/discover` before it is taken for a legacy one."""
    ping_interval: float | None = None
    clock: Clock = LoopClock()
    server_cache: ServerCache = SERVER_CACHE
    middleware: Sequence[Middleware | Wrapper] = ()
    methods: Mapping[str, Method] = {}
    """Methods of extensions that the client may call."""
    notifications: Sequence[tuple[str, Any, Callback]] = ()
    """Notifications of extensions: the name, the type of the params, the handler."""
    lifespans: Sequence[Callable[[Any], AbstractAsyncContextManager[Any]]] = ()
    """Context managers of extensions around the life of the client."""
    contract: Contract | None = None
    on_message: Callable[[str, bytes], None] | None = None
    next_id: Callable[[], RequestId] | None = None  # the ids of requests; without it they count from 1

    def limits_of(self, timeout: Timeout) -> Timeouts:
        """The limits of one call: a number is its total, and then nothing else ends it sooner."""
        if timeout is None:
            return self.timeouts
        if isinstance(timeout, Timeouts):
            return timeout
        return Timeouts(connect=self.timeouts.connect, idle=None, total=timeout)


def read_config(target: Any, options: ClientOptions) -> ClientConfig:
    """What a target and its options mean; None is as good as leaving an option out.

    Raises:
        ValueError: an option has no such value.
        TypeError: there is no such option, or it is of the wrong kind.
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
    policy = Policy.of(revision if revision in BY_NAME or not dialect.versions else dialect.versions[0])
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
    """What would be found out in the middle of a call only."""
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
    "middleware": (Sequence, "a list of middleware"),
    "extensions": ((list, tuple), "a list of extensions"),
}
_ROOTS = (("on_roots", list), ("on_roots", tuple))
_CLIENTS = itertools.count(1)


def _observed(
    middleware: Sequence[Middleware | Wrapper], on_event: Callable[..., Any] | None
) -> dict[str, Any]:
    """The middleware, and before them what traces calls and tells of them, if anybody wants that."""
    from ..telemetry.auto_instrument import with_tracing  # small, and loads no more than is wanted

    middleware = with_tracing(middleware)
    if on_event is None:
        return {"middleware": middleware}
    from ..telemetry.events import Events

    events = Events("client", on_event)
    return {"middleware": (events, *middleware), "events": events}


def _read_contract(contract: Any) -> Contract | None:
    if contract is None:
        return None
    from ..manifest.contract import contract_of  # only who pins a server loads it

    return contract_of(contract)


def _read_extensions(extensions: Sequence[Extension]) -> dict[str, Any]:
    if not extensions:
        return {"capabilities": {}, "middleware": ()}
    from ..extensions.base import client_options  # a client without extensions never loads them

    return client_options(extensions)


def _merged(ours: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What extensions declare and what the application declares; of members that both have, the application's."""
    merged = {**ours, **given}
    for name in ours.keys() & given.keys():
        if isinstance(given[name], Mapping):
            merged[name] = {**ours[name], **given[name]}
    return merged


def _probe_seconds(connect: float | None, *, alone: bool) -> float:
    if connect is None:
        return PROBE_SECONDS
    if alone:
        return connect  # nothing is tried after it that time would have to be left for
    return max(LONG_PROBE * connect, min(PROBE_SECONDS, SHORT_PROBE * connect))


# --- what signatures show -------------------------------------------------------------------------------------------

_OPTIONS: dict[str, list[inspect.Parameter]] = {
    f"Unpack[{options.__name__}]": [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=kind.__forward_arg__)
        for name, kind in options.__annotations__.items()
    ]
    for options in (ClientOptions, CallOptions, CachedOptions, ToolOptions, RequestOptions)
}


def name_options(cls: type[T]) -> type[T]:
    """Let the members of ``**options`` show in the signatures of ``cls``, where ``help`` and programs look for them."""
    for function in vars(cls).values():
        # Made of a function that shows them: it shows them, too.
        if not isinstance(function, FunctionType) or "__wrapped__" in vars(function):
            continue
        if named := _OPTIONS.get(function.__annotations__.get("options", "")):
            signature = inspect.signature(function)
            *shown, _ = signature.parameters.values()
            cast("Any", function).__signature__ = signature.replace(parameters=[*shown, *named])
    return cls
