"""`Client`: one object that talks to every MCP server, of any revision, over any transport."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, overload

import msgspec
from msgspec import UNSET, Raw, Struct

from ..core.admit import Admission
from ..core.connection import Change
from ..drivers.clock import Clock, LoopClock
from ..errors import CapabilityError, DovetailError, LocalProtocolError, ProtocolError, RemoteProtocolError
from ..model import (
    CompleteRequestParams,
    CompleteResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    GetPromptRequestParams,
    GetPromptResult,
    GetSkillRequestParams,
    Implementation,
    NotificationParams,
    PaginatedRequestParams,
    Prompt,
    ReadDirectoryRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceTemplate,
    SetLevelRequestParams,
    Skill,
    SubscribeRequestParams,
    Tool,
    UnsubscribeRequestParams,
)
from ..settings import Limits, Reconnect, Timeouts
from ..wire.dialects import Dialect
from ..wire.methods import METHODS
from ..wire.revisions import REVISIONS
from .about import About
from .answering.answers import Answers
from .answering.callbacks import call_back
from .auth import read_auth
from .calling.cache import ResponseCache
from .calling.calls import Calls, limits_of, principal_of
from .calling.completing import read_reference
from .calling.paging import follow
from .calling.results import ToolResult
from .calling.skills import LoadedSkill, load
from .calling.task_handles import TaskHandle
from .calling.tools import ToolBox
from .calling.waiting import OnProgress
from .connecting.connect import Identity
from .connecting.connections import Callbacks, ClientKeeper
from .connecting.known_servers import VERDICTS, Verdicts
from .connecting.openers import Options, opener_for
from .connecting.targets import parse_target
from .fetch import Fetch
from .life import Life
from .reading import read_dialect, read_params, read_policy, read_reconnect, read_text
from .schemas import Checking, OutputChecks

log = logging.getLogger("dovetail.client")

NAME, VERSION = "dovetail", "0.1.0"
PROBE = 5.0
"""Seconds a server may be silent about the probe; see `Identity.probe`."""

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

Timeout = float | Timeouts | None
Headers = Mapping[str, str] | None


class Client(About):
    """A client of one server. Open it with ``async with`` or `open`; close it from anywhere, as often as you like.

    ```python
    async with Client("http://127.0.0.1:8000/mcp") as client:
        print((await client.call_tool("forecast", {"city": "Oslo"})).data)
    ```

    The target is a URL (http, ws, tcp), a `Server` in this process, a command such as ``["python", "server.py"]``, or
    a file. ``revision`` is "auto", "modern", "legacy" or one revision. ``on_elicit``, ``on_sample`` and ``on_roots``
    answer the server's questions in both eras; having one is what declares the capability. ``validate`` checks
    structured results against the tool's output schema. ``cache`` is True, False, or a `ResponseCache` to share.
    ``keep_alive`` pings a legacy server every so many seconds, and connects anew when it does not answer.
    """

    def __init__(
        self,
        target: Any,
        *,
        revision: str = "auto",
        on_elicit: Callable[..., Any] | None = None,
        on_sample: Callable[..., Any] | None = None,
        on_roots: Callable[..., Any] | Sequence[Any] | None = None,
        on_log: Callable[..., Any] | None = None,
        on_list_changed: Callable[..., Any] | None = None,
        on_resource_updated: Callable[..., Any] | None = None,
        on_state: Callable[[str], Any] | None = None,
        reconnect: Reconnect | bool | None = None,
        timeouts: Timeouts | None = None,
        dialect: str | Dialect = "official",
        headers: Headers = None,
        auth: Any = None,
        client_info: Implementation | None = None,
        capabilities: Mapping[str, Any] | None = None,
        validate: Checking = "warn",
        cache: ResponseCache | bool = True,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        ssl: Any = None,
        on_stderr: Callable[[bytes], None] | None = None,
        fetch: Fetch | None = None,
        probe_timeout: float = PROBE,
        keep_alive: float | None = None,
        clock: Clock | None = None,
        verdicts: Verdicts = VERDICTS,
        tap: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self.target = parse_target(target)
        profile = dialect if isinstance(dialect, Dialect) else read_dialect(dialect)
        self._clock = clock or LoopClock()
        self._limits = limits or profile.limits or Limits()
        self._timeouts = timeouts or profile.timeouts or Timeouts()
        self._on_state = on_state
        self._headers = dict(headers or {})
        self._auth = read_auth(auth)
        checks = OutputChecks(validate)
        self._listed: set[str] = set()
        self._entered = 0
        self._dialect = profile
        self._reconnect = read_reconnect(reconnect)
        self._answers = Answers(
            on_elicit=on_elicit,
            on_sample=on_sample,
            on_roots=on_roots,
            declared={**profile.client_capabilities, **(capabilities or {})},
        )
        self._cache = cache if isinstance(cache, ResponseCache) else ResponseCache() if cache else None
        self._keeper = self._make_keeper(
            Callbacks(
                on_log=on_log, on_list_changed=on_list_changed, on_resource_updated=on_resource_updated
            ),
            Identity(
                info=client_info or Implementation(NAME, VERSION),
                capabilities=self._answers.capabilities,
                policy=read_policy(revision, profile),
                limits=self._limits,
                timeouts=self._timeouts,
                probe=probe_timeout,
                keep_alive=keep_alive,
                tap=tap,
            ),
            Options(
                limits=self._limits,
                connect=self._timeouts.connect,
                headers=self._headers,
                auth=self._auth,
                fetch=fetch,
                env=env,
                cwd=cwd,
                ssl=ssl,
                on_stderr=on_stderr,
            ),
            verdicts,
        )
        self._life = Life(
            self._keeper,
            self._reconnect,
            self._clock,
            self._state_changed,
            keep_trying=bool(profile.versions),
        )
        self._calls = Calls(
            self._life,
            self._answers,
            self._clock,
            timeouts=self._timeouts,
            limits=self._limits,
            reconnect=self._reconnect,
            cache=self._cache,
            origin=self._origin,
            principal=self._principal,
        )
        self._keeper.on_established = self._calls.use
        mirrors = self.target.kind == "http"
        self._toolbox = ToolBox(self._calls, self._keeper, self._clock, checks, mirrors=mirrors)

    def _make_keeper(
        self, callbacks: Callbacks, identity: Identity, options: Options, verdicts: Verdicts
    ) -> ClientKeeper:
        # A private result without a principal must not meet another client's: its origin is this client alone.
        self._origin = self.target.key or f"memory:{id(self)}"
        opener = opener_for(self.target, options)
        admission = Admission("client", REVISIONS, self._dialect)
        keeper = ClientKeeper(
            self.target,
            opener,
            identity,
            self._answers,
            admission,
            callbacks,
            self._clock,
            self._reconnect,
            verdicts,
            self._cache,
            self._origin,
        )
        keeper.on_lists_changed = self._list_changed
        keeper.refresh = self._refresh
        return keeper

    # --- life -----------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Connect, unless connected already.

        Raises:
            TransportError: the server cannot be reached.
            ProtocolError: it can, but speaks no revision of ours.
            RequestTimeout: it does not answer within ``timeouts.connect``.
        """
        await self._life.open()
        return self

    async def close(self, drain: float = 0.0) -> None:
        """Disconnect. ``drain`` gives calls in flight that many seconds; what is left fails."""
        await self._life.close(drain)

    def pause(self) -> None:
        """Let no new call through until `resume`; those under way go on."""
        self._life.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._life.resume()

    async def __aenter__(self) -> Self:
        self._entered += 1
        try:
            return await self.open()
        except BaseException:
            await self._leave()
            raise

    async def _leave(self) -> None:
        """Several blocks may share one connection, one inside the other or side by side: the last one closes it."""
        self._entered -= 1
        if not self._entered:
            await self.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    def _state_changed(self, change: Change) -> None:
        if self._on_state is not None:
            call_back(self._on_state, change.after)

    # --- tools ----------------------------------------------------------------------------------------------------

    async def list_tools(
        self, *, timeout: Timeout = None, headers: Headers = None, fresh: bool = False
    ) -> list[Tool]:
        """All tools, all pages. ``fresh`` asks the server even when the answer is cached."""
        return self._toolbox.learn(await self._list("tools/list", "tools", timeout, headers, fresh))

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = None,
        on_progress: OnProgress | None = None,
        headers: Headers = None,
        check: bool = True,
        task: Literal[False] = False,
        ttl: int | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolResult: ...

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = None,
        on_progress: OnProgress | None = None,
        headers: Headers = None,
        check: bool = True,
        task: Literal[True],
        ttl: int | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> TaskHandle: ...

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = None,
        on_progress: OnProgress | None = None,
        headers: Headers = None,
        check: bool = True,
        task: bool = False,
        ttl: int | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolResult | TaskHandle:
        """Call a tool and return its result; with ``task=True``, a handle on the running call.

        ``timeout`` is the total in seconds, or `Timeouts`. ``ttl`` (milliseconds) is how long a 2025-11-25 server
        should keep the task.

        Raises:
            ToolError: the tool failed; ``check=False`` returns its result in place of raising.
            SessionLost: the connection went away; ``maybe_executed`` says whether the tool may have run.
        """
        return await self._toolbox.call(
            name,
            arguments,
            timeout=timeout,
            on_progress=on_progress,
            headers=headers,
            check=check,
            task=task,
            ttl=ttl,
            meta=meta,
        )

    # --- resources ------------------------------------------------------------------------------------------------

    async def list_resources(
        self, *, timeout: Timeout = None, headers: Headers = None, fresh: bool = False
    ) -> list[Resource]:
        """All resources, all pages."""
        return await self._list("resources/list", "resources", timeout, headers, fresh)

    async def list_resource_templates(
        self, *, timeout: Timeout = None, headers: Headers = None, fresh: bool = False
    ) -> list[ResourceTemplate]:
        """All resource templates, all pages."""
        return await self._list("resources/templates/list", "resource_templates", timeout, headers, fresh)

    async def read_resource(
        self, uri: str, *, timeout: Timeout = None, headers: Headers = None, fresh: bool = False
    ) -> ReadResourceResult:
        """Read a resource."""
        params = ReadResourceRequestParams(str(uri))
        return await self._calls.cached(
            "resources/read", params, str(uri), timeout=timeout, headers=headers, fresh=fresh
        )

    async def subscribe_resource(self, uri: str, *, timeout: Timeout = None) -> None:
        """Hear of changes of ``uri`` through ``on_resource_updated``, also after a reconnect."""
        await self._life.recovered()
        if not self.server_capabilities.has("resources.subscribe"):
            raise CapabilityError("resources.subscribe")
        if not self._modern:
            await self._calls.call("resources/subscribe", SubscribeRequestParams(uri), timeout=timeout)
            self._keeper.listening.uris[uri] = None
        else:
            known = uri in self._keeper.listening.uris
            self._keeper.listening.uris[uri] = None
            try:
                await self._listen_anew(timeout)
            except DovetailError:
                if not known:
                    self._keeper.listening.uris.pop(uri, None)
                raise

    async def unsubscribe_resource(self, uri: str, *, timeout: Timeout = None) -> None:
        """Hear no more of ``uri``."""
        await self._life.recovered()
        self._keeper.listening.uris.pop(uri, None)
        if not self._modern:
            await self._calls.call("resources/unsubscribe", UnsubscribeRequestParams(uri), timeout=timeout)
        else:
            await self._listen_anew(timeout)

    async def _listen_anew(self, timeout: Timeout) -> None:
        conversation = await self._life.recovered()
        limits = self._timeouts if timeout is None else limits_of(timeout, self._timeouts)
        limit = limits.total if limits.idle is None else limits.idle
        await self._keeper.listening.restart(conversation, self.server_capabilities, limit)

    # --- prompts and completion -------------------------------------------------------------------------------------

    async def list_prompts(
        self, *, timeout: Timeout = None, headers: Headers = None, fresh: bool = False
    ) -> list[Prompt]:
        """All prompts, all pages."""
        return await self._list("prompts/list", "prompts", timeout, headers, fresh)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = None,
        headers: Headers = None,
    ) -> GetPromptResult:
        """Fill in a prompt. Argument values are strings on the wire; others are written as JSON."""
        given: Any = (
            UNSET if arguments is None else {key: read_text(value) for key, value in arguments.items()}
        )
        params = GetPromptRequestParams(name, given)
        return await self._calls.call("prompts/get", params, timeout=timeout, headers=headers)

    async def complete(
        self,
        ref: Mapping[str, Any] | str | Struct,
        argument: Mapping[str, Any] | str | Struct,
        value: str | Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = None,
        headers: Headers = None,
    ) -> CompleteResult:
        """Suggest values: ``complete(ref, argument)`` as on the wire, or ``complete("prompt", "argument", "value")``.

        A string ``ref`` names a prompt, or a resource template when it is a URI.
        """
        params: CompleteRequestParams = read_reference(ref, argument, value, context)
        return await self._calls.call("completion/complete", params, timeout=timeout, headers=headers)

    # --- skills -----------------------------------------------------------------------------------------------------

    async def list_skills(self, *, timeout: Timeout = None, fresh: bool = False) -> list[Skill]:
        """The server's skills. Nothing of them is fetched."""
        return await self._list("skills/list", "skills", timeout, None, fresh)

    async def load_skill(self, skill: Skill | str, *, timeout: Timeout = None) -> LoadedSkill:
        """Read a skill's SKILL.md and verify it: digest, size, frontmatter.

        Raises:
            SkillError: it is not what the server listed.
        """
        if isinstance(skill, str):
            found = await self._calls.call("skills/get", GetSkillRequestParams(skill), timeout=timeout)
            skill = found.skill
        assert isinstance(skill, Skill)
        return await load(self, skill)

    async def read_directory(self, uri: str, *, timeout: Timeout = None) -> list[Resource]:
        """The entries of a directory resource (skills extension)."""
        return await follow(
            lambda cursor: self._calls.call(
                "resources/directory/read", ReadDirectoryRequestParams(uri, cursor=cursor), timeout=timeout
            ),
            "resources",
        )

    # --- the rest -----------------------------------------------------------------------------------------------------

    async def ping(self, *, timeout: Timeout = None) -> float:
        """Make sure the server answers; returns the seconds it took. Modern servers have no ping, and are asked
        `server/discover`."""
        begun = self._clock.time()
        await self._life.recovered()
        method = "server/discover" if self._modern else "ping"
        await self._calls.call(method, RequestParams(), timeout=timeout)
        return self._clock.time() - begun

    async def set_logging_level(self, level: str, *, timeout: Timeout = None) -> None:
        """Have the server log from ``level`` on, to ``on_log``; kept after a reconnect.

        Raises:
            ValueError: there is no such level.
        """
        try:
            params = msgspec.convert({"level": level}, SetLevelRequestParams)
        except msgspec.ValidationError:
            raise ValueError(f"a log level is one of {', '.join(LEVELS)}; not {level!r}") from None
        await self._life.recovered()
        if not self._modern:
            await self._calls.call("logging/setLevel", params, timeout=timeout)
        self._keeper.log_level = self._calls.log_level = level

    async def notify_roots_changed(self) -> None:
        """Tell a legacy server that the roots are others now. Modern servers ask when they need them."""
        conversation = await self._life.recovered()
        if not self._modern:
            conversation.notify("notifications/roots/list_changed", NotificationParams())

    async def create_message(
        self, params: CreateMessageRequestParams | Mapping[str, Any], *, timeout: Timeout = None
    ) -> CreateMessageResult:
        """Ask the *server* to sample, which only the ``mcp_client`` profile knows.

        Raises:
            LocalProtocolError: the dialect of this client has no such request.
        """
        if not self._dialect.client_may_sample:
            raise LocalProtocolError(
                "method_not_found", "only dialect='mcp_client' sends sampling/createMessage to a server"
            )
        request = msgspec.convert(msgspec.to_builtins(params), CreateMessageRequestParams)
        return await self._calls.call("sampling/createMessage", request, timeout=timeout, repeat=False)

    async def request(
        self,
        method: str,
        params: Struct | Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = None,
        headers: Headers = None,
        on_progress: OnProgress | None = None,
        repeat: bool = False,
    ) -> Any:
        """Any request. A known method returns its decoded result, any other the JSON value.

        Raises:
            LocalProtocolError: the params are not what the method takes; nothing was sent.
        """
        row = METHODS.get(method)
        if isinstance(params, Struct):
            built: Struct | Raw = params
        elif row is not None:
            built = read_params(method, dict(params or {}), row.params)
        else:
            built = await self._open_params(params or {})
        result = await self._calls.call(
            method, built, timeout=timeout, headers=headers, on_progress=on_progress, repeat=repeat
        )
        return msgspec.json.decode(result) if isinstance(result, Raw) else result

    async def _open_params(self, params: Mapping[str, Any]) -> Raw:
        """Params of a method nobody described, with the metadata every modern request carries."""
        meta = (await self._life.recovered()).endpoint.meta
        return Raw(msgspec.json.encode({**params, "_meta": dict(meta)} if meta else dict(params)))

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _modern(self) -> bool:
        established = self._calls.established
        return established is not None and established.revision.modern

    async def _list(
        self, method: str, member: str, timeout: Timeout, headers: Headers, fresh: bool
    ) -> list[Any]:
        self._listed.add(method)

        async def page(cursor: Any) -> Any:
            params = PaginatedRequestParams(cursor=cursor)
            key = "" if cursor is UNSET else f"cursor={cursor}"
            return await self._calls.cached(
                method, params, key, timeout=timeout, headers=headers, fresh=fresh
            )

        try:
            return await follow(page, member)
        except RemoteProtocolError:
            raise
        except ProtocolError as error:
            if error.kind not in ("invalid_params", "invalid_cursor") or self._cache is None or fresh:
                raise
            # A cursor of a cached page has expired: drop all of them and begin again.
            self._cache.forget(self._origin, method)
            return await follow(page, member)

    def _list_changed(self, kind: str) -> None:
        if kind == "tools":
            self._toolbox.forget_schemas()

    async def _refresh(self, listing: bool = False) -> None:
        """The server may be another one now: forget what it said, and read the tools again if they were read."""
        if self._cache is not None:
            self._cache.forget(self._origin)
        self._toolbox.forget_schemas()
        if listing or "tools/list" in self._listed:
            await self.list_tools(fresh=True)

    def _principal(self, headers: Headers) -> str | None:
        """Whose answers may be kept together: the authorization of the request, in a form that is no secret."""
        given = {name.lower(): value for name, value in {**self._headers, **(headers or {})}.items()}
        name = principal_of(given.get("authorization"))
        return name or (f"auth:{id(self._auth)}" if self._auth is not None else f"client:{id(self)}")
