"""What a verified bearer call costs more than an open one, once its token has been seen."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from dovetail import Principal
from dovetail.auth import AnyOf, ApiKeys, IntrospectionVerifier, JwtVerifier, StaticTokens
from tests.auth.documents import documents
from tests.auth.visitor import visitor
from tests.budget.test_http import FACES, Measured, legacy_headers, modern, modern_headers, request, serving
from tests.support.aio import run

MORE = 8
ANN = Principal("ann", "https://id.example", frozenset({"a"}), {"exp": 1 << 40})


async def own(token: str, scope: Any) -> Principal | None:
    return ANN


KEY = ECKey.generate_key("P-256", {"kid": "k"})
CLAIMS: dict[str, Any] = {
    "iss": "https://id.example",
    "sub": "ann",
    "aud": "https://shop.example/mcp",
    "exp": 1 << 40,
}
SIGNED = jwt.encode({"alg": "ES256", "kid": "k"}, CLAIMS, KEY)


def signed() -> JwtVerifier:
    return JwtVerifier(issuer=CLAIMS["iss"], audience=CLAIMS["aud"], keys=KEY.as_dict(private=False))


@asynccontextmanager
async def introspecting() -> AsyncIterator[IntrospectionVerifier]:
    """A verifier that has to ask once."""
    async with documents() as site:
        site.places["/introspect"] = {"active": True, **CLAIMS}
        yield IntrospectionVerifier(
            endpoint=f"{site.url}/introspect", client_id="us", client_secret="secret", audience=CLAIMS["aud"]
        )
        assert site.asked.count("/introspect") == 1


VERIFIERS: dict[str, Callable[[], Any]] = {
    "static": lambda: StaticTokens({"s3cret": ANN}),
    "own": lambda: own,
    "jwt": signed,
    "any": lambda: AnyOf(ApiKeys({"k": ANN}), StaticTokens({"s3cret": ANN})),
}


def token(auth: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {SIGNED if isinstance(auth, JwtVerifier) else 's3cret'}"}


async def modern_calls(face: str, auth: Any, given: dict[str, str] | None = None) -> list[str]:
    server = serving(1)
    server.dispatcher.auth = auth
    measured = Measured(server, face)
    counted: list[list[str]] = []
    for _ in range(5):
        message = modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        _, body = await measured.post(message, modern_headers(message) | (given or token(auth)))
        counted.append(measured.calls)
    assert json.loads(body)["result"]["content"][0]["text"] == "3"
    await measured.app.drain(0)
    return min(counted, key=len)  # a timer of the event loop may run during one of the calls


async def session_calls(face: str, auth: Any, given: dict[str, str] | None = None) -> list[str]:
    server = serving(1)
    server.dispatcher.auth = auth
    measured = Measured(server, face)
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    headers, _ = await measured.post(
        request("initialize", params), legacy_headers(None) | (given or token(auth))
    )
    session = legacy_headers("2025-11-25", headers["mcp-session-id"]) | (given or token(auth))
    await measured.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    counted: list[list[str]] = []
    for _ in range(5):
        _, body = await measured.post(
            request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}), session
        )
        counted.append(measured.calls)
    assert json.loads(body)["result"]["content"][0]["text"] == "3"
    await measured.app.drain(0)
    return min(counted, key=len)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("verifier", VERIFIERS)
@run
async def test_a_verified_call_costs_eight_calls_more_at_most(verifier: str, face: str) -> None:
    for calls in (modern_calls, session_calls):
        unverified, verified = await calls(face, None), await calls(face, VERIFIERS[verifier]())
        assert len(verified) - len(unverified) <= MORE, "\n".join(verified)


@pytest.mark.parametrize("face", FACES)
@run
async def test_so_does_one_whose_token_has_been_asked_for(face: str) -> None:
    for calls in (modern_calls, session_calls):
        async with introspecting() as auth:
            unverified, verified = await calls(face, None), await calls(face, auth)
            assert len(verified) - len(unverified) <= MORE, "\n".join(verified)


@pytest.mark.parametrize("face", FACES)
@run
async def test_so_does_one_with_a_token_of_a_proxy(face: str) -> None:
    async with visitor() as one:
        id = await one.register()
        _, tokens = await one.redeem(id, await one.code(id))
        for calls in (modern_calls, session_calls):
            given = {"authorization": f"Bearer {tokens['access_token']}"}
            unverified, verified = await calls(face, None), await calls(face, one.proxy, given)
            assert len(verified) - len(unverified) <= MORE, "\n".join(verified)
