"""`ClientWorkarounds`: accept known protocol violations of known clients.

```python
Server("shop")                                                            # every row of the table
Server("shop", middleware=[ClientWorkarounds("accept-without-events")])   # only this one
Server("shop", client_workarounds=False)                                  # none
```

The table is data. A row applies to any client whose message violates the rule in exactly that way, because
few clients identify themselves in a header. A server loads the table with the first such message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from ..drivers.middleware_chain import Middleware, admission_of
from ..server import Server
from ..settings import check_kinds
from ..settings.parameter_kinds import NAMES


class Workaround(Struct, frozen=True, kw_only=True):
    """One accepted violation of a rule."""

    name: str
    violated_rule: str
    """The rule and its source."""
    behavior: str
    """What the server does instead of refusing."""
    seen_in: tuple[str, ...]
    """Clients with this violation (sources in `docs/middleware.md`); later versions may be fixed."""


WORKAROUNDS: Final = (
    Workaround(
        name="accept-without-events",
        violated_rule="Streamable HTTP: Accept MUST list application/json and text/event-stream; it lists only JSON",
        behavior="the request is served; a streamed response is streamed anyway",
        seen_in=("Claude Code 2.1", "Gemini CLI", "Open WebUI", "Dify's MCP plugin"),
    ),
    Workaround(
        name="accept-without-json",
        violated_rule="Streamable HTTP: Accept MUST list application/json and text/event-stream; it lists only events",
        behavior="the request is served; a response without a stream is JSON",
        seen_in=("Java SDK",),
    ),
    Workaround(
        name="version-not-negotiated",
        violated_rule="Streamable HTTP: MCP-Protocol-Version MUST be the negotiated version; it is another",
        behavior="the version of the session applies",
        seen_in=("Laravel MCP 0.8", "AI SDK MCP", "Java SDK"),
    ),
    Workaround(
        name="modern-header-on-legacy",
        violated_rule="initialize or a session message has an MCP-Protocol-Version without sessions",
        behavior="the header is ignored; a client may initialize after server/discover",
        seen_in=("Claude", "AI SDK MCP", "Hermes Agent"),
    ),
)
"""All workarounds."""
_NAMES: Final = tuple(workaround.name for workaround in WORKAROUNDS)


class WorkaroundUse(Struct, frozen=True, kw_only=True):
    """A row of the table with its use in one server."""

    workaround: Workaround
    on: bool
    count: int
    """Applications in this process; `dovetail_client_workarounds_total` is the sum of all processes."""


class ClientWorkarounds(Middleware):
    """Apply the named workarounds, or all except those in ``exclude``.

    Raises:
        ValueError: the name is unknown.
    """

    def __init__(self, *names: str, exclude: Iterable[str] = ()) -> None:
        """Choose the workarounds; without names, all of the table.

        Args:
            names: Names of the workarounds to switch on.
            exclude: Names of workarounds to leave out.
        """
        check_kinds(
            {
                "exclude": NAMES,
            },
            locals(),
        )
        left = frozenset(exclude)
        unknown = {*names, *left} - set(_NAMES)
        if unknown:
            raise ValueError(f"unknown workaround {min(unknown)!r}; use {', '.join(_NAMES)}")
        self.counts = {name: 0 for name in names or _NAMES if name not in left}
        """How often each was applied."""

    def attach(self, service: Any) -> None:
        admission_of(service).is_check_disabled = self.applies

    def applies(self, name: str) -> bool:
        """Return whether the workaround is active, and count its use."""
        if name not in self.counts:
            return False
        self.counts[name] += 1
        return True

    def measure(self) -> Iterable[tuple[str, tuple[str, ...], float]]:
        return [
            ("dovetail_client_workarounds_total", (name,), count)
            for name, count in self.counts.items()
            if count
        ]


def workarounds_of(server: Server) -> list[WorkaroundUse]:
    """Return the table with its use in ``server``."""
    found = [each.counts for each in server.middleware if isinstance(each, ClientWorkarounds)]
    if not found and server.dispatcher.settings.client_workarounds:
        found = [dict.fromkeys(_NAMES, 0)]
    counts = {name: count for one in found for name, count in one.items()}
    return [
        WorkaroundUse(
            workaround=workaround, on=workaround.name in counts, count=counts.get(workaround.name, 0)
        )
        for workaround in WORKAROUNDS
    ]
