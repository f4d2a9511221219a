"""Requests of ours by way of somebody's httpx client: what a flow wants sent is yielded to the client that asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, TypeVar

from .....errors import TransportError

T = TypeVar("T")


class Relayed:
    """The answer to a request, read already: a `client.fetch.Response`."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self._body = body

    async def read(self, limit: int) -> bytes:
        if len(self._body) > limit:
            raise TransportError(f"the answer has more than {limit} bytes", cause="protocol")
        return self._body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    def close(self) -> None:
        """Nothing is open."""


class Relay:
    """Hands the requests of one piece of work to whoever drives it, one at a time."""

    def __init__(self, like: Any) -> None:
        self._request: Any = like.__class__
        self._waiting: asyncio.Queue[tuple[Any, asyncio.Future[Relayed]]] = asyncio.Queue()
        self._asked: asyncio.Future[Relayed] | None = None

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None,
        timeout: float | None = None,
    ) -> Relayed:  # fmt: skip
        """A `client.fetch.Send`."""
        answer: asyncio.Future[Relayed] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((self._request(method, url, headers=dict(headers), content=body), answer))
        return await answer

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return asyncio.get_running_loop().create_task(work)

    async def next(self, work: asyncio.Task[Any]) -> Any:
        """The next request that ``work`` wants to be sent; None when it has ended."""
        waiting = asyncio.ensure_future(self._waiting.get())
        try:
            await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            raise
        finally:
            if not waiting.done():
                waiting.cancel()
        if not waiting.done():
            return None
        request, self._asked = waiting.result()
        return request

    async def answer(self, response: Any) -> None:
        """What became of the request that was given last."""
        body = await response.aread()
        assert self._asked is not None
        self._asked.set_result(Relayed(response.status_code, response.headers, body))
