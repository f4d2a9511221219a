"""Every ready-made middleware, at settings that no test reaches."""

import functools
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dovetail import Server
from dovetail.middleware import (
    Audit,
    Caching,
    CircuitBreaker,
    ClientWorkarounds,
    ConcurrencyLimit,
    Logging,
    Middleware,
    Policy,
    RateLimit,
    Redaction,
    ResponseLimit,
    Retry,
    Timeout,
    Timing,
)
from dovetail.middleware.audit import verify
from dovetail.middleware.client_workarounds import WORKAROUNDS

MANY = 1_000_000


class OneForAll(Audit):
    """One audit of all servers of this process, because many tests do not stop theirs."""

    def stopped(self) -> None:
        pass


def generous(audit: Audit) -> list[Middleware]:
    """All of them; `Caching` and `Redaction` would change results, so they are set to match nothing."""
    return [
        Logging(arguments=True),
        Timing(slow_threshold=3600),
        audit,
        RateLimit(
            per_client=f"{MANY}/s",
            per_tool=f"{MANY}/s",
            total=f"{MANY}/s",
            block_period=1,
            block_threshold=MANY,
        ),
        ConcurrencyLimit(per_tool=MANY, per_principal=MANY, total=MANY, queue=MANY),
        Policy(disabled=["nothing is called so"], allow=["*"]),
        CircuitBreaker(failure_threshold=MANY),
        Timeout(3600),
        Retry(attempts=1),
        Caching(1e-9),
        Redaction(nothing="what nobody ever says \x00"),
        ClientWorkarounds(exclude=[workaround.name for workaround in WORKAROUNDS]),
        ResponseLimit(max_bytes=1 << 40),
    ]


@contextmanager
def everywhere() -> Iterator[None]:
    """Until it is left, every `Server` has them outside its own; the audit that was kept must verify at the end."""
    make: Callable[..., None] = Server.__init__

    with tempfile.TemporaryDirectory(prefix="every-middleware-") as folder:
        audit = OneForAll(Path(folder) / "audit.jsonl", arguments="redacted")

        @functools.wraps(make)
        def layered(self: Server, *args: Any, middleware: Any = (), **options: Any) -> None:
            if isinstance(middleware, Iterable):  # else it is a mistake, and to be said so
                middleware = [*generous(audit), *middleware]
            make(self, *args, middleware=middleware, **options)

        Server.__init__ = layered  # type: ignore[method-assign]
        try:
            yield
        finally:
            Server.__init__ = make  # type: ignore[method-assign]
            audit.close()
            if audit.path.exists():
                verify(audit.path)
