"""`ToolBox`: the tools of a server, and tool calls.

The last list decides three things about a call: whether it may be retried after a disconnect, which arguments
are repeated in headers (2026-07-28 over HTTP), and which schema validates the result. An unlisted tool can be
called too, without these.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ... import model as m
from ...core.metadata import tool_version_meta
from ...drivers.requests import SendOptions
from ...errors import CapabilityError, DovetailError, ProtocolError, RegistrationError, ToolError
from ...model.meta import IDEMPOTENCY_KEY
from ...wire.codec import Codec
from ...wire.headers import ANNOTATION, HeaderMap, argument_headers, header_map
from ...wire.methods import METHODS
from ..client_config import CachedOptions, CallOptions, Timeout, ToolCallOptions
from ..connecting.client_connection import Connections
from .calls import Calls
from .output_checks import OutputChecks
from .results import ToolResult
from .task_handles import AnyTask, TaskHandle, task_of

MAX_ANNOTATED_SCHEMA_BYTES: Final = 256 << 10
"""Input schemas beyond this size are not searched for header annotations; their tools are left out."""

log = logging.getLogger("dovetail.client")

Options = TypeVar("Options", CallOptions, ToolCallOptions, SendOptions)

_KNOWN = ToolCallOptions.__optional_keys__


class ToolBox:
    """Lists and calls tools."""

    def __init__(self, calls: Calls, connections: Connections) -> None:
        self._calls = calls
        self._connections = connections
        self._checks = OutputChecks(calls.config.validate)
        self.contract = calls.config.contract
        if self.contract is not None:
            vars(self)["call"] = self._pinned  # set on the instance: no cost without a contract
        self._mirrors = calls.config.target.kind == "http"
        """Whether annotated arguments are repeated in headers."""
        self._listed = False
        self._tools: dict[str, m.Tool] = {}
        self._harmless: set[str] = set()
        self._as_tasks: set[str] = set()
        self._header_maps: dict[str, HeaderMap] = {}
        self._begun: dict[str, None] = {}
        """Tasks created by this client, oldest first: 2026-07-28 cannot list them."""

    # --- list
    # -----------------------------------------------------------------------------------------------------------------

    async def list_tools(self, options: CachedOptions) -> list[m.Tool]:
        """Return the tools that may be listed, and remember their properties."""
        self._listed = True
        tools: list[m.Tool] = await self._calls.list_all("tools/list", "tools", options)
        mirrors = self._mirrors and self._calls.established.revision.modern
        return self._learn(tools, mirrors=mirrors)

    def _learn(self, tools: list[m.Tool], *, mirrors: bool) -> list[m.Tool]:
        """Remember the properties of the tools. Return those that may be listed."""
        valid: list[m.Tool] = []
        named: dict[str, m.Tool] = {}
        maps: dict[str, HeaderMap] = {}
        harmless: set[str] = set()
        as_tasks: set[str] = set()
        for tool in tools:
            if mirrors and not _mirror(tool, maps):
                continue
            valid.append(tool)
            named[tool.name] = tool
            if _is_harmless(tool):
                harmless.add(tool.name)
            if tool.execution and tool.execution.task_support == "required":
                as_tasks.add(tool.name)
        self._tools, self._header_maps, self._harmless, self._as_tasks = named, maps, harmless, as_tasks
        return valid

    def changed(self, kind: str) -> None:
        """Drop compiled schemas after a list change."""
        if kind == "tools":
            self._checks.forget()
            if self.contract is not None:
                self.contract.forget()

    async def refresh(self) -> None:
        """Forget the tools after a possible server change; list them again if they were listed before."""
        config = self._calls.config
        if config.cache is not None:
            config.cache.forget(config.origin)
        self.changed("tools")
        if self._listed:
            await self.list_tools({"fresh": True})

    async def _pinned(
        self, name: str, arguments: Mapping[str, Any] | None, task: bool, options: ToolCallOptions
    ) -> ToolResult | TaskHandle:
        """Call a tool after checking it against the contract."""
        await self._hold(name, options.get("version") is not None or _names_version(options.get("meta")))
        return await ToolBox.call(self, name, arguments, task, options)

    async def hold(self, params: Any, meta: Mapping[str, Any] | None) -> None:
        """Check a request that calls a tool without `call` against the contract."""
        if isinstance(params, m.CallToolRequestParams):
            await self._hold(params.name, _names_version(meta) or _names_version(params.meta or None))
        elif isinstance(params, m.ErlmcpCreateTaskRequestParams):
            await self._hold(params.action.type, _names_version(meta))

    async def _hold(self, name: str, versioned: bool) -> None:
        if self.contract is not None:
            await self.contract.check(name, self._look, versioned=versioned)

    async def _look(self) -> tuple[list[m.Tool], Codec]:
        tools = await self.list_tools({})
        return tools, self._calls.established.conversation.endpoint.codec

    # --- calls
    # ----------------------------------------------------------------------------------------------------------------

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None, task: bool, options: ToolCallOptions
    ) -> ToolResult | TaskHandle:
        """Implement `Client.call_tool`."""
        try:
            given = UNSET if arguments is None else Raw(msgspec.json.encode(arguments))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"the arguments cannot be written as JSON: {error}") from error
        if task and self._connections.creates_tasks:
            return await self._create(name, given, options)
        params = m.CallToolRequestParams(name, given)
        if options.get("version") is not None:
            name, options = _versioned(name, options)
        begun, check = self._calls.config.clock.time(), options.get("check", True)
        if options.get("task_id") or options.get("depends_on"):
            raise CapabilityError("tasks.create")
        quiet = (task or name in self._as_tasks) and self._ask_for_task(params, options.get("ttl"))
        repeat = name in self._harmless
        once = (there := self._connections.established) is not None and there.runs_once
        if (once and not repeat) or "idempotency_key" in options:
            options, repeat = _keyed(options), once or repeat
        asked = self.mirrored(params, options) if params.name in self._header_maps else options
        ask = partial(self._calls.call, "tools/call", params, known=_KNOWN, repeat=repeat, quiet=quiet)
        try:
            result = await ask(asked)
        except ProtocolError as error:
            if not await self._mended(error, params, options):
                raise
            result = await ask(self.mirrored(params, options))
        if type(result) is m.CallToolResult and not task:
            try:
                return await self._finish(name, result, check)
            except ToolError as error:
                self._calls.explain(error)
                raise
        handle = TaskHandle(self._calls, lambda done: self._finish(name, done, check), result)
        return await self._followed(handle, task, begun, options.get("timeout"))

    async def _followed(self, handle: TaskHandle, task: bool, begun: float, timeout: Timeout) -> Any:
        """Return the handle, or the result of a call that became a task. Cancelling the wait cancels the
        task.
        """
        total, clock = self._calls.config.limits_of(timeout).total, self._calls.config.clock
        try:
            await self._note(handle.id, total and total - (clock.time() - begun))
            return handle if task else await handle.within(total and total - (clock.time() - begun))
        except (DovetailError, asyncio.CancelledError):
            await handle.abandon()
            raise

    async def _create(self, name: str, arguments: Raw | UnsetType, options: ToolCallOptions) -> TaskHandle:
        """Create a task in erlmcp's way: with a separate request whose action is the tool."""
        params = m.ErlmcpCreateTaskRequestParams(m.ErlmcpTaskAction(name, arguments))
        ttl, id, others = options.get("ttl"), options.get("task_id"), options.get("depends_on")
        if ttl is not None or others:
            timeout = UNSET if ttl is None else ttl
            metadata = m.ErlmcpTaskMetadata(timeout=timeout, depends_on=list(others) if others else UNSET)
            params.metadata = Raw(msgspec.json.encode(metadata))
        if id is not None:
            params.task_id = id
        result: m.ErlmcpCreateTaskResult = await self._calls.call(
            "tasks/create", params, options, known=_KNOWN, repeat=False
        )
        return self.task(result.task_id, name, options.get("check", True))

    def task(self, id: str, name: str = "", check: bool = True) -> TaskHandle:
        """Return a handle of the task ``id``."""
        task = task_of(id, modern=self._calls.established.revision.modern)
        return TaskHandle(self._calls, lambda done: self._finish(name, done, check), task)

    def follow(self, created: m.CreateTaskResult | m.ExtensionTask) -> TaskHandle:
        """Return a handle of a task whose result is not validated."""

        async def untouched(done: m.CallToolResult) -> m.CallToolResult:
            return done

        return TaskHandle(self._calls, untouched, created)

    def came_late(self, method: str, result: Raw) -> None:
        """Cancel the task of a response that no caller waits for."""
        try:
            made = self._calls.established.conversation.endpoint.codec.decode_result(METHODS[method], result)
        except ProtocolError:
            return
        if isinstance(made, m.ErlmcpCreateTaskResult):
            self.task(made.task_id).end()
        elif isinstance(made, m.CreateTaskResult | m.ExtensionTask):
            self.follow(made).end()

    async def _note(self, id: str | None, limit: float | None) -> None:
        if id is None:
            return  # it was answered immediately
        self._begun[id] = None
        if len(self._begun) > self._calls.config.limits.max_tasks:
            del self._begun[next(iter(self._begun))]
        try:
            async with asyncio.timeout(limit):
                await self._connections.hear_of_task(id)
        except (DovetailError, TimeoutError) as error:
            log.warning("no status notifications for a task: %s", error)

    async def list_tasks(self, options: CallOptions) -> list[AnyTask]:
        """Implement `Client.list_tasks`."""
        if not self._calls.established.revision.modern:
            return await self._calls.pages("tasks/list", "tasks", m.PaginatedRequestParams, options)
        found: list[AnyTask] = []
        for id in tuple(self._begun):
            try:
                found.append(await self._calls.call("tasks/get", m.GetTaskRequestParams(id), options))
            except ProtocolError:
                self._begun.pop(id, None)  # the server has removed it
        return found

    def _ask_for_task(self, params: m.CallToolRequestParams, ttl: int | None) -> bool:
        """Return whether to request a task. A modern server decides on its own and returns True here.

        Its tasks report no progress, so a caller who wants progress may get the result in the call itself.
        """
        established = self._connections.established
        if established is None or established.revision.modern:
            return True
        if established.capabilities.has("tasks.requests.tools.call"):
            params.task = m.TaskMetadata(UNSET if ttl is None else ttl)
        return False

    def mirrored(self, params: m.CallToolRequestParams, options: Options) -> Options:
        """Return the options of a call with the headers that repeat its arguments."""
        mapped = self._header_maps.get(params.name)
        if not mapped or not self._calls.established.revision.modern or params.arguments is UNSET:
            return options
        headers = {**argument_headers(params.arguments, mapped), **(options.get("headers") or {})}
        return cast("Options", {**options, "headers": headers})

    async def _mended(
        self, error: ProtocolError, params: m.CallToolRequestParams, options: ToolCallOptions
    ) -> bool:
        """Remove the reason of a refusal; True: the call is worth one more try."""
        if error.kind == "method_not_found" and params.task is UNSET:
            return await self._taken_as_task(params, options)
        if error.kind == "header_mismatch" and self._mirrors:
            # The known schema is out of date or missing.
            self._listed = True
            await self.refresh()
            return True
        if error.kind == "url_elicitation_required":
            limits = self._calls.config.limits_of(options.get("timeout"))
            return await self._connections.settle_urls(error, limits.total)
        return False

    async def _taken_as_task(self, params: m.CallToolRequestParams, options: ToolCallOptions) -> bool:
        """Return whether the tool must run as a task: 2025-11-25 refuses other calls of it."""
        established, name = self._calls.established, params.name
        if established.revision.modern or not established.capabilities.has("tasks.requests.tools.call"):
            return False
        if name not in self._as_tasks and options.get("version") is None:
            await self.list_tools({"timeout": options.get("timeout")})
        if name in self._as_tasks:
            self._ask_for_task(params, options.get("ttl"))
        return params.task is not UNSET

    async def _finish(self, name: str, done: m.CallToolResult, check: bool) -> ToolResult:
        established = self._connections.established
        assert established is not None
        result = ToolResult(done, established.revision)
        if result.is_error:
            return result.check() if check else result
        known = self._tools.get(name)
        if known is not None and known.output_schema is not UNSET and self._checks.enabled:
            present = done.structured_content is not UNSET
            await self._checks.check(name, known.output_schema, result.structured_content, present=present)
        return result


def _mirror(tool: m.Tool, maps: dict[str, HeaderMap]) -> bool:
    """Read which arguments of the tool go into headers. Return False if its annotations are invalid."""
    try:
        # Search the encoded schema: walking it takes ten times as long.
        written = msgspec.json.encode(tool.input_schema)
        if ANNOTATION.encode() in written:
            if len(written) > MAX_ANNOTATED_SCHEMA_BYTES:
                raise RegistrationError(f"its schema is too long to look for {ANNOTATION} in it")
            if mapped := header_map(tool.input_schema):
                maps[tool.name] = mapped
    except (RegistrationError, RecursionError) as error:
        # Streamable HTTP 2026-07-28: a client must leave out tools with invalid annotations.
        log.warning("the tool %r was left out: %s", tool.name, error)
        return False
    return True


def _keyed(options: ToolCallOptions) -> ToolCallOptions:
    """Return the options of a call with an idempotency key."""
    key = options.get("idempotency_key")
    return _with_meta(options, {IDEMPOTENCY_KEY: secrets.token_urlsafe(24) if key is None else key})


def _versioned(name: str, options: ToolCallOptions) -> tuple[str, ToolCallOptions]:
    """Return the options for a call of one version. Listed properties belong to the newest version only."""
    version = options.get("version") or ""
    return f"{name}@{version}", _with_meta(options, tool_version_meta(version))


def _names_version(meta: Mapping[str, Any] | None) -> bool:
    return not tool_version_meta("").keys().isdisjoint(meta or ())


def _with_meta(options: ToolCallOptions, members: Mapping[str, Any]) -> ToolCallOptions:
    return {**options, "meta": {**(options.get("meta") or {}), **members}}


def _is_harmless(tool: m.Tool) -> bool:
    """Return whether the tool may run twice, according to its annotations."""
    notes = tool.annotations
    if notes is UNSET:
        return False
    return notes.get("readOnlyHint") is True or notes.get("idempotentHint") is True
