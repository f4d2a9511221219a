"""A message with what the transport knows about it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..types import JSONRPCMessage, RequestId


@dataclass
class ClientMessageMetadata:
    resumption_token: str | None = None
    on_resumption_token_update: Callable[[str], Awaitable[None]] | None = None


@dataclass
class ServerMessageMetadata:
    related_request_id: RequestId | None = None
    request_context: object | None = None
    close_sse_stream: Callable[[], Awaitable[None]] | None = None
    close_standalone_sse_stream: Callable[[], Awaitable[None]] | None = None


@dataclass
class SessionMessage:
    message: JSONRPCMessage
    metadata: ClientMessageMetadata | ServerMessageMetadata | None = None
