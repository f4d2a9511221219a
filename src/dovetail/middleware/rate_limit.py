"""`RateLimit`: refuse messages that exceed a rate.

```python
Server("shop", middleware=[RateLimit(per_client="100/s", burst=200, per_tool="20/s", total="5000/s")])
```

Each scope is a rule with its own table of token buckets. A *client* is identified by the principal, else the
session, else the address; a pipe has one client. A refusal has code 1003 (erlmcp: -32010) and says when to
retry. With ``block_period``, a client that causes many refusals is blocked and gets 1056. Responses to a
client that is refused very often are delayed, so that a flood slows down only its sender.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, Literal, NoReturn

from msgspec import Raw, Struct

from ..core.channel import Call, Notice
from ..drivers.middleware_chain import (
    Middleware,
    Next,
    ReceiveNotification,
    Request,
    tool_standing_for,
)
from ..errors import DovetailError, ProtocolError
from ..server import Server
from ..settings import check_choice, check_kinds
from ..settings.parameter_kinds import CLOCK, NUMBER, SECONDS, WHOLE, or_none
from ..stores.quotas import client_key, network_of
from .shared_rate_limit import SharedBuckets
from .token_bucket import TRACKED_NAMES, Rate, SlidingWindows, TokenBuckets

MAX_IMMEDIATE_REFUSALS: Final = 100
"""Refusals per second that one client gets at once; further ones are delayed."""
REFUSAL_DELAY: Final = 0.05
"""Seconds between two refusals of a client that exceeds `MAX_IMMEDIATE_REFUSALS`."""
MAX_REFUSAL_DELAY: Final = 1.0
"""Longest delay of one refusal in seconds."""
MAX_DELAYED_REFUSALS: Final = 1000
"""Delayed refusals of all clients; further ones are sent at once."""
RATE_BLOCK_PERIOD: Final = 300.0
"""erlmcp: seconds for which a client with too many refusals is refused altogether."""
RATE_BLOCK_THRESHOLD: Final = 100
"""erlmcp: refusals within `RATE_VIOLATION_PERIOD` after which a client is blocked."""
RATE_VIOLATION_PERIOD: Final = 60.0
"""erlmcp: seconds in which refusals are counted."""


CALLS: Final = frozenset({"tools/call"})
SUBSCRIPTIONS: Final = frozenset({"resources/subscribe", "subscriptions/listen"})
Limited = str | float | Rate | None
_LIMITED: Final = (str | int | float | Rate | None, "a rate such as '100/s', a number per second, or None")


class Rule(Struct, frozen=True):
    """One rate: its scope and the requests it counts."""

    scope: str
    name: Callable[[Any], Hashable]
    """The key under which a call or notification is counted; None: not counted."""
    methods: frozenset[str] | None
    """The counted methods; None for all."""
    buckets: TokenBuckets

    @property
    def label(self) -> str:
        """Return a label that is the same for the same rule in every process."""
        kind, methods = type(self.buckets).__name__.lower(), "+".join(sorted(self.methods or ()))
        text = f"{self.scope}-{kind}-{self.buckets.interval:g}-{self.buckets.burst:g}-{methods}"
        return text.replace("/", ".")


def principal_of(call: Call) -> Hashable:
    """Return the key of a principal: as `Principal.key`, inlined for speed."""
    who = call.principal
    if who is None:
        return None
    return who.subject if who.issuer is None else (who.issuer, who.subject)


def _session(call: Call) -> Hashable:
    session = call.session
    return None if session is None else session.id or id(session)


def _address(call: Call) -> Hashable:
    client = call.scope.get("client")
    if not client:
        return None
    return network_of(client[0]) if ":" in client[0] else client[0]


def _tool(call: Call) -> Hashable:
    return call.params.name  # message middleware sees the canonical name


def _all_clients(call: Call) -> Hashable:
    return ""


_NAMES: Final[dict[str, Callable[[Call], Hashable]]] = {
    "client": client_key,
    "principal": principal_of,
    "session": _session,
    "address": _address,
    "tool": _tool,
    "total": _all_clients,
}


def _rules(
    scopes: dict[tuple[str, frozenset[str] | None], Limited], kind: type[TokenBuckets], burst: float | None
) -> tuple[Rule, ...]:
    rules = tuple(
        Rule(scope, _NAMES[scope], methods, kind(Rate.parse(rate), burst))
        for (scope, methods), rate in scopes.items()
        if rate is not None
    )
    if burst is not None and burst < 1:
        raise ValueError(f"burst must be at least 1, not {burst}")
    if not rules:
        raise ValueError("RateLimit needs at least one rate, for example RateLimit(per_client='100/s')")
    return rules


class RateLimit(Middleware):
    """Refuse requests that exceed a rate: "100/s", "20/m", "1000/h" or "5/d".

    Notifications count against the limits of clients too.

    Raises:
        ValueError: a rate is not valid, no rate is given, or the burst is below 1.
    """

    def __init__(
        self,
        *,
        per_client: Limited = None,
        per_principal: Limited = None,
        per_session: Limited = None,
        per_address: Limited = None,
        per_tool: Limited = None,
        total: Limited = None,
        burst: float | None = None,
        per_client_calls: Limited = None,
        per_client_subscriptions: Limited = None,
        algorithm: Literal["bucket", "window"] = "bucket",
        block_period: float | None = None,
        block_threshold: int = RATE_BLOCK_THRESHOLD,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set at least one rate.

        Args:
            per_client: The rate of each client: its principal, else its session, else its address.
            per_principal: The rate of each principal.
            per_session: The rate of each session.
            per_address: The rate of each IP address.
            per_tool: The rate of calls of each tool.
            total: The rate of all clients together.
            burst: Requests that are accepted at once after a pause; by default the number in the rate.
            per_client_calls: The rate of tool calls of each client.
            per_client_subscriptions: The rate of subscriptions of each client.
            algorithm: "bucket" allows bursts; "window" counts the last period exactly.
            block_period: Seconds for which a client is blocked after ``block_threshold`` refusals. ``None``:
                never.
            block_threshold: Refusals within one minute after which a client is blocked.
        """
        check_kinds(
            {
                "per_client": _LIMITED,
                "per_principal": _LIMITED,
                "per_session": _LIMITED,
                "per_address": _LIMITED,
                "per_tool": _LIMITED,
                "total": _LIMITED,
                "per_client_calls": _LIMITED,
                "per_client_subscriptions": _LIMITED,
                "burst": or_none(NUMBER),
                "block_period": or_none(SECONDS),
                "block_threshold": WHOLE,
                "clock": CLOCK,
            },
            locals(),
        )
        kinds: dict[str, type[TokenBuckets]] = {"bucket": TokenBuckets, "window": SlidingWindows}
        check_choice("algorithm", algorithm, kinds)
        scopes: dict[tuple[str, frozenset[str] | None], Limited] = {
            ("client", None): per_client,
            ("principal", None): per_principal,
            ("session", None): per_session,
            ("address", None): per_address,
            ("client", CALLS): per_client_calls,
            ("client", SUBSCRIPTIONS): per_client_subscriptions,
            ("tool", CALLS): per_tool,
            ("total", None): total,
        }
        self.rules = _rules(scopes, kinds[algorithm], burst)
        self._clock, self._block = clock, block_period
        self._violations = TokenBuckets(Rate(block_threshold, RATE_VIOLATION_PERIOD))
        self._blocked: dict[Hashable, float] = {}
        """Blocked clients, and until when."""
        self._told, self._delayed = TokenBuckets(Rate(MAX_IMMEDIATE_REFUSALS, 1.0)), 0
        self._blocked_addresses: dict[str, tuple[float, float, str]] = {}
        """Blocked addresses: until when, the retry delay, and the reason."""
        self._sharing: SharedBuckets | None = None
        """The tokens reserved in the server's store; None without a store."""
        self.refused = 0  # messages

    @classmethod
    def erlmcp(cls, **options: Any) -> RateLimit:
        """Use the limits of erlmcp, per client and in total; block for five minutes after 100 violations per
        minute.
        """
        figures: dict[str, Any] = {
            "per_client": "100/s",
            "per_client_calls": "50/s",
            "per_client_subscriptions": "20/s",
            "total": "10000/s",
            "block_period": RATE_BLOCK_PERIOD,
        }
        return cls(**{**figures, **options})

    def attach(self, service: Any) -> None:
        store = service.lifecycle.store if isinstance(service, Server) else None
        if self._sharing is not None:
            self._sharing.close()
            self._sharing = None
        if store is not None:
            tables = [rule.buckets for rule in self.rules]
            topic = f"rate/{service.name}/{','.join(rule.label for rule in self.rules)}"
            self._sharing = SharedBuckets(store, topic, tables, self._clock, self._set_blocked)

    def stopped(self) -> None:
        if self._sharing is not None:
            self._sharing.stop()

    def wrap(self, call_next: Next) -> Next:
        """Wrap ``call_next``. Taking an available token is inlined, because every message does it."""
        everything = self._prepared(None)
        special = {method: self._prepared(method) for rule in self.rules for method in rule.methods or ()}
        if self._sharing is not None:
            return self._wrap_shared(self._sharing, call_next, everything, special)
        clock, blocked = self._clock, self._blocked

        def limited(request: Request) -> Awaitable[Struct | Raw]:
            call, now = request.call, clock()
            if request.resumed:
                return call_next(request)
            if blocked and (error := self._check_block(call, now)) is not None:
                return self._send_refusal(client_key(call), error, now)
            tool, rules = request.name, special.get(call.method, everything) if special else everything
            if call.source is not None and special and (standing := tool_standing_for(call)) is not None:
                tool, rules = standing, special.get("tools/call", everything)
            for rule, name_of, young, interval, slack, _ in rules:
                name = "" if name_of is None else tool if name_of is _tool else name_of(call)
                if name is None:
                    continue
                full = young.get(name)
                if full is None or full - now > slack:
                    one = rule.buckets
                    wait = one.acquire(name, now) if full is None else one.retry_after(name, full, now)
                    if wait:
                        return self._refuse(call, name, rule, wait, now)
                elif full > now:
                    young[name] = full + interval
                else:
                    young[name] = now + interval
            return call_next(request)

        return limited

    def _wrap_shared(
        self,
        sharing: SharedBuckets,
        call_next: Next,
        everything: list[tuple[Any, ...]],
        special: dict[str, list[tuple[Any, ...]]],
    ) -> Next:
        """As `wrap`, for a store. Taking a token that this process has reserved is inlined."""
        clock, blocked, held = self._clock, self._blocked, sharing.held

        def limited(request: Request) -> Awaitable[Struct | Raw]:
            call, now = request.call, clock()
            if request.resumed:
                return call_next(request)
            if blocked and (error := self._check_block(call, now)) is not None:
                return self._send_refusal(client_key(call), error, now)
            tool, rules = request.name, special.get(call.method, everything) if special else everything
            if call.source is not None and special and (standing := tool_standing_for(call)) is not None:
                tool, rules = standing, special.get("tools/call", everything)
            place: int
            for at, (rule, name_of, _, _, _, place) in enumerate(rules):
                name = "" if name_of is None else tool if name_of is _tool else name_of(call)
                if name is None:
                    continue
                one = held[place].get(name)
                if one is not None and one.left > 0:
                    one.left -= 1
                elif one is not None and now < one.empty_until:
                    return self._refuse(call, name, rule, one.last - now, now)
                else:
                    return self._reserve(sharing, request, tool, rules[at:], call_next)
            return call_next(request)

        return limited

    async def _reserve(
        self,
        sharing: SharedBuckets,
        request: Request,
        tool: str,
        rules: list[tuple[Any, ...]],
        call_next: Next,
    ) -> Struct | Raw:
        """Acquire a token of each rule, from the store if needed, and call the handler."""
        call = request.call
        for rule, name_of, _, _, _, place in rules:
            name = "" if name_of is None else tool if name_of is _tool else name_of(call)
            if name is not None and (wait := await sharing.acquire(place, name)):
                await self._refuse(call, name, rule, wait, self._clock())
        return await call_next(request)

    @property
    def blocked_addresses(self) -> Mapping[str, Any]:
        return self._blocked_addresses

    async def check_address(self, address: str) -> DovetailError | None:
        until, wait, scope = self._blocked_addresses.get(address, (0.0, 0.0, ""))
        now = self._clock()
        left = until - now
        if not 0 < left <= wait:
            self._blocked_addresses.pop(address, None)
            return None
        self.refused += 1
        if turn := self._response_delay(address, now):
            await self._pause(turn)
        return _blocked(left) if scope == "client" else _too_fast(left, scope)

    def _block_address(self, call: Call, wait: float, scope: str, now: float) -> None:
        """Block the address of ``call`` if the refusal was for its address."""
        client = call.scope.get("client")
        if client and (scope == "address" or (call.principal is None and call.session is None)):
            if len(self._blocked_addresses) >= TRACKED_NAMES:
                del self._blocked_addresses[next(iter(self._blocked_addresses))]
            self._blocked_addresses[client[0]] = now + wait, wait, scope

    def _prepared(self, method: str | None) -> list[tuple[Any, ...]]:
        """Return the rules for a method with their parts, precomputed for the fast path."""
        return [
            (
                rule,
                None if rule.scope == "total" else rule.name,
                rule.buckets.young,
                rule.buckets.interval,
                rule.buckets.slack,
                place,
            )
            for place, rule in enumerate(self.rules)
            if rule.methods is None or method in rule.methods
        ]

    def wrap_notifications(self, receive_notification: ReceiveNotification) -> ReceiveNotification:
        """Wrap a notification handler. Notifications have no response, so excess ones are dropped."""
        rules = [(place, rule) for place, rule in enumerate(self.rules) if rule.methods is None]
        sharing = self._sharing

        def limited(notice: Notice) -> None:
            now = self._clock()
            for place, rule in rules:
                name = rule.name(notice)
                if name is None:
                    continue
                if (
                    rule.buckets.acquire(name, now)
                    if sharing is None
                    else sharing.acquire_nowait(place, name)
                ):
                    self.refused += 1
                    return
            receive_notification(notice)

        return limited

    # --- refusals
    # -----------------------------------------------------------------------------------------------------

    def _refuse(self, call: Call, name: Hashable, rule: Rule, wait: float, now: float) -> Awaitable[NoReturn]:
        self.refused += 1
        client, error = name if rule.scope == "client" else client_key(call), None
        if self._block is not None and self._violations.acquire(client, now):
            self._set_blocked(client, now + self._block)
            if self._sharing is not None:
                self._sharing.publish_block(client, self._block)
            error = self._check_block(call, now)
        if rule.scope == "address" and error is None:
            self._block_address(call, wait, rule.scope, now)
        return self._send_refusal(client, error or _too_fast(wait, rule.scope), now)

    def _send_refusal(self, client: Hashable, error: ProtocolError, now: float) -> Awaitable[NoReturn]:
        """Send a refusal at once, or delayed for a client that ignores refusals.

        Raises:
            ProtocolError: the refusal.
        """
        turn = self._response_delay(client, now)
        if not turn:
            raise error
        return self._delay(error, turn)

    def _response_delay(self, client: Hashable, now: float) -> float:
        """Return the delay of a refusal in seconds. Delayed refusals are sent one at a time."""
        wait = (
            0.0
            if self._delayed >= MAX_DELAYED_REFUSALS
            else self._told.reserve(client, now, MAX_REFUSAL_DELAY)
        )
        return wait and REFUSAL_DELAY + wait

    async def _delay(self, error: ProtocolError, seconds: float) -> NoReturn:
        await self._pause(seconds)
        raise error

    async def _pause(self, seconds: float) -> None:
        self._delayed += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._delayed -= 1

    def _set_blocked(self, client: Hashable, until: float) -> None:
        if len(self._blocked) >= TRACKED_NAMES:
            del self._blocked[next(iter(self._blocked))]
        self._blocked[client] = until

    def _check_block(self, call: Call, now: float) -> ProtocolError | None:
        """Return the error for a blocked client, or None."""
        name = client_key(call)
        left = self._blocked.get(name, now) - now
        if 0 < left <= (self._block or 0):
            self.refused += 1
            self._block_address(call, left, "client", now)
            return _blocked(left)
        self._blocked.pop(name, None)
        return None


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _too_fast(wait: float, scope: str) -> ProtocolError:
    return ProtocolError("rate_limited", data={"retryAfterMs": _ms(wait), "scope": scope})


def _blocked(left: float) -> ProtocolError:
    text = "this client is blocked after too many refused messages; retry later"
    return ProtocolError("quota_exceeded", text, data={"retryAfterMs": _ms(left), "scope": "client"})
