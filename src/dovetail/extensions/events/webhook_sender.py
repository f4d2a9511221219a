"""`WebhookSender`: posts to callback URLs that clients have named.

The address is checked for every request, and the connection goes to the checked address: a name that changes
afterwards has no effect. No redirect is followed, and no proxy of the environment is used. Of a response, only
its status counts, and the echo of a challenge; a failure has one of a few fixed reasons, so that a client learns
nothing about the host at an address.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import ssl
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ...client.http_client import Send
from ...errors import ProtocolError, RegistrationError, TransportError
from ...transports.http.client.guarded_fetch import AddressGuard, BlockedAddress, Fetched, guarded_fetch
from ...transports.http.client.url_parts import address_of
from .event_model import SUBSCRIPTION_HEADER, FailureReason, endpoint_failed, exhausted
from .webhook_signatures import signed_headers

MAX_RESPONSE_BYTES: Final = 16 << 10
"""Bytes of a response that are read."""
MAX_URL_LENGTH: Final = 2048
"""Characters of a callback URL."""
VERIFICATION_PERIOD: Final = 60.0
"""Seconds for which verifications of one host are counted."""
HOSTS_COUNTED: Final = 10_000
"""Hosts whose verifications are counted."""


class Webhooks(Struct, frozen=True, kw_only=True):
    """The options of webhook delivery."""

    allowed_hosts: Collection[str] | None = None
    """The hosts to which callbacks may lead. ``None``: every public host."""
    private_hosts: Collection[str] = ()
    """Hosts that may have a private address. All others must be public."""
    verified_urls: Collection[str] = ()
    """Beginnings of URLs that need no verification, such as ``https://hooks.example.com/mcp/``."""
    max_subscriptions: int = 10_000
    """Subscriptions of all principals together."""
    max_subscriptions_per_principal: int = 100
    """Subscriptions of one principal."""
    default_ttl: float = 3600.0
    """Seconds that a subscription lasts if the client suggests nothing."""
    min_ttl: float = 60.0
    """Seconds that a subscription lasts at least."""
    max_ttl: float = 86_400.0
    """Seconds that a subscription lasts at most."""
    timeout: float = 5.0
    """Seconds for one request."""
    retry_delays: tuple[float, ...] = (1.0, 5.0, 30.0, 120.0)
    """Seconds before each further attempt to deliver an event."""
    max_concurrent_requests: int = 64
    """Requests to all endpoints at a time."""
    max_pending_events: int = 32
    """Events of one subscription that are delivered or tried again at a time."""
    suspend_after: int = 20
    """Events in a row that fail before deliveries are suspended until the next refresh."""
    secret_grace_period: float = 600.0
    """Seconds for which deliveries are also signed with the secret before the current one."""
    max_verifications_per_host: int = 10
    """Verifications of the URLs of one host per minute."""
    ssl: ssl.SSLContext | None = None
    """The TLS settings of requests; by default those of the system."""
    proxy: str | None = None
    """The URL of an HTTP proxy for the requests. It must refuse private addresses itself."""

    def __post_init__(self) -> None:
        for name in ("allowed_hosts", "private_hosts", "verified_urls"):
            if isinstance(getattr(self, name), str):
                raise RegistrationError(f"{name} of Webhooks is a list, not a string")
        for url in self.verified_urls:
            if not url.startswith("https://") or not urlsplit(url).path.startswith("/"):
                raise RegistrationError(
                    f"verified_urls of Webhooks are https URLs with a path, such as 'https://example.com/', not {url!r}"
                )
        if not 0 < self.min_ttl <= self.default_ttl <= self.max_ttl:
            raise RegistrationError("the times of Webhooks are 0 < min_ttl <= default_ttl <= max_ttl")


class DeliveryFailed(Exception):
    """A request failed. ``final``: the endpoint does not want the event again."""

    def __init__(self, reason: FailureReason, *, final: bool = False) -> None:
        super().__init__(reason)
        self.reason: FailureReason = reason
        self.final = final


class WebhookSender:
    """Sends signed requests."""

    def __init__(self, options: Webhooks, clock: Callable[[], float]) -> None:
        self._options = options
        self._clock = clock
        self._slots = asyncio.Semaphore(options.max_concurrent_requests)
        self._stack = AsyncExitStack()
        self._send: Send | None = None
        self._verified: OrderedDict[str, deque[float]] = OrderedDict()

    async def open(self) -> None:
        from ...transports.http.client.connection_pool import HttpFetch  # only webhooks need the HTTP client

        verify: Any = True if self._options.ssl is None else self._options.ssl
        fetch = HttpFetch(verify=verify, proxy=self._options.proxy or False)
        self._send = await self._stack.enter_async_context(fetch.session())

    async def close(self) -> None:
        await self._stack.aclose()
        self._send = None

    def check(self, url: str) -> None:
        """Check the form of a callback URL.

        Raises:
            ProtocolError: it cannot be one.
        """
        try:
            parts = urlsplit(url)
            problem = (
                f"has more than {MAX_URL_LENGTH} characters" if len(url) > MAX_URL_LENGTH
                else "is not an https URL" if parts.scheme != "https" or not parts.hostname
                else "contains a user or a password" if parts.username is not None or parts.password is not None
                else "has a fragment" if "#" in url
                else "has invalid characters" if any(not "!" <= each <= "~" for each in url)
                else None
            )  # fmt: skip
            if problem is None:
                address_of(url)
                hosts = self._options.allowed_hosts
                if hosts is not None and parts.hostname not in hosts:
                    problem = "leads to a host that this server does not deliver to"
        except (ValueError, TransportError):
            problem = "is not a URL"
        if problem is not None:
            raise ProtocolError("invalid_params", f"delivery.url {problem}", data={"path": "delivery.url"})

    def needs_verification(self, url: str) -> bool:
        """Whether the endpoint has to show that it wants deliveries."""
        return not any(_is_below(url, start) for start in self._options.verified_urls)

    async def verify(self, url: str, keys: Iterable[bytes], subscription: str) -> None:
        """Ask the endpoint to echo a challenge.

        Raises:
            ProtocolError: it did not, cannot be reached, or too many URLs of its host were verified just now.
        """
        self._count(urlsplit(url).hostname or "")
        challenge = os.urandom(24).hex()
        body = msgspec.json.encode({"type": "verification", "challenge": challenge})
        try:
            found = await self.post(url, keys, subscription, message_id("verification"), body)
        except DeliveryFailed as error:
            raise endpoint_failed(error.reason) from None
        echoed = ""
        try:
            echoed = msgspec.json.decode(found.body, type=dict[str, Any]).get("challenge")
        except msgspec.DecodeError:
            pass
        if not isinstance(echoed, str) or not hmac.compare_digest(echoed.encode(), challenge.encode()):
            raise endpoint_failed("challenge_failed")

    async def post(self, url: str, keys: Iterable[bytes], subscription: str, id: str, body: bytes) -> Fetched:
        """Send one request.

        Raises:
            DeliveryFailed: there was no response with a status of 200 to 299.
        """
        host = urlsplit(url).hostname or ""
        guard = AddressGuard(None, allow_private=host in self._options.private_hosts)
        async with self._slots:
            headers = {
                "content-type": "application/json",
                "user-agent": "dovetail",
                SUBSCRIPTION_HEADER: subscription,
                **signed_headers(keys, id, int(self._clock()), body),
            }
            try:
                found = await guarded_fetch(
                    url,
                    guard=guard,
                    max_bytes=MAX_RESPONSE_BYTES,
                    timeout=self._options.timeout,
                    method="POST",
                    headers=headers,
                    body=body,
                    send=self._send,
                )
            except BlockedAddress:
                # The same word as for a closed port: a client must not learn which names are private.
                raise DeliveryFailed("connection_refused") from None
            except TransportError as error:
                raise DeliveryFailed(_reason(error.cause)) from None
        if 200 <= found.status < 300:
            return found
        raise DeliveryFailed(
            "http_5xx" if found.status >= 500 else "http_4xx", final=found.status in (410, 413)
        )

    def _count(self, host: str) -> None:
        """Limit verifications of one host: their requests are those that an attacker can cause."""
        now, known = self._clock(), self._verified
        moments = known.setdefault(host, deque())
        known.move_to_end(host)
        while moments and moments[0] <= now - VERIFICATION_PERIOD:
            moments.popleft()
        if len(known) > HOSTS_COUNTED:
            known.popitem(last=False)
        most = self._options.max_verifications_per_host
        if len(moments) >= most:
            raise exhausted("verifications_of_one_host", most)
        moments.append(now)


def message_id(type: str) -> str:
    """The ``webhook-id`` of a message that is not an event."""
    return f"msg_{type}_{os.urandom(12).hex()}"


def _is_below(url: str, start: str) -> bool:
    """Whether ``url`` is ``start`` or lies below it. Dots in a path could lead elsewhere."""
    if not url.startswith(start) or "/." in url or "%2e" in url.lower():
        return False
    return url == start or start.endswith("/") or url[len(start)] in "/?"


def _reason(cause: str) -> FailureReason:
    if cause in ("timeout", "tls"):
        return "timeout" if cause == "timeout" else "tls_error"
    return "http_4xx" if cause in ("redirect", "protocol") else "connection_refused"
