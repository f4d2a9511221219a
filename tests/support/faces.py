"""The ways to reach a server in a test. Add one here and every suite that takes a `FACES` key runs over it."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from dovetail.drivers.duplex import accept, lifespan
from dovetail.transports import child, memory, tcp

from .everything import build
from .rawclient import RawClient
from .webfaces import WEB

FILE = str(Path(__file__).with_name("everything.py"))
FILES: dict[str, str] = {}
"""The file that serves a revision which `FILE` does not know."""


def ignore(data: bytes) -> None:
    """For the stderr of a child whose log is of no interest."""


@asynccontextmanager
async def over_memory(client: RawClient) -> AsyncIterator[RawClient]:
    server = build()
    async with lifespan(server.dispatcher):
        duplex = accept(server.dispatcher)
        memory.connect(client, duplex)
        yield client
        await client.close()
        await duplex.wait_closed()


@asynccontextmanager
async def over_stdio(client: RawClient) -> AsyncIterator[RawClient]:
    file = FILES.get(client.revision, FILE)
    await child.spawn(client, [sys.executable, "-m", "dovetail.cli.main", "run", file], on_stderr=ignore)
    yield client
    await client.close()


@asynccontextmanager
async def over_tcp(client: RawClient) -> AsyncIterator[RawClient]:
    server = build()
    async with lifespan(server.dispatcher):
        listener = await tcp.listen(server.dispatcher)
        await tcp.connect(client, *listener.address[:2])
        yield client
        await client.close()
        await listener.close()


Face = Callable[[RawClient], AbstractAsyncContextManager[Any]]
FACES: dict[str, Face] = {"memory": over_memory, "stdio": over_stdio, "tcp": over_tcp, **WEB}
