"""Tokens that are bound to a key: who sends one proves, for each request, that he has the key (RFC 9449)."""

import asyncio
import base64
import json
import time
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from dovetail import Client, Context, Principal, Server
from dovetail.auth import (
    ClientCredentials,
    DPoP,
    IntrospectionVerifier,
    JwtVerifier,
    MemoryTokens,
    OAuth,
    StaticTokens,
)
from dovetail.auth.client.signing import KeySigner, digest
from dovetail.auth.core.challenge import read
from dovetail.auth.server.connection_auth import environment_principal
from dovetail.auth.server.dpop_validator import DpopValidator, MissingNonce
from dovetail.errors import DovetailError
from dovetail.stores import MemoryStore
from dovetail.wire.seal import Keys, Seal
from tests.support.aio import run
from tests.support.web import Response, Site, modern, served

from .documents import documents
from .oidc import free_port, oidc
from .stores import FullStore
from .test_authenticate import call, post
from .test_oidc_provider import come_back

KEY = ECKey.generate_key("P-256", {"kid": "k"})
MINE = KeySigner.made_for("ES256")
ISSUER, AUDIENCE = "https://id.example", "https://shop.example/mcp"


def token(**claims: Any) -> str:
    whole = {
        "iss": ISSUER,
        "sub": "ann",
        "aud": AUDIENCE,
        "exp": 1 << 40,
        "cnf": {"jkt": MINE.thumbprint},
        **claims,
    }
    kept = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode({"alg": "ES256", "kid": "k"}, kept, KEY)


def proof(bearer: str, signer: KeySigner = MINE, header: dict[str, Any] | None = None, **claims: Any) -> str:
    whole = {"jti": base64.b64encode(str(time.monotonic_ns()).encode()).decode(), "htm": "POST", "htu": AUDIENCE,
             "iat": time.time(), "ath": digest(bearer), **claims}  # fmt: skip
    kept = {name: value for name, value in whole.items() if value is not None}
    return signer.sign(kept, {"typ": "dpop+jwt", "jwk": signer.public, **(header or {})})


def behind(store: Any = None) -> Server:
    auth = JwtVerifier(issuer=ISSUER, audience=AUDIENCE, keys=KEY.as_dict(private=False))
    server = Server("shop", "1", auth=auth, store=store)

    @server.tool
    async def who(ctx: Context) -> str:
        """Who is calling."""
        return str(ctx.principal)

    return server


async def send(site: Site, bearer: str, shown: str | None, scheme: str = "DPoP") -> Response:
    headers = {"Authorization": f"{scheme} {bearer}"} | ({} if shown is None else {"DPoP": shown})
    return await post(site, call("who"), headers)


def said(answer: Response) -> tuple[str, str, str]:
    [challenge] = read(answer.headers["www-authenticate"])
    return challenge.scheme, challenge.parameters["error"], challenge.parameters["error_description"]


@run
async def test_a_proof_lets_its_token_in() -> None:
    async with served(behind()) as site:
        mine = token()
        for _ in range(2):
            answer = await send(site, mine, proof(mine))
            assert answer.message["result"]["content"][0]["text"] == "ann"


@run
async def test_a_bound_token_is_no_bearer_token() -> None:
    async with served(behind()) as site:
        mine = token()
        for scheme, shown in (("Bearer", None), ("Bearer", proof(mine)), ("DPoP", None)):
            answer = await send(site, mine, shown, scheme)
            assert answer.status == 401
            assert said(answer)[:2] == ("DPoP", "invalid_dpop_proof")
        [challenge] = read((await send(site, mine, None)).headers["www-authenticate"])
        assert "ES256" in challenge.parameters["algs"]
        assert "resource_metadata" in challenge.parameters


OTHER = KeySigner.made_for("ES256")
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"htm": "GET"}, "htm does not match"),
    ({"htm": None}, "htm is missing"),
    ({"htu": "https://other.example/mcp"}, "htu does not match"),
    ({"htu": "https://shop.example/other"}, "htu does not match"),
    ({"htu": "http://shop.example/mcp"}, "htu does not match"),
    ({"htu": "https://[broken"}, "htu does not match"),
    ({"htu": 7}, "htu is missing"),
    ({"ath": digest("another token")}, "ath does not match"),
    ({"ath": None}, "ath is missing"),
    ({"iat": 1}, "iat is outside the accepted window"),
    ({"iat": 1 << 40}, "iat is outside the accepted window"),
    ({"iat": "now"}, "iat is missing"),
    ({"iat": True}, "iat is missing"),
    ({"jti": None}, "jti is missing"),
    ({"jti": "j\u00e4"}, "jti is missing"),
    ({"signer": OTHER}, "not the one that the token is bound to"),
    ({"header": {"typ": "JWT"}}, "typ is not dpop+jwt"),
    ({"header": {"jwk": MINE.private}}, "no public key"),
    ({"header": {"jwk": {"kty": "EC"}}}, "does not fit the algorithm"),
    ({"header": {"jwk": {"kty": ["EC"]}}}, "does not fit the algorithm"),
    ({"header": {"jwk": OTHER.public}}, "not the one that the token is bound to"),
]


@pytest.mark.parametrize(("change", "reason"), WRONG)
@run
async def test_a_proof_that_is_wrong_is_refused_with_its_reason(change: dict[str, Any], reason: str) -> None:
    async with served(behind()) as site:
        mine = token()
        answer = await send(site, mine, proof(mine, **change))
        assert answer.status == 401
        assert said(answer)[1] == "invalid_dpop_proof"
        assert reason in said(answer)[2]
        assert mine not in str(answer.headers)


def by_hand(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"x") -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


@run
async def test_forged_and_broken_proofs_are_refused() -> None:
    async with served(behind()) as site:
        mine = token()
        good = {"jti": "a", "htm": "POST", "htu": AUDIENCE, "iat": time.time(), "ath": digest(mine)}
        secret = OctKey.generate_key(256)
        hmac_proof = jwt.encode(
            {"alg": "HS256", "typ": "dpop+jwt", "jwk": secret.as_dict(private=True)}, good, secret
        )
        for shown in (
            "x", "a.b.c", "....", "\u00ff", "e30.e30.", proof(mine)[:-6] + "AAAAAA", "x" * 9000, hmac_proof,
            by_hand({"alg": "none", "typ": "dpop+jwt", "jwk": MINE.public}, good, b""),
            by_hand({"alg": "ES256", "typ": "dpop+jwt", "jwk": MINE.public}, good),
            by_hand({"alg": "ES256", "typ": "dpop+jwt", "jwk": None}, good),
            by_hand({"alg": "ES256", "typ": "dpop+jwt", "jwk": MINE.public, "crit": ["x"], "x": 1}, good),
            by_hand({"alg": "RS256", "typ": "dpop+jwt", "jwk": MINE.public}, good),
            by_hand({"alg": ["ES256"], "typ": "dpop+jwt", "jwk": [MINE.public]}, good),
        ):  # fmt: skip
            answer = await send(site, mine, shown)
            assert answer.status in (400, 401), shown


@run
async def test_a_proof_is_good_once_also_in_a_race() -> None:
    async with served(behind()) as site:
        mine = token()
        shown = proof(mine)
        answers = await asyncio.gather(*(send(site, mine, shown) for _ in range(6)))
        assert sorted(answer.status for answer in answers) == [200] + [401] * 5
        assert "already used" in said(await send(site, mine, shown))[2]


@run
async def test_a_proof_for_a_token_that_is_not_bound_says_so() -> None:
    async with served(behind()) as site:
        mine = token(cnf=None)
        answer = await send(site, mine, proof(mine))
        assert said(answer)[1] == "invalid_token"
        assert "send it as Bearer" in said(answer)[2]
        assert (await send(site, mine, None, "Bearer")).status == 200


@pytest.mark.parametrize(
    ("cnf", "reason"),
    [({"x5t#S256": "abc"}, "certificate"), ({"x5t#S256": "abc", "jkt": "x"}, "certificate"),
     ({"kid": "x"}, "confirmation method"), ({}, "confirmation method"),
     ("x", "confirmation method"), ({"jkt": 7}, "confirmation method"),
     ({"jkt": "x", "jwk": {}}, "confirmation method")],
)  # fmt: skip
@run
async def test_other_bindings_are_refused_clearly(cnf: Any, reason: str) -> None:
    async with served(behind()) as site:
        mine = token(cnf=cnf)
        for scheme, shown in (("Bearer", None), ("DPoP", proof(mine))):
            answer = await send(site, mine, shown, scheme)
            assert answer.status == 401
            assert reason in said(answer)[2]


@run
async def test_a_proof_is_good_once_also_where_several_servers_share_a_store() -> None:
    store = MemoryStore()
    async with served(behind(store)) as one, served(behind(store)) as two:
        mine = token()
        shown = proof(mine)
        assert (await send(one, mine, shown)).status == 200
        answer = await send(two, mine, shown)
        assert (answer.status, said(answer)[2]) == (401, "DPoP proof rejected: jti was already used")
        assert (await send(two, mine, proof(mine))).status == 200


@run
async def test_a_proof_is_good_once_also_in_a_race_with_a_store() -> None:
    async with served(behind(MemoryStore())) as site:
        mine = token()
        shown = proof(mine)
        answers = await asyncio.gather(*(send(site, mine, shown) for _ in range(8)))
        assert sorted(answer.status for answer in answers) == [200] + [401] * 7


@run
async def test_access_is_denied_when_proof_reuse_cannot_be_checked() -> None:
    store = FullStore()
    async with served(behind(store)) as site:
        store.full = True
        mine = token()
        assert (await send(site, mine, proof(mine))).status == 503


@run
async def test_the_header_may_come_once() -> None:
    async with served(behind()) as site, await site.connect() as connection:
        mine = token()
        message = json.dumps(call("who")).encode()
        headers = [
            ("Authorization", f"DPoP {mine}"),
            ("DPoP", proof(mine)),
            ("DPoP", proof(mine)),
            ("Content-Type", "application/json"),
        ]
        connection.request("POST", "/mcp", headers, message)
        assert (await connection.head()).status == 400


@run
async def test_the_metadata_says_that_proofs_are_understood() -> None:
    async with served(behind()) as site, await site.connect() as connection:
        connection.request("GET", "/.well-known/oauth-protected-resource/mcp", {})
        answer = await connection.head()
        body = await connection.reader.readexactly(int(answer.headers["content-length"]))
        assert "ES256" in json.loads(body)["dpop_signing_alg_values_supported"]


@run
async def test_verifiers_without_bound_tokens_do_not_know_the_scheme() -> None:
    async with served(Server("x", "1", auth=StaticTokens({"t": "ann"}))) as site:
        answer = await post(site, modern("tools/list", {}), {"Authorization": "DPoP t"})
        assert answer.status == 401
        assert read(answer.headers["www-authenticate"])[0].scheme == "Bearer"


@run
async def test_a_websocket_needs_the_proof_too() -> None:
    async with served(behind()) as site:
        mine = token()
        url = f"ws://127.0.0.1:{site.port}/mcp"
        with pytest.raises(InvalidStatus):
            async with connect(url, additional_headers={"Authorization": f"Bearer {mine}"}):
                pass
        shown = proof(mine, htm="GET")
        async with connect(
            url, additional_headers={"Authorization": f"DPoP {mine}", "DPoP": shown}
        ) as socket:
            message = call("who")
            await socket.send(json.dumps(message))
            assert json.loads(await socket.recv())["result"]["content"][0]["text"] == "ann"


@run
async def test_a_bound_token_in_the_environment_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOVETAIL_TOKEN", token())
    auth = JwtVerifier(issuer=ISSUER, audience=AUDIENCE, keys=KEY.as_dict(private=False))
    with pytest.raises(DovetailError, match="bound to a key"):
        await environment_principal(auth)


@run
async def test_introspected_tokens_are_bound_likewise() -> None:
    async with documents() as provider:
        provider.places["/introspect"] = {
            "active": True,
            "sub": "ann",
            "aud": AUDIENCE,
            "cnf": {"jkt": MINE.thumbprint},
        }
        auth = IntrospectionVerifier(
            endpoint=f"{provider.url}/introspect", client_id="us", client_secret="s", audience=AUDIENCE
        )
        server = behind()
        server.dispatcher.auth = auth
        async with served(server) as site:
            assert (await send(site, "opaque", None, "Bearer")).status == 401
            assert (await send(site, "opaque", proof("opaque"))).status == 200


@run
async def test_a_key_of_rsa_proves_as_well() -> None:
    signer = KeySigner(RSAKey.generate_key(2048), "PS256")
    async with served(behind()) as site:
        mine = token(cnf={"jkt": signer.thumbprint})
        answer = await send(site, mine, proof(mine, signer))
        assert answer.status == 200, answer.headers


@pytest.mark.peer
@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("verifier", ["jwt", "introspection"])
def test_a_client_with_dpop_is_accepted_by_the_server(revision: str, verifier: str) -> None:
    async def test() -> None:
        url = f"http://127.0.0.1:{free_port()}/mcp"
        async with (
            asyncio.timeout(60),
            oidc(RESOURCE=url, FORMAT="jwt" if verifier == "jwt" else "opaque") as provider,
        ):
            auth: Any = JwtVerifier(issuer=provider.issuer, audience=url)
            if verifier == "introspection":
                endpoint = f"{provider.issuer}/token/introspection"
                auth = IntrospectionVerifier(
                    endpoint=endpoint,
                    client_id="api",
                    client_secret="api-secret",
                    issuer=provider.issuer,
                    audience=url,
                )
            server = behind()
            server.dispatcher.auth = auth
            async with served(server, port=int(url.split(":")[2].removesuffix("/mcp"))):
                for inner in (
                    OAuth(store=MemoryTokens(), open_browser=come_back),
                    ClientCredentials("machine", "machine-secret"),
                ):
                    async with Client(url, revision=revision, auth=DPoP(inner)) as client:
                        for _ in range(2):
                            assert (await client.call_tool("who")).text in ("somebody", "machine")

    asyncio.run(test())


@pytest.mark.parametrize("minutes", [-4.9, 4.9])
@run
async def test_a_clock_that_is_off_by_less_than_five_minutes_is_good_enough(minutes: float) -> None:
    async with served(behind()) as site:
        mine = token()
        assert (await send(site, mine, proof(mine, iat=time.time() + 60 * minutes))).status == 200
        late = await send(
            site, mine, proof(mine, iat=time.time() + 60 * (minutes + (1 if minutes > 0 else -1)))
        )
        assert (late.status, said(late)[1]) == (401, "invalid_dpop_proof")


@run
async def test_where_nonces_are_required_the_challenge_brings_one_for_the_next_proof() -> None:
    server = behind()
    async with served(server, dpop_nonces=True) as site, served(server, dpop_nonces=True) as twin:
        mine = token()
        refused = await send(site, mine, proof(mine))
        assert (refused.status, said(refused)[1]) == (401, "use_dpop_nonce")
        nonce = refused.headers["dpop-nonce"]
        for where in (site, site, twin):
            assert (await send(where, mine, proof(mine, nonce=nonce))).status == 200
        for other in ("made-up", nonce[:-2], 7):
            again = await send(site, mine, proof(mine, nonce=other))
            assert (again.status, said(again)[1]) == (401, "use_dpop_nonce")
            assert again.headers["dpop-nonce"]
        wrong = await send(site, mine, proof(mine, nonce=nonce, htm="GET"))
        assert said(wrong)[1] == "invalid_dpop_proof"


@run
async def test_without_that_option_no_nonce_is_sent() -> None:
    async with served(behind()) as site:
        mine = token()
        refused = await send(site, mine, proof(mine, iat=1))
        assert "dpop-nonce" not in refused.headers
        assert (await send(site, mine, proof(mine, nonce="any"))).status == 200


def nonce_of(now: list[float]) -> DpopValidator:
    return DpopValidator(clock=lambda: now[0], nonces=Seal(Keys.random(), 10_000, owner="shop"))


@run
async def test_a_nonce_expires() -> None:
    now = [time.time()]
    proofs = nonce_of(now)
    nonce = proofs.nonce()
    mine, who = token(), Principal("ann", claims={"cnf": {"jkt": MINE.thumbprint}})
    await proofs.check(proof(mine, nonce=nonce), mine, who, "POST", [AUDIENCE])
    now[0] += 301
    with pytest.raises(MissingNonce, match="expired"):
        await proofs.check(proof(mine, nonce=nonce, iat=now[0]), mine, who, "POST", [AUDIENCE])
