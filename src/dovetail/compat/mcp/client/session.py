"""`ClientSession`: SDK 1.x's client over ours, so that servers which call other servers reach every revision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import msgspec
from pydantic import AnyUrl, BaseModel
from typing_extensions import TypeVar

from ....auth.core.problems import AuthError
from ....client import Client
from ....errors import DovetailError, ProtocolError, RequestTimeout
from ....model import Implementation
from ....settings import Timeouts
from ....shapes import is_object
from ....wire.revisions import BY_NAME
from .. import types
from ..shared.context import RequestContext
from ..shared.exceptions import McpError

R = TypeVar("R", bound=BaseModel)
REQUEST_TIMEOUT = 408
"""What SDK 1.x calls a request that got no answer in time, after HTTP."""

Callback = Callable[..., Any]


# Each takes a context first, all but the last two, and then the params of what is asked.
SamplingFnT = ElicitationFnT = ListRootsFnT = LoggingFnT = MessageHandlerFnT = Callback


class ClientSession:
    """Open it with ``async with``, then `initialize`."""

    def __init__(
        self, read_stream: Any, write_stream: Any, read_timeout_seconds: timedelta | None = None,
        sampling_callback: SamplingFnT | None = None, elicitation_callback: ElicitationFnT | None = None,
        list_roots_callback: ListRootsFnT | None = None, logging_callback: LoggingFnT | None = None,
        message_handler: MessageHandlerFnT | None = None, client_info: types.Implementation | None = None, *,
        sampling_capabilities: types.SamplingCapability | None = None,
    ) -> None:  # fmt: skip
        self._way = read_stream
        self._limit = None if read_timeout_seconds is None else read_timeout_seconds.total_seconds()
        self._callbacks: Mapping[str, Any] = {
            "on_sample": sampling_callback and self._sampled(sampling_callback),
            "on_elicit": elicitation_callback and self._elicited(elicitation_callback),
            "on_roots": list_roots_callback and self._rooted(list_roots_callback),
            "on_log": (logging_callback or message_handler) and logging(logging_callback, message_handler),
            **(telling(message_handler) if message_handler is not None else {}),
        }
        self._info = client_info
        self._client: Client | None = None

    # --- life -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def initialize(self) -> types.InitializeResult:
        """Connect."""
        if self._client is None:
            limits = Timeouts(
                connect=self._limit or self._way.silence, idle=self._way.silence, total=self._limit
            )
            options: dict[str, Any] = {"timeouts": limits, **self._way.options}
            options.update({name: value for name, value in self._callbacks.items() if value is not None})
            if self._info is not None:
                options["client_info"] = Implementation(self._info.name, self._info.version)
            self._client = Client(self._way.target, **options)
            await self._answered(self._client.open())
            if "on_log" in options and BY_NAME[self._client.revision or ""].modern:
                await self._client.set_logging_level("debug")  # nothing is sent unasked since 2026-07-28
        return greeting(self._client)

    def get_server_capabilities(self) -> types.ServerCapabilities | None:
        """What the server offers; None before `initialize`."""
        if self._client is None:
            return None
        return types.ServerCapabilities.model_validate(dict(self._client.server_capabilities))

    @property
    def _open(self) -> Client:
        if self._client is None:
            raise RuntimeError("call initialize() first")
        return self._client

    async def _answered(self, work: Any) -> Any:
        """What ``work`` gives; its failures as those of SDK 1.x."""
        try:
            return await work
        except RequestTimeout as error:
            raise McpError(types.ErrorData(code=REQUEST_TIMEOUT, message=error.message)) from error
        except ProtocolError as error:
            raise refused(error) from error
        except AuthError:
            raise  # what those who brought a way to log in expect to catch
        except DovetailError as error:
            raise McpError(types.ErrorData(code=types.CONNECTION_CLOSED, message=error.message)) from error

    # --- asking ---------------------------------------------------------------------------------------------

    async def _listed(self, result: type[R], member: str, work: Any) -> R:
        found = msgspec.to_builtins(await self._answered(work))
        return result.model_validate({member: found})

    async def list_tools(self, cursor: str | None = None, *, params: Any = None) -> types.ListToolsResult:
        """All tools; pages are followed."""
        return await self._listed(types.ListToolsResult, "tools", self._open.list_tools())

    async def list_resources(self, cursor: Any = None, *, params: Any = None) -> types.ListResourcesResult:
        """All resources; pages are followed."""
        return await self._listed(types.ListResourcesResult, "resources", self._open.list_resources())

    async def list_resource_templates(
        self, cursor: str | None = None, *, params: Any = None
    ) -> types.ListResourceTemplatesResult:
        """All templates; pages are followed."""
        work = self._open.list_resource_templates()
        return await self._listed(types.ListResourceTemplatesResult, "resourceTemplates", work)

    async def list_prompts(self, cursor: str | None = None, *, params: Any = None) -> types.ListPromptsResult:
        """All prompts; pages are followed."""
        return await self._listed(types.ListPromptsResult, "prompts", self._open.list_prompts())

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, read_timeout_seconds: timedelta | None = None,
        progress_callback: Callback | None = None, *, meta: dict[str, Any] | None = None,
    ) -> types.CallToolResult:  # fmt: skip
        """Call a tool; one that fails is a result with ``isError``."""
        limit = self._limit if read_timeout_seconds is None else read_timeout_seconds.total_seconds()
        options: dict[str, Any] = {"check": False, "timeout": limit, "on_progress": progress_callback}
        if meta:
            options["meta"] = meta
        done = await self._answered(self._open.call_tool(name, arguments, **options))
        members: dict[str, Any] = {"content": msgspec.to_builtins(done.content), "isError": done.is_error}
        structured = done.raw.structured_content
        if structured is not msgspec.UNSET:
            # Any JSON since 2026-07-28; an object, as on the revisions before, to those who know no other.
            members["structuredContent"] = (
                structured if isinstance(structured, dict) else {"result": structured}
            )
        return types.CallToolResult.model_validate(members)

    async def read_resource(self, uri: AnyUrl | str) -> types.ReadResourceResult:
        """Read a resource."""
        found = await self._answered(self._open.read_resource(str(uri)))
        return types.ReadResourceResult.model_validate({"contents": msgspec.to_builtins(found.contents)})

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> types.GetPromptResult:
        """Get a prompt."""
        found = msgspec.to_builtins(await self._answered(self._open.get_prompt(name, arguments)))
        return types.GetPromptResult.model_validate(found)

    async def complete(
        self,
        ref: types.ResourceTemplateReference | types.PromptReference,
        argument: dict[str, str],
        context_arguments: dict[str, str] | None = None,
    ) -> types.CompleteResult:
        """Ask for completions of an argument."""
        context = None if context_arguments is None else {"arguments": context_arguments}
        asked: Any = self._open.complete(ref.model_dump(by_alias=True, exclude_none=True), argument, context)
        found = msgspec.to_builtins(await self._answered(asked))
        return types.CompleteResult.model_validate(found if "completion" in found else {"completion": found})

    async def set_logging_level(self, level: types.LoggingLevel) -> types.EmptyResult:
        """Say from which level on messages of the log are wanted."""
        await self._answered(self._open.set_logging_level(level))
        return types.EmptyResult()

    async def subscribe_resource(self, uri: AnyUrl | str) -> types.EmptyResult:
        """Want to hear of changes."""
        await self._answered(self._open.subscribe_resource(str(uri)))
        return types.EmptyResult()

    async def unsubscribe_resource(self, uri: AnyUrl | str) -> types.EmptyResult:
        """Want to hear of them no more."""
        await self._answered(self._open.unsubscribe_resource(str(uri)))
        return types.EmptyResult()

    async def send_ping(self) -> types.EmptyResult:
        """Find out whether the server is there."""
        await self._answered(self._open.ping())
        return types.EmptyResult()

    async def send_roots_list_changed(self) -> None:
        """Tell the server that the roots are others now."""
        await self._answered(self._open.notify_roots_changed())

    @cached_property
    def experimental(self) -> Any:
        """Tasks, once it is initialized."""
        from .experimental.tasks import ExperimentalClientFeatures  # few clients begin any

        return ExperimentalClientFeatures(self._open, self._answered)

    # --- being asked ----------------------------------------------------------------------------------------

    def _context(self) -> RequestContext[Any, Any, Any]:
        return RequestContext(request_id=0, meta=None, session=self, lifespan_context=None)

    def _sampled(self, callback: SamplingFnT) -> Callback:
        async def sample(request: Any) -> Any:
            params = types.CreateMessageRequestParams.model_validate(msgspec.to_builtins(request))
            return _plain(await callback(self._context(), params))

        return sample

    def _elicited(self, callback: ElicitationFnT) -> Callback:
        async def elicit(request: Any) -> Any:
            wire = msgspec.to_builtins(request)
            kind = types.ElicitRequestFormParams
            if wire.get("mode") == "url":
                kind = types.ElicitRequestURLParams
                wire.setdefault("elicitationId", "")  # 2026-07-28 has none: nothing is reported later
            return _plain(await callback(self._context(), kind.model_validate(wire)))

        return elicit

    def _rooted(self, callback: ListRootsFnT) -> Callback:
        async def roots(*_: Any) -> Any:
            return _plain(await callback(self._context()))["roots"]

        return roots


def logging(callback: LoggingFnT | None, handler: MessageHandlerFnT | None) -> Callback:
    """A callback of ours that tells both of log messages."""

    async def log(message: Any) -> None:
        params = types.LoggingMessageNotificationParams.model_validate(msgspec.to_builtins(message))
        if callback is not None:
            await callback(params)
        if handler is not None:
            said = types.LoggingMessageNotification(method="notifications/message", params=params)
            await handler(types.ServerNotification(said))

    return log


def telling(handler: MessageHandlerFnT) -> dict[str, Callback]:
    """Callbacks of ours that tell ``handler`` of lists and resources that changed."""

    async def changed(kind: str) -> None:
        said = {"method": f"notifications/{kind}/list_changed"}
        await handler(types.ServerNotification.model_validate(said))

    async def updated(uri: str) -> None:
        said = {"method": "notifications/resources/updated", "params": {"uri": uri}}
        await handler(types.ServerNotification.model_validate(said))

    return {"on_list_changed": changed, "on_resource_updated": updated}


def greeting(client: Client) -> types.InitializeResult:
    """What the server said about itself."""
    info = client.server_info or Implementation("", "")
    members = {"protocolVersion": client.revision or "", "capabilities": dict(client.server_capabilities)}
    members |= {"serverInfo": msgspec.to_builtins(info), "instructions": client.instructions}
    return types.InitializeResult.model_validate(members)


def refused(error: ProtocolError) -> McpError:
    """A server's error as those who ask expect to catch it, with the code that the server gave.

    2026-07-28 keeps codes for itself: one of the author's travels beside the error, in its data.
    """
    code, data = error.code, None if error.data is msgspec.UNSET else error.data
    if is_object(data):
        code = data.get("dialectCode", code)
        ours = {"kind": error.kind, "dialectCode": code}
        data = {name: value for name, value in data.items() if ours.get(name) != value} or None
    return McpError(types.ErrorData(code=code, message=error.message, data=data))


def _plain(answer: Any) -> Any:
    """An answer as on the wire.

    Raises:
        ProtocolError: the callback answered with an error.
    """
    if isinstance(answer, types.ErrorData):
        raise ProtocolError("unknown_error", answer.message, code=answer.code)
    return answer.model_dump(by_alias=True, exclude_none=True, mode="json")
