"""Every ready-made layer, at settings that no test reaches."""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dovetail import Server
from dovetail.core.channel import Call, Channel
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
from dovetail.layers.quirks import QUIRKS

MANY = 1_000_000


class OpenedForALine(Audit):
    """An audit that leaves no file open, for tests that leave their servers behind."""

    async def message(self, call: Call, channel: Channel, proceed: Any) -> Any:
        try:
            return await super().message(call, channel, proceed)
        finally:
            self.close()


def generous() -> list[Layer]:
    """All of them; `Cache` and `Masking`, which exist to change what is answered, with nothing to find here."""
    folder = Path(tempfile.mkdtemp(prefix="every-layer-"))
    return [
        Log(arguments=True),
        Timing(slow=3600),
        OpenedForALine(folder / "audit.jsonl", arguments="redacted"),
        RateLimit(per_client=f"{MANY}/s", per_tool=f"{MANY}/s", total=f"{MANY}/s", block=1, violations=MANY),
        Concurrency(per_tool=MANY, per_principal=MANY, total=MANY, queue=MANY),
        Policy(disabled=["nothing is called so"], allow=["*"]),
        Breaker(failures=MANY),
        Deadline(3600),
        Retry(attempts=1),
        Cache(3600, tools=["nothing is called so"]),
        Masking(nothing="what nobody ever says \x00"),
        Quirks(without=[quirk.name for quirk in QUIRKS]),
        Budget(bytes=1 << 40),
    ]


def everywhere() -> None:
    """From now on every `Server` has them outside its own."""
    make: Callable[..., None] = Server.__init__

    @functools.wraps(make)
    def layered(self: Server, *args: Any, layers: Any = (), **options: Any) -> None:
        make(self, *args, layers=[*generous(), *layers], **options)

    Server.__init__ = layered  # type: ignore[method-assign]
