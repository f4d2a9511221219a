"""A store in Redis or Valkey, for processes on any number of machines.

``redis://host:port/db`` and ``rediss://`` are one server, ``redis+sentinel://host:port,host:port/name/db`` whichever
server the sentinels name, ``redis+cluster://host:port,host:port`` a cluster. What survives a restart is Redis' own
business: set ``appendonly yes`` there.
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
from ..settings import SCAN_PAGE
from . import redis_scripts as scripts
from .base import GAP, StoreError, StoreFull, StoreUnavailable, StoreUnreadable, Take, split
from .store_limits import (
    BUS_MESSAGE,
    REDIS_LISTEN_SECONDS,
    REDIS_NEWS,
    REDIS_NEWS_BYTES,
    REDIS_NEWS_LEAST,
    REDIS_REMEMBERED,
    REDIS_REPEAT_SECONDS,
    REDIS_REPEATS,
    REDIS_SECONDS,
)
from .topic_listeners import Listeners

log = logging.getLogger("dovetail.stores")

VERSION: Final = 1
"""Of how things are kept; where a newer one is noted nothing is touched."""
_ADDRESS: Final = re.compile(r"(\[[\da-fA-F:.]+\]|[^\[\]:@/]*)(?::(\d{1,5}))?")
_PATHS: Final = {"redis+sentinel": "NAME/DB", "redis+cluster": ""}
_NOTHING: Final = b"0-0"
"""Before all news."""


class RedisStore:
    """A store in Redis or Valkey, which workers on several machines can share."""

    def __init__(self, url: str, *, prefix: str = "dovetail:", timeout: float = REDIS_SECONDS) -> None:
        """Set the server. The connection is opened later.

        Args:
            url: ``redis://``, ``rediss://``, ``redis+sentinel://`` or ``redis+cluster://`` with host, port and
                database.
            prefix: The prefix of all keys.
            timeout: Seconds to connect, and seconds for one command.
        """
        if "{" in prefix:
            raise ValueError("a prefix has no braces: they say where a cluster keeps a key")
        self.url = self._url = _checked(url)
        self.prefix = self._prefix = prefix
        self._seconds = timeout
        self._me = b""
        """Ours is new with each loop: processes that were forked from one with this store are not the same."""
        self._listeners = Listeners()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None
        self._others: list[Any] = []
        """Clients of sentinels, to be closed with ours."""
        self._errors: Any = None
        self._opening = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._digests: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"RedisStore({self._url.rpartition('@')[2]!r})"  # never the password

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._client, self._reader, self._opening = loop, None, None, asyncio.Lock()
            self._me = secrets.token_hex(8).encode()
        async with self._opening:
            if self._client is None:
                self._errors, client, *self._others = _connect(self._url, self._seconds)
                try:
                    last = await self._repeated(lambda: self._first(client))
                except BaseException:
                    await self._leave(client)
                    raise
                self._client = client
                self._reader = asyncio.create_task(self._read(client, last), name="dovetail-redis-news")

    async def get(self, key: str) -> bytes | None:
        value_key = self._folder(split(key)[0]) + split(key)[1]
        return await self._run(lambda client: client.get(value_key))

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
        remembered = int(REDIS_REMEMBERED) if only_new or expect is not None else 0
        keys = (head + name, f"{head}#index", f"{head}#expiry", f"{head}#lease#{name}", self._once(head))
        wanted = b"" if expect is None else b"=" + expect
        number = "" if fence is None else str(fence)
        arguments = (name, value, _milliseconds(ttl), int(only_new), wanted, number, remembered)
        return await self._script(scripts.PUT, keys, arguments) == 1

    async def delete(self, key: str) -> bool:
        folder, name = split(key)
        head = self._folder(folder)
        keys = (head + name, f"{head}#index", f"{head}#expiry", self._once(head))
        return await self._script(scripts.DELETE, keys, (name, int(REDIS_REMEMBERED))) == 1

    async def append(self, folder: str, value: bytes, *, keep: int, ttl: float | None = None) -> str:
        head = self._folder(folder)
        keys = (f"{head}#index", f"{head}#expiry", self._once(head))
        arguments = (head, value, _milliseconds(ttl), keep, int(REDIS_REMEMBERED))
        return f"{folder}/{(await self._script(scripts.APPEND, keys, arguments)).decode()}"

    async def scan(self, folder: str, *, after: str = "", limit: int = SCAN_PAGE) -> list[tuple[str, bytes]]:
        head = self._folder(folder)
        below = f"{folder}/" if folder else ""
        found = await self._script(scripts.SCAN, (f"{head}#index",), (head, split(after)[1], limit))
        return [(below + found[at].decode(), found[at + 1]) for at in range(0, len(found), 2)]

    async def lease(self, key: str, owner: str, ttl: float) -> int:
        folder, name = split(key)
        keys = (f"{self._folder(folder)}#lease#{name}",)
        return int(await self._script(scripts.LEASE, keys, (owner, _milliseconds(max(ttl, 0)))))

    async def publish(self, topic: str, message: bytes) -> None:
        if len(message) > BUS_MESSAGE:
            raise StoreError(f"news may have {BUS_MESSAGE} bytes")
        stream = self._stream
        # Of large pieces fewer are kept, so that all of them together have a bound.
        most = min(REDIS_NEWS, max(REDIS_NEWS_BYTES // (len(message) + 1), REDIS_NEWS_LEAST))
        # The listeners here hear it at once, so that the order of things is the same in every store.
        self._listeners.tell(topic, message)
        await self.open()
        fields = {b"t": topic.encode(), b"m": message, b"s": self._me}
        await self._run(lambda client: client.xadd(stream, fields, maxlen=most, approximate=True))

    def subscribe(self, topic: str, take: Take) -> Callable[[], None]:
        return self._listeners.add(topic, take)

    async def close(self) -> None:
        client, self._client = self._client, None
        reader, self._reader = self._reader, None
        if client is None or self._loop is not asyncio.get_running_loop():
            return
        while reader is not None and not reader.done():
            reader.cancel()  # redis-py takes a cancellation for a lost connection now and then
            await asyncio.wait([reader], timeout=REDIS_REPEAT_SECONDS)
        await self._leave(client)

    async def _leave(self, client: Any) -> None:
        for each in (client, *self._others):
            await each.aclose()

    # --- inside -------------------------------------------------------------------------------------------

    @property
    def _stream(self) -> str:
        return f"{self._prefix}news"

    def _folder(self, folder: str) -> str:
        # Never empty and always ended, so that braces in a folder's own name do no harm.
        return f"{self._prefix}{{{folder}/}}"

    def _once(self, head: str) -> str:
        return f"{head}#once#{secrets.token_hex(12)}"

    async def _first(self, client: Any) -> bytes:
        """Check the version, and where the news is now."""
        name = f"{self._prefix}version"
        noted = await client.get(name)
        if noted is None:
            await client.set(name, str(VERSION), nx=True)
        elif noted != str(VERSION).encode():
            raise StoreUnreadable("the store was written by a newer version")
        last = await client.xrevrange(self._stream, count=1)
        return last[0][0] if last else _NOTHING

    async def _run(self, command: Callable[[Any], Awaitable[Any]]) -> Any:
        if self._client is None or self._loop is not asyncio.get_running_loop():
            await self.open()
        return await self._repeated(lambda: command(self._client))

    async def _script(self, script: str, keys: tuple[str, ...], arguments: tuple[Any, ...]) -> Any:
        async def run(client: Any) -> Any:
            digest = self._digests.get(script)
            if digest is not None:
                try:
                    return await client.evalsha(digest, len(keys), *keys, *arguments)
                except self._errors.NoScriptError:
                    pass  # a server that was restarted, or another one
            answer = await client.eval(script, len(keys), *keys, *arguments)
            self._digests[script] = _digest(script)
            return answer

        return await self._run(run)

    async def _repeated(self, command: Callable[[], Awaitable[Any]]) -> Any:
        """What ``command`` brings, sent again when its connection was lost."""
        errors = self._errors
        task = asyncio.current_task()
        assert task is not None
        asked = task.cancelling()
        until = task.get_loop().time() + 2 * self._seconds
        for attempt in range(REDIS_REPEATS + 1):
            try:
                # redis-py looks for another way by itself, again and again: of a cluster for the fourfold of its time.
                async with asyncio.timeout_at(until):
                    answer = await command()
                if task.cancelling() > asked:
                    raise asyncio.CancelledError  # redis-py swallows some, or takes them for a lost connection
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
                if not lost or attempt == REDIS_REPEATS or task.get_loop().time() >= until:
                    if "OOM" in str(error):
                        raise StoreFull from error
                    raise StoreUnavailable("the store cannot be reached") from error
            await asyncio.sleep(REDIS_REPEAT_SECONDS * 2**attempt)
        raise AssertionError("unreachable")

    async def _read(self, client: Any, last: bytes) -> None:
        """Tell the listeners here what the others publish, also after a time without a connection."""
        wait = round(REDIS_LISTEN_SECONDS * 1000)
        pause = REDIS_REPEAT_SECONDS
        away = False
        while self._client is client:
            try:
                if away:
                    last = await self._resumed(client, last)
                    away = False
                found = await client.xread({self._stream: last}, count=SCAN_PAGE, block=wait)
                entries = found[0][1] if found else ()
                if len(entries) >= REDIS_NEWS_LEAST and not await self._whole(client, last):
                    self._tell_gap()  # we were so slow that some were taken away before we came
            except (self._errors.RedisError, self._errors.RedisClusterException, OSError):
                away = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, REDIS_SECONDS)
                continue
            pause = REDIS_REPEAT_SECONDS
            for at, fields in entries:
                last = at
                if fields[b"s"] != self._me:
                    self._listeners.tell(fields[b"t"].decode(), fields[b"m"])

    async def _whole(self, client: Any, last: bytes) -> bool:
        """Whether all that came after ``last`` is still there."""
        oldest = await client.xrange(self._stream, count=1)
        return last == _NOTHING or (bool(oldest) and _order(oldest[0][0]) <= _order(last))

    def _tell_gap(self) -> None:
        log.warning("news was lost: Redis was away for too long, or has forgotten it")
        self._listeners.tell(GAP, b"")

    async def _resumed(self, client: Any, last: bytes) -> bytes:
        """Where to go on after a time without a connection; the listeners are told if something is missing."""
        oldest = await client.xrange(self._stream, count=1)
        newest = await client.xrevrange(self._stream, count=1)
        if newest and _order(oldest[0][0]) <= _order(last) <= _order(newest[0][0]):
            return last
        if last != _NOTHING:
            self._tell_gap()
        # What there is now may have been numbered anew.
        return last if newest and _order(last) < _order(oldest[0][0]) else _NOTHING


def _order(id: bytes) -> tuple[int, int]:
    """An id of a stream, such that the later one is greater."""
    time, _, number = id.partition(b"-")
    return int(time), int(number)


def _milliseconds(ttl: float | None) -> str:
    return "" if ttl is None else str(max(round(ttl * 1000), 1) if ttl > 0 else 0)


def _digest(script: str) -> str:
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()  # how Redis calls it


def _connect(url: str, seconds: float) -> tuple[Any, ...]:
    """The module of errors, a client for ``url``, and the clients it needs itself.

    Raises:
        DovetailError: the extra is not installed, or the URL is none of ours.
    """
    try:
        import redis.exceptions
        from redis.asyncio import Redis, RedisCluster
        from redis.asyncio.cluster import ClusterNode
        from redis.asyncio.sentinel import Sentinel
    except ImportError:
        raise missing("redis", "a store in Redis") from None
    options: dict[str, Any] = {
        "socket_connect_timeout": seconds,
        "socket_timeout": seconds,
        "health_check_interval": 15,
    }
    scheme, who, places, path = _parts(url)
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
    raise DovetailError(f"no store has a URL that begins with {scheme}://")


def _parts(url: str) -> tuple[str, str, str, str]:
    """Scheme, user and password, places, path."""
    scheme, _, rest = url.partition("://")
    places, _, path = rest.partition("?")[0].partition("/")
    who, _, places = places.rpartition("@")
    return scheme, who, places, path


def _checked(url: str) -> str:
    """``url``, if it may name a Redis.

    Raises:
        DovetailError: it does not.
    """
    scheme, _, places, path = _parts(url)
    if scheme == "unix":
        return url
    if scheme not in ("redis", "rediss", "redis+sentinel", "redis+cluster"):
        raise DovetailError(f"no store has a URL that begins with {scheme}://")
    database = (path.partition("/")[2] if scheme == "redis+sentinel" else path).rstrip("/")
    if not re.fullmatch(r"\d*", database) or not all(map(_ADDRESS.fullmatch, places.split(","))):
        raise DovetailError(f"a store in Redis is {scheme}://HOST:PORT/{_PATHS.get(scheme, 'DB')}")
    return url


def _address(place: str, port: int) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(place)
    assert found is not None  # see _checked
    return found[1].strip("[]"), int(found[2] or port)
