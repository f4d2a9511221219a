"""One request to the API, bounded in time and size, and what its answer becomes: a result, contents, an error."""

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
from ..server.execution import Enter
from ..server.media import Media
from ..shapes import Object, is_object
from .operation_arguments import Request
from .operations import is_json
from .request_bodies import is_text

ERROR_TEXT: Final = 2_000
"""Characters of an answer that says what went wrong."""


log = logging.getLogger("dovetail.openapi")

_MISSING = frozenset({404, 410})


class Answer(NamedTuple):
    """What the API said."""

    status: int
    media: str
    data: bytes
    retry_after: str | None = None

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


class Api:
    """The API behind a server, at one address that no argument changes."""

    def __init__(self, fetch: Fetch, base: str, *, timeout: float | None, limit: int) -> None:
        self._fetch = fetch
        self._base = base
        self._timeout = timeout
        self._limit = limit
        self._send: Send | None = None

    def around(self, enter: Enter | None) -> Enter:
        """A lifespan with connections to the API in it."""

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

    async def ask(self, request: Request) -> Answer:
        """Send ``request``.

        Raises:
            ToolError: there is no answer, or none in time, or one that is too large.
        """
        if self._send is None:
            raise StateError("the server of this API is not running")
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
            log.warning("%s: %s", request.method, error or "no answer in time")
            raise ToolError(_unanswered(error, self._limit)) from None
        return Answer(response.status, headers.get("Content-Type", ""), data, headers.get("Retry-After"))


def _unanswered(error: Exception, limit: int) -> str:
    """What is told of it: nothing of where the API is."""
    if isinstance(error, TimeoutError) or (isinstance(error, TransportError) and error.cause == "timeout"):
        return "the API did not answer in time"
    if isinstance(error, TransportError) and error.cause == "protocol":
        return f"the API gave no usable answer, or one of more than {limit} bytes"
    return "the API cannot be reached"


class Expected:
    """The schema an answer is said to have; checked where it can be."""

    def __init__(self, schema: Object) -> None:
        self.schema = schema
        self._validator: Validator | None = None
        self._tried = False

    def problem(self, value: Any) -> str | None:
        """What is wrong with ``value``, in a few words."""
        if not self._tried:
            self._tried = True
            self._validator = validator_of(self.schema)
        found = self._validator.problem(value) if self._validator is not None else None
        return None if found is None else str(found)


def validator_of(schema: Object) -> Validator | None:
    """What checks values, made when the first one comes; None for a schema that cannot be checked."""
    try:
        return Validator(schema)
    except SchemaError as error:
        log.warning("a schema of the description cannot be checked: %s", error)
        return None


def tool_result(answer: Answer, expected: Expected | None) -> CallToolResult:
    """The result of a tool.

    Raises:
        ToolError: the API says that it failed, or answers with something else than its description says.
    """
    if answer.status >= 300:
        raise _failed(answer)
    if expected is None and not answer.data.strip():
        # 204, and whatever else has no body: frameworks send it with their usual Content-Type.
        return CallToolResult([])
    if not is_json(answer.media):
        if expected is not None:
            raise _unlike(answer, "it is no JSON")
        return CallToolResult(_blocks(answer))
    try:
        value: Any = msgspec.json.decode(answer.data)
    except (ValueError, RecursionError):
        raise _unlike(answer, "it is no JSON") from None
    if expected is not None and (problem := expected.problem(value)):
        raise _unlike(answer, problem)
    structured = value if expected is not None or is_object(value) else UNSET
    return CallToolResult([TextContent(answer.text)], structured_content=structured)


def _failed(answer: Answer) -> ToolError:
    data: Object = {"status": answer.status}
    if answer.retry_after is not None:
        data["retryAfter"] = answer.retry_after[:ERROR_TEXT]
    return ToolError(f"{_status(answer.status)}: {_said(answer)}".removesuffix(": "), data=data)


def _status(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _said(answer: Answer) -> str:
    """As much of an answer as helps, if it is text at all."""
    if not (is_json(answer.media) or is_text(answer.media)):
        return ""
    text = answer.data[: 4 * ERROR_TEXT].decode(errors="replace")
    return text if len(text) <= ERROR_TEXT else f"{text[:ERROR_TEXT]}…"


def _unlike(answer: Answer, problem: str) -> ToolError:
    """An answer that is not as described is shown all the same, but not as what was promised."""
    text = f"the answer of the API is not what its description says ({problem})"
    return ToolError(text, content=[TextContent(text), *_blocks(answer)])


def _blocks(answer: Answer) -> list[ContentBlock]:
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
    """What the API answered, as contents of whichever resource was read."""

    def contents(self, uri: str) -> ResourceContents:
        if is_json(self.mime_type) or is_text(self.mime_type):
            return ResourceContents(uri, mime_type=self.mime_type, text=self.data.decode(errors="replace"))
        return super().contents(uri)


def contents_of(answer: Answer) -> Read:
    """What is read.

    Raises:
        ProtocolError: the API says that there is nothing, or gives no reason that concerns the caller: whom the API
            lets in is between it and us.
    """
    if answer.status >= 300:
        kind = "resource_not_found" if answer.status in _MISSING else "resource_not_readable"
        raise ProtocolError(kind, f"{_status(answer.status)}: {_said(answer)}".removesuffix(": "))
    return Read(answer.data, mime_type=answer.media.partition(";")[0].strip().lower() or None)
