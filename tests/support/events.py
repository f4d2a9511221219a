"""Servers with events, and an endpoint for their webhooks, for tests."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from dovetail import Client, Principal, ProtocolError, RouteRequest, RouteResponse, Server
from dovetail.extensions import Events
from dovetail.extensions.events.webhook_signatures import new_secret

from .certificates import Authority
from .waiting import until
from .web import Site, served

NAME = "incident.created"


class Incident(Struct):
    number: int
    severity: str = "P1"


class Filter(Struct):
    severity: str | None = None


def fits(incident: Incident, wanted: Filter, principal: Principal | None) -> bool:
    return wanted.severity in (None, incident.severity)


async def tokens(token: str, scope: Any) -> Principal | None:
    """Every token of one letter is its own principal; a capital one has the scope ``read``."""
    if len(token) != 1:
        return None
    return Principal(token.lower(), scopes=frozenset({"read"} if token.isupper() else ()))


def build(options: dict[str, Any] | None = None, events: dict[str, Any] | None = None, **server: Any) -> Any:
    """A server with one event type: the server, its events and the type."""
    extension = Events(**(events or {}))
    added = extension.add(NAME, payload=Incident, arguments=Filter, match=fits, **(options or {}))
    return Server("pager", extensions=[extension], **server), extension, added


async def poll(client: Client, cursor: str | None = None, name: str = NAME, **params: Any) -> dict[str, Any]:
    given = {"name": name, **({} if cursor is None else {"cursor": cursor}), **params}
    return await client.request("events/poll", given)


def numbers(page: dict[str, Any]) -> list[int]:
    return [event["data"]["number"] for event in page["events"]]


async def refused(awaitable: Any) -> tuple[int, Any]:
    """The code and the data of the error that a request gets."""
    try:
        found = await awaitable
    except ProtocolError as error:
        return error.code, error.data
    raise AssertionError(f"it was not refused: {found}")


class Endpoint:
    """A callback endpoint on a TLS socket. It echoes challenges, and keeps what it got."""

    def __init__(self) -> None:
        self.requests: list[RouteRequest] = []
        self.status: Callable[[dict[str, Any]], int] = lambda message: 200
        self.echo: Callable[[str], Any] = lambda challenge: {"challenge": challenge}
        self.url = ""
        self.site: Site

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self.requests]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [message for message in self.messages if "type" not in message]

    @property
    def numbers(self) -> list[int]:
        return [event["data"]["number"] for event in self.events]

    def typed(self, type: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message.get("type") == type]

    async def got(self, count: int) -> None:
        await until(lambda: len(self.events) >= count)

    async def answer(self, request: RouteRequest) -> RouteResponse:
        self.requests.append(request)
        message = request.json()
        if message.get("type") == "verification":
            return RouteResponse(self.echo(message["challenge"]))
        return RouteResponse("", self.status(message))


@asynccontextmanager
async def endpoint(authority: Authority, handler: Any = None) -> AsyncIterator[Endpoint]:
    found = Endpoint()
    receiver = Server("receiver")
    receiver.route("/hooks", methods=["POST"])(handler or found.answer)

    @receiver.route("/elsewhere", methods=["POST"])
    def elsewhere(request: RouteRequest) -> RouteResponse:  # pyright: ignore[reportUnusedFunction]
        return RouteResponse("", 307, {"location": "/hooks"})

    certificate = str(authority.certificate("localhost"))
    async with served(receiver, certfile=certificate, keyfile=certificate) as site:
        found.site, found.url = site, f"https://localhost:{site.port}/hooks"
        yield found


async def subscribe(client: Client, url: str, secret: str | None = None, **params: Any) -> dict[str, Any]:
    delivery = {"mode": "webhook", "url": url, "secret": secret or new_secret()}
    return await client.request("events/subscribe", {"name": NAME, "delivery": delivery, **params})


async def settled() -> None:
    """Let a background task that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)
