"""Send one request to the API, with limits on time and size, and convert the response."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from ..client.http_client import Fetch, Send
from ..errors import ProtocolError, StateError, ToolError, TransportError
from ..json_schema.problem import SchemaError
from ..json_schema.validation import Validator
from ..model import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    TextContent,
)
from ..server.lifecycle import Enter
from ..server.media import Media
from ..shapes import Object, is_object
from .operation_arguments import ApiRequest
from .operations import is_json
from .request_bodies import is_text

ERROR_TEXT: Final = 2_000
"""Characters of an error response that are shown."""


log = logging.getLogger("dovetail.openapi")

_MISSING = frozenset({404, 410})


class ApiResponse(NamedTuple):
    """A response of the API."""

    status: int
    media: str
    data: bytes
    retry_after: str | None = None

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


class Api:
    """The API of a server, at a fixed base URL."""

    def __init__(self, fetch: Fetch, base: str, *, timeout: float | None, limit: int) -> None:
        self._fetch = fetch
        self._base = base
        self._timeout = timeout
        self._limit = limit
        self._send: Send | None = None

    def around(self, enter: Enter | None) -> Enter:
        """Open the connections to the API during the lifespan."""

        @asynccontextmanager
        async def life() -> AsyncGenerator[Any, None]:
            async with AsyncExitStack() as stack:
                self._send = await stack.enter_async_context(self._fetch.session())
                inner: Callable[[], AbstractAsyncContextManager[Any]] | None = enter
                try:
                    yield None if inner is None else await stack.enter_async_context(inner())
                finally:
                    self._send = None

        return life

    async def ask(self, request: ApiRequest) -> ApiResponse:
        """Send ``request``.

        Raises:
            ToolError: the API does not respond in time, or its response is too large.
        """
        if self._send is None:
            raise StateError("the API is not connected: the server does not run")
        try:
            async with asyncio.timeout(self._timeout):
                url = self._base + request.target
                response = await self._send(request.method, url, request.headers, request.body)
                try:
                    headers = response.headers
                    data = await response.read(self._limit)
                finally:
                    response.close()
        except (TransportError, TimeoutError) as error:
            log.warning("%s: %s", request.method, error or "no response in time")
            raise ToolError(_unanswered(error, self._limit)) from None
        return ApiResponse(response.status, headers.get("Content-Type", ""), data, headers.get("Retry-After"))


def _unanswered(error: Exception, limit: int) -> str:
    """Return the error for the model, without the address of the API."""
    if isinstance(error, TimeoutError) or (isinstance(error, TransportError) and error.cause == "timeout"):
        return "the API did not respond in time"
    if isinstance(error, TransportError) and error.cause == "protocol":
        return f"the API sent no usable response, or more than {limit} bytes"
    return "the API cannot be reached"


class ExpectedResponse:
    """The declared schema of a response; checked if possible."""

    def __init__(self, schema: Object) -> None:
        self.schema = schema
        self._validator: Validator | None = None
        self._tried = False

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with ``value``."""
        if not self._tried:
            self._tried = True
            self._validator = validator_of(self.schema)
        found = self._validator.problem(value) if self._validator is not None else None
        return None if found is None else str(found)


def validator_of(schema: Object) -> Validator | None:
    """Return the validator, created for the first value; None if the schema cannot be used."""
    try:
        return Validator(schema)
    except SchemaError as error:
        log.warning("a response schema of the description cannot be used: %s", error)
        return None


def tool_result(answer: ApiResponse, expected: ExpectedResponse | None) -> CallToolResult:
    """Return the result of a tool.

    Raises:
        ToolError: the API returned an error, or its response does not match the description.
    """
    if answer.status >= 300:
        raise _failed(answer)
    if expected is None and not answer.data.strip():
        # 204 and other responses without a body can have a Content-Type.
        return CallToolResult([])
    if not is_json(answer.media):
        if expected is not None:
            raise _unlike(answer, "it is not JSON")
        return CallToolResult(_blocks(answer))
    try:
        value: Any = msgspec.json.decode(answer.data)
    except (ValueError, RecursionError):
        raise _unlike(answer, "it is not JSON") from None
    if expected is not None and (problem := expected.problem(value)):
        raise _unlike(answer, problem)
    structured = value if expected is not None or is_object(value) else UNSET
    return CallToolResult([TextContent(answer.text)], structured_content=structured)


def _failed(answer: ApiResponse) -> ToolError:
    data: Object = {"status": answer.status}
    if answer.retry_after is not None:
        data["retryAfter"] = answer.retry_after[:ERROR_TEXT]
    return ToolError(f"{_status(answer.status)}: {_said(answer)}".removesuffix(": "), data=data)


def _status(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _said(answer: ApiResponse) -> str:
    """Return the start of a text response."""
    if not (is_json(answer.media) or is_text(answer.media)):
        return ""
    text = answer.data[: 4 * ERROR_TEXT].decode(errors="replace")
    return text if len(text) <= ERROR_TEXT else f"{text[:ERROR_TEXT]}…"


def _unlike(answer: ApiResponse, problem: str) -> ToolError:
    """Return a response that does not match the description as text, without structured content."""
    text = f"the response of the API does not match its description ({problem})"
    return ToolError(text, content=[TextContent(text), *_blocks(answer)])


def _blocks(answer: ApiResponse) -> list[ContentBlock]:
    media = answer.media.partition(";")[0].strip().lower()
    if not answer.data:
        return []
    if is_json(media) or is_text(media) or not media:
        return [TextContent(answer.text)]
    encoded = b64encode(answer.data).decode()
    if media.startswith("image/"):
        return [ImageContent(encoded, media)]
    if media.startswith("audio/"):
        return [AudioContent(encoded, media)]
    return [EmbeddedResource(ResourceContents("api:///answer", mime_type=media, blob=encoded))]


class Read(Media):
    """The response of the API as contents of a resource."""

    def contents(self, uri: str) -> ResourceContents:
        if is_json(self.mime_type) or is_text(self.mime_type):
            return ResourceContents(uri, mime_type=self.mime_type, text=self.data.decode(errors="replace"))
        return super().contents(uri)


def contents_of(answer: ApiResponse) -> Read:
    """Read the resource.

    Raises:
        ProtocolError: the API has no such resource, or another error. Authorization errors concern this server, not
            the caller.
    """
    if answer.status >= 300:
        kind = "resource_not_found" if answer.status in _MISSING else "resource_not_readable"
        raise ProtocolError(kind, f"{_status(answer.status)}: {_said(answer)}".removesuffix(": "))
    return Read(answer.data, mime_type=answer.media.partition(";")[0].strip().lower() or None)
