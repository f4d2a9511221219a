"""`Context.confirm`: ask the user for a yes or no by the best means that the client supports.

=========================  ================================================================================
the client supports        result
=========================  ================================================================================
elicitation with forms     a form without fields; accepting it is a yes
elicitation with URLs      the user opens a page of this server and answers there
neither, over HTTP         the call fails with a link to that page; repeated after a yes, it goes through
neither, elsewhere         no: the operation does not run
=========================  ================================================================================

A link is valid for `LIFETIME` seconds and for one call: with the same caller, method, arguments and text.
Links are records in the store of the server, so every worker can serve the page.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from ..core.channel import Call
from ..core.route_handlers import CustomRoute, RouteRequest, RouteResponse
from ..errors import ToolError
from ..stores.base import Store
from ..stores.quotas import Quota, quota_owner
from ..stores.versioned_records import VersionedRecords
from .dispatcher import CONFIRMATION_PATH
from .http_address import base_url
from .input_requests.client_requests import Asking
from .input_requests.input_required import InputNotSupported
from .input_requests.request_kinds import Elicit, ElicitUrl

if TYPE_CHECKING:
    from .server import Server

LIFETIME: Final = 600.0
"""Seconds for which a link is valid."""
POLL_INTERVAL: Final = 0.5
"""Seconds between two checks for the answer of the user."""
MAX_LINKS_PER_OWNER: Final = 100
"""Open links of one principal or address."""
MAX_LINKS: Final = 10_000
"""Open links of all callers."""
MAX_TEXT: Final = 4000
"""Characters of the text on a page."""
_FORM: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_SECURE: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "form-action 'self'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Confirm</title>
<style>body{{font:1rem/1.5 sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem}}
pre{{white-space:pre-wrap;overflow-wrap:anywhere;background:#8882;padding:1rem}}
button{{font:inherit;padding:.5rem 1rem}}</style></head>
<body><h1>{title}</h1><pre>{text}</pre>{form}</body></html>
"""
_BUTTONS: Final = (
    '<form method="post"><button name="answer" value="yes">Approve</button> '
    '<button name="answer" value="no">Decline</button></form>'
)


class _Link(Struct, array_like=True):
    text: str
    answer: str = ""
    """"yes", "no", or empty until the user has answered."""


_links = VersionedRecords(_Link)


class Confirmation:
    """One confirmation of one call."""

    def __init__(self, server: Server, call: Call, asking: Asking, text: str) -> None:
        self._store = server.lifecycle.page_store
        self._call = call
        self._asking = asking
        self._text = text

    async def ask(self, key: str | None = None) -> bool:
        """Return whether the user has approved.

        Raises:
            ToolError: the client supports neither kind of elicitation. The text has the link to open before the next
            attempt.
            InputNotSupported: the same, and the call did not arrive over HTTP.
        """
        base = base_url(self._call.scope)
        try:
            answer = await self._asking.ask_one(Elicit[Any](self._text, _FORM, key=key))
            return answer.action == "accept"
        except InputNotSupported:
            if base is None:
                raise
        folder = self._folder()
        # Steps, because on 2026-07-28 the handler runs again after every further input request.
        token = await self._asking.step(f"confirm-link:{folder}", self._token, (folder,))
        url = f"{base}{CONFIRMATION_PATH}{token}"
        try:
            answer = await self._asking.ask_one(ElicitUrl(self._text, url, key=key))
        except InputNotSupported:
            return await self._asking.step(f"confirm:{folder}", self._by_repetition, (token, folder, url))
        end = self._answered if answer.action == "accept" else self._forget
        return await self._asking.step(f"confirm:{folder}", end, (token, folder))

    async def _token(self, folder: str) -> str:
        """The token of the link for this confirmation: the existing one, or a new one."""
        known = await self._store.get(folder)
        if known is not None and await self._store.get(_key(known.decode())) is not None:
            return known.decode()
        quota = Quota(self._store, "confirm", own=MAX_LINKS_PER_OWNER, total=MAX_LINKS)
        await quota.acquire(quota_owner(self._call.principal, self._call.scope), LIFETIME, len(self._text))
        import secrets  # it takes time to load

        token = secrets.token_urlsafe(24)
        await self._store.put(_key(token), _links.encode(_Link(self._text)), ttl=LIFETIME)
        await self._store.put(folder, token.encode(), ttl=LIFETIME)
        return token

    async def _by_repetition(self, token: str, folder: str, url: str) -> bool:
        """The answer given on the page. Without one, end the call with an error that contains the link."""
        link = await _load(self._store, token)
        if link is None or not link.answer:
            raise ToolError(
                f"The user must confirm this first: {url} — show this link to the user. "
                f"Call again with the same arguments after the user has approved. The link is valid for "
                f"{LIFETIME / 60:.0f} minutes."
            )
        return await self._use(token, folder, link)

    async def _answered(self, token: str, folder: str) -> bool:
        """Wait until the user has answered on the page, or the link has expired."""
        while (link := await _load(self._store, token)) is not None:
            if link.answer:
                return await self._use(token, folder, link)
            await asyncio.sleep(POLL_INTERVAL)
        return False

    async def _use(self, token: str, folder: str, link: _Link) -> bool:
        """Return the answer and consume the link: of several calls with one link, exactly one gets a yes."""
        await self._store.delete(folder)
        return await self._store.delete(_key(token)) and link.answer == "yes"

    async def _forget(self, token: str, folder: str) -> bool:
        await self._store.delete(_key(token))
        await self._store.delete(folder)
        return False

    def _folder(self) -> str:
        """The store key that leads from this confirmation to its link. It differs by caller and by arguments."""
        call = self._call
        session = None if call.session is None else call.session.id
        who = call.principal.key if call.principal is not None else session or ""
        params = call.params
        arguments: Any = getattr(params, "arguments", None) or {}
        what = [
            who, call.method, getattr(params, "name", ""), getattr(params, "uri", ""),
            msgspec.json.encode(arguments).decode(), self._text,
        ]  # fmt: skip
        return f"confirm-call/{hashlib.sha256(msgspec.json.encode(what)).hexdigest()}"


def text_of(message: str, details: object) -> str:
    """The text that the user reads."""
    if not message:
        raise ValueError("the message of a confirmation is empty: say what the user is asked to approve")
    if details is None:
        return message[:MAX_TEXT]
    more = details if isinstance(details, str) else msgspec.json.format(msgspec.json.encode(details)).decode()
    return f"{message}\n\n{more}"[:MAX_TEXT]


def route(store: Callable[[], Store], path: str) -> tuple[CustomRoute, dict[str, str]]:
    """The HTTP route of the page: GET shows the form, POST stores the answer."""

    async def page(request: RouteRequest) -> RouteResponse:
        token = request.params["token"]
        link = await _load(store(), token)
        if link is None:
            return _response("This link is not valid any more.", "It has been used, or it has expired.", 404)
        if request.method != "POST" or link.answer:
            if link.answer:
                return _response("Answered", link.text)
            return _response("Do you want to allow this?", link.text, form=_BUTTONS)
        answer = {b"answer=yes": "yes", b"answer=no": "no"}.get(request.body)
        if answer is None:
            return _response("The form was not sent completely.", link.text, 400, form=_BUTTONS)
        before = _links.encode(link)
        link.answer = answer
        if not await store().put(_key(token), _links.encode(link), ttl=LIFETIME, expect=before):
            return _response("This link has been answered already.", link.text, 409)
        return _response("Approved" if answer == "yes" else "Declined", "You can close this page.")

    route = CustomRoute(CONFIRMATION_PATH + "{token}", page, frozenset(("GET", "POST")), auth=False)
    return route, {"token": path.removeprefix(CONFIRMATION_PATH)}


def _response(title: str, text: str, status: int = 200, *, form: str = "") -> RouteResponse:
    body = _PAGE.format(title=escape(title), text=escape(text), form=form)
    return RouteResponse(body, status, _SECURE, "text/html; charset=utf-8")


def _key(token: str) -> str:
    return f"confirm/{token}"


async def _load(store: Store, token: str) -> _Link | None:
    data = None if "/" in token else await store.get(_key(token))
    return None if data is None else _links.decode(data)
