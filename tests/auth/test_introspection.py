"""Opaque tokens: their authorization server is asked, once, and believed for a while."""

import asyncio
from typing import Any

import pytest

from dovetail import Principal
from dovetail.auth import IntrospectionVerifier, InvalidToken, Unavailable
from dovetail.auth.server.verified_tokens import TOKENS_VERIFIED_BYTES
from tests.auth.documents import Documents, documents
from tests.support.aio import run
from tests.support.waiting import until

AUDIENCE = "https://shop.example/mcp"
NOW = 1_800_000_000
GOOD: dict[str, Any] = {
    "active": True,
    "sub": "ann",
    "aud": AUDIENCE,
    "exp": NOW + 100,
    "scope": "a b",
    "client_id": "app",
}


def asking(site: Documents, answer: Any = GOOD, **options: Any) -> IntrospectionVerifier:
    site.places["/introspect"] = answer
    chosen: dict[str, Any] = {
        "endpoint": f"{site.url}/introspect",
        "client_id": "us er",
        "client_secret": "s3cret%",
        "audience": AUDIENCE,
        "issuer": "https://id.example",
        "clock": lambda: NOW,
    }
    return IntrospectionVerifier(**(chosen | options))


@run
async def test_the_server_says_who_a_token_belongs_to() -> None:
    async with documents() as site:
        forms: list[dict[str, str]] = []

        def answer(form: dict[str, str]) -> Any:
            forms.append(form)
            return GOOD

        found = await asking(site, answer).verify("opaque", {})
        assert found == Principal("ann", "https://id.example")
        assert found is not None
        assert (found.scopes, found.client_id) == ({"a", "b"}, "app")
        assert forms == [{"token": "opaque", "token_type_hint": "access_token"}]
        assert "authorization: basic dxmrzxi6cznjcmv0jtil" not in site.heads[0]
        assert "Basic dXMrZXI6czNjcmV0JTI1" in site.heads[0]  # both parts are form-encoded first


@run
async def test_many_requests_with_one_token_ask_once() -> None:
    async with documents() as site:
        verifier = asking(site)
        site.held.clear()
        verdicts = asyncio.gather(*(verifier.verify("opaque", {}) for _ in range(20)))
        await until(lambda: bool(site.asked))
        site.held.set()
        assert {str(one) for one in await verdicts} == {"ann"}
        await verifier.verify("opaque", {})
        assert len(site.asked) == 1


@run
async def test_an_answer_is_believed_for_a_while_and_not_beyond_the_token() -> None:
    now = [float(NOW)]
    async with documents() as site:
        verifier = asking(site, GOOD | {"exp": NOW + 5}, clock=lambda: now[0], ttl=60)
        assert await verifier.verify("short", {}) is not None
        now[0] += 5
        with pytest.raises(InvalidToken, match="expired"):
            await verifier.verify("short", {})
        verifier = asking(site, GOOD | {"exp": NOW + 500}, clock=lambda: now[0], ttl=60)
        assert await verifier.verify("long", {}) is not None
        site.places["/introspect"] = {"active": False}
        assert await verifier.verify("long", {}) is not None
        now[0] += 60
        with pytest.raises(InvalidToken, match="not active"):
            await verifier.verify("long", {})


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"active": False}, "not active"),
        ({"active": "true"}, "not active"),
        ({"active": ...}, "not active"),
        ({"aud": ...}, "no claim aud"),
        ({"aud": "https://other"}, "is not this server"),
        ({"iss": "https://other"}, "the issuer of the token"),
        ({"sub": ..., "client_id": ...}, "no subject"),
        ({"exp": NOW}, "expired"),
        ({"nbf": NOW + 1}, "not valid yet"),
        ({"scope": {}}, "scope of the token"),
    ],
)
@run
async def test_an_introspection_response_about_another_token_denies_access(
    claims: dict[str, Any], reason: str
) -> None:
    async with documents() as site:
        answer = {name: value for name, value in (GOOD | claims).items() if value is not ...}
        verifier = asking(site, answer)
        with pytest.raises(InvalidToken, match=reason):
            await verifier.verify("opaque", {})
        for _ in range(5):
            with pytest.raises(InvalidToken):
                await verifier.verify("opaque", {})
        assert len(site.asked) == 1  # a bad token is remembered too


@run
async def test_a_client_of_its_own_is_its_own_subject() -> None:
    async with documents() as site:
        answer = {name: value for name, value in GOOD.items() if name != "sub"}
        assert str(await asking(site, answer).verify("opaque", {})) == "app"


@run
async def test_an_endpoint_that_fails_is_no_refusal() -> None:
    async with documents() as site:
        verifier = asking(site, b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
        with pytest.raises(Unavailable):
            await verifier.verify("opaque", {})
        site.places["/introspect"] = GOOD
        assert await verifier.verify("opaque", {}) is not None


@run
async def test_input_requests_at_once_are_bounded() -> None:
    async with documents() as site:
        verifier = asking(site)
        site.held.clear()
        verdicts = asyncio.gather(
            *(verifier.verify(f"t{number}", {}) for number in range(100)), return_exceptions=True
        )
        await until(lambda: len(site.asked) == 64)
        site.held.set()
        found = await verdicts
        assert sum(isinstance(one, Unavailable) for one in found) == 36
        assert sum(isinstance(one, Principal) for one in found) == 64


def test_a_secret_is_not_sent_in_the_clear() -> None:
    with pytest.raises(ValueError, match="https"):
        IntrospectionVerifier(
            endpoint="http://id.example/i", client_id="a", client_secret="b", audience=AUDIENCE
        )


@run
async def test_large_responses_count_against_a_total_and_small_ones_do_not() -> None:
    async with documents() as site:
        large = {**GOOD, "note": "n" * 400_000}
        verifier = asking(site, lambda form: large if form["token"].startswith("large") else GOOD)
        most = TOKENS_VERIFIED_BYTES // 400_000
        for number in range(most + 3):
            await verifier.verify(f"large{number}", {})
        for number in range(5):
            await verifier.verify(f"small{number}", {})
        before = len(site.asked)
        for number in range(5):
            await verifier.verify(f"small{number}", {})
        await verifier.verify(f"large{most + 2}", {})
        assert len(site.asked) == before  # the newest of both are known
        await verifier.verify("large0", {})
        assert len(site.asked) == before + 1  # the oldest made room
