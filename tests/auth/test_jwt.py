"""Signed tokens: which are believed, and why all others are not."""

import asyncio
import base64
import hmac
import json
from typing import Any

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from dovetail import Principal
from dovetail.auth import AnyOf, InvalidToken, JwtVerifier, Unavailable
from dovetail.auth.server.keys import KEYS_SECONDS
from tests.auth.documents import Documents, documents
from tests.support.aio import LIMIT, run
from tests.support.waiting import until

ISSUER = "https://id.example"
AUDIENCE = "https://shop.example/mcp"
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
OTHER = ECKey.generate_key("P-256", {"kid": "ec"})
NOW = 1_800_000_000


def public(*keys: Any) -> dict[str, Any]:
    return {"keys": [key.as_dict(private=False) for key in keys]}


def signed(
    key: Any = EC, algorithm: str = "ES256", header: dict[str, Any] | None = None, **claims: Any
) -> str:
    whole = {"iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "exp": NOW + 60, "iat": NOW, **claims}
    said = {"alg": algorithm, "kid": key.kid, **(header or {})}
    return jwt.encode(said, {k: v for k, v in whole.items() if v is not ...}, key, algorithms=[algorithm])


def verifier(**options: Any) -> JwtVerifier:
    chosen: dict[str, Any] = {"issuer": ISSUER, "audience": AUDIENCE, "keys": public(RSA, EC, ED)}
    return JwtVerifier(**(chosen | {"clock": lambda: NOW} | options))


async def refusal(token: str, **options: Any) -> str:
    with pytest.raises(InvalidToken) as refused:
        await verifier(**options).verify(token, {})
    assert token not in refused.value.message
    return refused.value.message


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS384"), (EC, "ES256"), (ED, "Ed25519")]
)
@run
async def test_a_token_identifies_its_owner(key: Any, algorithm: str) -> None:
    token = signed(key, algorithm, scope="a b", client_id="app")
    found = await verifier().verify(token, {})
    assert found == Principal("ann", ISSUER)
    assert found is not None
    assert (found.scopes, found.client_id, found.expires) == ({"a", "b"}, "app", NOW + 60)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": ...}, "no claim iss"),
        ({"iss": 5}, "iss of the token is not a string"),
        ({"iss": "https://ID.example"}, "the issuer of the token"),
        ({"iss": "https://id.example/"}, "the issuer of the token"),
        ({"iss": "https://id.example:443"}, "the issuer of the token"),
        ({"sub": ...}, "no claim sub"),
        ({"sub": ""}, "sub of the token is not a string"),
        ({"sub": ["ann"]}, "sub of the token is not a string"),
        ({"aud": ...}, "no claim aud"),
        ({"aud": 7}, "neither a string nor a list"),
        ({"aud": [AUDIENCE, 7]}, "neither a string nor a list"),
        ({"aud": []}, "is not this server"),
        ({"aud": "https://shop.example"}, "is not this server"),
        ({"aud": ["https://a", "https://b"]}, "is not this server"),
        ({"aud": AUDIENCE + "/"}, "is not this server"),
        ({"exp": ...}, "no claim exp"),
        ({"exp": "soon"}, "exp of the token is not a valid time"),
        ({"exp": True}, "exp of the token is not a valid time"),
        ({"exp": 10**400}, "exp of the token is not a valid time"),
        ({"iat": -(10**400)}, "iat of the token is not a valid time"),
        ({"exp": NOW - 1}, "has expired"),
        ({"exp": NOW}, "has expired"),
        ({"nbf": NOW + 1}, "not valid yet"),
        ({"nbf": "now"}, "nbf of the token is not a valid time"),
        ({"iat": []}, "iat of the token is not a valid time"),
        ({"scope": 5}, "scope of the token"),
        ({"scope": [5]}, "scope of the token"),
        ({"client_id": 5}, "client_id of the token is not a string"),
        ({"cnf": {"kid": "x"}}, "confirmation method"),
        ({"cnf": {"x5t#S256": "x"}}, "bound to a client certificate"),
    ],
)
@run
async def test_every_claim_is_there_and_of_its_type(claims: dict[str, Any], reason: str) -> None:
    assert reason in await refusal(signed(**claims))


def forged(header: Any, claims: Any, signature: bytes = b"") -> str:
    def part(data: Any) -> str:
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    return ".".join([part(header), part(claims), part(signature)])


CLAIMS = {"iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "exp": NOW + 60}


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (forged({"alg": "none"}, CLAIMS), "algorithm"),
        (forged({"alg": "None"}, CLAIMS), "algorithm"),
        (forged({}, CLAIMS), "algorithm"),
        (forged({"alg": ["ES256"]}, CLAIMS), "algorithm"),
        (forged({"alg": "ES256", "kid": "ec"}, CLAIMS), "signature"),
        (forged({"alg": "ES256", "kid": 5}, CLAIMS), "not supported"),
        (forged({"alg": "ES256", "kid": "nobody"}, CLAIMS), "unknown key"),
        (forged({"alg": "ES256", "kid": "rsa"}, CLAIMS), "unknown key"),
        (forged([], CLAIMS), "header"),
        (forged(b"{", CLAIMS), "header"),
        (forged(b"\xff", CLAIMS), "header"),
        (forged(b"[" * 5000, CLAIMS), "header"),
        ("a.b", "not a signed JWT"),
        ("a.b.c.d.e", "not a signed JWT"),
        ("...", "not a signed JWT"),
    ],
)
@run
async def test_a_foreign_token_is_refused_with_its_reason(token: str, reason: str) -> None:
    assert reason in await refusal(token)


@run
async def test_a_header_is_as_deep_as_it_likes_and_breaks_nothing() -> None:
    for depth in range(900, 1000):  # somewhere here one reader gives up, and another one does not
        header = b'{"alg":"ES256","kid":"ec","x":' + b"[" * depth + b"]" * depth + b"}"
        assert await refusal(forged(header, CLAIMS)) != ""


@run
async def test_a_key_that_is_none_leaves_the_others_of_its_set_good() -> None:
    keys = public(EC)["keys"]
    for odd in (
        {"kty": ["EC"]},
        {"kty": {}},
        {"kty": None},
        {"kty": "EC", "x": 5},
        7,
        {"kty": "RSA", "n": []},
    ):
        assert await verifier(keys={"keys": [odd, *keys]}).verify(signed(), {}) is not None


@run
async def test_a_public_key_is_no_secret() -> None:
    pem = RSA.as_pem(private=False)
    text = forged({"alg": "HS256", "kid": "rsa"}, CLAIMS).rpartition(".")[0]
    mac = hmac.digest(pem, text.encode(), "sha256")
    token = f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    assert "algorithm" in await refusal(token)
    assert "unknown key" in await refusal(token, algorithms=["HS256", "RS256"])


@run
async def test_a_key_of_the_same_name_is_not_the_same_key() -> None:
    assert "signature" in await refusal(signed(OTHER))
    good = signed()
    head, _, tail = good.rpartition(".")
    assert "signature" in await refusal(f"{head}.{tail[:-4]}AAAA")
    swapped = f"{good.split('.')[0]}.{signed(sub='bob').split('.')[1]}.{tail}"
    assert "signature" in await refusal(swapped)


@pytest.mark.parametrize("kind", ["dpop+jwt", "oauth-id-jag+jwt", "logout+jwt", 5])
@run
async def test_a_token_of_another_kind_is_no_access_token(kind: Any) -> None:
    payload = json.dumps(CLAIMS).encode()
    token = jws.serialize_compact(
        {"alg": "ES256", "kid": "ec", "typ": "x"}, payload, EC, algorithms=["ES256"]
    )
    assert "typ" in await refusal(token)
    assert "typ" in await refusal(forged({"alg": "ES256", "kid": "ec", "typ": kind}, CLAIMS))


@run
async def test_critical_headers_we_do_not_know_are_not_passed_over() -> None:
    assert "not supported" in await refusal(forged({"alg": "ES256", "kid": "ec", "crit": ["x"]}, CLAIMS))


@run
async def test_the_audience_may_be_in_a_list_unless_it_must_be_the_only_one() -> None:
    token = signed(aud=["https://other", AUDIENCE])
    assert await verifier().verify(token, {}) == Principal("ann", ISSUER)
    assert "further audiences" in await refusal(token, exclusive=True)
    for alone in (AUDIENCE, [AUDIENCE]):
        assert await verifier(exclusive=True).verify(signed(aud=alone), {}) is not None


@run
async def test_a_token_without_a_kid_is_tried_with_the_keys_that_fit() -> None:
    token = jwt.encode({"alg": "ES256"}, CLAIMS, EC, algorithms=["ES256"])
    assert await verifier().verify(token, {}) is not None


@run
async def test_a_cached_verification_ends_with_its_token() -> None:
    now = [float(NOW)]
    checking = verifier(clock=lambda: now[0])
    token = signed(exp=NOW + 10)
    first = await checking.verify(token, {})
    assert await checking.verify(token, {}) is first
    now[0] += 10
    with pytest.raises(InvalidToken, match="expired"):
        await checking.verify(token, {})


@run
async def test_broad_scopes_imply_narrow_ones() -> None:
    found = await verifier(implies={"mail": ["mail:send"]}).verify(signed(scope="mail"), {})
    assert found is not None
    assert found.scopes == {"mail", "mail:send"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://id.example"},
        {"issuer": "id.example", "keys": None},
        {"jwks_uri": "http://id.example/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"algorithms": ["none"]},
        {"algorithms": ["HS256"], "keys": None},
        {"algorithms": []},
    ],
)
def test_what_cannot_be_trusted_is_refused_when_it_is_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"issuer|jwks_uri|algorithms"):
        verifier(**wrong)


# --- keys that are fetched ------------------------------------------------------------------------------------


def finding(site: Documents, **options: Any) -> JwtVerifier:
    chosen: dict[str, Any] = {"issuer": site.url, "audience": AUDIENCE, "clock": lambda: NOW}
    return JwtVerifier(**(chosen | options))


def offer(site: Documents, *keys: Any) -> None:
    site.places["/.well-known/oauth-authorization-server"] = {
        "issuer": site.url,
        "jwks_uri": f"{site.url}/keys",
    }
    site.places["/keys"] = public(*keys)


@run
async def test_keys_are_found_through_the_metadata_and_fetched_once_for_all() -> None:
    async with documents() as site:
        offer(site, EC)
        site.held.clear()
        checking = finding(site)
        tokens = [signed(iss=site.url, sub=f"user{number}") for number in range(20)]
        verdicts = asyncio.gather(*(checking.verify(token, {}) for token in tokens))
        await until(lambda: bool(site.asked))
        site.held.set()
        assert [str(one) for one in await verdicts] == [f"user{number}" for number in range(20)]
        assert site.asked == ["/.well-known/oauth-authorization-server", "/keys"]


@run
async def test_a_new_key_is_found_and_an_old_one_forgotten_with_all_it_signed() -> None:
    async with documents() as site:
        offer(site, EC)
        checking = finding(site)
        old = signed(iss=site.url)
        assert await checking.verify(old, {}) is not None
        offer(site, ED)
        assert await checking.verify(signed(ED, "Ed25519", iss=site.url), {}) is not None
        with pytest.raises(InvalidToken, match="unknown key"):
            await checking.verify(old, {})


@run
async def test_a_revoked_key_is_noticed_even_without_a_new_token() -> None:
    now = [float(NOW)]
    async with documents() as site:
        offer(site, EC)
        checking = finding(site, clock=lambda: now[0])
        token = signed(iss=site.url, exp=NOW + 100_000)
        assert await checking.verify(token, {}) is not None
        offer(site, ED)
        now[0] += KEYS_SECONDS + 1
        with pytest.raises(InvalidToken, match="unknown key"):
            await checking.verify(token, {})


@run
async def test_unknown_keys_make_us_look_only_so_often() -> None:
    async with documents() as site:
        offer(site, EC)
        checking = finding(site)
        for number in range(100):
            token = forged({"alg": "ES256", "kid": str(number)}, {**CLAIMS, "iss": site.url})
            with pytest.raises(InvalidToken, match="unknown key"):
                await checking.verify(token, {})
        assert site.asked.count("/keys") <= 6
        assert await checking.verify(signed(iss=site.url), {}) is not None


@run
async def test_an_authorization_server_that_is_away_is_no_refusal_and_is_not_asked_again_and_again() -> None:
    async with documents() as site:
        checking = finding(site)
        for _ in range(10):
            with pytest.raises(Unavailable, match="authorization server"):
                await checking.verify(signed(iss=site.url), {})
        assert len(site.asked) == 2  # both places of the metadata, once


@run
async def test_known_keys_stay_good_while_the_server_is_away() -> None:
    now = [float(NOW)]
    async with documents() as site:
        offer(site, EC)
        checking = finding(site, clock=lambda: now[0])
        assert await checking.verify(signed(iss=site.url), {}) is not None
        site.places.clear()
        now[0] += 1000
        assert await checking.verify(signed(iss=site.url, sub="bob", exp=NOW + 5000), {}) is not None


@run
async def test_an_unresponsive_key_server_delays_no_caller_with_a_cached_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dovetail.auth.server.keys.KEY_REFRESH_WAIT_SECONDS", 0.01)
    now = [float(NOW)]
    async with documents() as site:
        offer(site, EC)
        checking = finding(site, clock=lambda: now[0])
        assert await checking.verify(signed(iss=site.url), {}) is not None
        site.held.clear()
        now[0] += KEYS_SECONDS + 1
        for number in range(10):
            token = signed(iss=site.url, sub=f"user{number}", exp=NOW + 5000)
            assert await checking.verify(token, {}) is not None
        assert site.asked.count("/keys") == 2


@run
async def test_tokens_of_another_issuer_cause_no_key_look_up() -> None:
    async with documents() as site, documents() as other:
        offer(other, EC)
        site.held.clear()
        both = AnyOf(finding(site), finding(other))
        assert await both.verify(signed(iss=other.url), {}) is not None
        with pytest.raises(InvalidToken, match="the issuer of the token"):
            await both.verify(forged({"alg": "ES256", "kid": "x"}, CLAIMS), {})
        with pytest.raises(InvalidToken, match="claims"):
            await both.verify(forged({"alg": "ES256", "kid": "x"}, b"["), {})
        assert (site.asked, other.asked.count("/keys")) == ([], 1)


ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b" " * (1 << 20)


@pytest.mark.parametrize(
    "broken",
    [
        ENDLESS,
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{",
        b"\xff\xff",
        {"keys": "none"},
    ],
)
def test_unusable_metadata_documents_deny_access_without_blocking(
    broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dovetail.auth.server.json_documents.DOCUMENT_SECONDS", 2 * LIMIT
    )  # a wait would be seen

    @run
    async def scenario() -> None:
        await refused(broken)

    scenario()


async def refused(broken: Any) -> None:
    async with documents() as site:
        offer(site, EC)
        site.places["/keys"] = broken
        with pytest.raises(Unavailable):
            await finding(site).verify(signed(iss=site.url), {})


@pytest.mark.parametrize("issuer", ["", "/", "x"])
@run
async def test_metadata_of_another_issuer_provides_no_keys(issuer: str) -> None:
    async with documents() as site:
        offer(site, EC)
        place = "/.well-known/oauth-authorization-server"
        site.places[place] = {
            "issuer": (site.url + issuer) if issuer else None,
            "jwks_uri": f"{site.url}/keys",
        }
        with pytest.raises(Unavailable):
            await finding(site).verify(signed(iss=site.url), {})
        assert "/keys" not in site.asked


@run
async def test_no_document_leads_into_a_network_more_private_than_its_own() -> None:
    async with documents() as site:
        offer(site, EC)
        for inside in (
            "http://169.254.169.254/keys",
            "http://10.0.0.1/keys",
            "ftp://x/keys",
            "https://0.0.0.0/",
        ):
            site.places["/.well-known/oauth-authorization-server"]["jwks_uri"] = inside
            with pytest.raises(Unavailable):
                await finding(site).verify(signed(iss=site.url), {})


@run
async def test_a_jwt_header_may_have_unknown_members() -> None:
    """RFC 7515, 4: they MUST be ignored; Microsoft Entra sends a nonce, others a chain of certificates."""
    header = {"alg": "ES256", "kid": "ec", "nonce": "x" * 100, "x5c": ["A" * 1000]}
    token = jws.serialize_compact(
        header, json.dumps(CLAIMS), EC, registry=Long(algorithms=["ES256"], strict_check_header=False)
    )
    assert await verifier().verify(token, {}) == Principal("ann", ISSUER)


class Long(jws.JWSRegistry):
    max_header_length = 5000
