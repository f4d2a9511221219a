"""Attacks on the OAuth proxy: redirects, forged and repeated responses, tokens of other users."""

import asyncio
import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from dovetail.stores import MemoryStore, SqliteStore
from tests.support.aio import run

from .proxied import query_of, register, send
from .visitor import BACK, SECRET, VERIFIER, visitor

# --- redirects ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    ["javascript:alert(1)", "data:text/html,x", "file:///etc/x", "http://evil.example/cb", "https://a b/", "//evil",
     "http://127.0.0.1.evil.example/cb", "https://user@evil.example/cb", "https://good.example/cb#fragment", "https:///cb",
     "https://good.example\\@evil.example/", "vbscript:x", "about:blank", "blob:https://x/y", "", "https://g\u00f6od.example/cb",
     "http://localhost@evil.example/cb", "com.example.app:/cb\r\nSet-Cookie: a=b", "JAVASCRIPT:alert(1)", "intent://x#Intent;end"],
)  # fmt: skip
@run
async def test_a_client_cannot_register_an_unsafe_redirect_uri(uri: str) -> None:
    async with visitor() as one:
        body = json.dumps({"redirect_uris": [uri]}).encode()
        status, _, said = await send(
            "POST", f"{one.base}/register", {"Content-Type": "application/json"}, body
        )
        assert (status, json.loads(said)["error"]) == (400, "invalid_redirect_uri")


@pytest.mark.parametrize(
    "uri",
    [BACK + "/", BACK + "?a=b", BACK.upper(), BACK.replace("9999", "9998"), BACK.replace("127.0.0.1", "localhost"),
     BACK + "/../evil", BACK.replace("http", "https"), "http://127.0.0.1:9999@evil.example/callback", BACK + "%2f",
     "http://127.0.0.1:9999/Callback", "https://evil.example", BACK + "#x", BACK + "\n", "http://127.0.0.1:09999/callback"],
)  # fmt: skip
@run
async def test_a_redirect_uri_is_the_registered_one_character_by_character(uri: str) -> None:
    async with visitor() as one:
        status, headers, body = await one.visit(one.authorize_url(await one.register(), redirect_uri=uri))
        assert status == 400
        assert "location" not in headers  # the browser is not redirected
        assert "set-cookie" not in headers
        assert b"redirect_uri" in body


@run
async def test_a_loopback_address_without_a_port_stands_for_every_port_and_nothing_else() -> None:
    async with visitor() as one:
        id = await one.register(
            "http://127.0.0.1/callback", "http://localhost/cb?x=1", "https://good.example/cb"
        )
        good = ("http://127.0.0.1:1234/callback", "http://localhost:1/cb?x=1", "https://good.example/cb")
        for uri in good:
            assert (await one.visit(one.authorize_url(id, redirect_uri=uri)))[0] == 200
        bad = ("http://127.0.0.1:1234/other", "http://localhost:1/cb", "https://good.example:8443/cb", "http://127.0.0.2:1/callback",
               "http://127.0.0.1:1234@evil.example/callback", "http://127.0.0.1:12x/callback")  # fmt: skip
        for uri in bad:
            assert (await one.visit(one.authorize_url(id, redirect_uri=uri)))[0] == 400, uri


@run
async def test_a_client_that_is_not_known_gets_no_redirect() -> None:
    async with visitor() as one:
        good = await one.register()
        tampered = good[:-2] + ("AA" if not good.endswith("AA") else "BB")
        for id in ("", "nobody", "dt-", tampered, good + "A", good + "=", "dt-" + "A" * 5000):
            status, headers, _ = await one.visit(one.authorize_url(id))
            assert (status, "location" in headers) == (400, False)


@run
async def test_other_errors_return_to_the_client_with_its_state_and_the_issuer() -> None:
    async with visitor() as one:
        id = await one.register()
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"response_type": "token"}, "unsupported_response_type"),
            ({"code_challenge_method": "plain"}, "invalid_request"),
            ({"code_challenge_method": None}, "invalid_request"),
            ({"code_challenge": None}, "invalid_request"),
            ({"code_challenge": "short"}, "invalid_request"),
            ({"resource": "https://other.example/mcp"}, "invalid_target"),
            ({"resource": one.url + "2"}, "invalid_target"),
            ({"scope": 'a"b'}, "invalid_scope"),
        ]
        for change, error in wrong:
            status, headers, _ = await one.visit(one.authorize_url(id, **change))
            said = query_of(headers["location"])
            assert status == 303
            assert headers["location"].startswith(BACK + "?")
            assert (said["error"], said["state"], said["iss"]) == (error, "state-of-the-client", one.base)
        doubled = one.authorize_url(id) + "&redirect_uri=https://evil.example"
        assert (await one.visit(doubled))[0] == 400


# --- consent ------------------------------------------------------------------------------------------------------


@run
async def test_the_page_shows_who_asks_and_runs_nothing_of_it() -> None:
    async with visitor() as one:
        id = await one.register(client_name='<script>alert(1)</script>"><img src=x>\u202egpj')
        status, headers, body = await one.visit(one.authorize_url(id))
        page = body.decode()
        assert status == 200
        assert "<script" not in page
        assert "<img" not in page
        assert "&lt;script&gt;" in page
        assert "\u202e" not in page
        assert "http://127.0.0.1:9999" in page
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        cookie = headers["set-cookie"]
        assert re.match(r"__Host-dovetail-[0-9a-f]{16}=[\w-]{43}; ", cookie)
        for flag in ("Path=/", "Secure", "HttpOnly", "SameSite=Lax"):
            assert flag in cookie
        assert "Domain" not in cookie


@run
async def test_an_answer_counts_once_and_only_from_the_browser_that_was_asked() -> None:
    async with visitor() as one:
        fields = await one.consent_fields(await one.register())
        stranger = one.other_browser()
        assert (await stranger.answer(fields))[0] == 403  # no cookie at all
        await stranger.consent_fields(await one.register())
        assert (await stranger.answer(fields))[0] == 403  # with the cookie of another login
        stranger.cookies = dict.fromkeys(one.cookies, "x" * 43)
        assert (await stranger.answer(fields))[0] == 403  # a planted one
        assert (await one.answer(fields))[0] == 303
        assert (await one.answer(fields))[0] == 400  # again


@run
async def test_one_answer_of_many_at_the_same_time_counts() -> None:
    async with visitor() as one:
        fields = await one.consent_fields(await one.register())
        answers = await asyncio.gather(*(one.answer(fields) for _ in range(8)))
        assert sorted(status for status, _, _ in answers) == [303] + [400] * 7


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "none"}],
)  # fmt: skip
@run
async def test_an_answer_from_another_site_is_none(headers: dict[str, str]) -> None:
    async with visitor() as one:
        fields = await one.consent_fields(await one.register())
        assert (await one.answer(fields, headers))[0] == 403
        assert (await one.answer(fields))[0] == 303  # it was not used up


@run
async def test_a_form_that_was_changed_is_refused() -> None:
    async with visitor() as one:
        fields = await one.consent_fields(await one.register())
        other = await one.consent_fields(
            await one.register("https://evil.example/cb"), redirect_uri="https://evil.example/cb"
        )
        for change in (
            {"request": other["request"]},  # another request under the cookie of this one
            {"id": other["id"]},
            {"request": fields["request"][:-4] + "AAAA"},
            {"request": ""},
            {"id": "../../x"},
        ):
            assert (await one.answer({**fields, **change}))[0] in (400, 403)
        assert (await send("GET", f"{one.base}/consent"))[0] == 405


@run
async def test_who_denies_is_sent_back_with_access_denied_and_cannot_agree_later() -> None:
    async with visitor() as one:
        fields = await one.consent_fields(await one.register())
        status, headers, _ = await one.answer({**fields, "decision": "deny"})
        said = query_of(headers["location"])
        assert (status, said["error"], said["state"]) == (303, "access_denied", "state-of-the-client")
        assert (await one.answer({**fields, "decision": "allow"}))[0] in (400, 403)


@run
async def test_a_second_client_cannot_use_the_consent_for_the_first() -> None:
    async with visitor() as one:
        await one.code(await one.register(client_name="good"))
        evil = await one.register("https://evil.example/cb", client_name="evil")
        # The same browser, right after: it is asked again, for this client and its address.
        status, _, body = await one.visit(one.authorize_url(evil, redirect_uri="https://evil.example/cb"))
        assert status == 200
        assert b"https://evil.example" in body
        assert b"Allow" in body


@run
async def test_a_page_that_is_too_old_is_refused() -> None:
    now = [1_000_000.0]
    async with visitor(clock=lambda: now[0]) as one:
        fields = await one.consent_fields(await one.register())
        now[0] += 601
        assert (await one.answer(fields))[0] == 403


# --- back from the provider ---------------------------------------------------------------------------------------


@run
async def test_the_state_of_another_browser_is_refused_and_stays_good_for_its_own() -> None:
    async with visitor() as one:
        id = await one.register()
        state = await one.agree(id)
        victim = one.other_browser()
        assert (await victim.come_back(state))[0] == 403  # login CSRF: no cookie
        mine = await victim.agree(id)
        assert (await victim.come_back(state))[0] == 403  # the cookie of another login
        assert one.provider.asked.count("/token") == 0
        assert (await one.come_back(state))[0] == 303
        assert (await victim.come_back(mine))[0] == 303


@run
async def test_a_state_is_good_once_also_in_a_race() -> None:
    async with visitor() as one:
        state = await one.agree(await one.register())
        answers = await asyncio.gather(*(one.come_back(state) for _ in range(6)))
        assert sorted(status for status, _, _ in answers)[0] == 303
        assert [status for status, _, _ in answers].count(303) == 1
        assert one.provider.asked.count("/token") == 1


@run
async def test_unknown_states_and_broken_responses_are_refused() -> None:
    async with visitor() as one:
        for query in ("", "?state=", "?state=x&code=y", "?state=x&state=y&code=z", "?code=only"):
            assert (await one.visit(f"{one.base}/auth/callback{query}"))[0] in (400, 403)


@run
async def test_an_answer_of_another_issuer_is_refused() -> None:
    async with visitor(issuer="https://provider.example") as one:
        for iss in (
            "https://PROVIDER.example",
            "https://provider.example/",
            "https://provider.example:443",
            "https://evil.example",
        ):
            _, headers, _ = await one.come_back(await one.agree(await one.register()), iss=iss)
            assert query_of(headers["location"])["error"] == "access_denied"
        assert one.provider.asked.count("/token") == 0
        _, headers, _ = await one.come_back(
            await one.agree(await one.register()), iss="https://provider.example"
        )
        assert "code" in query_of(headers["location"])


@run
async def test_an_error_of_the_provider_is_reported_without_its_text() -> None:
    async with visitor() as one:
        id = await one.register()
        for answer, error in (
            (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "temporarily_unavailable"),
            ({"error": "invalid_grant", "error_description": "secret words"}, "access_denied"),
            ({"token_type": "Bearer"}, "server_error"),
            ({"access_token": "bad\r\ntoken"}, "server_error"),
            (
                b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
                "temporarily_unavailable",
            ),
        ):
            one.provider.places["/token"] = answer
            _, headers, _ = await one.come_back(await one.agree(id))
            assert query_of(headers["location"])["error"] == error
            assert "secret+words" not in headers["location"]
        one.provider.places["/token"] = {"access_token": "good"}
        for user in ({"name": "nobody"}, {"sub": ""}, {"sub": None}, {"sub": ["a"]}, {"sub": "a" * 20_000}):
            one.provider.places["/me"] = user
            _, headers, _ = await one.come_back(await one.agree(id))
            assert query_of(headers["location"])["error"] == "server_error"


# --- codes and tokens ---------------------------------------------------------------------------------------------


@run
async def test_a_code_is_good_once_and_its_second_use_ends_what_the_first_one_gave() -> None:
    async with visitor() as one:
        id = await one.register()
        code = await one.code(id)
        status, tokens = await one.redeem(id, code)
        assert status == 200
        assert await one.accepted(tokens["access_token"])
        assert (await one.redeem(id, code))[1]["error"] == "invalid_grant"
        assert not await one.accepted(tokens["access_token"])
        assert (await one.renew(id, tokens["refresh_token"]))[1]["error"] == "invalid_grant"


@run
async def test_a_code_that_is_replayed_in_a_race_gives_one_token_at_most_and_that_one_is_dead() -> None:
    async with visitor() as one:
        id = await one.register()
        code = await one.code(id)
        answers = await asyncio.gather(*(one.redeem(id, code) for _ in range(8)))
        given = [tokens["access_token"] for status, tokens in answers if status == 200]
        assert len(given) <= 1
        assert [await one.accepted(token) for token in given] == [False] * len(given)


@pytest.mark.parametrize(
    "change",
    [{"code_verifier": "w" * 43}, {"code_verifier": None}, {"code_verifier": "short"}, {"redirect_uri": BACK + "/"},
     {"resource": "https://other.example/mcp"}],
)  # fmt: skip
@run
async def test_a_code_is_bound_to_its_request(change: dict[str, str | None]) -> None:
    async with visitor() as one:
        id = await one.register()
        code = await one.code(id)
        status, said = await one.redeem(id, code, **change)
        assert (status, said["error"]) == (400, "invalid_target" if "resource" in change else "invalid_grant")
        if "resource" not in change:  # a code without its verifier counts as stolen
            assert (await one.redeem(id, code))[1]["error"] == "invalid_grant"


@run
async def test_a_code_and_tokens_are_bound_to_their_client() -> None:
    async with visitor() as one:
        mine, evil = await one.register(), await one.register()
        assert (await one.redeem(evil, await one.code(mine)))[1]["error"] == "invalid_grant"
        _, tokens = await one.redeem(mine, await one.code(mine))
        assert (await one.renew(evil, tokens["refresh_token"]))[1]["error"] == "invalid_grant"
        # Revoking what is another's does nothing, and says nothing.
        assert await one.post("revoke", {"token": tokens["refresh_token"], "client_id": evil}) == (200, {})
        assert await one.accepted(tokens["access_token"])
        assert await one.post("revoke", {"token": tokens["access_token"], "client_id": mine}) == (200, {})
        assert not await one.accepted(tokens["access_token"])
        assert (await one.renew(mine, tokens["refresh_token"]))[1]["error"] == "invalid_grant"


@run
async def test_a_client_with_a_secret_is_asked_for_it() -> None:
    async with visitor() as one:
        known = await register(one.base, BACK, token_endpoint_auth_method="client_secret_post")
        id, secret = known["client_id"], known["client_secret"]
        for wrong in (None, "", "x" * 43, secret + "x"):
            status, said = await one.redeem(id, await one.code(id), client_secret=wrong)
            assert (status, said["error"]) == (401, "invalid_client")
        status, _ = await one.redeem(id, await one.code(id), client_secret=secret)
        assert status == 200
        assert SECRET not in json.dumps(known)


@run
async def test_a_refresh_token_rotates_and_its_copy_ends_the_login() -> None:
    async with visitor() as one:
        id = await one.register()
        _, first = await one.redeem(id, await one.code(id))
        status, second = await one.renew(id, first["refresh_token"])
        assert status == 200
        assert second["refresh_token"] != first["refresh_token"]
        assert (await one.renew(id, first["refresh_token"]))[1]["error"] == "invalid_grant"
        assert (await one.renew(id, second["refresh_token"]))[1]["error"] == "invalid_grant"
        assert not await one.accepted(second["access_token"])


@run
async def test_a_refresh_gives_no_further_scopes() -> None:
    async with visitor() as one:
        id = await one.register()
        _, tokens = await one.redeem(id, await one.code(id))
        assert tokens["scope"] == "tools"
        assert (await one.renew(id, tokens["refresh_token"], scope="tools admin"))[1][
            "error"
        ] == "invalid_scope"
        assert (await one.renew(id, tokens["refresh_token"], scope="tools"))[0] == 200


@run
async def test_scopes_that_the_server_does_not_have_are_not_granted() -> None:
    async with visitor() as one:
        id = await one.register()
        _, tokens = await one.redeem(id, await one.code(id, scope="tools admin root"))
        assert tokens["scope"] == "tools"


@pytest.mark.parametrize("token", ["pr0vider-access", "dta_", "dta_" + "x" * 43, "dtr_" + "x" * 43, "x"])
@run
async def test_foreign_tokens_are_refused(token: str) -> None:
    async with visitor() as one:
        _, tokens = await one.redeem((id := await one.register()), await one.code(id))
        assert not await one.accepted(token)
        assert not await one.accepted(tokens["refresh_token"])  # the wrong kind
        assert await one.accepted(tokens["access_token"])


@run
async def test_nothing_in_the_store_can_be_read_or_used(tmp_path: Any) -> None:
    path = tmp_path / "state.db"
    async with visitor(store=SqliteStore(path)) as one:
        id = await one.register()
        code = await one.code(id)
        _, tokens = await one.redeem(id, code)
        state = await one.agree(id)
        secrets = [
            code,
            state,
            VERIFIER,
            SECRET,
            "pr0vider-access",
            "ann@example.com",
            tokens["access_token"],
            tokens["refresh_token"],
        ]
        secrets += list(one.cookies.values())
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"oauth/login" in kept  # it was kept
    assert [secret for secret in secrets if secret.encode() in kept] == []


@run
async def test_a_restart_keeps_logins_and_another_key_opens_none(tmp_path: Any) -> None:
    async with visitor(store=SqliteStore(tmp_path / "state.db")) as one:
        id = await one.register()
        _, tokens = await one.redeem(id, await one.code(id))
        url = one.url
    async with visitor(url=url, store=SqliteStore(tmp_path / "state.db")) as two:
        assert await two.accepted(tokens["access_token"])
        assert (await two.renew(id, tokens["refresh_token"]))[0] == 200
    async with visitor(
        url=url, store=SqliteStore(tmp_path / "state.db"), key="another key of 16 bytes"
    ) as three:
        assert not await three.accepted(tokens["access_token"])
        assert (await three.visit(three.authorize_url(id)))[0] == 400
    async with visitor(
        url=url, store=SqliteStore(tmp_path / "state.db"), key=["another key of 16 bytes", SECRET]
    ) as four:
        assert (await four.visit(four.authorize_url(id)))[0] == 200


@run
async def test_a_server_with_the_same_store_and_another_name_accepts_no_foreign_token() -> None:
    store = MemoryStore()
    async with visitor(store=store) as one, visitor(store=store) as two:
        id = await one.register()
        _, tokens = await one.redeem(id, await one.code(id))
        assert await one.accepted(tokens["access_token"])
        assert not await two.accepted(tokens["access_token"])


@run
async def test_two_servers_with_one_store_share_logins_and_revocations() -> None:
    store = MemoryStore()
    async with visitor(store=store) as one:
        port = urlsplit(one.url).port
        async with visitor(store=store, audience=one.url) as two:
            assert urlsplit(two.url).port != port
            id = await one.register()
            status, tokens = await two.redeem(id, await one.code(id), resource=one.url)
            assert status == 200, tokens
            assert await one.accepted(tokens["access_token"])
            assert await two.accepted(tokens["access_token"])
            await two.post("revoke", {"token": tokens["access_token"], "client_id": id})
            assert not await one.accepted(tokens["access_token"])  # though it had just been believed


# --- who may ------------------------------------------------------------------------------------------------------


@run
async def test_admit_returns_the_call_or_the_rejection() -> None:
    said: list[Any] = [False]

    async def admit(principal: Any) -> Any:
        assert (principal.subject, principal.claims["mail"]) == ("ann", "ann@example.com")
        return said[0]

    async with visitor(admit=admit) as one:
        id = await one.register()
        _, headers, _ = await one.come_back(await one.agree(id))
        assert query_of(headers["location"])["error"] == "access_denied"
        for answer, scope in ((True, "tools"), (["tools"], "tools"), ([], "")):
            said[0] = answer
            assert (await one.redeem(id, await one.code(id)))[1]["scope"] == scope


@run
async def test_an_admits_method_that_fails_denies_access() -> None:
    def admit(principal: Any) -> Any:
        raise RuntimeError("the list of users is away")

    async with visitor(admit=admit) as one:
        status, headers, body = await one.come_back(await one.agree(await one.register()))
        assert (status, "location" in headers) == (500, False)
        assert b"users" not in body


# --- sizes --------------------------------------------------------------------------------------------------------


@run
async def test_registrations_and_forms_are_bounded() -> None:
    async with visitor() as one:
        many = json.dumps({"redirect_uris": [f"https://x.example/{n}" for n in range(17)]}).encode()
        long = json.dumps({"redirect_uris": ["https://x.example/" + "a" * 3000]}).encode()
        huge = json.dumps({"redirect_uris": [BACK], "client_name": "x" * 70_000}).encode()
        for body in (many, long, b"{", b"[]", b'{"redirect_uris": "x"}', b'{"redirect_uris": []}'):
            assert (await send("POST", f"{one.base}/register", {"Content-Type": "application/json"}, body))[
                0
            ] == 400
        assert (await send("POST", f"{one.base}/register", {"Content-Type": "application/json"}, huge))[
            0
        ] == 413
        assert (await one.visit(one.authorize_url(await one.register(), state="s" * 5000)))[0] == 400


@run
async def test_a_refresh_token_used_by_two_at_once_ends_the_login() -> None:
    async with visitor() as one:
        id = await one.register()
        _, tokens = await one.redeem(id, await one.code(id))
        answers = await asyncio.gather(*(one.renew(id, tokens["refresh_token"]) for _ in range(6)))
        given = [renewed for status, renewed in answers if status == 200]
        assert len(given) <= 1
        for renewed in given:
            assert not await one.accepted(renewed["access_token"])
            assert (await one.renew(id, renewed["refresh_token"]))[1]["error"] == "invalid_grant"


@run
async def test_the_name_we_are_called_by_changes_nothing() -> None:
    async with visitor() as one:
        for page in ("authorize", "token", ".well-known/oauth-authorization-server"):
            status, _, _ = await send("GET", f"{one.base}/{page}", {"Host": "evil.example"})
            assert status == 403
        status, _, body = await send(
            "GET", f"{one.base}/.well-known/oauth-authorization-server", {"Host": "localhost"}
        )
        assert status == 200
        assert json.loads(body)["issuer"] == one.base
        assert b"localhost" not in body


@run
async def test_pages_of_others_may_redeem_codes_but_not_answer_for_the_user() -> None:
    async with visitor() as one:
        origin = {"Origin": "https://client.example", "Sec-Fetch-Site": "cross-site"}
        for page in ("token", "register", "revoke"):
            status, headers, _ = await send("OPTIONS", f"{one.base}/{page}", origin)
            assert (status, headers["access-control-allow-origin"]) == (204, "*")
        status, headers, _ = await send("OPTIONS", f"{one.base}/consent", origin)
        assert (status, "access-control-allow-origin" in headers) == (405, False)
