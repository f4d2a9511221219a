"""Messages as JSON-RPC has them."""

from typing import Any, Literal

from pydantic import ConfigDict, RootModel

from .base import ErrorData, Open, RequestId
from .notices import Notification
from .requests import Request


class JSONRPCRequest(Request[Any, str]):
    jsonrpc: Literal["2.0"]
    id: RequestId
    method: str
    params: dict[str, Any] | None = None


class JSONRPCNotification(Notification[Any, str]):
    jsonrpc: Literal["2.0"]
    params: dict[str, Any] | None = None


class JSONRPCResponse(Open):
    jsonrpc: Literal["2.0"]
    id: RequestId
    result: dict[str, Any]


class JSONRPCError(Open):
    jsonrpc: Literal["2.0"]
    id: str | int
    error: ErrorData


class JSONRPCMessage(RootModel[JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError]):
    model_config = ConfigDict(defer_build=True)
