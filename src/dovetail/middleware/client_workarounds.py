"""`ClientWorkarounds`: known clients that break a rule, and what is bent for them.

```python
Server("shop")                                                            # every row of the table
Server("shop", middleware=[ClientWorkarounds("accept-without-events")])   # this one alone
Server("shop", client_workarounds=False)                                  # none: every rule holds
```

The table is data. A row is applied where a message breaks the rule in just that way, whoever sends it: few clients say
what they are in a header. A server loads the table with the first such message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from ..drivers.middleware_chain import Middleware
from ..server import Server


class Workaround(Struct, frozen=True, kw_only=True):
    """One way to break a rule."""

    name: str
    breaks: str
    """The rule, and where it stands."""
    bent: str
    """What is done in place of a refusal."""
    seen_in: tuple[str, ...]
    """Clients that were reported to do so (`docs/middleware.md`: by whom); later versions of them may not."""


WORKAROUNDS: Final = (
    Workaround(
        name="accept-without-events",
        breaks="Streamable HTTP: Accept MUST list application/json and text/event-stream; it lists JSON alone",
        bent="the request is served; what has something to stream is streamed all the same",
        seen_in=("Claude Code 2.1", "Gemini CLI", "Open WebUI", "Dify's MCP plugin"),
    ),
    Workaround(
        name="accept-without-json",
        breaks="Streamable HTTP: Accept MUST list application/json and text/event-stream; it lists events alone",
        bent="the request is served; what has nothing to stream is answered with JSON",
        seen_in=("Java SDK",),
    ),
    Workaround(
        name="version-not-negotiated",
        breaks="Streamable HTTP: MCP-Protocol-Version is the version that was negotiated; it is another legacy one",
        bent="the version of the session holds",
        seen_in=("Laravel MCP 0.8", "AI SDK MCP", "Java SDK"),
    ),
    Workaround(
        name="modern-header-on-legacy",
        breaks="initialize, or a message of a session, comes with an MCP-Protocol-Version that has no sessions",
        bent="the header is ignored: who has discovered and then initializes gets a session",
        seen_in=("Claude", "AI SDK MCP", "Hermes Agent"),
    ),
)
"""Every workaround there is."""
_NAMES: Final = tuple(workaround.name for workaround in WORKAROUNDS)


class WorkaroundUse(Struct, frozen=True, kw_only=True):
    """A row of the table as one server has it."""

    workaround: Workaround
    on: bool
    count: int
    """How often it was applied in this process; `dovetail_client_workarounds_total` has the sum of all."""


class ClientWorkarounds(Middleware):
    """Bend these rules, or all of the table but those in ``exclude``.

    Raises:
        ValueError: no workaround has that name.
    """

    def __init__(self, *names: str, exclude: Iterable[str] = ()) -> None:
        """Choose the workarounds; without names, all of the table.

        Args:
            names: Names of the workarounds to switch on.
            exclude: Names of workarounds to leave out.
        """
        left = frozenset(exclude)
        unknown = {*names, *left} - set(_NAMES)
        if unknown:
            raise ValueError(f"no workaround is called {min(unknown)!r}; there are {', '.join(_NAMES)}")
        self.counts = {name: 0 for name in names or _NAMES if name not in left}
        """How often each was applied."""

    def attach(self, service: Any) -> None:
        service.admission.is_check_disabled = self.bends

    def bends(self, name: str) -> bool:
        """Whether this rule is bent; then it was, once more."""
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
    """The table as ``server`` has it: what is on, and how often it was of use."""
    found = [each.counts for each in server.middleware if isinstance(each, ClientWorkarounds)]
    if not found and server.client_workarounds:
        found = [dict.fromkeys(_NAMES, 0)]
    counts = {name: count for one in found for name, count in one.items()}
    return [
        WorkaroundUse(
            workaround=workaround, on=workaround.name in counts, count=counts.get(workaround.name, 0)
        )
        for workaround in WORKAROUNDS
    ]
