"""Fetching a URL whose server may send us elsewhere: over HTTP alone, and no further into our own network."""

from __future__ import annotations

import http.client
import socket
import time
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

from ..auth.core.privacy import NEVER, highest, leads_inside, level
from ..transports.http.client.addresses import same_origin


class _Reach:
    """How private the author's own choice is; where redirects lead must not be more so."""

    def __init__(self, url: str) -> None:
        self._url, self.begun = url, NEVER
        """How private the address is that was asked first: whoever has the name may have another one told since."""

    def check(self, there: int) -> None:
        if leads_inside(there, min(self.begun, highest(_addresses_of(self._url)))):
            raise URLError("a redirect leads into a private network")


def _addresses_of(url: str) -> list[str]:
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname or "", None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []  # a proxy may know it
    return [str(entry[4][0]) for entry in found]


class _Plain(http.client.HTTPConnection):
    """Says nothing to an address that a name has only since it was looked at."""

    reach: _Reach
    onward: bool

    def connect(self) -> None:
        super().connect()
        there = level(str(self.sock.getpeername()[0]))
        if self.onward:
            self.reach.check(there)
        else:
            self.reach.begun = there


class _Secure(http.client.HTTPSConnection, _Plain):
    """Its `connect` runs that of `_Plain` before TLS begins."""


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def __init__(self, reach: _Reach) -> None:
        super().__init__()
        self._reach = reach

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(self._kind(_Plain, http.client.HTTPConnection, req), req)

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(self._kind(_Secure, http.client.HTTPSConnection, req), req)

    def _kind(self, kind: type[_Plain], proxied: Any, req: urllib.request.Request) -> Any:
        """The first address is the author's choice, whatever it is; through a proxy it is the proxy's."""
        if req.host != urlsplit(req.full_url).netloc:
            return proxied
        return type(kind.__name__, (kind,), {"reach": self._reach, "onward": req.unverifiable})


class _Redirect(urllib.request.HTTPRedirectHandler):
    def __init__(self, url: str, headers: Mapping[str, str], reach: _Reach, deadline: float) -> None:
        self._url, self._headers, self._reach, self._deadline = url, headers, reach, deadline

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        onward = super().redirect_request(req, fp, code, msg, headers, newurl)
        if time.monotonic() > self._deadline:
            raise TimeoutError("the answer took too long")
        fp.close()  # or all that follows the head would be read, however much it is
        if onward is not None:
            self._reach.check(highest(_addresses_of(newurl)))
            if same_origin(self._url, newurl):
                for name, value in self._headers.items():
                    onward.add_unredirected_header(name, value)
        return onward


def opener(url: str, headers: Mapping[str, str], deadline: float) -> urllib.request.OpenerDirector:
    """Only what speaks HTTP: a redirect leads to no file, and takes ``headers`` to no other origin."""
    reach = _Reach(url)
    made = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(), _Handler(reach), _Redirect(url, headers, reach, deadline),
        urllib.request.HTTPErrorProcessor(), urllib.request.HTTPDefaultErrorHandler(),
    ):  # fmt: skip
        made.add_handler(handler)
    return made
