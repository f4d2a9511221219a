"""`WebhookReceiver`: checks what servers post to a callback URL, and passes it on.

Mount it at the URL: `WebhookReceiver.answer` is a handler for `Server.route`, `WebhookReceiver.receive` takes headers
and body from any web framework. It answers the verification of a server, refuses what is not signed or too old, and
drops what came before.
"""

from __future__ import annotations

import inspect
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ...core.route_handlers import RouteRequest, RouteResponse
from ...errors import StateError
from .event_model import SUBSCRIPTION_HEADER
from .webhook_signatures import is_fresh, is_signed, secret_bytes

MAX_DELIVERY_BYTES: Final = 256 << 10
"""Bytes of one delivery."""
MAX_UNKNOWN_BYTES: Final = 16 << 10
"""Bytes of a delivery whose subscription is not known yet."""
MAX_SECRETS: Final = 10_000
"""Secrets that one receiver knows."""
MAX_UNBOUND_SECRETS: Final = 100
"""Secrets without a subscription id. A delivery with an unknown id is compared with each of them."""
IDS_REMEMBERED: Final = 1000
"""Deliveries of one subscription that are recognised when they come again."""


class WebhookReply(NamedTuple):
    """What to answer: a status and a JSON body."""

    status: int
    body: bytes = b""


class WebhookMessage(Struct, rename="camel", kw_only=True):
    """What a server posts: an event, or a message with a ``type``."""

    type: str | UnsetType = UNSET
    event_id: str = ""
    name: str = ""
    timestamp: str = ""
    data: Any = None
    cursor: str | None = None
    challenge: str = ""
    error: dict[str, Any] | UnsetType = UNSET


TakeMessage = Callable[[WebhookMessage], bool | Awaitable[bool]]
"""Takes an event, ``gap`` or ``terminated``. False: try again later."""


class _Known(Struct, eq=False):
    key: bytes
    take: TakeMessage
    seen: OrderedDict[str, None]
    id: str | None = None


class WebhookReceiver:
    """The receiving side of webhook subscriptions.

    ```python
    receiver = WebhookReceiver("https://agent.example.com/hooks")
    server.route("/hooks", methods=["POST"], auth=False)(receiver.answer)
    ```
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        """Set the callback URL.

        Args:
            url: The URL at which the receiver is reached. It begins with ``https://``.
            clock: The clock, for tests.
        """
        self.url = url
        self._clock = clock
        self._by_id: dict[str, _Known] = {}
        self._by_secret: dict[str, _Known] = {}

    def expect(self, secret: str, take: TakeMessage) -> None:
        """Accept deliveries that are signed with ``secret``. Do this before subscribing.

        Raises:
            ValueError: it is not a secret of Standard Webhooks.
            StateError: too many secrets are known, or wait for their first delivery.
        """
        unbound = sum(known.id is None for known in self._by_secret.values())
        if len(self._by_secret) >= MAX_SECRETS or unbound >= MAX_UNBOUND_SECRETS:
            raise StateError(f"the receiver of {self.url} has too many subscriptions")
        self._by_secret[secret] = _Known(secret_bytes(secret), take, OrderedDict())

    def bind(self, secret: str, id: str) -> None:
        """Note the subscription of a secret: deliveries name it. The first delivery also does this."""
        known = self._by_secret.get(secret)
        if known is not None and known.id is None:
            known.id = id
            self._by_id[id] = known

    def forget(self, secret: str) -> None:
        """Accept no more deliveries that are signed with ``secret``."""
        known = self._by_secret.pop(secret, None)
        if known is not None and known.id is not None and self._by_id.get(known.id) is known:
            del self._by_id[known.id]

    async def answer(self, request: RouteRequest) -> RouteResponse:
        """Answer a request, as a handler of `Server.route`."""
        reply = await self.receive(request.headers, request.body)
        return RouteResponse(reply.body or None, reply.status, {}, "application/json")

    async def receive(self, headers: Mapping[str, str], body: bytes) -> WebhookReply:
        """Check one delivery and pass it on. The answer says whether the server tries again."""
        if len(body) > MAX_DELIVERY_BYTES:
            return WebhookReply(413)
        head = {name.lower(): value for name, value in headers.items()}
        if not is_fresh(head, self._clock()) or not head.get("webhook-id"):
            return WebhookReply(400)
        id = head.get(SUBSCRIPTION_HEADER.lower(), "")
        known = self._by_id.get(id)
        if known is None:
            unbound = [one for one in self._by_secret.values() if one.id is None]
            if len(body) > MAX_UNKNOWN_BYTES:
                return WebhookReply(503)  # each secret would be tried on it, for a stranger
            known = next((one for one in unbound if is_signed(one.key, head, body)), None)
            if known is None:
                return WebhookReply(503)  # the subscription may be known here in a moment
        elif not is_signed(known.key, head, body):
            return WebhookReply(401)
        try:
            message = msgspec.json.decode(body, type=WebhookMessage)
        except msgspec.DecodeError:
            return WebhookReply(400)
        if known.id is None and id:
            known.id = id
            self._by_id[id] = known
        if message.type == "verification":
            return WebhookReply(200, msgspec.json.encode({"challenge": message.challenge}))
        return await self._pass_on(known, head["webhook-id"], message)

    async def _pass_on(self, known: _Known, id: str, message: WebhookMessage) -> WebhookReply:
        if id in known.seen:
            return WebhookReply(200)
        taken = known.take(message)
        if not (await taken if inspect.isawaitable(taken) else taken):
            return WebhookReply(503)
        known.seen[id] = None
        if len(known.seen) > IDS_REMEMBERED:
            known.seen.popitem(last=False)
        return WebhookReply(200)
