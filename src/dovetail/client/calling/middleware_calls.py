"""`MiddlewareCalls`: calls of a client with middleware.

Client middleware sees a call as a server would: method, params, revision. Client-specific data is in
``call.scope``: ``side`` is "client", ``options`` are those of the call, ``repeat`` says whether it may run
twice, ``asked`` is True once the server has requested input. The handshake passes no middleware.
"""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec import Raw, Struct

from ...core.channel import EMPTY, Call
from ...core.trace_context import MEMBERS
from ...drivers.middleware_chain import Middleware, Next, Request, attach, compose, name_in
from ...drivers.requests import SendOptions
from ...wire.methods import Method
from ..client_config import CallOptions, ClientConfig, Timeout
from ..connecting.client_connection import Connections
from ..reconnect import ConnectionLifecycle
from ..server_requests.callbacks import Answers
from .calls import Calls

_NO_OPTIONS: Final[CallOptions] = {}


class MiddlewareCalls(Calls):
    """`Calls` with the middleware of the client."""

    def __init__(
        self, config: ClientConfig, life: ConnectionLifecycle, connections: Connections, answers: Answers
    ) -> None:
        super().__init__(config, life, connections, answers)
        self.connections, self.admission = connections, connections.admission
        attach(config.middleware, self)
        self._respond = compose(config.middleware, self._make)
        self._forward: Next = self._pass_on
        for each in reversed(config.middleware):
            if isinstance(each, Middleware) and each.observes:
                self._forward = each.wrap(self._forward)

    async def call(
        self,
        method: str,
        params: Struct | Raw,
        options: CallOptions = _NO_OPTIONS,
        *,
        known: frozenset[str] = CallOptions.__optional_keys__,
        repeat: bool = True,
        row: Method | None = None,
        place: tuple[str, str, bytes, str] | None = None,
        quiet: bool = False,
    ) -> Any:
        """Execute `Calls.call` through the middleware."""
        scope = {"side": "client", "options": options, "repeat": repeat, "making": (known, row, place, quiet)}
        return await self._through(self._respond, method, params, scope, options.get("timeout"))

    async def forward(
        self, method: str, params: Struct | Raw, asking: SendOptions, timeout: Timeout, *, repeat: bool
    ) -> Any:
        """Execute `Calls.forward` through tracing middleware only."""
        if self.admission.meta_provider is not None:  # the trace context of the surrounding span
            meta = {name: value for name, value in (asking.get("meta") or {}).items() if name not in MEMBERS}
            asking = {**asking, "meta": meta}
        scope = {"side": "client", "options": asking, "repeat": repeat, "timeout": timeout}
        return await self._through(self._forward, method, params, scope, timeout)

    async def _through(
        self, chain: Next, method: str, params: Struct | Raw, scope: dict[str, Any], timeout: Timeout
    ) -> Any:
        conversation = self._life.conversation
        if conversation is None or conversation.gone.done():
            conversation = await self._recovered(self.config.limits_of(timeout), accepted=False)
        established = self.established
        call = Call(
            id=0,  # the endpoint assigns one when the request is sent
            method=method,
            params=params,
            revision=established.revision,
            codec=conversation.endpoint.codec,
            capabilities=established.declared,
            meta=scope["options"].get("meta") or EMPTY,
            scope=scope,
        )
        return await chain(Request(call, conversation, name_in(call)))

    async def _pass_on(self, request: Request) -> Any:
        call, scope = request.call, request.call.scope
        return await super().forward(
            call.method, call.params, scope["options"], scope["timeout"], repeat=scope["repeat"]
        )

    async def _make(self, request: Request) -> Any:
        call = request.call
        scope = cast("dict[str, Any]", call.scope)
        options: CallOptions = scope["options"]
        if (call.meta or None) != (options.get("meta") or None):
            options = {**options, "meta": call.meta}
        known, row, place, quiet = scope["making"]
        repeat: bool = scope["repeat"]
        result = await super().call(
            call.method, call.params, options, known=known, repeat=repeat, row=row, place=place, quiet=quiet
        )
        if self.established.conversation.requests.asked:
            scope["asked"] = True
        return result
