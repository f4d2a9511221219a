"""Machines, workloads and employees: what they send, and what they do when they are refused."""

import asyncio
import base64
import hashlib
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from dovetail.auth import (
    AuthError,
    ClientCredentials,
    DeviceCode,
    DPoP,
    IdentityAssertion,
    MemoryTokens,
    WorkloadIdentity,
)
from dovetail.client.http_client import StatusError
from tests.client.fake_http import Reply, Request, modern, serving
from tests.support.waiting import HANG

from .provider import Provider, answer, client, log_in, oauth, refuse
from .test_proxy_login import run

KEY = ECKey.generate_key("P-256")


def test_a_machine_is_recognised_by_its_secret() -> None:
    async def test(provider: Provider) -> None:
        await log_in(provider, ClientCredentials("m", "s", scopes="base"))
        (form,), (request,) = provider.forms(), provider.asked("/token")
        assert form["grant_type"] == "client_credentials"
        assert (form["resource"], form["scope"]) == (provider.url, "base")
        assert request.headers["authorization"].startswith("Basic ")
        assert "client_secret" not in form

    run(test)


def test_a_machine_is_recognised_by_its_key() -> None:
    async def test(provider: Provider) -> None:
        provider.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
        await log_in(provider, ClientCredentials("m", private_key=KEY.as_pem(private=True)))
        (form,) = provider.forms()
        assert form["client_assertion_type"].endswith("jwt-bearer")
        token = jwt.decode(form["client_assertion"], KEY, algorithms=["ES256"])
        claims = token.claims
        assert (claims["iss"], claims["sub"], claims["aud"]) == ("m", "m", provider.issuer)
        assert 0 < claims["exp"] - claims["iat"] <= 60

    run(test)


def test_a_machine_whose_token_ends_gets_another_one_by_itself() -> None:
    async def test(provider: Provider) -> None:
        async with client(provider, ClientCredentials("m", "s")) as connected:
            provider.granted.clear()
            provider.refreshable.clear()
            await connected.list_tools(fresh=True)
        grants = [form["grant_type"] for form in provider.forms()]
        assert grants == ["client_credentials", "refresh_token", "client_credentials"]

    run(test)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"client_secret": "s", "private_key": KEY.as_pem(private=True)},
        {"private_key": "no key"},
        {"private_key": KEY.as_pem(private=False)},
        {"private_key": RSAKey.generate_key(2048).as_pem(private=True)},
        {"private_key": KEY.as_pem(private=True), "algorithm": "none"},
        {"private_key": KEY.as_pem(private=True), "algorithm": "HS256"},
    ],
)
def test_an_auth_without_a_verifier_is_refused_at_registration(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"client_secret|private_key|algorithm"):
        ClientCredentials("m", **options)


def test_a_workload_exchanges_its_own_token() -> None:
    async def test(provider: Provider) -> None:
        async def mine() -> str:
            return "a.b.c"

        await log_in(provider, WorkloadIdentity(mine))
        (form,) = provider.forms()
        assert form["grant_type"].endswith("jwt-bearer")
        assert form["assertion"] == "a.b.c"

    run(test)


def test_a_workload_that_is_refused_tries_nothing_else() -> None:
    async def test(provider: Provider) -> None:
        provider.answers["/token"] = lambda _: refuse("invalid_grant", "a.b.c has expired")
        with pytest.raises(AuthError, match="invalid_grant") as caught:
            await log_in(provider, WorkloadIdentity("a.b.c"))
        assert "a.b.c" not in caught.value.message
        assert len(provider.forms()) == 1
        assert provider.authorizations() == []

    run(test)


@pytest.mark.parametrize("token", [None, 7, ""])
def test_a_workload_without_a_token_says_so(token: Any) -> None:
    async def test(provider: Provider) -> None:
        with pytest.raises(AuthError, match="token"):
            await log_in(provider, WorkloadIdentity(lambda: token))
        assert provider.forms() == []

    run(test)


def test_an_employee_is_vouched_for_by_the_company() -> None:
    async def test(provider: Provider) -> None:
        jag = {
            "access_token": "the.id.jag",
            "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "token_type": "N_A",
        }
        async with serving(lambda _: answer(200, jag)) as (idp, url):
            auth = IdentityAssertion(
                "mine", "s3cret", idp_token_endpoint=url, idp_client_id="desk", idp_id_token="id.to.ken"
            )
            await log_in(provider, auth)
            (exchange,) = (request.body.decode() for request in idp.requests)
        asked = dict(pair.split("=") for pair in exchange.split("&"))
        assert asked["grant_type"].endswith("token-exchange")
        assert asked["requested_token_type"].endswith("id-jag")
        assert asked["subject_token"] == "id.to.ken"
        assert asked["client_id"] == "desk"
        assert "s3cret" not in exchange
        (form,) = provider.forms()
        assert form["assertion"] == "the.id.jag"
        assert "id.to.ken" not in str(form)

    run(test)


@pytest.mark.parametrize(
    "said",
    [{"access_token": "x", "issued_token_type": "urn:other"}, {"token_type": "N_A"}, {"access_token": ""}],
)
def test_a_hosted_domain_mismatch_is_reported_as_such(said: dict[str, Any]) -> None:
    async def test(provider: Provider) -> None:
        async with serving(lambda _: answer(200, said)) as (_, url):
            auth = IdentityAssertion(
                "mine", "s", idp_token_endpoint=url, idp_client_id="desk", idp_id_token="id.to.ken"
            )
            with pytest.raises(AuthError, match=r"ID-JAG|identity provider"):
                await log_in(provider, auth)
        assert provider.forms() == []

    run(test)


# --- device code ------------------------------------------------------------------------------------------------------


def device(provider: Provider, **answered: Any) -> DeviceCode:
    provider.metadata["device_authorization_endpoint"] = f"{provider.base}/device"
    code = {
        "device_code": provider.secret("device"),
        "user_code": "ABCD",
        "verification_uri": "https://id.example/device",
        "interval": 0,
        "expires_in": 60,
    }
    provider.answers["/device"] = lambda _: answer(200, {**code, **answered})
    return DeviceCode("tv", store=MemoryTokens(), show=lambda text: None)


def test_a_device_asks_until_the_user_has_typed_in_the_code() -> None:
    async def test(provider: Provider) -> None:
        auth = device(provider)
        said = iter(["authorization_pending", "authorization_pending"])

        def pending(request: Request) -> Reply | None:
            word = next(said, None)
            return None if word is None else refuse(word)

        provider.answers["/token"] = pending
        await log_in(provider, auth)
        assert len(provider.forms()) == 3

    run(test)


@pytest.mark.parametrize(("code", "fault"), [("access_denied", "user"), ("expired_token", "user")])
def test_a_device_that_is_refused_stops_asking(code: str, fault: str) -> None:
    async def test(provider: Provider) -> None:
        auth = device(provider)
        provider.answers["/token"] = lambda _: refuse(code)
        with pytest.raises(AuthError, match=code) as caught:
            await log_in(provider, auth)
        assert caught.value.fault == fault
        assert len(provider.forms()) == 1

    run(test)


def test_a_page_for_codes_that_is_no_page_is_not_shown() -> None:
    async def test(provider: Provider) -> None:
        auth = device(provider, verification_uri="javascript:alert(1)")
        with pytest.raises(AuthError, match="verification_uri"):
            await log_in(provider, auth)

    run(test)


# --- DPoP -------------------------------------------------------------------------------------------------------------


class Proven(Provider):
    """Gives tokens bound to a key, and wants a proof with each request; with nonces that change."""

    nonces = True

    def __init__(self) -> None:
        super().__init__()
        self.proofs: list[dict[str, Any]] = []
        self.nonce = 0

    def __call__(self, request: Request) -> Reply:
        if request.path not in ("/mcp", "/token"):
            return super().__call__(request)
        proof = request.headers.get("dpop")
        claims = {} if proof is None else opened(proof)
        wanted = f"nonce-{self.nonce}"
        if request.path == "/token":
            if self.nonces and claims.get("nonce") != wanted:
                return answer(400, {"error": "use_dpop_nonce"}, **{"DPoP-Nonce": wanted})
            made = json.loads(super().__call__(request).body)
            self.proofs.append(claims)
            return answer(200, {**made, "token_type": "DPoP"})
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "DPoP":
            return super().__call__(Request(request.verb, request.path, {}, request.body))
        if self.nonces and claims.get("nonce") != wanted:
            challenge = 'DPoP error="use_dpop_nonce"'
            return Reply(401, {"WWW-Authenticate": challenge, "DPoP-Nonce": wanted})
        assert claims["ath"] == b64(hashlib.sha256(token.encode()).digest())
        self.proofs.append(claims)
        self.nonce += 1
        reply = modern(request)
        return Reply(reply.status, {**reply.headers, "DPoP-Nonce": f"nonce-{self.nonce}"}, reply.body)


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def opened(proof: str) -> dict[str, Any]:
    """The claims of a proof, whose signature is that of the key it names."""
    header = json.loads(base64.urlsafe_b64decode(proof.split(".")[0] + "=="))
    assert header["typ"] == "dpop+jwt"
    assert "d" not in header["jwk"]
    return dict(jwt.decode(proof, ECKey.import_key(header["jwk"]), algorithms=["ES256"]).claims)


@pytest.mark.parametrize("nonces", [True, False])
def test_each_request_has_a_proof_of_its_own_with_the_newest_nonce(nonces: bool) -> None:
    async def test() -> None:
        from .provider import provided

        provider = Proven()
        provider.nonces = nonces
        async with asyncio.timeout(HANG), provided(provider):
            async with client(provider, DPoP(oauth())) as connected:
                for _ in range(3):
                    await connected.list_tools(fresh=True)
            refused = [r for r in provider.asked("/mcp") if "dpop" in r.headers]
        at_server = [claims for claims in provider.proofs if claims["htu"] == provider.url]
        assert {claims["htm"] for claims in at_server} == {"POST"}
        assert len({claims["jti"] for claims in provider.proofs}) == len(provider.proofs)
        # A nonce that comes with an answer is used at once: at most the first proof was without.
        assert len(refused) - len(at_server) <= 1

    asyncio.run(test())


def test_the_key_is_stored_with_the_tokens_it_belongs_to() -> None:
    async def test() -> None:
        from .provider import provided

        provider = Proven()
        async with asyncio.timeout(HANG), provided(provider):
            store = MemoryTokens()
            for _ in range(2):
                async with client(provider, DPoP(oauth(store=store))) as connected:
                    await connected.list_tools()
            keys = {
                json.dumps(
                    json.loads(base64.urlsafe_b64decode(r.headers["dpop"].split(".")[0] + "=="))["jwk"]
                )
                for r in provider.fake.requests
                if "dpop" in r.headers
            }
        assert len(keys) == 1
        assert len(provider.authorizations()) == 1

    asyncio.run(test())


def test_a_server_that_never_accepts_the_dpop_nonce_is_given_up() -> None:
    async def test() -> None:
        from .provider import provided

        provider = Proven()
        async with asyncio.timeout(HANG), provided(provider):
            challenge = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": "same"}

            def never(request: Request) -> Reply | None:
                return Reply(401, challenge) if "dpop" in request.headers else None

            usual = provider.__call__

            class Never(Proven):
                def __call__(self, request: Request) -> Reply:
                    found = never(request) if request.path == "/mcp" else None
                    return usual(request) if found is None else found

            provider.fake.handler = Never()
            with pytest.raises(StatusError):
                async with client(provider, DPoP(oauth())):
                    pass
            assert len(provider.asked("/mcp")) < 12

    asyncio.run(test())


def test_a_token_that_is_not_bound_to_the_key_is_refused() -> None:
    async def test(provider: Provider) -> None:
        with pytest.raises(AuthError, match="dpop"):
            await log_in(provider, DPoP(oauth()))

    run(test)


def test_only_ways_to_log_in_can_be_proven() -> None:
    with pytest.raises(TypeError, match="OAuth"):
        DPoP("token")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="algorithm"):
        DPoP(oauth(), algorithm="HS256")
