"""Server cards (SEP-2127): a public document that says what a server is and where it is reached.

```python
card = ServerCard("com.example/weather", "https://example.com/mcp")
server = Server("weather", description="Weather forecasts.", extensions=[card])
```

The card is served at ``/mcp/server-card``, the catalogue at ``/.well-known/ai-catalog.json``. Both are public, also for
pages of other sites, so they contain only public data. They are generated from the server, so that they match what a
client gets from ``server/discover``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from ..core.route_handlers import RouteRequest, RouteResponse
from ..errors import RegistrationError, StateError
from ..settings import check_kinds
from ..settings.parameter_kinds import FLAG, MAPPING, TEXT, WHOLE, Several, or_none
from ..transports.loopback import is_loopback
from .extension import Extension

if TYPE_CHECKING:
    from ..server.server import Server

SERVER_CARD_EXTENSION: Final = "io.modelcontextprotocol/server-card"
SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
CARD_TYPE: Final = "application/mcp-server-card+json"
CATALOG_TYPE: Final = "application/ai-catalog+json"
CATALOG_PATH: Final = "/.well-known/ai-catalog.json"
MAX_CARD_BYTES: Final = 256 << 10
"""Bytes of a card or a catalogue."""
_NAME: Final = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_RANGE: Final = re.compile(r"[\^~<>=*|]|(^|\.)x(\.|$)")
"""A version that is a range. The schema refuses it."""
_CORS: Final = {
    # SEP-2127, CORS Requirements: the documents are public and read-only.
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET",
    "access-control-allow-headers": "Content-Type, If-None-Match",
    "access-control-expose-headers": "ETag",
}


class ServerCard(Extension):
    """Publishes a card of the server, and a catalogue that leads to it. Without this extension there is neither."""

    id = SERVER_CARD_EXTENSION

    def __init__(
        self,
        name: str,
        url: str,
        *,
        description: str | None = None,
        repository: Mapping[str, str] | None = None,
        headers: Sequence[Mapping[str, Any]] = (),
        sse_url: str | None = None,
        path: str | None = None,
        catalog: bool = True,
        entries: Sequence[Mapping[str, Any]] = (),
        max_age: int = 3600,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Set what the server does not know itself.

        Args:
            name: The name in the catalogue: a reversed domain, a slash and a name, such as ``com.example/weather``.
            url: The public URL of the Streamable HTTP endpoint. It begins with ``https://``.
            description: What the server does, in 1 to 100 characters; by default the description of the server.
            repository: ``url`` and ``source`` of the source code, such as ``{"url": …, "source": "github"}``.
            headers: HTTP headers that clients have to send, each with ``name``, ``description`` and so on.
            sse_url: The public URL of the HTTP+SSE endpoint, if the server has one.
            path: The path of the card; by default that of ``url`` with ``/server-card``.
            catalog: Whether to serve ``/.well-known/ai-catalog.json``.
            entries: Further entries of the catalogue, such as cards of other servers of the domain.
            max_age: Seconds for which clients may keep the documents.
            meta: ``_meta`` of the card.

        Raises:
            RegistrationError: a value is not valid.
        """
        check_kinds(
            {
                "name": TEXT,
                "url": TEXT,
                "description": or_none(TEXT),
                "repository": or_none(MAPPING),
                "headers": (Several, "a list of headers"),
                "sse_url": or_none(TEXT),
                "path": or_none(TEXT),
                "catalog": FLAG,
                "entries": (Several, "a list of entries"),
                "max_age": WHOLE,
                "meta": or_none(MAPPING),
            },
            locals(),
        )
        super().__init__()
        if not _NAME.fullmatch(name) or not 3 <= len(name) <= 200:
            raise RegistrationError(
                f"the name of a server card is a reversed domain, a slash and a name, such as "
                f"'com.example/weather', not {name!r}"
            )
        for one in (url, url if sse_url is None else sse_url):
            _check_url(one)
        if repository is not None and not {"url", "source"} <= repository.keys():
            raise RegistrationError("the repository of a server card has 'url' and 'source'")
        if any("name" not in header for header in headers):
            raise RegistrationError("each header of a server card has a 'name'")
        if any(
            not {"identifier", "type"} <= entry.keys() or ("url" in entry) == ("data" in entry)
            for entry in entries
        ):
            raise RegistrationError(
                "each entry of the catalogue has 'identifier', 'type', and 'url' or 'data'"
            )
        self._name = name
        self._url = url
        self._description = description
        self._repository = repository
        self._headers = [dict(header) for header in headers]
        self._sse_url = sse_url
        self._path = path or urlsplit(url).path.rstrip("/") + "/server-card"
        self._catalog = catalog
        self._entries = [dict(entry) for entry in entries]
        self._max_age = max_age
        self._meta = meta
        self._served: Server | None = None

    def attach(self, server: Server) -> None:
        """Serve the documents with ``server``.

        Raises:
            RegistrationError: the card would not be valid.
        """
        if self._served is not None:
            raise RegistrationError(
                f"this card belongs to the server {self._served.name!r}: make another ServerCard(…)"
            )
        self._served = server
        text = self._said()
        if not 1 <= len(text) <= 100:
            raise RegistrationError(
                f"the description of a server card has 1 to 100 characters, not {len(text)}: "
                "set ServerCard(…, description=…)"
            )
        if _RANGE.search(server.version) or not 1 <= len(server.version) <= 255:
            raise RegistrationError(f"the version on a server card is one version, not {server.version!r}")
        if len(msgspec.json.encode(self.card())) > MAX_CARD_BYTES:
            raise RegistrationError(f"a server card has at most {MAX_CARD_BYTES} bytes")
        self._serve(self._path, CARD_TYPE, self.card)
        if self._catalog:
            self._serve(CATALOG_PATH, CATALOG_TYPE, self.catalog)

    @property
    def url(self) -> str:
        """The URL of the card."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc}{self._path}"

    def card(self) -> dict[str, Any]:
        """Return the card. Raises StateError: it belongs to no server."""
        server = self._server
        info = server.dispatcher.info
        revisions = server.dispatcher.settings.revisions
        versions = [revision.name for revision in revisions]
        remote: dict[str, Any] = {
            "type": "streamable-http", "url": self._url, "supportedProtocolVersions": versions,
        }  # fmt: skip
        remotes = [remote]
        if self._sse_url is not None:
            legacy = [revision.name for revision in revisions if not revision.modern]
            remotes.append({"type": "sse", "url": self._sse_url, "supportedProtocolVersions": legacy})
        if self._headers:
            remotes = [{**one, "headers": self._headers} for one in remotes]
        title = None if info.title is UNSET else info.title
        icons = None if info.icons is UNSET else msgspec.to_builtins(info.icons)
        website = None if info.website_url is UNSET else info.website_url
        found: dict[str, Any] = {
            "$schema": SCHEMA,
            "name": self._name,
            "version": info.version,
            "description": self._said(),
            "title": title[:100] if title else None,
            "websiteUrl": website,
            "repository": None if self._repository is None else dict(self._repository),
            "icons": icons,
            "remotes": remotes,
            "_meta": None if self._meta is None else dict(self._meta),
        }
        return {member: value for member, value in found.items() if value is not None}

    def catalog(self) -> dict[str, Any]:
        """Return the catalogue: an entry for this server, and the further ones."""
        domain, _, name = self._name.partition("/")
        publisher = ".".join(reversed(domain.split(".")))
        own = {"identifier": f"urn:air:{publisher}:mcp:{name}", "type": CARD_TYPE, "url": self.url}
        return {"specVersion": "1.0", "entries": [own, *self._entries]}

    @property
    def _server(self) -> Server:
        if self._served is None:
            raise StateError("this card belongs to no server: register it with Server(extensions=[…])")
        return self._served

    def _said(self) -> str:
        """The description on the card."""
        own = self._server.dispatcher.info.description
        return self._description or ("" if own is UNSET else own)

    def _serve(self, path: str, kind: str, make: Any) -> None:
        @self._server.dispatcher.add_route(path, ("GET", "OPTIONS"), auth=False, public=True)
        async def answer(request: RouteRequest) -> RouteResponse:  # pyright: ignore[reportUnusedFunction]
            if request.method == "OPTIONS":
                return RouteResponse(None, 204, _CORS)
            body = msgspec.json.encode(make())
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            headers = {**_CORS, "cache-control": f"public, max-age={self._max_age}", "etag": etag}
            if _matches(request.headers.get("if-none-match", ""), etag):
                return RouteResponse(None, 304, headers)
            return RouteResponse(body, 200, headers, kind)


def _matches(given: str, etag: str) -> bool:
    """Whether an ``If-None-Match`` header names the document as it is."""
    return given.strip() == "*" or etag in [one.strip().removeprefix("W/") for one in given[:4096].split(",")]


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
        valid = secure and bool(parts.hostname) and not parts.query and not parts.fragment
        valid = valid and parts.username is None and all("!" <= each <= "~" for each in url)
    except ValueError:
        valid = False
    if not valid:
        raise RegistrationError(
            f"the URL on a server card is the public https URL of the endpoint, such as "
            f"'https://example.com/mcp', not {url!r}"
        )
