"""`Client`: the public client API for servers of any revision over any transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, Unpack, cast, overload

import msgspec
from msgspec import Raw, Struct

from .. import model as m
from ..drivers.requests import SendOptions
from ..errors import CapabilityError, DovetailError, LocalProtocolError
from ..wire.codec import Codec
from ..wire.methods import METHODS
from .calling.calls import PLAIN, Calls, addressed
from .calling.middleware_calls import MiddlewareCalls
from .calling.params import (
    own_method,
    own_notification,
    read_level,
    read_params,
    read_reference,
    read_strings,
    unknown_params,
)
from .calling.results import ToolResult
from .calling.skill_calls import LoadedSkill, load
from .calling.task_handles import AnyTask, TaskHandle
from .calling.tool_calls import ToolBox
from .client_config import (
    CachedOptions,
    CallOptions,
    ClientOptions,
    RequestOptions,
    Timeout,
    ToolCallOptions,
    name_options,
    read_config,
)
from .connecting.client_connection import Connections
from .reconnect import ConnectionLifecycle
from .server_requests.callbacks import Answers


@name_options
class Client:
    """A client of one server. Open it with ``async with`` or `open`. Closing repeatedly is allowed.

    ```python
    async with Client("http://127.0.0.1:8000/mcp") as client:
        print((await client.call_tool("forecast", {"city": "Oslo"})).data)
    ```

    The target is a URL (http, ws, tcp), a `Server` in this process, a command such as ``["python",
    "server.py"]``, or a file. `ClientOptions` documents the options, `CallOptions` those of every call.
    """

    def __init__(self, target: Any, **options: Unpack[ClientOptions]) -> None:
        self._config = config = read_config(target, options)
        self.target = config.target
        answers = Answers(config)
        self._connections = Connections(config, answers)
        self._life = ConnectionLifecycle(config, self._connections)
        calls = MiddlewareCalls if config.middleware else Calls
        self._calls: Calls = calls(config, self._life, self._connections, answers)
        self._toolbox = ToolBox(self._calls, self._connections)
        self._connections.list_changed = self._toolbox.changed
        self._connections.came_late = self._toolbox.came_late
        self._connections.refresh = self._toolbox.refresh
        self._entered = 0
        for name, params, handler in config.notifications:
            self.add_notification(name, handler, params=params)
        for lifespan in config.lifespans:
            self._life.lifespans.append(partial(lifespan, self))

    # --- lifecycle
    # ------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Connect, if not connected.

        Raises:
            TransportError: the server cannot be reached.
            ProtocolError: the server supports no common revision.
            RequestTimeout: no response within ``timeouts.connect``.
        """
        await self._life.open()
        return self

    async def close(self, drain: float = 0.0) -> None:
        """Disconnect. Calls in flight may finish within ``drain`` seconds; the others fail.

        With ``drain`` the client first unsubscribes from all resources, so that the server sends no further
        updates.
        """
        if drain > 0 and self._life.conversation is not None:
            clock = self._config.clock
            until = clock.time() + drain
            await self._connections.unsubscribe_all(drain)
            drain = max(0.0, until - clock.time())
        await self._life.close(drain)

    def pause(self) -> None:
        """Block new calls until `resume`. Running calls continue."""
        self._life.pause()

    def resume(self) -> None:
        """End `pause`."""
        self._life.resume()

    async def __aenter__(self) -> Self:
        self._entered += 1
        try:
            return await self.open()
        except BaseException:
            await self._leave()
            raise

    async def _leave(self) -> None:
        """Several blocks, nested or concurrent, may share one connection; the last one closes it."""
        self._entered -= 1
        if not self._entered:
            await self.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    # --- state of the connection and the server
    # ------------------------------------------------------------------------

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.target.label!r}, state={self.state!r}, revision={self.revision!r})"
        )

    @property
    def state(self) -> str:
        """The state: starting, negotiating, ready, paused, backoff, draining, failed or closed."""
        return self._life.machine.state

    @property
    def connected(self) -> bool:
        """Whether calls are possible now."""
        return self._life.machine.state == "ready"

    @property
    def revision(self) -> str | None:
        """The negotiated revision; None before the first connection."""
        established = self._connections.established
        return None if established is None else established.revision.name

    @property
    def server_info(self) -> m.Implementation | None:
        """The name and version of the server; None before the first connection. Do not base decisions on it."""
        established = self._connections.established
        return None if established is None else established.server_info

    @property
    def server_capabilities(self) -> m.ServerCapabilities:
        """The capabilities of the server: ``client.server_capabilities.has("resources.subscribe")``."""
        established = self._connections.established
        return m.ServerCapabilities() if established is None else established.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for the model."""
        established = self._connections.established
        return None if established is None else established.instructions

    @property
    def violations(self) -> dict[str, int]:
        """Protocol violations of the server on this connection, counted by kind. Such messages are dropped."""
        conversation = self._life.conversation
        return {} if conversation is None else dict(conversation.endpoint.violations)

    @property
    def pending(self) -> int:
        """The number of requests without a response."""
        conversation = self._life.conversation
        return 0 if conversation is None else len(conversation.asked)

    # --- tools ----------------------------------------------------------------------------------------------------

    async def list_tools(self, **options: Unpack[CachedOptions]) -> list[m.Tool]:
        """Return all tools (all pages)."""
        return await self._toolbox.list_tools(options)

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        task: Literal[False] = False,
        **options: Unpack[ToolCallOptions],
    ) -> ToolResult: ...

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        task: Literal[True],
        **options: Unpack[ToolCallOptions],
    ) -> TaskHandle: ...

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        task: bool = False,
        **options: Unpack[ToolCallOptions],
    ) -> ToolResult | TaskHandle:
        """Call a tool and return its result; with ``task=True``, a handle of the running call.

        Raises:
            ToolError: the tool failed; with ``check=False`` its result is returned instead.
            SessionLost: the connection was lost; ``maybe_executed`` says whether the tool may have run.
        """
        return await self._toolbox.call(name, arguments, task, options)

    async def create_task(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[ToolCallOptions]
    ) -> TaskHandle:
        """Run a tool as a task. A server of 2026-07-28 may return the result immediately.

        Raises:
            CapabilityError: the server does not support tasks. Nothing was sent.
        """
        await self._life.recovered()
        if not self._modern and not self.server_capabilities.has("tasks"):
            raise CapabilityError("tasks")
        return await self.call_tool(name, arguments, task=True, **options)

    async def list_tasks(self, **options: Unpack[CallOptions]) -> list[AnyTask]:
        """Return the tasks of this client, oldest first. On 2026-07-28: the unfinished tasks created by this
        object.
        """
        await self._life.recovered()
        return await self._toolbox.list_tasks(options)

    def task(self, id: str) -> TaskHandle:
        """Return a handle of an existing task, created by this client or another.

        Raises:
            StateError: the client was never connected.
        """
        return self._toolbox.task(id)

    # --- resources ------------------------------------------------------------------------------------------------

    async def list_resources(self, **options: Unpack[CachedOptions]) -> list[m.Resource]:
        """Return all resources (all pages)."""
        return await self._calls.list_all("resources/list", "resources", options)

    async def list_resource_templates(self, **options: Unpack[CachedOptions]) -> list[m.ResourceTemplate]:
        """Return all resource templates (all pages)."""
        return await self._calls.list_all("resources/templates/list", "resource_templates", options)

    async def read_resource(self, uri: str, **options: Unpack[CachedOptions]) -> m.ReadResourceResult:
        """Read a resource."""
        params = m.ReadResourceRequestParams(str(uri))
        result: m.ReadResourceResult = await self._calls.cached("resources/read", params, str(uri), options)
        return addressed(result, params)

    async def subscribe_resource(self, uri: str, *, timeout: Timeout = None) -> None:
        """Subscribe to ``uri``; changes go to ``on_resource_updated``. The subscription survives reconnects."""
        await self._life.recovered()
        if not self.server_capabilities.has("resources.subscribe"):
            raise CapabilityError("resources.subscribe")
        uris = self._connections.listening.uris
        if not self._modern:
            await self._calls.call("resources/subscribe", m.SubscribeRequestParams(uri), {"timeout": timeout})
            uris[uri] = None
            return
        known = uri in uris
        uris[uri] = None
        try:
            await self._listen_anew(timeout)
        except DovetailError:
            if not known:
                uris.pop(uri, None)
            raise

    async def unsubscribe_resource(self, uri: str, *, timeout: Timeout = None) -> None:
        """Unsubscribe from ``uri``."""
        await self._life.recovered()
        self._connections.listening.uris.pop(uri, None)
        if self._modern:
            await self._listen_anew(timeout)
        else:
            params = m.UnsubscribeRequestParams(uri)
            await self._calls.call("resources/unsubscribe", params, {"timeout": timeout})

    async def _listen_anew(self, timeout: Timeout) -> None:
        conversation = await self._life.recovered()
        limits = self._config.limits_of(timeout)
        limit = limits.total if limits.idle is None else limits.idle
        await self._connections.listening.restart(conversation, self.server_capabilities, limit)

    # --- prompts and completion -------------------------------------------------------------------------------------

    async def list_prompts(self, **options: Unpack[CachedOptions]) -> list[m.Prompt]:
        """Return all prompts (all pages)."""
        return await self._calls.list_all("prompts/list", "prompts", options)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> m.GetPromptResult:
        """Get a prompt with arguments. Values are strings; others are converted to JSON."""
        params = m.GetPromptRequestParams(name, read_strings(arguments))
        return await self._calls.call("prompts/get", params, options)

    async def complete(
        self,
        ref: Mapping[str, Any] | str | Struct,
        argument: Mapping[str, Any] | str | Struct,
        value: str | Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> m.CompleteResult:
        """Return completions: ``complete(ref, argument)`` as in the protocol, or ``complete("prompt",
        "argument", "value")``.

        A string ``ref`` is the name of a prompt, or the URI of a resource template.
        """
        params = read_reference(ref, argument, value, context)
        return await self._calls.call("completion/complete", params, options)

    # --- skills -----------------------------------------------------------------------------------------------------

    async def list_skills(self, **options: Unpack[CachedOptions]) -> list[m.SkillEntry]:
        """Return the server's skills. No file is fetched."""
        return await self._calls.list_all("skills/list", "skills", options)

    async def load_skill(self, skill: m.SkillEntry | str, **options: Unpack[CallOptions]) -> LoadedSkill:
        """Read and verify the SKILL.md of a skill: digest, size, frontmatter.

        Raises:
            SkillError: it differs from the listed entry.
            DovetailError: PyYAML is not installed (extra ``skills``).
        """
        if isinstance(skill, str):
            found = await self._calls.call("skills/get", m.GetSkillRequestParams(skill), options)
            skill = found.skill
        assert isinstance(skill, m.SkillEntry)
        return await load(self, skill, options)

    async def read_directory(self, uri: str, **options: Unpack[CallOptions]) -> list[m.Resource]:
        """Return the entries of a directory resource (skills extension)."""
        params = partial(m.ReadDirectoryRequestParams, uri)
        return await self._calls.pages("resources/directory/read", "resources", params, options)

    # --- other requests
    # -------------------------------------------------------------------------------------------------

    async def ping(self, **options: Unpack[CallOptions]) -> float:
        """Send a ping and return the seconds until the response.

        Modern servers have no ping, so `server/discover` is sent.
        """
        clock = self._config.clock
        begun = clock.time()
        await self._life.recovered()
        await self._calls.call("server/discover" if self._modern else "ping", m.RequestParams(), options)
        return clock.time() - begun

    async def set_logging_level(self, level: str, **options: Unpack[CallOptions]) -> None:
        """Set the log level of the server; messages go to ``on_log``. The level survives reconnects.

        Raises:
            ValueError: the level is unknown.
        """
        params = read_level(level)
        await self._life.recovered()
        if not self._modern:
            await self._calls.call("logging/setLevel", params, options)
        self._connections.log_from(params.level)

    async def notify_roots_changed(self) -> None:
        """Notify a legacy server that the roots have changed. Modern servers request them when needed."""
        conversation = await self._life.recovered()
        if not self._modern:
            conversation.notify("notifications/roots/list_changed", m.NotificationParams())

    async def create_message(
        self, params: m.CreateMessageRequestParams | Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> m.CreateMessageResult:
        """Send a sampling request to the *server*, which only the dialect ``mcp_client`` supports.

        Raises:
            LocalProtocolError: the dialect does not support it.
        """
        if not self._config.dialect.client_may_sample:
            raise LocalProtocolError(
                "method_not_found", "only dialect='mcp_client' sends sampling/createMessage to a server"
            )
        request = msgspec.convert(msgspec.to_builtins(params), m.CreateMessageRequestParams)
        return await self._calls.call("sampling/createMessage", request, options, repeat=False)

    async def request(self, method: str, params: Any = None, **options: Unpack[RequestOptions]) -> Any:
        """Send any request. Return the decoded result of a protocol method; ``result`` is the type for
        others.

        Members unknown to the protocol are sent unchanged. The params of an extension method are an object (a
        mapping, Struct or dataclass) or, before 2026-07-28, an array. An array cannot contain ``_meta``, so
        it requests no progress. The server may send requests and progress during the call.

        Raises:
            LocalProtocolError: the params are not valid; nothing was sent.
            CapabilityError: the server did not declare ``capability``; nothing was sent.
        """
        if not isinstance(cast("Any", method), str):
            raise LocalProtocolError(
                "invalid_request", f"the method of a request is a string, not {method!r}"
            )
        row = None if method in METHODS else self._config.methods.get(method)
        if row is None or "result" in options or "capability" in options:
            row = own_method(method, options.get("result"), options.get("capability"))
        built = read_params(method, params)
        if self._toolbox.contract is not None:
            await self._toolbox.hold(built, options.get("meta"))
        known, repeat = RequestOptions.__optional_keys__, options.get("repeat", False)
        if (came := unknown_params(method, params, built)) is not None:
            known, options = known | {"came"}, cast("RequestOptions", {**options, "came": came})
        result = await self._calls.call(method, built, options, known=known, repeat=repeat, row=row)
        return msgspec.json.decode(result) if isinstance(result, Raw) else addressed(result, built)

    async def forward(
        self,
        method: str,
        params: Struct,
        asking: SendOptions = PLAIN,
        *,
        timeout: Timeout = None,
        repeat: bool = False,
    ) -> Any:
        """Forward a protocol request for another client and return the response: for proxies.

        Nothing is cached or validated. An `InputRequiredResult` or a task is returned unchanged.
        """
        if self._toolbox.contract is not None:
            await self._toolbox.hold(params, asking.get("meta"))
        if method == "tools/call":
            asking = self._toolbox.mirrored(cast("m.CallToolRequestParams", params), asking)
        return await self._calls.forward(method, params, asking, timeout, repeat=repeat)

    def keep_unknown(self) -> Mapping[str, Codec]:
        """Retain unknown members of results, so that proxies can forward them. Return the codecs by revision."""
        codecs = self._connections.admission.codecs
        for codec in codecs.values():
            codec.preserve_unknown()
        return codecs

    def follow_task(self, created: m.CreateTaskResult | m.ExtensionTask) -> TaskHandle:
        """Return a handle of the task in a result of `forward`. Its result is not validated."""
        return self._toolbox.follow(created)

    async def notify(self, method: str, params: Any = None) -> None:
        """Send an extension notification, which a server receives with ``add_notification``."""
        conversation = await self._life.recovered()
        conversation.notify(method, read_params(method, params))

    def add_notification(self, method: str, handler: Callable[[Any], Any], *, params: Any = None) -> None:
        """Call ``handler(params)`` for every extension notification ``method``; ``params`` is their type.

        Raises:
            RegistrationError: the method belongs to the protocol.
        """
        self._connections.hear(own_notification(method, params), handler)

    @property
    def _modern(self) -> bool:
        established = self._connections.established
        return established is not None and established.revision.modern
