"""A session of an original server, in memory: the link between a Dovetail client and a pair of anyio streams.

Each request has an exchange, as over HTTP. The task of the caller receives what the original sends about it, so
that a server request in the middle of a call reaches the client that made the call.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, Self, cast

import msgspec

from ..client.conversation import Conversation
from ..core.channel import Call, Link
from ..drivers.requests import OutgoingRequest
from ..errors import TransportError
from ..model.meta import VIA
from .versions import CREATED_TASK, MESSAGE, METADATA, REQUEST, STREAMS, Sdk, load

log = logging.getLogger("dovetail.compat")

RunSession = Callable[[Any, Any], Awaitable[None]]
"""Serves one session of the original on a pair of streams, until the first of them ends."""

HTTP_SCOPE: Final = "dovetail.compat.scope"
"""The member of an ASGI scope with the scope that the original's application was called with."""
END_SECONDS: Final = 5.0
"""How long a session of the original may take to end once its client has disconnected."""

exchanging: ContextVar[str | None] = ContextVar("dovetail_compat_exchange", default=None)
"""The id of the request that is being sent."""
incoming: ContextVar[Call | None] = ContextVar("dovetail_compat_call", default=None)
"""The call of the downstream client that is being forwarded."""


class Messages:
    """The messages of one major version of the SDK; ``handlers`` are those of the server, by request type."""

    def __init__(self, sdk: Sdk, handlers: Mapping[Any, Any] | None = None) -> None:
        self.sdk = sdk
        self._handlers = handlers or {}
        self._subscribe: Any = None if sdk.subscribe is None else load(sdk.subscribe)
        self._decode: Any = load(sdk.decode)
        self._message: Any = load(MESSAGE)
        self._metadata: Any = load(METADATA)
        self._request: Any = load(REQUEST)
        self._context: Any = None if sdk.request_context is None else load(sdk.request_context)

    def wrap(self, message: Mapping[str, Any], scope: Mapping[str, Any], released: Any = None) -> Any:
        """A ``SessionMessage``, with the HTTP request that it arrived in, if there is one."""
        decoded = self._decode(message, **self.sdk.decode_options)
        scope = scope.get(HTTP_SCOPE, scope)
        if scope.get("type") != "http":
            return self._message(decoded)
        metadata = self._metadata(request_context=self._request(scope), close_sse_stream=released)
        return self._message(decoded, metadata)

    def unwrap(self, item: Any) -> tuple[bytes, Any]:
        """The bytes of a ``SessionMessage``, and the id of the request that it belongs to."""
        message = item.message.root if self.sdk.root else item.message
        result = getattr(message, "result", None)
        if self.sdk.tasks:
            _repair_tasks(result)
            _repair_tasks(getattr(message, "params", None))
        if isinstance(result, dict) and "protocolVersion" in result:
            self._declare(cast("dict[str, Any]", result)["capabilities"])
        data = item.message.model_dump_json(**self.sdk.encode_options).encode()
        if not hasattr(message, "method"):
            return data, message.id
        about = getattr(item.metadata, "related_request_id", None)
        return data, self._handled() if about is None else about

    def _declare(self, capabilities: dict[str, Any]) -> None:
        """Declare the notifications that the original may send. The SDK sends some that it does not declare."""
        for kind in ("tools", "resources", "prompts"):
            if isinstance(declared := capabilities.get(kind), dict):
                declared["listChanged"] = True
        if self._subscribe in self._handlers and "resources" in capabilities:
            capabilities["resources"]["subscribe"] = True

    def _handled(self) -> Any:
        """The id of the request whose handler runs here."""
        context: Any = None if self._context is None else self._context.get(None)
        return exchanging.get() if context is None else context.request_id

    def stream(self) -> tuple[Any, Callable[[Any], None], Any]:
        """A stream that the original reads: its inlet, a function that writes to it, and its outlet."""
        make: Any = load(STREAMS)
        inlet, outlet = make(math.inf)
        if self.sdk.context_stream is None:
            return inlet, inlet.send_nowait, outlet
        outlet = load(self.sdk.context_stream)(outlet)
        return inlet, lambda item: inlet.send_nowait((contextvars.copy_context(), item)), outlet


class WriteStream:
    """The stream that the original writes to. It runs in the task of the handler that writes."""

    def __init__(self, deliver: Callable[[Any], None]) -> None:
        self._deliver = deliver

    async def send(self, item: Any) -> None:
        self._deliver(item)
        await asyncio.sleep(0)

    async def aclose(self) -> None: ...

    def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


class MemorySession(Link):
    """One session of the original: the link that a client's conversation writes to."""

    def __init__(
        self, conversation: Conversation, messages: Messages, run: RunSession, idle_timeout: float | None
    ) -> None:
        self._conversation = conversation
        self._messages = messages
        self._loop = asyncio.get_running_loop()
        self._opened_for = incoming.get()
        self._inlet, self._put, read = messages.stream()
        write = WriteStream(self._deliver)
        self._exchanges: dict[Any, tuple[deque[bytes], asyncio.Event]] = {}
        self._subscriptions = 0
        self._closed = False
        # A legacy session ends with the session of its client. One for clients without sessions expires.
        shared = self._opened_for is not None and self._opened_for.session is None
        self._idle_timeout = idle_timeout if shared else None
        self._expiry: asyncio.TimerHandle | None = None
        self._task = self._loop.create_task(self._live(run, read, write), name="dovetail-compat-session")
        conversation.connected(self, self._exchange)
        self._touch()

    # --- to the original ----------------------------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        if not self._closed:
            self._forward(msgspec.json.decode(message))

    async def drain(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def _forward(self, message: dict[str, Any], released: Any = None) -> None:
        params = message.get("params")
        if isinstance(params, dict):
            _forget_proxy(cast("dict[str, Any]", params))
        call = incoming.get()
        self._put(self._messages.wrap(message, {} if call is None else call.scope, released))

    async def _exchange(self, outgoing: OutgoingRequest) -> None:
        """Send a request; receive its response and related messages in the task of the caller."""
        if self._closed:
            raise TransportError("the original server has ended this session", cause="closed")
        message: dict[str, Any] = msgspec.json.decode(outgoing.data)
        match outgoing.method:
            case "initialize":
                self._introduce(message["params"])
            case "resources/subscribe":
                self._subscriptions += 1
            case "resources/unsubscribe":
                self._subscriptions = max(0, self._subscriptions - 1)
            case _:
                pass
        key = str(outgoing.id)
        inbox, arrived = self._exchanges[key] = deque[bytes](), asyncio.Event()
        token = exchanging.set(key)
        try:
            self._forward(message, outgoing.released)
            while not outgoing.future.done():
                await arrived.wait()
                arrived.clear()
                while inbox:
                    self._conversation.received(inbox.popleft())
        finally:
            exchanging.reset(token)
            del self._exchanges[key]
            for data in inbox:
                self._conversation.received(data)
            self._touch()

    def _introduce(self, params: dict[str, Any]) -> None:
        """Put the downstream client's name and capabilities into the ``initialize`` request."""
        call = self._opened_for
        if call is None or call.session is None:
            return
        declared = cast("dict[str, Any]", msgspec.to_builtins(dict(call.capabilities)))
        params["capabilities"] = {
            name: value for name, value in declared.items() if name in params["capabilities"]
        }
        if call.client_info:
            params["clientInfo"] = dict(call.client_info)

    # --- from the original --------------------------------------------------------------------------------------------

    async def _live(self, run: RunSession, read: Any, write: Any) -> None:
        reason: TransportError | None = None
        try:
            await run(read, write)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            log.exception("a session of the original server failed")
            text = f"the session of the original server failed: {type(error).__name__}"
            reason = TransportError(text, cause="crash")
        finally:
            self._closed = True
            self._inlet.close()
            if self._expiry is not None:
                self._expiry.cancel()
            self._loop.call_soon(self._conversation.lost, reason)  # after the messages that are scheduled

    def _deliver(self, item: Any) -> None:
        data, about = self._messages.unwrap(item)
        exchange = self._exchanges.get(str(about))
        if exchange is None:
            self._loop.call_soon(self._conversation.received, data)
        else:
            exchange[0].append(data)
            exchange[1].set()

    # --- the end ------------------------------------------------------------------------------------------------------

    def _touch(self) -> None:
        """Restart the idle timeout."""
        if self._expiry is not None:
            self._expiry.cancel()
        if self._idle_timeout is not None and not self._closed:
            self._expiry = self._loop.call_later(self._idle_timeout, self._expire)

    def _expire(self) -> None:
        if self._exchanges or self._subscriptions:
            self._touch()
        else:
            self._inlet.close()

    def close(self) -> None:
        self._closed = True
        self._inlet.close()

    def abort(self) -> None:
        self.close()
        self._task.cancel()

    async def wait_closed(self) -> None:
        """Wait until the original has ended the session; cancel it after `END_SECONDS`."""
        done, _ = await asyncio.wait([self._task], timeout=END_SECONDS)
        if not done:
            self._task.cancel()
            await asyncio.wait([self._task])


def _repair_tasks(found: Any) -> None:
    """Write tasks as 2025-11-25 has them.

    The SDK 1.x leaves out a ``ttl`` that is null. FastMCP 2 puts a created task into the ``_meta`` of an empty result.
    """
    if not isinstance(found, dict):
        return
    members = cast("dict[str, Any]", found)
    meta = cast("dict[str, Any]", members.get("_meta") or {})
    if (created := meta.get(CREATED_TASK)) is not None:
        now = datetime.now(UTC).isoformat()
        members.clear()
        members["task"] = {"createdAt": now, "lastUpdatedAt": now, **created}
    if "taskId" in members and "status" in members:
        members.setdefault("ttl", None)
    _repair_tasks(members.get("task"))
    for task in members.get("tasks") or ():
        _repair_tasks(task)


def _forget_proxy(params: dict[str, Any]) -> None:
    """Remove the member that Dovetail's proxies add to ``_meta``."""
    meta = cast("dict[str, Any] | None", params.get("_meta"))
    if isinstance(meta, dict) and meta.pop(VIA, None) is not None and not meta:
        del params["_meta"]


def guard(server: Any, sdk: Sdk) -> None:
    """Wrap the handlers: one that calls ``sys.exit`` or raises a `BaseException` ends its call only."""
    if sdk.middleware is not None:
        around: list[Any] = getattr(server, sdk.middleware)
        if _guarded not in around:
            around.insert(0, _guarded)
    if sdk.handlers is not None:
        handlers: dict[Any, Any] = getattr(server, sdk.handlers)
        for kind, handler in handlers.items():
            if not isinstance(handler, _Guarded):
                handlers[kind] = _Guarded(handler)


class _Guarded:
    """A request handler that cannot end the process."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    async def __call__(self, request: Any) -> Any:
        return await _contained(self._handler(request))


async def _guarded(context: Any, call_next: Any) -> Any:
    return await _contained(call_next(context))


async def _contained(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except SystemExit as end:
        raise RuntimeError(f"the handler called sys.exit({end.code!r})") from end
    except BaseException as error:
        raise RuntimeError(f"the handler failed: {type(error).__name__}") from error


class SessionConnector:
    """Opens sessions of one original server, for a `Client`."""

    http = False

    def __init__(self, server: Any, messages: Messages, run: RunSession, idle_timeout: float | None) -> None:
        self._server, self._messages, self._run, self._idle_timeout = server, messages, run, idle_timeout

    async def open(self, conversation: Conversation, transport: str) -> None:
        guard(self._server, self._messages.sdk)  # for each session: handlers may have been added
        MemorySession(conversation, self._messages, self._run, self._idle_timeout)

    async def release(self, link: Link) -> None:
        try:
            await link.wait_closed()
        except asyncio.CancelledError:
            link.abort()
            await link.wait_closed()
            raise
