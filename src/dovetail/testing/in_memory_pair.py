"""A server and a client in one process, on any revision."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from ..client import Client
from ..client.connecting.targets import parse_target
from ..core.principal import Principal, as_principal
from ..errors import DovetailError


@asynccontextmanager
async def connect(
    server: Any,
    revision: str = "auto",
    *,
    principal: Principal | str | None = None,
    auth: str | None = None,
    **options: Any,
) -> AsyncGenerator[Client, None]:
    """A client connected to ``server`` in memory; ``options`` are the client's own.

    ```python
    async with connect(server, "2025-06-18", on_elicit=lambda request: {"seat": "12A"}) as client:
        assert (await client.call_tool("book", {"flight": "DY1"})).data["seat"] == "12A"
    ```

    ``principal`` is the caller, as if its token had been verified already. ``auth`` is a token, which the ``auth=`` of
    the server verifies: what it refuses raises a `DovetailError` of the kind ``authentication_failed``.
    """
    caller = await caller_of(server, principal, auth)
    target = replace(parse_target(server), principal=caller)
    async with Client(target, revision=revision, **options) as client:
        yield client


async def caller_of(server: Any, principal: Principal | str | None, auth: str | None) -> Principal | None:
    """The principal that a test names, or whose token it gives.

    Raises:
        TypeError: both are given, or ``auth`` is not a token.
        DovetailError: the server refuses the token, or has no ``auth=`` to verify it.
    """
    if auth is None:
        return as_principal(principal)
    if principal is not None:
        raise TypeError("give principal= or auth=, not both")
    if not isinstance(auth, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"auth= of a connection in memory is a token, not {type(auth).__name__}")
    verify = getattr(getattr(server, "dispatcher", server), "auth", None)
    if verify is None:
        raise DovetailError("auth= needs a server with auth=, which verifies the token")
    from ..auth.server.connection_auth import token_principal

    return await token_principal(verify, auth.removeprefix("Bearer "), {"transport": "memory"})
