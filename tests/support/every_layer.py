"""Every ready-made layer, at settings that no test reaches."""

import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dovetail import Server
from dovetail.layers import (
    Audit,
    Breaker,
    Budget,
    Cache,
    Concurrency,
    Deadline,
    Layer,
    Log,
    Masking,
    Policy,
    Quirks,
    RateLimit,
    Retry,
    Timing,
)
from dovetail.layers.audit import verify
from dovetail.layers.quirks import QUIRKS

MANY = 1_000_000


class OneForAll(Audit):
    """One audit of all servers of this process: many tests leave theirs behind without stopping them."""

    def stopped(self) -> None:
        pass


def generous(audit: Audit) -> list[Layer]:
    """All of them; `Cache` and `Masking`, which exist to change what is answered, keep and find nothing."""
    return [
        Log(arguments=True),
        Timing(slow=3600),
        audit,
        RateLimit(per_client=f"{MANY}/s", per_tool=f"{MANY}/s", total=f"{MANY}/s", block=1, violations=MANY),
        Concurrency(per_tool=MANY, per_principal=MANY, total=MANY, queue=MANY),
        Policy(disabled=["nothing is called so"], allow=["*"]),
        Breaker(failures=MANY),
        Deadline(3600),
        Retry(attempts=1),
        Cache(1e-9),
        Masking(nothing="what nobody ever says \x00"),
        Quirks(without=[quirk.name for quirk in QUIRKS]),
        Budget(bytes=1 << 40),
    ]


@contextmanager
def everywhere() -> Iterator[None]:
    """Until it is left, every `Server` has them outside its own; the audit that was kept must verify at the end."""
    make: Callable[..., None] = Server.__init__

    with tempfile.TemporaryDirectory(prefix="every-layer-") as folder:
        audit = OneForAll(Path(folder) / "audit.jsonl", arguments="redacted")

        @functools.wraps(make)
        def layered(self: Server, *args: Any, layers: Any = (), **options: Any) -> None:
            make(self, *args, layers=[*generous(audit), *layers], **options)

        Server.__init__ = layered  # type: ignore[method-assign]
        try:
            yield
        finally:
            Server.__init__ = make  # type: ignore[method-assign]
            audit.close()
            if audit.path.exists():
                verify(audit.path)
