"""Logins that the client refuses: untrusted metadata, responses and URLs; and no secret in logs."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest

from dovetail.auth import AuthError
from dovetail.auth.client.flow_runner import METADATA_SIZE
from dovetail.errors import DovetailError
from dovetail.transports.http.client.guarded_fetch import REDIRECTS
from tests.client.fake_http import JSON, Reply, Request, serving

from .provider import Provider, answer, client, log_in, oauth, provided, refuse, visit
from .test_proxy_login import run


def refused(spoil: Callable[[Provider], None], match: str) -> Provider:
    """Log in after ``spoil``; it must fail with those words, and with no secret in them."""
    seen: list[Provider] = []

    async def test(provider: Provider) -> None:
        seen.append(provider)
        spoil(provider)
        with pytest.raises(AuthError, match=match) as caught:
            await log_in(provider)
        assert not [secret for secret in provider.secrets if secret in caught.value.message]

    run(test)
    return seen[0]


# --- issuers and resources --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelt",
    [
        lambda issuer: issuer + "/",
        lambda issuer: issuer.upper(),
        lambda issuer: issuer.replace("127.0.0.1", "localhost"),
        lambda issuer: issuer.replace("/as", "/%61s"),
        lambda issuer: "https://evil.example",
    ],
)
def test_metadata_of_an_issuer_that_is_spelt_otherwise_is_refused(spelt: Callable[[str], str]) -> None:
    def spoil(provider: Provider) -> None:
        provider.metadata["issuer"] = spelt(provider.issuer)

    provider = refused(spoil, "issuer")
    assert provider.authorizations() == []


@pytest.mark.parametrize("advertised", [True, False])
@pytest.mark.parametrize("iss", ["https://evil.example", "slash", "case", ""])
def test_an_answer_of_another_issuer_is_refused(advertised: bool, iss: str) -> None:
    def spoil(provider: Provider) -> None:
        spelt = {"slash": provider.issuer + "/", "case": provider.issuer.replace("http", "HTTP")}
        provider.redirect["iss"] = spelt.get(iss, iss)
        provider.metadata["authorization_response_iss_parameter_supported"] = advertised

    provider = refused(spoil, "iss of the authorization response")
    assert provider.forms() == []  # the code went nowhere


def test_an_answer_without_the_issuer_it_promised_is_refused() -> None:
    def spoil(provider: Provider) -> None:
        provider.metadata["authorization_response_iss_parameter_supported"] = True

    assert refused(spoil, "no iss").forms() == []


def test_an_error_of_another_issuer_is_not_shown() -> None:
    def spoil(provider: Provider) -> None:
        provider.redirect.update(
            iss="https://evil.example", error="access_denied", error_description="Call 555"
        )

    seen: list[str] = []

    async def test(provider: Provider) -> None:
        spoil(provider)
        with pytest.raises(AuthError) as caught:
            await log_in(provider)
        seen.append(caught.value.message)

    run(test)
    assert "access_denied" not in seen[0]
    assert "555" not in seen[0]


def test_an_answer_with_the_right_issuer_is_accepted() -> None:
    async def test(provider: Provider) -> None:
        provider.redirect["iss"] = provider.issuer
        provider.metadata["authorization_response_iss_parameter_supported"] = True
        await log_in(provider)

    run(test)


@pytest.mark.parametrize("resource", ["https://evil.example/mcp", "path", "port", "user"])
def test_metadata_of_another_resource_is_refused(resource: str) -> None:
    def spoil(provider: Provider) -> None:
        provider.resource["resource"] = {
            "path": f"{provider.base}/mcp2",
            "port": "http://127.0.0.1:1/mcp",
            "user": provider.url.replace("http://", "http://evil.example@"),
        }.get(resource, resource)

    provider = refused(spoil, "resource")
    assert provider.asked("/token") == []


def test_a_resource_above_the_path_is_accepted() -> None:
    async def test(provider: Provider) -> None:
        provider.resource["resource"] = provider.base
        await log_in(provider)
        assert provider.forms()[0]["resource"] == provider.base

    run(test)


@pytest.mark.parametrize(
    "servers", [[], None, ["javascript:alert(1)"], ["http://id.example"], ["ftp://x"], [""]]
)
def test_issuers_that_are_none_are_refused(servers: Any) -> None:
    def spoil(provider: Provider) -> None:
        provider.resource["authorization_servers"] = servers

    refused(spoil, r"authorization_servers|issuer")


@pytest.mark.parametrize("methods", [None, [], ["plain"]])
def test_a_server_without_s256_is_refused(methods: Any) -> None:
    def spoil(provider: Provider) -> None:
        provider.metadata["code_challenge_methods_supported"] = methods

    assert refused(spoil, "S256").authorizations() == []


# --- invalid URLs -----------------------------------------------------------------------------------------------------

NO_PAGES = [
    "javascript:alert(document.cookie)",
    "JavaScript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "file:///etc/passwd",
    "http://id.example/authorize",
    "https://user:pass@id.example/authorize",
    "https://id.example/a b",
    "https://id.example/\\..\\x",
    "https://id.example/\r\nX: y",
    "vbscript:x",
    "https:///authorize",
    "-https://id.example",
    "",
]


@pytest.mark.parametrize("url", NO_PAGES)
@pytest.mark.parametrize(
    "endpoint", ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"]
)
def test_endpoints_that_are_no_https_urls_are_refused(endpoint: str, url: str) -> None:
    def spoil(provider: Provider) -> None:
        provider.metadata[endpoint] = url

    provider = refused(spoil, endpoint)
    assert (provider.authorizations(), provider.forms()) == ([], [])


@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://id.example/x", "//evil.example/x"])
def test_a_challenge_that_names_no_https_url_is_refused(url: str) -> None:
    def spoil(provider: Provider) -> None:
        provider.answers["/mcp"] = lambda _: Reply(
            401, {"WWW-Authenticate": f'Bearer resource_metadata="{url}"'}
        )

    refused(spoil, "resource_metadata")


@pytest.mark.parametrize(
    "url", ["https://169.254.169.254/latest", "https://[fe80::1]/x", "https://0.0.0.0/x"]
)
def test_addresses_of_links_and_orphans_are_never_requested(url: str) -> None:
    def spoil(provider: Provider) -> None:
        provider.resource["authorization_servers"] = [url]

    refused(spoil, "private network")


# --- documents --------------------------------------------------------------------------------------------------------

METADATA = "/.well-known/oauth-authorization-server/as"
RESOURCE = "/.well-known/oauth-protected-resource/mcp"


@pytest.mark.parametrize("path", [METADATA, RESOURCE])
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"issuer": 1, "resource": 1}']
)
def test_documents_that_are_none_are_refused(path: str, body: bytes) -> None:
    def spoil(provider: Provider) -> None:
        provider.answers[path] = lambda _: Reply(200, JSON, body)

    refused(spoil, "metadata")


@pytest.mark.parametrize("path", [METADATA, RESOURCE, "/token", "/register"])
def test_a_document_without_an_end_is_cut(path: str) -> None:
    def spoil(provider: Provider) -> None:
        async def endless() -> Any:
            while True:
                yield b" " * 65536

        provider.answers[path] = lambda _: Reply(200, JSON, stream=endless())

    refused(spoil, str(METADATA_SIZE))


@pytest.mark.parametrize("path", [METADATA, RESOURCE])
def test_metadata_that_is_redirected_in_cycles_is_given_up(path: str) -> None:
    def spoil(provider: Provider) -> None:
        provider.answers[path] = lambda r: Reply(302, {"Location": r.path})

    provider = refused(spoil, "redirects")
    assert len(provider.asked(path)) == REDIRECTS + 1


@pytest.mark.parametrize("where", ["javascript:alert(1)", "http://id.example/x", "https://169.254.169.254/"])
def test_metadata_is_not_fetched_from_where_a_redirect_must_not_lead(where: str) -> None:
    def spoil(provider: Provider) -> None:
        provider.answers[METADATA] = lambda _: Reply(307, {"Location": where})

    refused(spoil, "metadata")


@pytest.mark.parametrize("path", ["/token", "/register"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_what_was_posted_follows_no_redirect(path: str, status: int) -> None:
    """The other origin hears nothing: neither the code nor the verifier nor a token."""

    async def test(provider: Provider) -> None:
        async with serving(lambda _: Reply(200)) as (other, url):
            provider.answers[path] = lambda _: Reply(status, {"Location": url})
            with pytest.raises(AuthError, match="redirect"):
                await log_in(provider)
            assert other.requests == []

    run(test)


def test_a_token_is_not_taken_along_to_another_origin() -> None:
    async def test(provider: Provider) -> None:
        async with serving(lambda _: Reply(200)) as (other, url):
            moved = Reply(307, {"Location": url})
            provider.answers["/mcp"] = lambda r: moved if r.method == "tools/call" else None
            async with client(provider) as connected:
                with pytest.raises(DovetailError, match="another origin"):
                    await connected.call_tool("echo", {})
            assert other.requests == []

    run(test)


# --- the browser that comes back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["", "of another browser", None])
def test_another_state_is_refused(state: str | None) -> None:
    def spoil(provider: Provider) -> None:
        provider.redirect["state"] = state

    assert refused(spoil, "state").forms() == []


def test_a_state_is_good_once() -> None:
    async def test(provider: Provider) -> None:
        first: list[str] = []

        async def replay(url: str) -> str:
            first.append(await visit(url))
            return first[0]

        auth = oauth(authorize=replay)
        async with client(provider, auth) as connected:
            provider.granted.clear()
            provider.refreshable.clear()
            with pytest.raises(AuthError, match="state"):
                await connected.list_tools(fresh=True)

    run(test)


@pytest.mark.parametrize(
    "back",
    [
        lambda url: url.replace("localhost:3000", "localhost:3001"),
        lambda url: url.replace("/callback", "/callback/../x"),
        lambda url: url.replace("http://", "https://"),
        lambda url: url.replace("localhost", "localhost.evil.example"),
        lambda url: "/callback?" + url.partition("?")[2],
        lambda url: url + "&code=other",
        lambda url: url + "&state=other",
        lambda url: url + "&iss=https%3A%2F%2Fa&iss=https%3A%2F%2Fb",
    ],
)
def test_a_browser_that_comes_back_elsewhere_or_twice_is_refused(back: Callable[[str], str]) -> None:
    async def test(provider: Provider) -> None:
        async def tricked(url: str) -> str:
            return back(await visit(url))

        with pytest.raises(AuthError, match=r"redirect|twice"):
            await log_in(provider, oauth(authorize=tricked))
        assert provider.forms() == []

    run(test)


def test_a_user_who_refuses_is_named_as_the_reason() -> None:
    async def test(provider: Provider) -> None:
        provider.redirect.update(
            code=None, error="access_denied", error_description="The user said\x1b[31m no"
        )
        with pytest.raises(AuthError, match=r"access_denied: The user said \[31m no") as caught:
            await log_in(provider)
        assert (caught.value.fault, caught.value.error) == ("user", "access_denied")

    run(test)


# --- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "token",
    [
        {"access_token": "a\r\nX-Evil: 1", "token_type": "Bearer"},
        {"access_token": "", "token_type": "Bearer"},
        {"access_token": "x" * 100_000, "token_type": "Bearer"},
        {"access_token": 7, "token_type": "Bearer"},
        {"access_token": "good", "token_type": "mac"},
        {"access_token": "good", "token_type": "DPoP"},
        {"token_type": "Bearer"},
        {},
    ],
)
def test_tokens_that_cannot_be_used_are_refused(token: dict[str, Any]) -> None:
    def spoil(provider: Provider) -> None:
        provider.answers["/token"] = lambda _: answer(200, token)

    refused(spoil, "token")


def test_secrets_repeated_in_a_refusal_are_not_shown() -> None:
    async def test(provider: Provider) -> None:
        def repeats(request: Request) -> Reply:
            return refuse("invalid_request", "I got " + request.body.decode())

        provider.answers["/token"] = repeats
        with pytest.raises(AuthError, match="invalid_request") as caught:
            await log_in(provider)
        form = provider.forms()[0]
        assert form["code"] not in caught.value.message
        assert form["code_verifier"] not in caught.value.message

    run(test)


def test_no_secret_is_ever_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets: list[str] = []

    async def test(provider: Provider) -> None:
        auth = oauth(client_id="mine", client_secret="topsecret-of-mine")
        async with client(provider, auth) as connected:
            provider.needed["tools/call"] = "write"
            await connected.call_tool("echo", {})
            provider.granted.clear()
            await connected.list_tools(fresh=True)
            provider.answers["/token"] = lambda _: refuse("server_error")
            provider.granted.clear()
            with pytest.raises(AuthError):
                await connected.list_tools(fresh=True)
        secrets.extend([*provider.secrets, "topsecret-of-mine"])

    run(test)
    out, err = capfd.readouterr()
    said = "\n".join(itertools.chain((str(record.__dict__) for record in caplog.records), (out, err)))
    assert len(secrets) > 8
    assert [secret for secret in secrets if secret in said] == []


def test_one_slow_authorization_server_does_not_delay_other_callers() -> None:
    async def test(provider: Provider) -> None:
        async with provided() as slow:
            slow.answers[METADATA] = lambda _: Reply(hang=True)
            waiting = asyncio.create_task(log_in(slow))
            while not slow.fake.hanging:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await log_in(provider)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait([waiting])

    run(test)
