"""`Failures`: converts exceptions of handlers into results and errors for the peer.

`errors.KINDS` says how each kind is shown; the flags of a dialect change it. Unexpected exceptions are masked: the peer
gets an incident number, the log gets the details.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Any, NoReturn

from msgspec import UNSET

from ..core.channel import EMPTY, Call, ServerRequestsNotSupported
from ..drivers.run import is_external
from ..errors import (
    RETRY_AFTER_MS,
    STORE_FULL_MS,
    CapabilityError,
    ProtocolError,
    Refusal,
    ToolError,
    delivery,
)
from ..model import CallToolResult, ClientCapabilities, TextContent
from ..stores.base import StoreError, StoreFull
from ..wire.dialects.dialect import VENDOR
from .execution import HandlerTimeout
from .input_requests.input_required import InputNotSupported, InputRejected
from .signatures.plain_types import UNWRITABLE, plain, readable
from .signatures.returns import block, writable
from .signatures.validation_errors import ReturnError

logger = logging.getLogger("dovetail.server")

_OURS = (ToolError, Refusal, ProtocolError, HandlerTimeout, CapabilityError, ServerRequestsNotSupported)
"""Exceptions whose text is written for the peer."""


class Failures:
    """Converts exceptions of handlers into responses. ``mask=False`` shows peers the text of every exception."""

    def __init__(self, *, mask: bool = True) -> None:
        self._mask = mask

    def of_tool(self, error: BaseException, name: str, call: Call) -> CallToolResult:
        """The result of a failed tool call.

        Raises:
            DovetailError: the failure is reported as a JSON-RPC error.
            BaseException: it is a cancellation or the end of the process.
        """
        if is_external(error, call):
            raise error
        if isinstance(error, InputNotSupported) and call.revision.modern:
            raise missing_capability(error) from None
        if isinstance(error, StoreError):
            raise not_kept(error) from None
        if isinstance(error, Refusal):
            if error.as_result:
                return _failed(error.message, error.kind, _refused(error))
            raise error
        if isinstance(error, asyncio.CancelledError) and self._shows_as_error("tool_execution_failed", call):
            # The call was not cancelled: a task inside the tool was.
            raise ProtocolError("tool_cancelled", data={"tool": name}) from None
        kind, text, meta = self._explain(error, f"tool {name!r}")
        rejected = isinstance(error, InputRejected)
        if self._shows_as_error("tool_execution_failed" if rejected else kind, call):
            if rejected and not kind.startswith(("sampling_", "model_", "invalid_model_")):
                kind = "tool_execution_failed"  # the code came from the client
            elif isinstance(error, ProtocolError):
                raise error
            raise ProtocolError(kind, text, data={"tool": name, "reason": text, **meta}) from None
        if isinstance(error, ToolError):
            try:
                return _tool_error(error, name)
            except (ReturnError, *UNWRITABLE) as broken:
                kind, text, meta = self._explain(broken, f"tool {name!r}")
        return _failed(text, kind, meta)

    def raise_other(
        self,
        error: BaseException,
        what: str,
        call: Call,
        data: Mapping[str, Any] = EMPTY,
        kind: str = "internal_error",
    ) -> NoReturn:
        """Raise the JSON-RPC error of ``kind`` for a failed prompt, resource or completion."""
        if is_external(error, call):
            raise error
        if isinstance(error, ProtocolError | Refusal):
            raise error
        if isinstance(error, StoreError):
            raise not_kept(error) from None
        if isinstance(error, InputNotSupported) and call.revision.modern:
            raise missing_capability(error) from None
        own, text, meta = self._explain(error, what)
        if isinstance(error, HandlerTimeout):
            own = "request_timeout"
        elif own != "capability_not_supported":
            own = kind
        message = None if meta and self._mask else text
        raise ProtocolError(own, message, data={**data, **meta} or UNSET) from None

    def _explain(self, error: BaseException, what: str) -> tuple[str, str, dict[str, Any]]:
        """The kind, text and extra members for the peer; an unexpected exception is reduced to its incident number."""
        if isinstance(error, _OURS):
            return error.kind, error.message, {}
        incident = os.urandom(6).hex()
        logger.error("incident %s: %s failed", incident, what, exc_info=error)
        text = f"Error executing {what} (incident {incident})"
        if not self._mask:
            text = f"{type(error).__name__}: {error}"
        return "tool_execution_failed", text, {"incident": incident}

    @staticmethod
    def _shows_as_error(kind: str, call: Call) -> bool:
        way = "tool_result" if kind in _UNASKED else delivery(kind)
        if kind == "invalid_tool_arguments":
            way = call.revision.argument_errors
        if not call.revision.modern:
            dialect = call.codec.dialect
            if kind == "invalid_tool_arguments" and dialect.argument_errors is not None:
                way = dialect.argument_errors
            elif dialect.tool_failure_as_error:
                way = "error"
        return way != "tool_result"


_UNREADABLE = {PermissionError: "resource_access_denied", BlockingIOError: "resource_locked"}
"""OSErrors about an existing file. `BlockingIOError` is among them: it reports a locked file."""


def unreadable(error: BaseException, kind: str) -> str:
    """The kind of a resource that could not be read because of ``error``; ``kind`` if the error does not tell."""
    if not isinstance(error, OSError):
        return kind
    return next(
        (name for cause, name in _UNREADABLE.items() if isinstance(error, cause)), "resource_not_readable"
    )


_UNASKED = frozenset({"capability_not_supported", "server_requests_not_supported"})
"""Raised to the handler when the client cannot answer an input request; uncaught, it makes the tool call fail."""


def not_kept(error: StoreError) -> ProtocolError:
    """The error for a peer when the store cannot save or load the handler's state. It reveals nothing of the store."""
    logger.error("a call was refused: %s", error)
    later = STORE_FULL_MS if isinstance(error, StoreFull) else RETRY_AFTER_MS
    return ProtocolError(error.kind, data={"retryAfterMs": later})


def missing_capability(error: InputNotSupported) -> ProtocolError:
    """The error of 2026-07-28 for a call that needs a capability which the client did not declare."""
    return ProtocolError(
        "missing_required_client_capability",
        f"this call needs the client capability {error.capability!r}",
        data={"requiredCapabilities": ClientCapabilities.requiring(error.capability)},
    )


def _refused(error: Refusal) -> dict[str, Any]:
    members: dict[str, Any] = {"code": error.code, "hint": error.hint and readable(error.hint)}
    if error.retry_after is not None:
        members["retryAfterMs"] = round(error.retry_after * 1000)
    return {name: value for name, value in members.items() if value is not None}


def _tool_error(error: ToolError, name: str) -> CallToolResult:
    content = [error.message] if error.content is None else list(error.content)
    structured = UNSET if error.data is None else plain(error.data)
    blocks = [TextContent(readable(item)) if isinstance(item, str) else block(item) for item in content]
    return writable(CallToolResult(blocks, structured_content=structured, is_error=True), name)


def _failed(text: str, kind: str, members: Mapping[str, Any]) -> CallToolResult:
    meta = {VENDOR + "kind": kind, **{VENDOR + name: value for name, value in members.items()}}
    return CallToolResult([TextContent(readable(text))], is_error=True, meta=meta)
