"""A client that is challenged logs in, stays logged in, and asks for no more than it needs."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from dovetail import Client
from dovetail.auth import AuthError, MemoryTokens
from dovetail.auth.core.combined_challenge import NOTHING
from dovetail.client.http_client import StatusError
from dovetail.transports.http.client.connection_pool import HttpFetch
from tests.client.fake_http import JSON, Reply, Request
from tests.support.waiting import HANG

from .provider import REDIRECT, Provider, answer, client, log_in, oauth, provided, refuse, visit


def run(test: Callable[[Provider], Any]) -> None:
    async def inside() -> None:
        async with asyncio.timeout(HANG), provided() as provider:
            await test(provider)

    asyncio.run(inside())


def test_a_challenge_leads_to_a_login_and_the_request_is_repeated() -> None:
    async def test(provider: Provider) -> None:
        await log_in(provider)
        (authorization,) = provider.authorizations()
        assert authorization["response_type"] == "code"
        assert authorization["code_challenge_method"] == "S256"
        assert authorization["resource"] == provider.url
        assert authorization["scope"] == "base"
        assert authorization["redirect_uri"] == REDIRECT
        (form,) = provider.forms()
        assert form["resource"] == provider.url
        assert form["client_id"] == authorization["client_id"]
        sent = [each.headers.get("authorization") for each in provider.asked("/mcp")]
        assert sent[0] is None
        assert set(sent[1:]) == {f"Bearer {next(iter(provider.granted))}"}

    run(test)


def test_a_client_registers_itself_as_a_native_application() -> None:
    async def test(provider: Provider) -> None:
        await log_in(provider)
        (request,) = provider.asked("/register")
        sent = json.loads(request.body)
        assert sent["application_type"] == "native"
        assert sent["grant_types"] == ["authorization_code", "refresh_token"]
        assert sent["redirect_uris"] == [REDIRECT]
        assert sent["token_endpoint_auth_method"] == "none"

    run(test)


def test_a_registration_is_kept_for_the_next_login() -> None:
    async def test(provider: Provider) -> None:
        store = MemoryTokens()
        await log_in(provider, oauth(store=store))
        provider.granted.clear()
        provider.refreshable.clear()
        await log_in(provider, oauth(store=store))
        assert len(provider.asked("/register")) == 1
        assert len(provider.authorizations()) == 2

    run(test)


def test_a_second_client_with_the_same_store_does_not_log_in_again() -> None:
    async def test(provider: Provider) -> None:
        store = MemoryTokens()
        await log_in(provider, oauth(store=store))
        await log_in(provider, oauth(store=store))
        assert len(provider.authorizations()) == 1

    run(test)


def test_a_client_with_an_id_of_its_own_does_not_register() -> None:
    async def test(provider: Provider) -> None:
        await log_in(provider, oauth(client_id="mine", client_secret="s3cret"))
        assert provider.asked("/register") == []
        (request,) = provider.asked("/token")
        assert request.headers["authorization"] == "Basic bWluZTpzM2NyZXQ="

    run(test)


def test_a_client_with_a_document_uses_its_url_where_that_is_understood() -> None:
    url = "https://client.example/me.json"

    async def test(provider: Provider) -> None:
        provider.metadata["client_id_metadata_document_supported"] = True
        await log_in(provider, oauth(client_metadata_url=url))
        assert provider.authorizations()[0]["client_id"] == url
        assert provider.asked("/register") == []

    run(test)


def test_without_any_registration_method_the_error_names_the_options() -> None:
    async def test(provider: Provider) -> None:
        provider.metadata["registration_endpoint"] = None
        with pytest.raises(AuthError, match="client_id"):
            await log_in(provider)

    run(test)


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_registered_client_is_recognised_as_the_server_wants_it(method: str) -> None:
    async def test(provider: Provider) -> None:
        provider.metadata["token_endpoint_auth_methods_supported"] = [method]
        provider.answers["/register"] = lambda _: answer(201, {"client_id": "c", "client_secret": "x y"})
        await log_in(provider)
        (request,), (form,) = provider.asked("/token"), provider.forms()
        posted = (form["client_id"], form.get("client_secret"), "authorization" in request.headers)
        expected = ("c", None, True) if method == "client_secret_basic" else ("c", "x y", False)
        assert posted == expected

    run(test)


# --- scopes -----------------------------------------------------------------------------------------------------------


def test_the_scopes_of_the_metadata_are_asked_for_where_the_challenge_names_none() -> None:
    async def test(provider: Provider) -> None:
        provider.scope = None
        provider.resource["scopes_supported"] = ["a", "b"]
        await log_in(provider)
        assert provider.authorizations()[0]["scope"] == "a b"

    run(test)


def test_no_scope_is_requested_if_no_metadata_names_one() -> None:
    async def test(provider: Provider) -> None:
        provider.scope = None
        await log_in(provider)
        assert "scope" not in provider.authorizations()[0]

    run(test)


@pytest.mark.parametrize("offered", [True, False])
def test_offline_access_is_asked_for_only_where_the_authorization_server_has_it(offered: bool) -> None:
    async def test(provider: Provider) -> None:
        provider.metadata["scopes_supported"] = ["base", *(["offline_access"] if offered else [])]
        await log_in(provider)
        assert provider.authorizations()[0]["scope"] == ("base offline_access" if offered else "base")

    run(test)


def test_a_missing_scope_is_added_to_those_that_were_asked_for() -> None:
    async def test(provider: Provider) -> None:
        provider.needed["tools/call"] = "write"
        async with client(provider) as connected:
            assert (await connected.call_tool("echo", {"a": 1})).text == '{"a": 1}'
        assert [each["scope"] for each in provider.authorizations()] == ["base", "base write"]

    run(test)


def test_a_scope_that_never_suffices_is_given_up() -> None:
    async def test(provider: Provider) -> None:
        refusal = Reply(403, {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="more"'})

        def never(request: Request) -> Reply | None:
            return refusal if request.method == "tools/call" and "authorization" in request.headers else None

        provider.answers["/mcp"] = never
        async with client(provider) as connected:
            for _ in range(3):
                with pytest.raises(StatusError) as caught:
                    await connected.call_tool("echo", {})
                assert caught.value.status == 403
        assert len(provider.authorizations()) == 3  # the first, and two for more

    run(test)


def test_a_403_without_a_challenge_is_returned() -> None:
    async def test(provider: Provider) -> None:
        provider.answers["/mcp"] = lambda r: Reply(403) if "authorization" in r.headers else None
        with pytest.raises(StatusError) as caught:
            await log_in(provider)
        assert caught.value.status == 403
        assert len(provider.authorizations()) == 1

    run(test)


# --- renewing ---------------------------------------------------------------------------------------------------------


def test_a_rejected_token_is_refreshed_before_the_user_is_asked() -> None:
    async def test(provider: Provider) -> None:
        async with client(provider) as connected:
            provider.granted.clear()
            await connected.list_tools(fresh=True)
            provider.granted.clear()
            await connected.list_tools(fresh=True)
        assert [form["grant_type"] for form in provider.forms()] == [
            "authorization_code",
            "refresh_token",
            "refresh_token",
        ]
        first, second = (form["refresh_token"] for form in provider.forms()[1:])
        assert first != second  # rotated, and the new one used
        assert provider.forms()[1]["resource"] == provider.url

    run(test)


def test_many_refused_requests_are_renewed_by_one() -> None:
    async def test(provider: Provider) -> None:
        async with client(provider) as connected:
            provider.granted.clear()
            await asyncio.gather(*(connected.call_tool("echo", {"n": n}) for n in range(20)))
        assert [form["grant_type"] for form in provider.forms()].count("refresh_token") == 1
        assert len(provider.authorizations()) == 1

    run(test)


def test_a_token_is_renewed_shortly_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(provider: Provider) -> None:
        now = time.time()
        provider.lifetime = 100
        async with client(provider) as connected:
            for passed, renewals in ((80, 0), (89, 0), (91, 1), (92, 1)):
                monkeypatch.setattr(time, "time", lambda passed=passed: now + passed)
                await connected.list_tools(fresh=True)
                count = [form["grant_type"] for form in provider.forms()].count("refresh_token")
                assert count == renewals, passed
        assert len(provider.authorizations()) == 1

    run(test)


def test_a_refresh_token_that_is_worth_nothing_leads_to_a_login() -> None:
    async def test(provider: Provider) -> None:
        async with client(provider) as connected:
            provider.granted.clear()
            provider.refreshable.clear()
            await connected.list_tools(fresh=True)
        assert len(provider.authorizations()) == 2

    run(test)


def test_an_authorization_server_that_fails_at_a_refresh_loses_no_refresh_token() -> None:
    async def test(provider: Provider) -> None:
        async with client(provider) as connected:
            provider.granted.clear()
            provider.answers["/token"] = lambda _: Reply(503)
            with pytest.raises(AuthError, match="503"):
                await connected.list_tools(fresh=True)
            del provider.answers["/token"]
            await connected.list_tools(fresh=True)
        assert len(provider.authorizations()) == 1

    run(test)


# --- other servers ----------------------------------------------------------------------------------------------------


def test_a_server_that_moves_to_another_issuer_gets_nothing_of_the_old_one() -> None:
    async def test(provider: Provider) -> None:
        async with client(provider) as connected:
            first = provider.authorizations()[0]["client_id"]
            provider.path = "/other"
            provider.granted.clear()
            await connected.list_tools(fresh=True)
        assert len(provider.asked("/register")) == 2
        assert provider.authorizations()[1]["client_id"] != first
        assert "refresh_token" not in [form["grant_type"] for form in provider.forms()]

    run(test)


def test_a_client_id_given_by_hand_is_not_shown_to_another_issuer() -> None:
    async def test(provider: Provider) -> None:
        async with client(provider, oauth(client_id="mine", client_secret="s3cret")) as connected:
            provider.path = "/other"
            provider.granted.clear()
            with pytest.raises(AuthError, match="issuer"):
                await connected.list_tools(fresh=True)
        assert len(provider.forms()) == 1

    run(test)


def test_a_client_id_for_one_issuer_is_not_tried_at_another() -> None:
    async def test(provider: Provider) -> None:
        with pytest.raises(AuthError, match=r"issuer https://mine\.example"):
            await log_in(provider, oauth(client_id="mine", issuer="https://mine.example"))
        assert provider.authorizations() == []

    run(test)


@pytest.mark.parametrize("described", [True, False])
def test_a_server_of_2025_03_26_is_its_own_authorization_server(described: bool) -> None:
    async def test(provider: Provider) -> None:
        provider.path = "" if described else "/nowhere"
        provider.answers["/.well-known/oauth-protected-resource/mcp"] = lambda _: Reply(404)
        await log_in(provider)
        assert len(provider.forms()) == 1

    run(test)


def test_metadata_is_looked_for_in_the_fixed_order() -> None:
    async def test(provider: Provider) -> None:
        def bare(request: Request) -> Reply | None:
            return None if "authorization" in request.headers else Reply(401)

        provider.answers["/mcp"] = bare
        paths: list[str] = []
        provider.answers["/.well-known/oauth-protected-resource/mcp"] = lambda _: Reply(404)
        provider.answers["/.well-known/oauth-authorization-server/as"] = lambda _: Reply(404)
        found = {"resource": provider.url, "authorization_servers": [provider.issuer]}
        provider.answers["/.well-known/oauth-protected-resource"] = lambda _: answer(200, found)
        described = {
            "issuer": provider.issuer,
            "authorization_endpoint": f"{provider.base}/authorize",
            "token_endpoint": f"{provider.base}/token",
            "registration_endpoint": f"{provider.base}/register",
            "code_challenge_methods_supported": ["S256"],
        }
        provider.answers["/as/.well-known/openid-configuration"] = lambda _: answer(200, described)
        await log_in(provider)
        paths = [each.path for each in provider.fake.requests if "well-known" in each.path]
        assert paths == [
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-authorization-server/as",
            "/.well-known/openid-configuration/as",
            "/as/.well-known/openid-configuration",
        ]

    run(test)


def test_the_time_a_user_takes_is_not_the_servers() -> None:
    """All limits are far below what the user needs; only that he comes back counts."""

    async def test(provider: Provider) -> None:
        from dovetail import Timeouts

        begun, back = asyncio.Event(), asyncio.Event()

        async def slowly(url: str) -> str:
            begun.set()
            await back.wait()
            return await visit(url)

        limits = Timeouts(connect=1.5, idle=1.5, total=60)
        connecting = asyncio.create_task(enter(provider, slowly, limits))
        await begun.wait()
        asyncio.get_running_loop().call_later(2.0, back.set)
        await connecting

    async def enter(provider: Provider, authorize: Any, limits: Any) -> None:
        async with client(provider, oauth(authorize=authorize), timeouts=limits) as connected:
            await connected.list_tools()

    run(test)


def test_a_refused_registration_says_what_was_refused() -> None:
    async def test(provider: Provider) -> None:
        provider.answers["/register"] = lambda _: refuse("invalid_redirect_uri", "no localhost here")
        with pytest.raises(AuthError, match="invalid_redirect_uri: no localhost here"):
            await log_in(provider)

    run(test)


def test_a_websocket_that_is_refused_is_tried_again_after_a_login() -> None:
    async def test(provider: Provider) -> None:
        provider.answers["/mcp"] = lambda r: Reply(418) if "authorization" in r.headers else None
        target = provider.url.replace("http://", "ws://")
        with pytest.raises(StatusError) as caught:
            async with Client(target, auth=oauth()):
                pass
        assert caught.value.status == 418
        upgrades = [each.headers.get("authorization") for each in provider.asked("/mcp")]
        assert upgrades == [None, f"Bearer {next(iter(provider.granted))}"]
        assert provider.forms()[0]["resource"] == provider.url

    run(test)


def test_a_login_that_failed_is_not_begun_again_by_the_next_call() -> None:
    async def test(provider: Provider) -> None:
        auth = oauth()
        async with client(provider, auth) as connected:
            await connected.list_tools()
            provider.redirect = {"error": "access_denied", "code": None}
            provider.granted.clear()
            provider.refreshable.clear()
            for _ in range(3):
                with pytest.raises(AuthError, match="access_denied"):
                    await connected.list_tools(fresh=True)
            assert len(provider.authorizations()) == 2  # the login, and one attempt
            provider.redirect = {}
            async with HttpFetch().session() as send:  # allowed with the explicit option
                await auth.log_in(provider.url, send, NOTHING)
            await connected.list_tools(fresh=True)
            assert len(provider.authorizations()) == 3

    run(test)


@pytest.mark.parametrize("revision", ["modern", "2025-06-18"])
def test_a_client_that_connects_again_does_not_open_the_browser_again(revision: str) -> None:
    async def test(provider: Provider) -> None:
        auth = oauth()
        provider.redirect = {"error": "access_denied", "code": None}
        for _ in range(3):
            with pytest.raises(AuthError, match="access_denied"):
                async with Client(provider.url, revision=revision, auth=auth):
                    pass
        assert len(provider.authorizations()) == 1

    run(test)


def test_a_failure_before_the_user_was_asked_is_no_reason_to_wait() -> None:
    async def test(provider: Provider) -> None:
        auth = oauth()
        provider.answers["/register"] = lambda _: Reply(500)
        with pytest.raises(AuthError, match="register"):
            await log_in(provider, auth)
        provider.answers.clear()
        await log_in(provider, auth)

    run(test)


@pytest.mark.parametrize("known", ["client", "nobody"])
def test_log_out_revokes_what_a_client_by_hand_was_given(known: str) -> None:
    async def test(provider: Provider) -> None:
        store = MemoryTokens()
        await log_in(provider, oauth(client_id="by-hand", store=store))
        token = next(iter(provider.granted))
        if known == "nobody":
            await forget_clients(store, provider)
        async with HttpFetch().session() as send:
            assert await oauth(store=store).log_out(provider.url, send) is True
        assert [form["client_id"] for form in provider.forms("/revoke")] == ["by-hand"] * 2
        assert provider.forms("/revoke")[1]["token"] == token

    run(test)


def test_log_out_of_a_client_with_an_unknown_secret_reports_that_nothing_was_revoked() -> None:
    async def test(provider: Provider) -> None:
        store = MemoryTokens()
        await log_in(provider, oauth(client_id="by-hand", client_secret="s3cret", store=store))
        await forget_clients(store, provider)
        provider.answers["/revoke"] = lambda _: refuse("invalid_client", status=401)
        async with HttpFetch().session() as send:
            assert await oauth(store=store).log_out(provider.url, send) is False

    run(test)


async def forget_clients(store: MemoryTokens, provider: Provider) -> None:
    for key in (("client", provider.issuer), ("client", provider.issuer, "by-hand")):
        await store.delete(key)


def never(url: str) -> str:
    raise AssertionError("the user is asked again")


async def outdated(store: MemoryTokens, provider: Provider) -> None:
    """Make the stored tokens of the server expired ones, for the store and for the server."""
    provider.granted.clear()
    binding = json.loads(await store.get(("server", provider.url)) or b"")
    key = ("token", binding["issuer"], binding["client_id"], binding["resource"])
    tokens = json.loads(await store.get(key) or b"")
    await store.put(key, json.dumps({**tokens, "expires_at": 1.0}).encode())


CLIENTS: dict[str, dict[str, Any]] = {
    "registered by itself": {},
    "given by hand": {"client_id": "by-hand"},
    "given by hand with a secret": {"client_id": "by-hand", "client_secret": "s3cret"},
    "a document": {"client_metadata_url": "https://client.example/c.json"},
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["well-known", "named by challenges alone"])
def test_later_processes_refresh_expired_tokens_and_revoke_them(client: str, elsewhere: bool) -> None:
    async def test(provider: Provider) -> None:
        provider.metadata["client_id_metadata_document_supported"] = True
        if elsewhere:
            place = "/.well-known/oauth-protected-resource/mcp"
            named = f'Bearer resource_metadata="{provider.base}/elsewhere"'
            found = {"resource": provider.url, "authorization_servers": [provider.issuer]}
            provider.answers[place] = lambda _: Reply(404)
            provider.answers["/elsewhere"] = lambda _: Reply(200, JSON, json.dumps(found).encode())
            provider.answers["/mcp"] = lambda request: (
                Reply(401, {"WWW-Authenticate": named})
                if request.headers.get("authorization", "").removeprefix("Bearer ") not in provider.granted
                else None
            )
        store = MemoryTokens()
        await log_in(provider, oauth(store=store, **CLIENTS[client]))
        first = provider.granted.copy()
        # Another login at the same issuer registers another client.
        other = json.dumps({"issuer": provider.issuer, "client_id": "other"}).encode()
        await store.put(("client", provider.issuer), other)
        for _ in range(3):
            await outdated(store, provider)
            await log_in(provider, oauth(store=store, authorize=never))
        async with HttpFetch().session() as send:
            assert await oauth(store=store).log_out(provider.url, send) is True
        refreshes = [form for form in provider.forms() if form["grant_type"] == "refresh_token"]
        assert len(refreshes) == 3
        assert len(provider.forms("/revoke")) == 2
        assert first.keys() & provider.granted.keys() == set()

    run(test)


def test_expired_tokens_that_cannot_be_refreshed_lead_to_a_login() -> None:
    async def test(provider: Provider) -> None:
        store = MemoryTokens()
        await log_in(provider, oauth(client_id="by-hand", store=store))
        await forget_clients(store, provider)
        await outdated(store, provider)
        await log_in(provider, oauth(store=store))
        assert [form["grant_type"] for form in provider.forms()] == ["authorization_code"] * 2

    run(test)
