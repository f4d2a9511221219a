"""`Timeout`: limit the duration of every call. Time spent waiting for user input does not count."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

from ..core.channel import Call
from ..drivers.middleware_chain import Middleware, Next, Request
from ..errors import ProtocolError, RequestTimeout
from ..server import Server
from ..server.execution import HandlerTime, HandlerTimeout, handler_time
from ..settings import check_kinds
from ..settings.parameter_kinds import SECONDS
from .concurrency_limit import WORK


class Timeout(Middleware):
    """Cancel tools, resources, prompts and completions that run too long.

    A tool ends as with a timeout in its own options. On a client the caller gets a `RequestTimeout`.
    """

    def __init__(self, seconds: float) -> None:
        """Set the limit.

        Args:
            seconds: Seconds that a request can run before it is cancelled.
        """
        check_kinds(
            {
                "seconds": SECONDS,
            },
            locals(),
        )
        if seconds <= 0:
            raise ValueError(f"the timeout must be more than 0 seconds, not {seconds}")
        self._seconds = seconds
        self._server: Server | None = None

    def attach(self, service: Any) -> None:
        self._server = service if isinstance(service, Server) else None

    async def message(self, request: Request, call_next: Next) -> Struct | Raw:
        if request.method not in WORK:
            return await call_next(request)
        outer = handler_time.get()
        time = HandlerTime(self._seconds, outer)
        handler_time.set(time)
        try:
            async with time.limit:
                return await call_next(request)
        except TimeoutError:
            if not time.limit.expired():
                raise
            return self._timed_out(request.call)
        finally:
            time.over = True
            handler_time.set(outer)

    def _timed_out(self, call: Call) -> Struct:
        if self._server is None:
            raise RequestTimeout(
                f"{call.method} timed out after {self._seconds:g} s", limit="total"
            ) from None
        if call.method == "tools/call":
            name = call.params.name
            late = HandlerTimeout(f"tool {name!r}", self._seconds)
            return self._server.dispatcher.failures.of_tool(late, name, call)
        raise ProtocolError("internal_error", "the request took too long") from None
