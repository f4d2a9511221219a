"""No token, key or secret ever shows: not in a log, not in an answer, not in a repr."""

import json
import logging
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from dovetail import Principal, Server
from dovetail.auth import AnyOf, ApiKeys, IntrospectionVerifier, JwtVerifier, StaticTokens
from tests.auth.documents import documents
from tests.auth.test_authenticate import call, post
from tests.support.aio import run
from tests.support.web import served

KEY = ECKey.generate_key("P-256", {"kid": "k"})


@run
async def test_a_grep_through_all_logs_and_answers_finds_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    claims: dict[str, Any] = {
        "iss": "https://id.example",
        "sub": "ann",
        "aud": "https://shop",
        "exp": 1 << 40,
    }
    good = jwt.encode({"alg": "ES256", "kid": "k"}, claims, KEY)
    expired = jwt.encode({"alg": "ES256", "kid": "k"}, claims | {"exp": 1}, KEY)
    secrets = ["st4tic-token", "4pi-key", "cl1ent-secret", "0paque-token", "wr0ng-token", good, expired]

    async def failing(token: str, scope: Any) -> Principal | None:
        raise RuntimeError("the database is away")

    async with documents() as site:
        site.places["/introspect"] = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
        asked = IntrospectionVerifier(
            endpoint=f"{site.url}/introspect",
            client_id="us",
            client_secret="cl1ent-secret",
            audience="https://shop",
        )
        signed = JwtVerifier(issuer=claims["iss"], audience="https://shop", keys=KEY.as_dict(private=False))
        known = StaticTokens({"st4tic-token": "ann"})
        seen: list[bytes] = []
        for auth in (AnyOf(known, ApiKeys({"4pi-key": "robot"}), signed), asked, failing):
            server = Server("x", "1", auth=auth)
            async with served(server) as web:
                for secret in secrets:
                    for headers in ({"Authorization": f"Bearer {secret}"}, {"X-API-Key": secret}):
                        found = await post(web, call("nothing"), headers)
                        seen += [found.body, json.dumps(found.headers).encode()]
            seen += [repr(auth).encode(), repr(server).encode(), str(vars(server)).encode()]
    said = caplog.text.encode() + b"".join(seen)
    assert b"introspect" in said  # the log was on
    assert [secret for secret in secrets if secret.encode() in said] == []
