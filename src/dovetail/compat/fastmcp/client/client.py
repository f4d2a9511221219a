"""`Client` of FastMCP over ours."""

from __future__ import annotations

import datetime
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import msgspec
from pydantic import BaseModel

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
from .transports import ClientTransport, infer_transport


@dataclass
class CallToolResult:
    """What a tool answered; ``data`` is the structured result, taken out of where it was wrapped in."""

    content: list[Any]
    structured_content: dict[str, Any] | None
    meta: dict[str, Any] | None
    data: Any = None
    is_error: bool = False


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
            options["auth"] = _login() if auth == "oauth" else getattr(auth, "token", auth)
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
            native = Native(self.transport.target(), **self._options)
            try:
                await native.open()
            except DovetailError as error:
                self._entered -= 1
                raise RuntimeError(f"Client failed to connect: {error.message}") from error
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
                name, arguments or {}, check=False, timeout=_seconds(timeout) or self._timeout, on_progress=handler,
                meta=meta,
            )
        )  # fmt: skip
        content = msgspec.to_builtins(result.content)
        failed, meta = result.raw.is_error is True, _given(result.raw.meta)
        members: dict[str, Any] = {"content": content, "isError": failed, "_meta": meta}
        if result.structured_content is not None:
            members["structuredContent"] = result.structured_content
        return t.CallToolResult.model_validate(members)

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *, timeout: Any = None,
        progress_handler: Any = None, raise_on_error: bool = True, meta: dict[str, Any] | None = None, **_: Any,
    ) -> CallToolResult:  # fmt: skip
        """Call a tool.

        Raises:
            ToolError: it failed, and ``raise_on_error`` was not switched off.
        """
        result = await self.call_tool_mcp(name, arguments, progress_handler, timeout, meta)
        if result.isError and raise_on_error:
            first = next((one.text for one in result.content if isinstance(one, t.TextContent)), "")
            raise ToolError(first)
        structured = result.structuredContent
        data: Any = structured
        if structured is not None and set(structured) == {"result"} and await self._wraps(name, result):
            data = structured["result"]
        return CallToolResult(result.content, structured, result.meta, data, bool(result.isError))

    async def _wraps(self, name: str, result: t.CallToolResult) -> bool:
        """Whether the member ``result`` is all there is to a result: FastMCP 3 says so, 2 in the tool's schema."""
        own: dict[str, Any] = (result.meta or {}).get("fastmcp") or {}
        if own.get("wrap_result"):
            return True
        if name not in self._schemas:
            self._schemas |= {one.name: one.outputSchema or {} for one in await self.list_tools()}
        return WRAPPED in self._schemas.get(name, {})

    async def read_resource(self, uri: Any, **_: Any) -> list[Any]:
        return (await self.read_resource_mcp(uri)).contents

    async def read_resource_mcp(self, uri: Any, **_: Any) -> t.ReadResourceResult:
        return _model(await _asked(self.native.read_resource(str(uri))), t.ReadResourceResult)

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, **_: Any
    ) -> t.GetPromptResult:
        texts = {
            key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for key, value in (arguments or {}).items()
        }
        return _model(await _asked(self.native.get_prompt(name, texts)), t.GetPromptResult)

    get_prompt_mcp = get_prompt

    async def complete(
        self, ref: Any, argument: dict[str, str], context_arguments: dict[str, Any] | None = None
    ) -> t.Completion:
        found = await _asked(self.native.complete(_plain(ref), argument, context_arguments))
        return t.Completion.model_validate(msgspec.to_builtins(getattr(found, "completion", found)))


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
        said = await _settled(handler(params.message, None, params, None))
        if isinstance(said, t.ElicitResult):
            return _plain(said)
        return {"action": "accept", "content": _plain(said) if isinstance(said, BaseModel) else said}

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
