"""`RedisStore`: a store in Redis or Valkey, for processes on any number of machines.

``redis://host:port/db`` and ``rediss://`` connect to one server,
``redis+sentinel://host:port,host:port/name/db`` to the master that the sentinels report,
``redis+cluster://host:port,host:port`` to a cluster. Redis itself decides what survives its restart: set
``appendonly yes`` there.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote

from ..errors import DovetailError
from ..extras import missing
from ..settings import check_kinds
from ..settings.parameter_kinds import SECONDS, TEXT
from . import redis_scripts as scripts
from .base import (
    GAP,
    MAX_PUBSUB_MESSAGE_BYTES,
    SCAN_PAGE,
    MessageCallback,
    StoreError,
    StoreFull,
    StoreUnavailable,
    StoreUnreadable,
    split,
)
from .topic_listeners import TopicListeners

REDIS_TIMEOUT: Final = 3.0
"""How long Redis may take to connect and to respond. An operation with its retries takes at most twice that."""
REDIS_MAX_RETRIES: Final = 3
"""Retries of one command after a lost connection."""
REDIS_RETRY_DELAY: Final = 0.1
"""Delay before the first retry. It doubles with each further one."""
REDIS_DEDUPLICATION_PERIOD: Final = 60.0
"""How long Redis stores the result of a command, so that a retried command is applied once."""
REDIS_MAX_STREAM_MESSAGES: Final = 10_000
"""Published messages that Redis retains for processes that lost their connection."""
REDIS_MAX_STREAM_BYTES: Final = 64 << 20
"""Approximate size of the retained messages of one size class."""
REDIS_MIN_STREAM_MESSAGES: Final = 16
"""Retained messages, however large they are."""
REDIS_BLOCK_TIMEOUT: Final = 2.0
"""How long one blocking read of the stream waits for messages."""


log = logging.getLogger("dovetail.stores")

VERSION: Final = 1
"""Version of the stored format. A store with a newer version is rejected."""
_ADDRESS: Final = re.compile(r"(\[[\da-fA-F:.]+\]|[^\[\]:@/]*)(?::(\d{1,5}))?")
_PATHS: Final = {"redis+sentinel": "NAME/DB", "redis+cluster": ""}
_NOTHING: Final = b"0-0"
"""The stream id before all messages."""


class RedisStore:
    """A store in Redis or Valkey, which workers on several machines can share."""

    def __init__(self, url: str, *, prefix: str = "dovetail:", timeout: float = REDIS_TIMEOUT) -> None:
        """Set the server. The connection is opened later.

        Args:
            url: ``redis://``, ``rediss://``, ``redis+sentinel://`` or ``redis+cluster://`` with host, port and
                database.
            prefix: The prefix of all keys.
            timeout: Seconds to connect, and seconds for one command. Retries end after twice that.
        """
        check_kinds(
            {
                "url": TEXT,
                "prefix": TEXT,
                "timeout": SECONDS,
            },
            locals(),
        )
        if "{" in prefix:
            raise ValueError("prefix must not contain braces: Redis Cluster uses them for hash tags")
        self.url = self._url = _validated(url)
        self.prefix = self._prefix = prefix
        self._timeout = timeout
        self._me = b""
        """The event loop that the client belongs to. A new loop (for example after a fork) gets a new client.
        """
        self._listeners = TopicListeners()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None
        self._others: list[Any] = []
        """Clients of sentinels, closed together with the main client."""
        self._errors: Any = None
        self._opening = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._digests: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"RedisStore({self._url.rpartition('@')[2]!r})"  # omits user and password

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._client, self._reader, self._opening = loop, None, None, asyncio.Lock()
            self._me = secrets.token_hex(8).encode()
        async with self._opening:
            if self._client is None:
                self._errors, client, *self._others = _connect(self._url, self._timeout)
                try:
                    last = await self._with_retries(lambda: self._check_version(client))
                except BaseException:
                    await self._close_client(client)
                    raise
                self._client = client
                self._reader = asyncio.create_task(self._read(client, last), name="dovetail-redis-news")

    async def get(self, key: str) -> bytes | None:
        value_key = self._folder(split(key)[0]) + split(key)[1]
        return await self._execute(lambda client: client.get(value_key))

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        ttl: float | None = None,
        only_new: bool = False,
        expect: bytes | None = None,
        fence: int | None = None,
    ) -> bool:
        folder, name = split(key)
        head = self._folder(folder)
        remembered = int(REDIS_DEDUPLICATION_PERIOD) if only_new or expect is not None else 0
        keys = (
            head + name,
            f"{head}#index",
            f"{head}#expiry",
            f"{head}#lease#{name}",
            self._deduplication_key(head),
        )
        wanted = b"" if expect is None else b"=" + expect
        number = "" if fence is None else str(fence)
        arguments = (name, value, _milliseconds(ttl), int(only_new), wanted, number, remembered)
        return await self._run_script(scripts.PUT, keys, arguments) == 1

    async def delete(self, key: str) -> bool:
        folder, name = split(key)
        head = self._folder(folder)
        keys = (head + name, f"{head}#index", f"{head}#expiry", self._deduplication_key(head))
        return await self._run_script(scripts.DELETE, keys, (name, int(REDIS_DEDUPLICATION_PERIOD))) == 1

    async def append(self, folder: str, value: bytes, *, keep: int, ttl: float | None = None) -> str:
        head = self._folder(folder)
        keys = (f"{head}#index", f"{head}#expiry", self._deduplication_key(head))
        arguments = (head, value, _milliseconds(ttl), keep, int(REDIS_DEDUPLICATION_PERIOD))
        return f"{folder}/{(await self._run_script(scripts.APPEND, keys, arguments)).decode()}"

    async def scan(self, folder: str, *, after: str = "", limit: int = SCAN_PAGE) -> list[tuple[str, bytes]]:
        head = self._folder(folder)
        below = f"{folder}/" if folder else ""
        found = await self._run_script(scripts.SCAN, (f"{head}#index",), (head, split(after)[1], limit))
        return [(below + found[at].decode(), found[at + 1]) for at in range(0, len(found), 2)]

    async def lease(self, key: str, owner: str, ttl: float) -> int:
        folder, name = split(key)
        keys = (f"{self._folder(folder)}#lease#{name}",)
        return int(await self._run_script(scripts.LEASE, keys, (owner, _milliseconds(max(ttl, 0)))))

    async def publish(self, topic: str, message: bytes) -> None:
        if len(message) > MAX_PUBSUB_MESSAGE_BYTES:
            raise StoreError(f"published message exceeds {MAX_PUBSUB_MESSAGE_BYTES} bytes")
        stream = self._stream
        # Retain fewer large messages, so that their total size is bounded.
        most = min(
            REDIS_MAX_STREAM_MESSAGES,
            max(REDIS_MAX_STREAM_BYTES // (len(message) + 1), REDIS_MIN_STREAM_MESSAGES),
        )
        # Notify local subscribers at once: the order of events is then the same in every store.
        self._listeners.notify(topic, message)
        await self.open()
        fields = {b"t": topic.encode(), b"m": message, b"s": self._me}
        await self._execute(lambda client: client.xadd(stream, fields, maxlen=most, approximate=True))

    def subscribe(self, topic: str, take: MessageCallback) -> Callable[[], None]:
        return self._listeners.add(topic, take)

    async def close(self) -> None:
        client, self._client = self._client, None
        reader, self._reader = self._reader, None
        if client is None or self._loop is not asyncio.get_running_loop():
            return
        while reader is not None and not reader.done():
            reader.cancel()  # redis-py sometimes treats a cancellation as a lost connection
            await asyncio.wait([reader], timeout=REDIS_RETRY_DELAY)
        await self._close_client(client)

    async def _close_client(self, client: Any) -> None:
        for each in (client, *self._others):
            await each.aclose()

    # --- internal -------------------------------------------------------------------------------------------

    @property
    def _stream(self) -> str:
        return f"{self._prefix}news"

    def _folder(self, folder: str) -> str:
        # Never empty and always terminated, so that braces in a folder name are harmless.
        return f"{self._prefix}{{{folder}/}}"

    def _deduplication_key(self, head: str) -> str:
        return f"{head}#once#{secrets.token_hex(12)}"

    async def _check_version(self, client: Any) -> bytes:
        """Check the version of the stored format and return the id of the last published message."""
        name = f"{self._prefix}version"
        noted = await client.get(name)
        if noted is None:
            await client.set(name, str(VERSION), nx=True)
        elif noted != str(VERSION).encode():
            raise StoreUnreadable(
                "the Redis store was written by a newer version of Dovetail; upgrade this process"
            )
        last = await client.xrevrange(self._stream, count=1)
        return last[0][0] if last else _NOTHING

    async def _execute(self, command: Callable[[Any], Awaitable[Any]]) -> Any:
        if self._client is None or self._loop is not asyncio.get_running_loop():
            await self.open()
        return await self._with_retries(lambda: command(self._client))

    async def _run_script(self, script: str, keys: tuple[str, ...], arguments: tuple[Any, ...]) -> Any:
        async def run(client: Any) -> Any:
            digest = self._digests.get(script)
            if digest is not None:
                try:
                    return await client.evalsha(digest, len(keys), *keys, *arguments)
                except self._errors.NoScriptError:
                    pass  # the server was restarted or replaced: send the whole script
            answer = await client.eval(script, len(keys), *keys, *arguments)
            self._digests[script] = _digest(script)
            return answer

        return await self._execute(run)

    async def _with_retries(self, command: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of ``command``. Retry after a lost connection, with exponential backoff."""
        errors = self._errors
        task = asyncio.current_task()
        assert task is not None
        asked = task.cancelling()
        until = task.get_loop().time() + 2 * self._timeout
        for attempt in range(REDIS_MAX_RETRIES + 1):
            try:
                # redis-py retries on its own, on a cluster for four times its timeout: set a hard deadline.
                async with asyncio.timeout_at(until):
                    answer = await command()
                if task.cancelling() > asked:
                    # redis-py swallows some cancellations, or treats them as a lost connection
                    raise asyncio.CancelledError
                return answer
            except StoreError:
                raise
            except errors.OutOfMemoryError as error:
                raise StoreFull from error
            except (errors.RedisError, errors.RedisClusterException, OSError) as error:
                if task.cancelling() > asked:
                    raise asyncio.CancelledError from error
                away = errors.ConnectionError | errors.TimeoutError | errors.RedisClusterException | OSError
                lost = isinstance(error, away)
                if not lost or attempt == REDIS_MAX_RETRIES or task.get_loop().time() >= until:
                    if "OOM" in str(error):
                        raise StoreFull from error
                    raise StoreUnavailable(
                        "the Redis store cannot be reached; check its URL and that it runs"
                    ) from error
            await asyncio.sleep(REDIS_RETRY_DELAY * 2**attempt)
        raise AssertionError("unreachable")

    async def _read(self, client: Any, last: bytes) -> None:
        """Deliver messages of other processes to local subscribers. Reconnect and resume after a disconnect."""
        wait = round(REDIS_BLOCK_TIMEOUT * 1000)
        pause = REDIS_RETRY_DELAY
        away = False
        while self._client is client:
            try:
                if away:
                    last = await self._resume_position(client, last)
                    away = False
                found = await client.xread({self._stream: last}, count=SCAN_PAGE, block=wait)
                entries = found[0][1] if found else ()
                if len(entries) >= REDIS_MIN_STREAM_MESSAGES and not await self._is_complete(client, last):
                    self._notify_gap()  # this reader was too slow: Redis trimmed messages it had not read
            except (self._errors.RedisError, self._errors.RedisClusterException, OSError):
                away = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, REDIS_TIMEOUT)
                continue
            pause = REDIS_RETRY_DELAY
            for at, fields in entries:
                last = at
                if fields[b"s"] != self._me:
                    self._listeners.notify(fields[b"t"].decode(), fields[b"m"])

    async def _is_complete(self, client: Any, last: bytes) -> bool:
        """Return whether no message after ``last`` was trimmed."""
        oldest = await client.xrange(self._stream, count=1)
        return last == _NOTHING or (bool(oldest) and _order(oldest[0][0]) <= _order(last))

    def _notify_gap(self) -> None:
        log.warning("published messages lost: the Redis stream was trimmed or reset during a disconnect")
        self._listeners.notify(GAP, b"")

    async def _resume_position(self, client: Any, last: bytes) -> bytes:
        """Return the stream id to resume at after a disconnect. Notify subscribers if messages are missing."""
        oldest = await client.xrange(self._stream, count=1)
        newest = await client.xrevrange(self._stream, count=1)
        if newest and _order(oldest[0][0]) <= _order(last) <= _order(newest[0][0]):
            return last
        if last != _NOTHING:
            self._notify_gap()
        # Redis may have restarted with an empty stream and new ids.
        return last if newest and _order(last) < _order(oldest[0][0]) else _NOTHING


def _order(id: bytes) -> tuple[int, int]:
    """Return a sortable form of a stream id."""
    time, _, number = id.partition(b"-")
    return int(time), int(number)


def _milliseconds(ttl: float | None) -> str:
    return "" if ttl is None else str(max(round(ttl * 1000), 1) if ttl > 0 else 0)


def _digest(script: str) -> str:
    # Redis identifies scripts by SHA-1
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()


def _connect(url: str, seconds: float) -> tuple[Any, ...]:
    """Return the redis-py exceptions module, a client for ``url``, and further clients to close.

    Raises:
        DovetailError: the extra is not installed, or the URL is not supported.
    """
    try:
        import redis.exceptions
        from redis.asyncio import Redis, RedisCluster
        from redis.asyncio.cluster import ClusterNode
        from redis.asyncio.sentinel import Sentinel
    except ImportError:
        raise missing("redis", "the Redis store") from None
    options: dict[str, Any] = {
        "socket_connect_timeout": seconds,
        "socket_timeout": seconds,
        "health_check_interval": 15,
    }
    scheme, who, places, path = _split_url(url)
    own = dict(zip(("username", "password"), map(unquote, who.split(":", 1)), strict=False)) if who else {}
    if scheme in ("redis", "rediss", "unix"):
        clients: Any = Redis
        return redis.exceptions, clients.from_url(url, **options)
    if scheme == "redis+cluster":
        nodes = [ClusterNode(*_address(place, 6379)) for place in places.split(",")]
        return redis.exceptions, RedisCluster(startup_nodes=nodes, **options, **own)
    if scheme == "redis+sentinel":
        name, _, database = path.partition("/")
        sentinel: Any = Sentinel([_address(place, 26379) for place in places.split(",")], **options)
        client = sentinel.master_for(name or "mymaster", db=int(database or 0), **options, **own)
        return redis.exceptions, client, *sentinel.sentinels
    raise DovetailError(
        f"unknown store URL scheme {scheme}://; use redis://, rediss://, redis+sentinel:// or redis+cluster://"
    )


def _split_url(url: str) -> tuple[str, str, str, str]:
    """Split a URL into scheme, credentials, addresses and path."""
    scheme, _, rest = url.partition("://")
    places, _, path = rest.partition("?")[0].partition("/")
    who, _, places = places.rpartition("@")
    return scheme, who, places, path


def _validated(url: str) -> str:
    """Return ``url`` if it is a valid Redis URL.

    Raises:
        DovetailError: the URL is not valid.
    """
    scheme, _, places, path = _split_url(url)
    if scheme == "unix":
        return url
    if scheme not in ("redis", "rediss", "redis+sentinel", "redis+cluster"):
        raise DovetailError(
            f"unknown store URL scheme {scheme}://; use redis://, rediss://, redis+sentinel:// or redis+cluster://"
        )
    database = (path.partition("/")[2] if scheme == "redis+sentinel" else path).rstrip("/")
    if not re.fullmatch(r"\d*", database) or not all(map(_ADDRESS.fullmatch, places.split(","))):
        raise DovetailError(
            f"not a valid Redis store URL; use {scheme}://HOST:PORT/{_PATHS.get(scheme, 'DB')}"
        )
    return url


def _address(place: str, port: int) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(place)
    assert found is not None  # see _validated
    return found[1].strip("[]"), int(found[2] or port)
