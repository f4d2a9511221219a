"""An authorization server in the hands of an attacker: what it says, how long it takes, and how often it was asked."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from joserfc.jwk import ECKey
from joserfc.jws import JWSRegistry

Json = dict[str, Any]
_ES256 = JWSRegistry(algorithms=["ES256"]).get_alg("ES256")


def part(data: bytes | Any) -> str:
    """One part of a token."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(key: ECKey, header: Any, claims: bytes | Any) -> str:
    """A token of ``key``, whatever is said in it: who makes tokens by the rules would refuse most of ours."""
    said = f"{part(header)}.{part(claims)}"
    return f"{said}.{part(_ES256.sign(said.encode(), key))}"


class Issuer:
    """What lies where: JSON, or bytes of a whole answer. What is ``silent`` never answers."""

    def __init__(self) -> None:
        self.key = ECKey.generate_key("P-256", {"kid": "k"})
        self.url = ""
        self.places: dict[str, Json | bytes] = {}
        self.silent: set[str] = set()
        self.asked: Counter[str] = Counter()

    def begin(self) -> None:
        """Be an honest one."""
        self.silent.clear()
        self.places = {
            "/.well-known/oauth-authorization-server": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": [self.key.as_dict(private=False)]},
            "/introspect": {"active": False},
            "/token": {"access_token": "theirs", "token_type": "Bearer"},
            "/userinfo": {"sub": "ann"},
        }

    def token(self, audience: str, header: Json | None = None, **claims: Any) -> str:
        """An honest one, but for what is given."""
        whole = {"iss": self.url, "sub": "ann", "aud": audience, "exp": time.time() + 600, **claims}
        head = {"alg": "ES256", "kid": "k", **(header or {})}
        return signed(self.key, head, whole)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split()[1].partition("?")[0]
            self.asked[path] += 1
            if path in self.silent:
                await reader.read()
            writer.write(_answer(self.places.get(path)))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def _answer(found: Json | bytes | None) -> bytes:
    if isinstance(found, bytes):
        return found
    body = json.dumps(found).encode()
    status = "404 Not Found" if found is None else "200 OK"
    return f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    server = await asyncio.start_server(issuer.serve, "127.0.0.1", 0, limit=1 << 20)
    issuer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    issuer.begin()
    try:
        yield issuer
    finally:
        server.close()
