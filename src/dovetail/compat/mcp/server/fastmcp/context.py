"""`Context`: the request that is being served, as handlers of the SDK's FastMCP see it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal

from typing_extensions import TypeVar

from ...shared.context import RequestContext
from ..lowlevel.helper_types import ReadResourceContents
from ..session import ServerSession, current

if TYPE_CHECKING:
    from pydantic import AnyUrl

    from ...types import RequestParams
    from ..elicitation import ElicitationResult, UrlElicitationResult
    from .server import FastMCP

SessionT = TypeVar("SessionT", default=Any)
LifespanT = TypeVar("LifespanT", default=Any)
RequestT = TypeVar("RequestT", default=Any)


class Context(Generic[SessionT, LifespanT, RequestT]):
    """One request, seen from its handler."""

    def __init__(
        self,
        *,
        request_context: RequestContext[Any, Any, Any] | None = None,
        fastmcp: FastMCP[Any] | None = None,
        **_: Any,
    ) -> None:
        self._request_context = request_context
        self._fastmcp = fastmcp

    @property
    def fastmcp(self) -> FastMCP[Any]:
        if self._fastmcp is None:
            raise ValueError("Context is not available outside of a request")
        return self._fastmcp

    @property
    def request_context(self) -> RequestContext[Any, Any, Any]:
        if self._request_context is None:
            raise ValueError("Context is not available outside of a request")
        return self._request_context

    @property
    def session(self) -> ServerSession:
        return self.request_context.session

    @property
    def request_id(self) -> str:
        return str(self.request_context.request_id)

    @property
    def client_id(self) -> str | None:
        meta: RequestParams.Meta | None = self.request_context.meta
        return None if meta is None else (meta.model_extra or {}).get("client_id")

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the request is."""
        native = current.get()
        if native is not None:
            await native.report_progress(progress, total, message)

    async def read_resource(self, uri: str | AnyUrl) -> Iterable[ReadResourceContents]:
        """Read a resource of this server."""
        return await self.fastmcp.read_resource(uri)

    async def elicit(self, message: str, schema: type[Any]) -> ElicitationResult[Any]:
        """Ask the user to fill in a form made of a flat model."""
        from ..elicitation import elicit_with_validation  # whoever asks has it

        return await elicit_with_validation(self.session, message, schema)

    async def elicit_url(self, message: str, url: str, elicitation_id: str) -> UrlElicitationResult:
        """Ask the user to visit ``url``."""
        from ..elicitation import elicit_url

        return await elicit_url(self.session, message, url, elicitation_id)

    async def log(
        self, level: Literal["debug", "info", "warning", "error"], message: Any, *,
        logger_name: str | None = None, extra: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Send a log message to the client, with ``extra`` beside it."""
        data = {"message": message, **extra} if extra else message
        await self.session.send_log_message(
            level=level, data=data, logger=logger_name, related_request_id=self.request_id
        )

    async def debug(self, message: Any, **extra: Any) -> None:
        await self.log("debug", message, **extra)

    async def info(self, message: Any, **extra: Any) -> None:
        await self.log("info", message, **extra)

    async def warning(self, message: Any, **extra: Any) -> None:
        await self.log("warning", message, **extra)

    async def error(self, message: Any, **extra: Any) -> None:
        await self.log("error", message, **extra)

    async def close_sse_stream(self) -> None:
        """Let go of the stream of this request: the client comes back for the rest."""
        close = self.request_context.close_sse_stream
        if close is not None:
            await close()

    async def close_standalone_sse_stream(self) -> None:
        """Let go of the stream that belongs to no request."""
        close = self.request_context.close_standalone_sse_stream
        if close is not None:
            await close()
