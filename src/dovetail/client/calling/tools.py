"""The tools of a server as the client knows them, and calling one.

What was listed last decides three things about a call: whether it may be repeated after a loss, which arguments are
mirrored in headers (2026-07-28 over HTTP), and which schema the result is checked against. A tool that was never
listed can be called all the same; then nothing is assumed about it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from ...drivers.clock import Clock
from ...errors import ProtocolError, RegistrationError, RequestTimeout
from ...model import CallToolRequestParams, CallToolResult, TaskMetadata, Tool
from ...settings import Timeouts
from ...wire.headers import HeaderMap, argument_headers, header_map
from ..connecting.connections import ClientKeeper
from ..schemas import OutputChecks
from .calls import Calls, limits_of
from .results import ToolResult
from .task_handles import TaskHandle
from .waiting import OnProgress

log = logging.getLogger("dovetail.client")

Headers = Mapping[str, str] | None


class ToolBox:
    """Calls tools. ``mirrors``: the transport is HTTP, where annotated arguments go into headers too."""

    def __init__(
        self, calls: Calls, keeper: ClientKeeper, clock: Clock, checks: OutputChecks, *, mirrors: bool
    ) -> None:
        self._calls = calls
        self._keeper = keeper
        self._clock = clock
        self._checks = checks
        self._mirrors = mirrors
        self._tools: dict[str, Tool] = {}
        self._harmless: set[str] = set()
        self._as_tasks: set[str] = set()
        self._header_maps: dict[str, HeaderMap] = {}

    @property
    def _modern(self) -> bool:
        established = self._calls.established
        return established is not None and established.revision.modern

    def learn(self, tools: list[Tool]) -> list[Tool]:
        """Remember what was listed; returns it without the tools that must not be shown."""
        if self._mirrors and self._modern:
            tools = [tool for tool in tools if self._mirror(tool)]
        self._tools = {tool.name: tool for tool in tools}
        self._harmless = {tool.name for tool in tools if _is_harmless(tool)}
        self._as_tasks = {tool.name for tool in tools if _requires_task(tool)}
        return list(tools)

    def forget_schemas(self) -> None:
        """The list changed: compiled schemas may be out of date."""
        self._checks.forget()

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        *,
        timeout: float | Timeouts | None,
        on_progress: OnProgress | None,
        headers: Headers,
        check: bool,
        task: bool,
        ttl: int | None,
        meta: Mapping[str, Any] | None,
    ) -> ToolResult | TaskHandle:
        """See `Client.call_tool`."""
        params = CallToolRequestParams(name, UNSET if arguments is None else raw(arguments))
        if meta is not None:
            params.meta = dict(meta)
        if task or name in self._as_tasks:
            self._ask_for_task(params, ttl)
        repeat = name in self._harmless
        try:
            result = await self._calls.call(
                "tools/call",
                params,
                timeout=timeout,
                on_progress=on_progress,
                headers=self._argument_headers(params, headers) if self._mirrors else headers,
                repeat=repeat,
            )
        except ProtocolError as error:
            if not await self._mended(error, timeout):
                raise
            result = await self._calls.call(
                "tools/call",
                params,
                timeout=timeout,
                on_progress=on_progress,
                headers=self._argument_headers(params, headers) if self._mirrors else headers,
                repeat=repeat,
            )
        if type(result) is CallToolResult and not task:
            return self._finish(name, result, check)
        handle = TaskHandle(self._calls, self._clock, lambda done: self._finish(name, done, check), result)
        return handle if task else await self._result_of(handle, timeout)

    def _ask_for_task(self, params: CallToolRequestParams, ttl: int | None) -> None:
        """2025-11-25 wants to be asked; a modern server decides by itself."""
        established = self._calls.established
        if established is None or established.revision.modern:
            return
        if established.capabilities.has("tasks.requests.tools.call"):
            params.task = TaskMetadata(UNSET if ttl is None else ttl)

    async def _result_of(self, handle: TaskHandle, timeout: float | Timeouts | None) -> ToolResult:
        if timeout is None:
            return await handle.result()
        limit = limits_of(timeout, self._calls.timeouts).total
        try:
            async with asyncio.timeout(limit):
                return await handle.result()
        except TimeoutError:
            raise RequestTimeout(f"the task did not end within {limit} s", limit="total") from None

    async def _mended(self, error: ProtocolError, timeout: float | Timeouts | None) -> bool:
        """Remove the reason of a refusal; True: the call is worth one more try."""
        if error.kind == "header_mismatch" and self._mirrors and self._keeper.refresh is not None:
            # The schema we know is out of date, or we know none.
            await self._keeper.refresh(True)
            return True
        if error.kind == "url_elicitation_required":
            limits = limits_of(timeout or self._calls.timeouts, self._calls.timeouts)
            return await self._keeper.settle_urls(error, limits.total)
        return False

    def _finish(self, name: str, done: CallToolResult, check: bool) -> ToolResult:
        established = self._calls.established
        assert established is not None
        result = ToolResult(done, established.revision)
        if result.is_error:
            return result.check() if check else result
        known = self._tools.get(name)
        if known is not None and known.output_schema is not UNSET and self._checks.enabled:
            present = done.structured_content is not UNSET
            self._checks.check(name, known.output_schema, result.structured_content, present=present)
        return result

    def _mirror(self, tool: Tool) -> bool:
        """Learn which arguments of the tool go into headers; False: its annotations are invalid."""
        try:
            self._header_maps[tool.name] = header_map(tool.input_schema)
        except RegistrationError as error:
            # Streamable HTTP 2026-07-28: a client must leave out tools with invalid annotations.
            log.warning("the tool %r was left out: %s", tool.name, error.message)
            self._header_maps.pop(tool.name, None)
            return False
        return True

    def _argument_headers(self, params: CallToolRequestParams, headers: Headers) -> Headers:
        mapped = self._header_maps.get(params.name)
        if not mapped or not self._modern or params.arguments is UNSET:
            return headers
        return {**argument_headers(params.arguments, mapped), **(headers or {})}


def raw(arguments: Mapping[str, Any]) -> Raw:
    """Arguments as JSON.

    Raises:
        TypeError: they have no JSON form.
    """
    try:
        return Raw(msgspec.json.encode(arguments))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the arguments cannot be written as JSON: {error}") from error


def _is_harmless(tool: Tool) -> bool:
    """Whether calling the tool twice does no more than calling it once, as far as its author says."""
    notes = tool.annotations
    if notes is UNSET:
        return False
    return notes.get("readOnlyHint") is True or notes.get("idempotentHint") is True


def _requires_task(tool: Tool) -> bool:
    return tool.execution is not UNSET and tool.execution.task_support == "required"
