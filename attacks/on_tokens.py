"""Attacks on the authentication: forged tokens, keys that never arrive, replayed proofs."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any

from joserfc.jwk import ECKey

from .issuer import Issuer, issuing, part, signed
from .report import GotThrough, Scale, attack
from .victim import Json, Victim, http, modern, modern_headers, serve

PATIENCE = 2.5
"""Seconds an honest caller waits while an issuer is at its worst; a second of it is for newer keys."""


@asynccontextmanager
async def guarded(host: str, **environment: str) -> AsyncIterator[tuple[Victim, Issuer]]:
    async with issuing() as issuer, serve(host, VICTIM_ISSUER=issuer.url, **environment) as victim:
        yield victim, issuer
        if b"Traceback" in victim.said:
            raise GotThrough(f"it failed inside: {victim.said[-1500:].decode(errors='replace')}")


def audience(victim: Victim) -> str:
    return f"http://127.0.0.1:{victim.address[1]}/mcp"


def asking(headers: dict[str, str]) -> bytes:
    message = modern("tools/call", {"name": "whoami", "arguments": {}})
    return http(headers={**modern_headers(message), **headers}, body=message)


async def ask(victim: Victim, data: bytes) -> tuple[int, dict[str, str], bytes]:
    wire = await victim.connect()
    try:
        wire.send(data)
        return await wire.response()
    finally:
        wire.drop()


async def enter(victim: Victim, issuer: Issuer, **claims: Any) -> float:
    """Come in as an honest caller; the seconds it took."""
    begun = time.monotonic()
    token = issuer.token(audience(victim), **claims)
    status, _, body = await ask(victim, asking({"Authorization": f"Bearer {token}"}))
    if status != 200:
        raise GotThrough(f"an honest caller was answered {status} {body[:200]!r}")
    return time.monotonic() - begun


def forged(issuer: Issuer, meant: str) -> Iterator[str]:
    """Tokens that must be rejected."""
    evil = ECKey.generate_key("P-256", {"kid": "k"})
    claims = {"iss": issuer.url, "sub": "eve", "aud": meant, "exp": time.time() + 600}
    public = issuer.key.as_pem(private=False)
    whole = issuer.token(meant)
    for kind in ("none", "None", "HS256", ["ES256"], None, 5):
        yield f"{part({'alg': kind, 'kid': 'k'})}.{part(claims)}."
    for secret in (public, public.strip(), json.dumps(issuer.key.as_dict(private=False)).encode()):
        said = f"{part({'alg': 'HS256', 'kid': 'k'})}.{part(claims)}"
        yield f"{said}.{part(hmac.digest(secret, said.encode(), 'sha256'))}"
    jwk = evil.as_dict(private=False)
    for more in (
        {"jwk": jwk},
        {"jku": f"{issuer.url}/evil"},
        {"x5u": f"{issuer.url}/evil"},
        {"crit": ["b64"], "b64": False},
        {},
    ):
        head = {"alg": "ES256", "kid": "k", **more}
        yield signed(evil, head, claims)
    for changed in (
        {"aud": "other"},
        {"aud": []},
        {"aud": [meant, 5]},
        {"exp": 1},
        {"exp": 10**400},
        {"exp": "9999999999"},
        {"nbf": 1 << 40},
        {"iss": "other"},
        {"sub": ""},
        {"sub": ["ann"]},
        {"cnf": {"jkt": "x"}},
        {"cnf": []},
        {"cnf": {"x5t#S256": "x"}},
        {"scope": [1]},
    ):
        yield issuer.token(meant, **changed)
    twice = json.dumps(claims)[:-1] + f', "aud": "other", "aud": {json.dumps(meant)}, "exp": 1}}'
    yield signed(issuer.key, {"alg": "ES256", "kid": "k"}, twice.encode())
    head, body, _ = whole.split(".")
    yield from (
        f"{head}.{body}.",
        f"{head}.{body}.AAAA",
        f"{head}.{body}",
        f"{whole}.x",
        f"{whole},{whole}",
        f"{whole} x",
    )
    for depth in (*range(930, 1000, 3), 5000):
        deep = b'{"alg":"ES256","kid":"k","x":' + b"[" * depth + b"]" * depth + b"}"
        yield f"{part(deep)}.{body}.AAAA"
        yield f"{head}.{part(deep)}.AAAA"
    yield from (
        "dta_" + "A" * 500,
        "dtr_" + part(b"\0" * 99),
        "\xff\xfe",
        "a\x00b",
        "=" * 100,
        "x" * 15_000,
        f"{part(b'x' * 11_000)}.{body}.AAAA",
        "..",
        "...",
        "",
    )


@attack("http", seconds=90, own=True)
async def tokens_that_are_forged(host: str, scale: Scale) -> str:
    """Tokens without a signature, with a public key as secret, with keys of their own, nested, doubled, of rubbish."""
    answers = Counter[int]()
    async with guarded(host) as (victim, issuer):
        await enter(victim, issuer)
        for token in forged(issuer, audience(victim)):
            for scheme in ("Bearer", "DPoP"):
                data = asking({"Authorization": f"{scheme} {token}"})
                status, headers, body = await ask(victim, data)
                answers[status] += 1
                if status not in (400, 401, 431):
                    raise GotThrough(f"{scheme} {token[:80]!r}… was answered {status} {body[:200]!r}")
                if status == 401 and "resource_metadata" not in headers.get("www-authenticate", ""):
                    raise GotThrough(f"{scheme} {token[:80]!r}… was not told where to get a token")
        await enter(victim, issuer, sub="bob")
        if issuer.asked["/evil"]:
            raise GotThrough("a key was fetched because a token said so")
    return f"answers {dict(answers)}, keys fetched {issuer.asked['/keys']} times"


def _documents(issuer: Issuer) -> dict[str, dict[str, Json | bytes]]:
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n" + b" " * (1 << 20)
    many = {"keys": [{"kty": "EC", "kid": str(n)} for n in range(100_000)]}
    odd = {"keys": [{"kty": []}, 7, None, {"kty": "RSA", "n": "é"}, issuer.key.as_dict(private=False)]}
    return {
        "large": {"/keys": large, "/introspect": large},
        "many": {"/keys": many},
        "odd": {"/keys": odd, "/introspect": {"active": [True]}},
    }


@attack("http", seconds=150, own=True)
async def keys_that_never_come(host: str, scale: Scale) -> str:
    """Tokens name thousands of keys, while the issuer is silent, says 10 MiB, or has a hundred thousand keys."""
    told: list[str] = []
    for what in ("silent", "odd", "large", "many", "unknown")[: scale.of(2, 5)]:
        async with guarded(host) as (victim, issuer):
            await enter(victim, issuer)
            before, memory = Counter(issuer.asked), victim.memory()
            issuer.places |= _documents(issuer).get(what, {})
            issuer.silent |= {"/keys", "/introspect"} if what == "silent" else set()
            slowest = await _unknown(victim, issuer, scale.of(60, 600))
            fetched = issuer.asked["/keys"] - before["/keys"]
            grown = (victim.memory() - memory) >> 20
            told.append(f"{what}: {fetched} fetches, others waited {slowest:.2f} s, {grown} MiB")
            if fetched > 10 or slowest > PATIENCE or grown > 64:
                raise GotThrough(told[-1])
    return "; ".join(told)


async def _unknown(victim: Victim, issuer: Issuer, count: int) -> float:
    """Send tokens with unknown keys, and come in next to them; how long that took at most."""
    flood = [
        asyncio.create_task(
            ask(
                victim, asking({"Authorization": f"Bearer {issuer.token(audience(victim), {'kid': str(n)})}"})
            )
        )
        for n in range(count)
    ]
    slowest = 0.0
    for number in range(10):
        slowest = max(slowest, await enter(victim, issuer, sub=f"user{number}"))
    for status, _, body in [one.result() for one in flood if one.done()]:
        if status not in (401, 503):
            raise GotThrough(f"a token with an unknown key was answered {status} {body[:200]!r}")
    for one in flood:
        one.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    return slowest


def proof(key: ECKey, token: str, victim: Victim, header: Json | None = None, **claims: Any) -> str:
    ath = part(hashlib.sha256(token.encode()).digest())
    whole = {
        "jti": part(str(time.monotonic_ns()).encode()),
        "htm": "POST",
        "htu": audience(victim),
        "iat": time.time(),
        "ath": ath,
        **claims,
    }
    head = {"alg": "ES256", "typ": "dpop+jwt", "jwk": key.as_dict(private=False), **(header or {})}
    return signed(key, head, {name: value for name, value in whole.items() if value is not None})


@attack("http", seconds=90, own=True)
async def proofs_that_come_again(host: str, scale: Scale) -> str:
    """A token is bound to a key: proofs for something else, of another time, and one at several workers."""
    key, evil = (ECKey.generate_key("P-256", {}) for _ in range(2))
    count = scale.of(12, 60)
    with TemporaryDirectory() as folder:
        async with guarded(host, VICTIM_WORKERS="2", VICTIM_STORE=f"sqlite:///{folder}/store.db") as (
            victim,
            issuer,
        ):
            token = issuer.token(audience(victim), cnf={"jkt": key.thumbprint()})

            async def shown(made: str | None, scheme: str = "DPoP") -> int:
                more = {} if made is None else {"DPoP": made}
                return (await ask(victim, asking({"Authorization": f"{scheme} {token}", **more})))[0]

            wrong = [
                proof(key, token, victim, **one)
                for one in (
                    {"htm": "GET"},
                    {"htu": "http://other/mcp"},
                    {"htu": None},
                    {"iat": 1},
                    {"iat": time.time() + 60},
                    {"iat": 10**400},
                    {"ath": None},
                    {"ath": "x"},
                    {"jti": None},
                    {"jti": 5},
                )
            ]
            wrong += [
                proof(evil, token, victim),
                proof(key, token, victim, {"typ": "JWT"}),
                "x",
                "a.b.c",
                f"{part({'alg': 'none', 'typ': 'dpop+jwt'})}.e30.",
            ]
            wrong += [
                proof(key, token, victim, {"jwk": one})
                for one in (
                    {"kty": []},
                    {"kty": "oct", "k": "x"},
                    5,
                    key.as_dict(private=True),
                    evil.as_dict(private=False),
                )
            ]
            for number, made in enumerate([*wrong, None]):
                if await shown(made) != 401:
                    raise GotThrough(f"proof {number} let its token in, or broke something")
            good = proof(key, token, victim)
            if await shown(good, "Bearer") != 401 or await shown(good) != 200 or await shown(good) != 401:
                raise GotThrough("a bound token is good without its proof, or its proof twice")
            again = proof(key, token, victim)
            let_in = Counter(await asyncio.gather(*(shown(again) for _ in range(count))))
    if let_in != {200: 1, 401: count - 1}:
        raise GotThrough(f"one proof at two workers, {count} times: {dict(let_in)}")
    return f"{len(wrong)} wrong proofs refused; one proof {count} times at two workers: {dict(let_in)}"
