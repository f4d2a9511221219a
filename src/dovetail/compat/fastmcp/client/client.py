"""`Client` of FastMCP over ours."""

from __future__ import annotations

import datetime
import inspect
import itertools
import logging
from collections.abc import Callable
from typing import Any, Final, Self

import msgspec
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from .... import model as m
from ....client.client import Client as Native
from ....errors import DovetailError, ProtocolError, RequestTimeout
from ....settings import Timeouts
from ...mcp import types as t
from ...mcp.client.session import greeting, refused, telling
from ...mcp.client.session import logging as logged
from ...mcp.shared.exceptions import McpError
from ..exceptions import ToolError
from ..tools.base import WRAPPED
from ..utilities.tasks import TASK
from .auth.bearer import not_let_in, token_of
from .results import CallToolResult, answer_type, read
from .tasks import PromptTask, ResourceTask, ToolTask
from .transports import ClientTransport, FastMCPTransport, infer_transport

log = logging.getLogger("fastmcp")
_WITHOUT_EFFECT: Final = {"auto_initialize", "verify", "sampling_capabilities"}


def _tell(others: dict[str, Any]) -> None:
    """Say which options make no difference.

    Raises:
        TypeError: nobody knows one of them.
    """
    if unknown := others.keys() - _WITHOUT_EFFECT:
        raise TypeError(f"Client() got an unexpected keyword argument {min(unknown)!r}")
    for word in sorted(word for word, given in others.items() if given is not None and given is not True):
        log.warning("Client(%s=…) makes no difference here", word)


def _login() -> Any:
    """``auth="oauth"``: the user logs in with a browser."""
    from ....auth import OAuth  # most clients log in nowhere

    return OAuth()


class Client:
    """A client of any server: ``async with Client(target) as client``."""

    def __init__(
        self, transport: Any, name: str | None = None, roots: Any = None, sampling_handler: Any = None,
        elicitation_handler: Any = None, log_handler: Any = None, message_handler: Any = None,
        progress_handler: Any = None, timeout: datetime.timedelta | float | None = None,
        auto_initialize: bool = True, init_timeout: datetime.timedelta | float | None = None,
        client_info: t.Implementation | None = None, auth: Any = None, **others: Any,
    ) -> None:  # fmt: skip
        others |= {"auto_initialize": auto_initialize}
        _tell(others)
        self.transport: ClientTransport = infer_transport(transport)
        self.name = name or "Client"
        self._progress_handler = progress_handler
        self._timeout = _seconds(timeout)
        options: dict[str, Any] = {**self.transport.options(), "validate": "off"}
        if auth is not None:
            options["auth"] = _login() if auth == "oauth" else token_of(auth)
        if init_timeout is not None:
            options["timeouts"] = Timeouts(connect=_seconds(init_timeout))
        if client_info is not None:
            options["client_info"] = msgspec.convert(_plain(client_info), m.Implementation)
        handlers = {
            "on_roots": _roots(roots), "on_sample": _sampling(sampling_handler),
            "on_elicit": _eliciting(elicitation_handler), "on_log": _logging(log_handler, message_handler),
        }  # fmt: skip
        if message_handler is not None:
            handlers |= telling(message_handler)
        self._options = options | {name: one for name, one in handlers.items() if one is not None}
        self._native: Native | None = None
        self._entered = 0
        self._schemas: dict[str, dict[str, Any]] = {}

    def __class_getitem__(cls, transport: Any) -> type[Self]:
        """``Client[StdioTransport]`` is what some write in annotations."""
        return cls

    # Its life

    async def __aenter__(self) -> Self:
        self._entered += 1
        if self._native is None:
            options: dict[str, Any] = {
                **self._options,
                "next_id": itertools.count().__next__,
            }  # as theirs, from 0
            native = Native(self.transport.target(), **options)
            try:
                await native.open()
            except DovetailError as error:
                self._entered -= 1
                raise not_let_in(error, self.transport) from error
            self._native = native
        return self

    async def __aexit__(self, *_: object) -> None:
        self._entered -= 1
        if self._entered <= 0:
            await self.close()

    async def close(self) -> None:
        """Leave the server."""
        native, self._native, self._entered = self._native, None, 0
        if native is not None:
            await native.close()

    def new(self) -> Client:
        """Another client of the same server, with a connection of its own."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._native, other._entered = None, 0
        return other

    def is_connected(self) -> bool:
        return self._native is not None

    @property
    def native(self) -> Native:
        """The client of ours that is connected.

        Raises:
            RuntimeError: it is not.
        """
        if self._native is None:
            raise RuntimeError("Client is not connected. Use the 'async with client:' context manager first.")
        return self._native

    session = native

    @property
    def initialize_result(self) -> t.InitializeResult:
        """What the server said about itself."""
        return greeting(self.native)

    async def ping(self) -> bool:
        """Whether the server is there."""
        await self.native.ping()
        return True

    async def set_logging_level(self, level: t.LoggingLevel) -> None:
        await self.native.set_logging_level(level)

    # Lists

    async def list_tools(self) -> list[t.Tool]:
        return _models(await _asked(self.native.list_tools()), t.Tool)

    async def list_resources(self) -> list[t.Resource]:
        return _models(await _asked(self.native.list_resources()), t.Resource)

    async def list_resource_templates(self) -> list[t.ResourceTemplate]:
        return _models(await _asked(self.native.list_resource_templates()), t.ResourceTemplate)

    async def list_prompts(self) -> list[t.Prompt]:
        return _models(await _asked(self.native.list_prompts()), t.Prompt)

    async def list_tools_mcp(self) -> t.ListToolsResult:
        return t.ListToolsResult(tools=await self.list_tools())

    # Calls

    async def call_tool_mcp(
        self, name: str, arguments: dict[str, Any] | None = None, progress_handler: Any = None,
        timeout: Any = None, meta: dict[str, Any] | None = None,
    ) -> t.CallToolResult:  # fmt: skip
        """Call a tool; its result as the protocol has it."""
        handler = progress_handler or self._progress_handler
        result = await _asked(
            self.native.call_tool(
                name, to_jsonable_python(arguments or {}), check=False, on_progress=handler,
                timeout=_seconds(timeout) or self._timeout,
                meta=meta,
            )
        )  # fmt: skip
        return _tool_result(result)

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *, timeout: Any = None,
        progress_handler: Any = None, raise_on_error: bool = True, meta: dict[str, Any] | None = None,
        task: bool = False, ttl: int | None = None, **_: Any,
    ) -> Any:  # fmt: skip
        """Call a tool; with ``task=True``, have it run while something else is done.

        Raises:
            ToolError: it failed, and ``raise_on_error`` was not switched off.
        """
        if task:
            return await self._begin_tool(name, arguments or {}, ttl)
        result = await self.call_tool_mcp(name, arguments, progress_handler, timeout, meta)
        return await self._parsed(name, result, raise_on_error=raise_on_error)

    async def _begin_tool(self, name: str, arguments: dict[str, Any], ttl: int | None) -> ToolTask:
        if isinstance(self.transport, FastMCPTransport) and not self.native.server_capabilities.has("tasks"):
            # As theirs: a server without tasks says so of the tool. One of others may answer at once.
            text = t.TextContent(type="text", text=f"Tool '{name}' does not support task-augmented execution")
            return ToolTask(self, None, immediate_result=CallToolResult([text], None, None, is_error=True))
        handle = await _asked(self.native.call_tool(name, arguments, task=True, ttl=ttl, check=False))

        async def finish() -> CallToolResult:
            return await self._parsed(name, _tool_result(await _asked(handle.result())))

        if handle.id is None:
            return ToolTask(self, None, immediate_result=await self._parsed(
                name, _tool_result(await handle.result()), raise_on_error=False
            ))  # fmt: skip
        return ToolTask(self, handle.id, finish)

    async def _parsed(
        self, name: str, result: t.CallToolResult, *, raise_on_error: bool = True
    ) -> CallToolResult:
        if result.isError and raise_on_error:
            first = next((one.text for one in result.content if isinstance(one, t.TextContent)), "")
            raise ToolError(first)
        data = await self._data(name, result) if result.structuredContent else None
        return CallToolResult(
            result.content, result.structuredContent, result.meta, data, bool(result.isError)
        )

    async def _data(self, name: str, result: t.CallToolResult) -> Any:
        """The structured content; FastMCP 3 says with it that a member ``result`` is all there is, 2 in the schema."""
        value: Any = result.structuredContent
        own: dict[str, Any] = (result.meta or {}).get("fastmcp") or {}
        if name not in self._schemas:
            self._schemas |= {one.name: one.outputSchema or {} for one in await self.list_tools()}
        schema = self._schemas.get(name, {})
        if own.get("wrap_result") or WRAPPED in schema:
            value, schema = value.get("result"), {**schema, **schema.get("properties", {}).get("result", {})}
        try:
            return read(value, schema) if schema else value
        except (TypeError, ValueError) as error:
            log.error("[%s] Error parsing structured content: %s", self.name, error)
            return None

    async def get_task_status(self, task_id: str) -> t.GetTaskResult:
        """How a task stands."""
        handle = self.native.task(task_id)
        await _asked(handle.status())
        return _model(handle.task, t.GetTaskResult)

    async def get_task_result(self, task_id: str) -> Any:
        """What came of a task.

        Raises:
            McpError: it is not over, or there is none.
        """
        found = await self.get_task_status(task_id)
        if found.status in ("working", "input_required"):
            raise McpError(t.ErrorData(code=t.INVALID_PARAMS, message=f"Task {task_id} is not over"))
        return _tool_result(await _asked(self.native.task(task_id).result()))

    async def list_tasks(self, cursor: str | None = None, limit: int = 50) -> dict[str, Any]:
        """The tasks that the server keeps for this client; none where it has no tasks."""
        known = await self.native.list_tasks() if self.native.server_capabilities.has("tasks") else []
        return {"tasks": [msgspec.to_builtins(one) for one in known], "nextCursor": None}

    async def cancel_task(self, task_id: str) -> t.GetTaskResult:
        """Have a task stopped."""
        await _asked(self.native.task(task_id).cancel())
        return await self.get_task_status(task_id)

    async def read_resource(self, uri: Any, *, task: bool = False, ttl: int = 60000, **_: Any) -> Any:
        """What is at ``uri``."""
        found = (await self.read_resource_mcp(uri, meta={TASK: {"ttl": ttl}} if task else None)).contents
        return ResourceTask(self, None, immediate_result=found) if task else found

    async def read_resource_mcp(
        self, uri: Any, meta: dict[str, Any] | None = None, **_: Any
    ) -> t.ReadResourceResult:
        return _model(await _asked(self.native.read_resource(str(uri), meta=meta)), t.ReadResourceResult)

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        task: bool = False,
        ttl: int = 60000,
        **_: Any,
    ) -> Any:
        """A prompt, filled in."""
        meta = {TASK: {"ttl": ttl}} if task else None
        found = await self.get_prompt_mcp(name, arguments, meta=meta)
        return PromptTask(self, None, immediate_result=found) if task else found

    async def get_prompt_mcp(
        self, name: str, arguments: dict[str, Any] | None = None, meta: dict[str, Any] | None = None
    ) -> t.GetPromptResult:
        texts = {
            key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for key, value in (arguments or {}).items()
        }
        return _model(await _asked(self.native.get_prompt(name, texts, meta=meta)), t.GetPromptResult)

    async def complete(
        self, ref: Any, argument: dict[str, str], context_arguments: dict[str, Any] | None = None
    ) -> t.Completion:
        found = await _asked(self.native.complete(_plain(ref), argument, context_arguments))
        return t.Completion.model_validate(msgspec.to_builtins(getattr(found, "completion", found)))


def _tool_result(result: Any) -> t.CallToolResult:
    failed, meta = result.raw.is_error is True, _given(result.raw.meta)
    content = msgspec.to_builtins(result.content)
    members: dict[str, Any] = {"content": content, "isError": failed, "_meta": meta}
    if result.structured_content is not None:
        # Any JSON since 2026-07-28; theirs know objects only, as the revisions before had it.
        value = result.structured_content
        members["structuredContent"] = value if isinstance(value, dict) else {"result": value}
    return t.CallToolResult.model_validate(members)


async def _asked(call: Any) -> Any:
    """What a server answered; its errors as those who ask expect to catch them."""
    try:
        return await call
    except RequestTimeout as error:
        raise McpError(t.ErrorData(code=408, message=error.message)) from error
    except ProtocolError as error:
        raise refused(error) from error


def _model(value: Any, kind: type[Any]) -> Any:
    return kind.model_validate(msgspec.to_builtins(value))


def _models(values: list[Any], kind: type[Any]) -> list[Any]:
    return [_model(value, kind) for value in values]


def _given(value: Any) -> Any:
    return None if value is msgspec.UNSET else value


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _seconds(time: Any) -> float | None:
    return time.total_seconds() if isinstance(time, datetime.timedelta) else time


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _roots(roots: Any) -> Any:
    if roots is None or not callable(roots):
        return None if roots is None else [_root(one) for one in roots]

    async def answer(request: Any) -> Any:
        return [_root(one) for one in await _settled(roots(request))]

    return answer


def _root(root: Any) -> dict[str, Any]:
    return _plain(root) if isinstance(root, BaseModel) else {"uri": str(root)}


def _sampling(handler: Callable[..., Any] | None) -> Any:
    if handler is None:
        return None

    async def answer(request: Any) -> Any:
        params = t.CreateMessageRequestParams.model_validate(_params(request))
        said = await _settled(handler(params.messages, params, None))
        if isinstance(said, str):
            return {"role": "assistant", "model": "fastmcp-client", "content": {"type": "text", "text": said}}
        return _plain(said) if isinstance(said, BaseModel) else said

    return answer


def _eliciting(handler: Callable[..., Any] | None) -> Any:
    if handler is None:
        return None

    async def answer(request: Any) -> Any:
        wire = _params(request)
        params: Any
        if wire.get("mode") == "url":
            params = t.ElicitRequestURLParams.model_validate(wire)
        else:
            params = t.ElicitRequestFormParams.model_validate(wire)
        kind = answer_type(wire.get("requestedSchema") or {})
        said = await _settled(handler(params.message, kind, params, None))
        action, content = (
            (said.action, said.content) if isinstance(said, t.ElicitResult) else ("accept", said)
        )
        answer: dict[str, Any] = to_jsonable_python(content)
        return {"action": action} if content is None else {"action": action, "content": answer}

    return answer


def _params(request: Any) -> dict[str, Any]:
    wire: Any = msgspec.to_builtins(request)
    return wire.get("params", wire)


def _logging(handler: Callable[..., Any] | None, message_handler: Any) -> Any:
    if handler is None and message_handler is None:
        return None

    async def hear(said: t.LoggingMessageNotificationParams) -> None:
        if handler is not None:
            await _settled(handler(said))

    return logged(hear, message_handler)
