"""`Context`: the request that is being served, as handlers of FastMCP see it."""

from __future__ import annotations

import logging
import sys
import uuid
import weakref
from collections.abc import Mapping
from contextvars import Token
from opcode import opmap
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from ...common.asking import NotAsked
from ...mcp import types as t
from ...mcp.server.lowlevel.bridge import http_request, request_ctx, task_id
from ...mcp.server.session import ServerSession, Unasked, session_of
from ...mcp.shared.context import RequestContext
from ..generation import generation
from ..injection import current
from . import sampling
from .kept_state import KeptState
from .transforms.visibility import rules

if TYPE_CHECKING:
    from ....server import Context as NativeContext
    from .server import FastMCP

to_client_logger = logging.getLogger("fastmcp.server.context.to_client")
_AWAIT: Final = opmap["GET_AWAITABLE"]
_CACHE: Final = opmap["CACHE"]


class _Ready:
    """A value for those who await it."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Any:
        return self.value
        yield


def _awaited() -> bool:
    """Whether the caller of our caller awaits what it gets: ``get_state`` is plain in FastMCP 2 and async in 3, and
    only the place it is called from tells which one was meant.
    """
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    code, place = frame.f_code.co_code, frame.f_lasti + 2
    while place < len(code) and code[place] == _CACHE:
        place += 2
    return place < len(code) and code[place] == _AWAIT


class Context:
    """One request, seen from its handler."""

    def __init__(
        self, fastmcp: FastMCP[Any], session: Any = None, *, native: NativeContext | None = None,
        parent: Context | None = None, **_: Any,
    ) -> None:  # fmt: skip
        self._fastmcp: Any = weakref.ref(fastmcp)
        self._native = native
        self._state: dict[str, Any] = {} if parent is None else parent._state
        self._session = session
        self._token: Token[Any] | None = None

    async def __aenter__(self) -> Context:
        outer = current.get()
        if outer is not None and self._native is None:
            self._native, self._state = outer._native, dict(outer._state)
        self._token = current.set(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._token is not None:
            current.reset(self._token)

    # Who and what

    @property
    def fastmcp(self) -> FastMCP[Any]:
        server = self._fastmcp()
        if server is None:
            raise RuntimeError("FastMCP instance is no longer available")
        return server

    @property
    def native(self) -> NativeContext:
        """The context of ours that it stands over."""
        if self._native is None:
            raise RuntimeError("Context is not available outside of a request")
        return self._native

    @property
    def request_context(self) -> RequestContext[Any, Any, Any] | None:
        """What the lower level knows about the request; None outside of one."""
        if self._native is None:
            given = request_ctx.get(None)  # a program may have set one for itself
            if given is not None:
                return given
            if generation() == 2:
                raise ValueError("Context is not available outside of a request")
            return None
        native = self._native
        meta = t.RequestParams.Meta.model_validate(dict(native.meta)) if native.meta else None
        return RequestContext(
            request_id=native.request_id, meta=meta, session=self.session, lifespan_context=self.lifespan_context,
            request=http_request(native),
            close_sse_stream=native.close_stream,
        )  # fmt: skip

    @property
    def lifespan_context(self) -> Any:
        """What the lifespan of the server yielded."""
        return self.fastmcp.lifespan_result

    @property
    def session(self) -> ServerSession:
        """The session of the client."""
        if self._session is None:
            self._session = session_of(self.native)
        return self._session

    @property
    def request_id(self) -> str:
        return str(self.native.request_id)

    @property
    def client_id(self) -> str | None:
        return None if self._native is None else self._native.meta.get("client_id")

    @property
    def session_id(self) -> str:
        """One word for one session, whatever transport it is on."""
        given = request_ctx.get(None) if self._native is None else None
        if given is not None and given.request is not None:
            return given.request.headers["mcp-session-id"]
        session = self.native.session if given is None else None
        if session is not None and session.id is not None:
            return session.id
        kept: dict[str, Any] = vars(self.session if given is None else given.session)
        return kept.setdefault("_fastmcp_session_id", str(uuid.uuid4()))

    @property
    def transport(self) -> str | None:
        """ "stdio", "sse", "streamable-http"; None for others."""
        name = None if self._native is None else self._native.scope.get("transport")
        return {"http": "streamable-http", "stdio": "stdio", "sse": "sse"}.get(name or "")

    @property
    def origin_request_id(self) -> str | None:
        return None if self._native is None else self.request_id

    @property
    def task_id(self) -> str | None:
        """The task that this is the work of."""
        return task_id.get()

    @property
    def is_background_task(self) -> bool:
        """Whether this is the work of a task, and no call that somebody waits for."""
        return task_id.get() is not None

    def client_supports_extension(self, extension_id: str) -> bool:
        """Whether the client declared this extension."""
        return (
            self._native is not None and self._native.client_capabilities.extension(extension_id) is not None
        )

    def get_http_request(self) -> Any:
        """The HTTP request this call came in."""
        from .dependencies import get_http_request

        return get_http_request()

    # Telling

    async def log(
        self,
        message: str,
        level: t.LoggingLevel | None = None,
        logger_name: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Send a log message to the client."""
        if self._native is not None:
            data = {"msg": message, "extra": None if extra is None else dict(extra)}
            await self._native.log(level or "info", data, logger=logger_name)

    async def debug(self, message: str, logger_name: str | None = None, extra: Any = None) -> None:
        await self.log(message, "debug", logger_name, extra)

    async def info(self, message: str, logger_name: str | None = None, extra: Any = None) -> None:
        await self.log(message, "info", logger_name, extra)

    async def warning(self, message: str, logger_name: str | None = None, extra: Any = None) -> None:
        await self.log(message, "warning", logger_name, extra)

    async def error(self, message: str, logger_name: str | None = None, extra: Any = None) -> None:
        await self.log(message, "error", logger_name, extra)

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the request is."""
        if self._native is not None:
            await self._native.report_progress(progress, total, message)

    async def send_notification(self, notification: Any) -> None:
        """Send a notification to the client."""
        await self.session.send_notification(notification)

    async def send_tool_list_changed(self) -> None:
        await self.session.send_tool_list_changed()

    async def send_resource_list_changed(self) -> None:
        await self.session.send_resource_list_changed()

    async def send_prompt_list_changed(self) -> None:
        await self.session.send_prompt_list_changed()

    async def close_sse_stream(self) -> None:
        """Let go of the stream of this request: the client comes back for the rest."""
        await self.native.close_stream()

    # The server's own

    async def list_resources(self) -> list[t.Resource]:
        return [one.to_mcp_resource() for one in await self.fastmcp.list_resources()]

    async def list_prompts(self) -> list[t.Prompt]:
        return [one.to_mcp_prompt() for one in await self.fastmcp.list_prompts()]

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> t.GetPromptResult:
        return (await self.fastmcp.render_prompt(name, arguments)).to_mcp_prompt_result()

    async def read_resource(self, uri: Any) -> Any:
        """Read a resource of this server; what comes back can be walked through like FastMCP 2's list."""
        result = await self.fastmcp.read_resource(str(uri))
        return result.contents if generation() == 2 else result

    # Asking

    async def list_roots(self) -> list[t.Root]:
        """The folders the client lets us know about."""
        return (await self.session.list_roots()).roots

    async def elicit(
        self, message: str, response_type: Any = None, *, response_title: str | None = None,
        response_description: str | None = None,
    ) -> Any:  # fmt: skip
        """Ask the user to fill in a form."""
        from .elicitation import AcceptedElicitation, CancelledElicitation, DeclinedElicitation, Form

        form = Form(response_type, response_title, response_description)
        try:
            answer = await self.session.elicit(message, form.schema)
        except Unasked as error:
            raise NotAsked("Elicitation not supported", error.cause) from error
        if answer.action == "accept":
            return AcceptedElicitation[Any](data=form.read(answer.content))
        return DeclinedElicitation() if answer.action == "decline" else CancelledElicitation()

    async def sample(self, messages: Any, **options: Any) -> sampling.SamplingResult:
        """Ask the client's model."""
        return await sampling.sample(self, messages, **options)

    async def sample_step(self, messages: Any, **options: Any) -> sampling.SampleStep:
        """Ask the client's model once, and run the tools it wants."""
        return await sampling.step(self, messages, **options)

    # State

    def _states(self) -> dict[str, Any]:
        """FastMCP 3 keeps state with the session, 2 with the request."""
        if generation() == 2 or self._native is None or self._native.session is None:
            return self._state
        return vars(self.session).setdefault("_fastmcp_state", {})

    def set_state(self, key: str, value: Any, *, serializable: bool = True) -> Any:
        """Keep ``value`` under ``key``; may be awaited."""
        if (kept := self._kept()) is not None and serializable:
            return kept.put(key, value)
        self._states()[key] = self._state[key] = value
        return _Ready(None)

    def get_state(self, key: str) -> Any:
        """What is kept under ``key``; may be awaited."""
        value = self._state.get(key, UNSET)
        if value is UNSET and (kept := self._kept()) is not None:
            return kept.get(key)
        if value is UNSET:
            value = self._states().get(key)
        return _Ready(value) if _awaited() else value

    def delete_state(self, key: str) -> Any:
        """Forget what is kept under ``key``; may be awaited."""
        self._states().pop(key, None)
        self._state.pop(key, None)
        return _Ready(None) if (kept := self._kept()) is None else kept.delete(key)

    def _kept(self) -> KeptState | None:
        """What ``FastMCP(session_state_store=…)`` keeps for this session."""
        store = self.fastmcp.session_state_store
        if store is None or self._native is None or self._native.session is None:
            return None
        return KeptState(store, self.session_id)

    # Which components this session sees

    async def enable_components(self, **conditions: Any) -> None:
        self._add_rules(True, conditions)

    async def disable_components(self, **conditions: Any) -> None:
        self._add_rules(False, conditions)

    async def reset_visibility(self) -> None:
        vars(self.session)["_fastmcp_rules"] = []
        self._tell()

    def _add_rules(self, enabled: bool, conditions: dict[str, Any]) -> None:
        vars(self.session).setdefault("_fastmcp_rules", []).extend(rules(enabled, **conditions))
        self.fastmcp.ruled = True
        self._tell()

    def _tell(self) -> None:
        for kind in ("tools", "resources", "prompts"):
            self.fastmcp.native.changed(kind)

    async def _get_visibility_rules(self) -> list[dict[str, Any]]:
        """The same as data, which is what others look at."""
        return [vars(rule) for rule in self.session_rules()]

    def session_rules(self) -> list[Any]:
        """The rules of visibility that hold for this session."""
        if self._native is None or (self._native.session is None and self._session is None):
            return []
        return vars(self.session).get("_fastmcp_rules", [])
