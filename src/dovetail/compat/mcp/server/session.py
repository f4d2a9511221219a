"""`ServerSession`: how a handler of SDK 1.x speaks to its client, on every revision.

It stands over the `Context` of the call that is being served here and now. Questions are those of ours, so they work on
2026-07-28 as well, where the handler is run again once the answers are there. A legacy session has one object for its
whole life, as its users keep things on it; outside of a call it can notify, but not ask.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

import msgspec
from pydantic import BaseModel
from typing_extensions import TypeVar

from ....core.channel import NoBackChannel, Session
from ....errors import CapabilityError, DovetailError, ProtocolError
from ....model import ElicitRequest, InputRequest, ListRootsRequest, NotificationParams
from ....server import Context
from ....server.asking.ask import PlainQuestion
from ....wire.methods import METHODS
from .. import types
from ..shared.exceptions import McpError

if TYPE_CHECKING:
    from .experimental.session_features import ExperimentalServerSessionFeatures

current: ContextVar[Context | None] = ContextVar("dovetail_compat_context", default=None)
"""The call that is being served here."""

_sessions: WeakKeyDictionary[Session, ServerSession] = WeakKeyDictionary()
_LIST_CHANGED: Final = "notifications/{}/list_changed"


class Unasked(McpError):
    """The client was not asked, since it never said that it can be."""

    def __init__(self, cause: CapabilityError) -> None:
        super().__init__(types.ErrorData(code=types.INVALID_REQUEST, message=cause.message))
        self.cause = cause


def session_of(context: Context) -> ServerSession:
    """The session object for a call; the same one for all calls of a legacy session."""
    session = context.session
    if session is None:
        return ServerSession(context)
    found = _sessions.get(session)
    if found is None:
        found = _sessions[session] = ServerSession(context)
    return found


class ServerSession:
    """What a handler may ask of its client and tell it.

    Raises:
        TypeError: a program makes one itself, over two streams.
    """

    def __init__(self, context: Context, *streams: Any, **options: Any) -> None:
        if not isinstance(context, Context):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                "ServerSession(read_stream, write_stream, …) is not made by programs here: register handlers on "
                "mcp.server.lowlevel.Server and call its run(read_stream, write_stream, …)"
            )
        self._own = None if context.session is not None else context
        self._session = context.session
        self._server = context.server
        self._client = context.client_info, context.client_capabilities, context.revision

    def _context(self) -> Context | None:
        return self._own or current.get()

    # Who is there

    @property
    def client_params(self) -> types.InitializeRequestParams | None:
        """What the client said of itself."""
        info, capabilities, revision = self._client
        return types.InitializeRequestParams.model_validate(
            {
                "protocolVersion": revision,
                "capabilities": dict(capabilities),
                "clientInfo": info or {"name": "", "version": ""},
            }
        )

    def check_client_capability(self, capability: types.ClientCapabilities) -> bool:
        """Whether the client declared all that ``capability`` names."""
        wanted = capability.model_dump(by_alias=True, exclude_none=True)
        return _within(wanted, dict(self._client[1]))

    @property
    def experimental(self) -> ExperimentalServerSessionFeatures:
        """Questions that may be answered by tasks."""
        from .experimental.session_features import ExperimentalServerSessionFeatures  # few handlers ask so

        return ExperimentalServerSessionFeatures(self)

    # Asking

    async def _ask(self, request: InputRequest) -> Any:
        context = self._context()
        if context is None:
            raise McpError(types.ErrorData(code=types.INVALID_REQUEST, message="there is no call to ask in"))
        try:
            return (await context.ask_all(PlainQuestion(request, None)))[0]
        except CapabilityError as error:
            raise Unasked(error) from error
        except ProtocolError as error:
            raise _error(error) from error
        except NoBackChannel as error:
            raise McpError(types.ErrorData(code=types.INVALID_REQUEST, message=error.message)) from error

    async def create_message(
        self, messages: list[types.SamplingMessage], *, max_tokens: int, system_prompt: str | None = None,
        include_context: types.IncludeContext | None = None, temperature: float | None = None,
        stop_sequences: list[str] | None = None, metadata: dict[str, Any] | None = None,
        model_preferences: types.ModelPreferences | None = None, tools: list[types.Tool] | None = None,
        tool_choice: types.ToolChoice | None = None, related_request_id: types.RequestId | None = None,
    ) -> types.CreateMessageResult | types.CreateMessageResultWithTools:  # fmt: skip
        """Ask the client's model."""
        params = types.CreateMessageRequestParams(
            messages=messages, maxTokens=max_tokens, systemPrompt=system_prompt, includeContext=include_context,
            temperature=temperature, stopSequences=stop_sequences, metadata=metadata,
            modelPreferences=model_preferences, tools=tools, toolChoice=tool_choice,
        )  # fmt: skip
        kind = types.CreateMessageResult if tools is None else types.CreateMessageResultWithTools
        return await self.send_request(types.CreateMessageRequest(params=params), kind)

    async def list_roots(self) -> types.ListRootsResult:
        """The folders the client lets us know about."""
        return types.ListRootsResult.model_validate(await self._ask(ListRootsRequest()))

    async def elicit(
        self,
        message: str,
        requestedSchema: types.ElicitRequestedSchema,
        related_request_id: types.RequestId | None = None,
    ) -> types.ElicitResult:
        """Ask the user to fill in a form."""
        params = types.ElicitRequestFormParams(message=message, requestedSchema=requestedSchema)
        return await self.send_request(types.ElicitRequest(params=params), types.ElicitResult)

    elicit_form = elicit

    async def elicit_url(
        self, message: str, url: str, elicitation_id: str, related_request_id: types.RequestId | None = None
    ) -> types.ElicitResult:
        """Ask the user to visit ``url``."""
        params = types.ElicitRequestURLParams(message=message, url=url, elicitationId=elicitation_id)
        return await self.send_request(types.ElicitRequest(params=params), types.ElicitResult)

    async def send_ping(self) -> types.EmptyResult:
        """A client that can be asked is there; one of 2026-07-28 knows no pings."""
        return types.EmptyResult()

    async def send_request(self, request: Any, result_type: type[R], *_: Any, **__: Any) -> R:
        """Ask what ``request`` (a `types.ServerRequest` or one of its members) asks."""
        request = getattr(request, "root", request)
        if isinstance(request, types.PingRequest):
            return result_type.model_validate({})
        if isinstance(request, types.ListRootsRequest):
            return result_type.model_validate(await self._ask(ListRootsRequest()))
        wire = request.model_dump_json(by_alias=True, exclude_none=True)
        asked = msgspec.json.decode(wire, type=InputRequest)
        if isinstance(asked, ElicitRequest) and asked.params.mode == "form":
            asked.params.mode = msgspec.UNSET  # the only one on the revisions before there were two
        return result_type.model_validate(await self._ask(asked))

    # Telling

    async def send_log_message(
        self,
        level: types.LoggingLevel,
        data: Any,
        logger: str | None = None,
        related_request_id: types.RequestId | None = None,
    ) -> None:
        """Send a log message."""
        context = self._context()
        if context is not None:
            await context.log(level, data, logger=logger)
        else:
            params = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger)
            await self.send_notification(types.LoggingMessageNotification(params=params))

    async def send_progress_notification(
        self, progress_token: types.ProgressToken, progress: float, total: float | None = None,
        message: str | None = None, related_request_id: str | None = None,
    ) -> None:  # fmt: skip
        """Tell the client how far the call is that brought ``progress_token``."""
        context = self._context()
        if context is not None and context.meta.get("progressToken") == progress_token:
            await context.report_progress(progress, total, message)

    async def send_resource_updated(self, uri: Any) -> None:
        """Tell whoever subscribed to ``uri`` that it changed."""
        if self._session is None:
            await self._server.notify_resource_updated(str(uri))
        else:
            params = types.ResourceUpdatedNotificationParams(uri=uri)
            await self.send_notification(types.ResourceUpdatedNotification(params=params))

    async def send_tool_list_changed(self) -> None:
        """Tell clients that the tools are others now."""
        await self._list_changed("tools", types.ToolListChangedNotification)

    async def send_resource_list_changed(self) -> None:
        """Tell clients that the resources are others now."""
        await self._list_changed("resources", types.ResourceListChangedNotification)

    async def send_prompt_list_changed(self) -> None:
        """Tell clients that the prompts are others now."""
        await self._list_changed("prompts", types.PromptListChangedNotification)

    async def _list_changed(self, kind: Any, notification: Any) -> None:
        self._server.changed(kind)
        if self._session is not None and not self._server.capabilities.get(kind, {}).get("listChanged"):
            # Theirs declares such changes only when it is told to, and sends what a handler wants sent all the same.
            await self.send_notification(notification())

    async def send_elicit_complete(
        self, elicitation_id: str, related_request_id: types.RequestId | None = None
    ) -> None:
        """Tell the client that the user is done at the address they were sent to."""
        params = types.ElicitCompleteNotificationParams(elicitationId=elicitation_id)
        await self.send_notification(types.ElicitCompleteNotification(params=params))

    async def send_notification(
        self, notification: Any, related_request_id: types.RequestId | None = None
    ) -> None:
        """Send a notification; what the client's revision does not know is left out."""
        notification = getattr(notification, "root", notification)
        method: str = notification.method
        wire = notification.model_dump(by_alias=True, exclude_none=True, mode="json").get("params")
        row, context = METHODS.get(method), self._context()
        if row is None:
            if context is not None:
                await context.notify(method, wire)
        elif isinstance(notification, types.ProgressNotification):
            await self.send_progress_notification(
                notification.params.progressToken,
                notification.params.progress,
                notification.params.total,
                notification.params.message,
            )
        elif self._session is not None and self._session.notify and row.on(self._session.revision):
            kind = cast("type[NotificationParams]", row.params)
            self._session.notify(method, None if wire is None else msgspec.convert(wire, kind))


R = TypeVar("R", bound=BaseModel)


def _error(error: DovetailError) -> McpError:
    """What a client answered, as those who ask expect to catch it."""
    code = error.code if isinstance(error, ProtocolError) else types.INTERNAL_ERROR
    data = error.data if isinstance(error, ProtocolError) and error.data is not msgspec.UNSET else None
    return McpError(types.ErrorData(code=code, message=error.message, data=data))


def _within(wanted: dict[str, Any], declared: dict[str, Any]) -> bool:
    return all(
        name in declared
        and (not isinstance(value, dict) or _within(cast("Any", value), declared[name] or {}))
        for name, value in wanted.items()
    )


ServerSessionT = TypeVar("ServerSessionT", bound=ServerSession)
