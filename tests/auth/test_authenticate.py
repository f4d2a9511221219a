"""A protected server over HTTP: accepted and refused requests on every revision."""

import asyncio
import json
import threading
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from dovetail import Client, Context, Principal, Server
from dovetail.auth import AnyOf, ApiKeys, InvalidToken, JwtVerifier, StaticTokens, Unavailable, Verifier
from dovetail.auth.core.challenge import read
from dovetail.errors import DovetailError, ProtocolError
from tests.support.aio import run
from tests.support.process import CLI
from tests.support.rawclient import MODERN
from tests.support.schemas import REVISIONS
from tests.support.waiting import HANG
from tests.support.web import Response, Site, Web, legacy_headers, modern, modern_headers, request, served

LEGACY = [revision for revision in REVISIONS if "2024" < revision < MODERN and revision != "2024-11-05"]
ANN = {"Authorization": "Bearer ann-token"}
BOB = {"Authorization": "Bearer bob-token"}
TOKENS = {"ann-token": Principal("ann", scopes=frozenset({"mail:send"})), "bob-token": Principal("bob")}


def mail(auth: Any = None, **options: Any) -> Server:
    server = Server("mail", "1", auth=auth or StaticTokens(TOKENS), **options)

    @server.tool
    async def who(ctx: Context) -> str:
        """Who is calling."""
        return str(ctx.principal)

    @server.tool(scopes=["mail:send"])
    async def send() -> str:
        """Send."""
        return "sent"

    return server


async def post(site: Site, message: Any, headers: dict[str, str], path: str = "/mcp") -> Response:
    body = json.dumps(message).encode()
    return await Web(site).ask("POST", modern_headers(message) | headers, body, path)


def call(name: str) -> Any:
    return modern("tools/call", {"name": name, "arguments": {}})


@run
async def test_a_valid_token_identifies_the_caller() -> None:
    async with served(mail()) as site:
        for headers, name in ((ANN, "ann"), (BOB, "bob")):
            found = await post(site, call("who"), headers)
            assert found.message["result"]["content"][0]["text"] == name


@run
async def test_without_a_token_the_challenge_says_where_to_get_one() -> None:
    async with served(mail()) as site:
        found = await post(site, call("who"), {"Host": f"127.0.0.1:{site.port}"})
        assert found.status == 401
        [challenge] = read(found.headers["www-authenticate"])
        where = f"http://127.0.0.1:{site.port}/.well-known/oauth-protected-resource/mcp"
        assert challenge.parameters == {"resource_metadata": where, "scope": "mail:send"}
        assert found.message["error"]["code"] == 1005


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("Bearer nobody", "unknown"),
        ("Bearer", "not a valid token"),
        ("Bearer a b", "not a valid token"),
        ("Bearer " + "a" * 20_000, "exceeds"),
        ("bearer ann-token2", "unknown"),
    ],
)
@run
async def test_a_bad_token_is_refused_with_its_reason(value: str, reason: str) -> None:
    async with served(mail()) as site:
        found = await post(site, call("who"), {"Authorization": value})
        [challenge] = read(found.headers["www-authenticate"])
        assert (found.status, challenge.parameters["error"]) == (401, "invalid_token")
        assert reason in challenge.parameters["error_description"]
        assert value[8:] not in found.headers["www-authenticate"] or len(value) < 9


@run
async def test_a_token_counts_in_the_header_alone() -> None:
    async with served(mail()) as site:
        message = call("who")
        for path in ("/mcp?access_token=ann-token", "/mcp?token=ann-token"):
            assert (await post(site, message, {}, path)).status == 401
        assert (await post(site, message, {"Cookie": "access_token=ann-token"})).status == 401
        assert (await post(site, message, {"Authorization": "Basic YW5uLXRva2Vu"})).status == 401
        assert (await post(site, message, {"authorization": "bEaReR ann-token"})).status == 200


@run
async def test_two_tokens_are_none() -> None:
    async with served(mail()) as site, await site.connect() as connection:
        message = call("who")
        pairs = [*modern_headers(message).items(), *ANN.items(), *BOB.items()]
        connection.request("POST", "/mcp", pairs, json.dumps(message).encode())
        assert (await connection.response()).status == 400


@pytest.mark.parametrize("revision", LEGACY)
@run
async def test_every_request_of_a_session_needs_the_token_of_its_owner(revision: str) -> None:
    async with served(mail()) as site:
        web = Web(site)
        session, _ = await web.initialize(revision, ANN)
        for headers, status in ((ANN, 200), (BOB, 404), ({}, 401), ({"Authorization": "Bearer x"}, 401)):
            others = legacy_headers(revision, session) | headers
            found = await web.ask("POST", others, json.dumps(request("ping")).encode())
            assert found.status == status
            assert ("www-authenticate" in found.headers) == (status == 401)
            if status != 200:
                assert (await web.ask("GET", others)).status == status
                assert (await web.ask("DELETE", others)).status == status
        assert (await web.ask("DELETE", legacy_headers(revision, session) | ANN)).status == 204


@pytest.mark.parametrize("revision", LEGACY)
@run
async def test_a_session_cannot_be_opened_without_a_token(revision: str) -> None:
    async with served(mail()) as site:
        params = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        found = await Web(site).ask(
            "POST", legacy_headers(None), json.dumps(request("initialize", params)).encode()
        )
        assert found.status == 401
        assert "mcp-session-id" not in found.headers


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
@run
async def test_a_missing_scope_error_lists_all_scopes_on_every_revision(revision: str) -> None:
    async with served(mail()) as site:
        if revision == MODERN:
            found = await post(site, call("send"), BOB)
        else:
            web = Web(site)
            session, _ = await web.initialize(revision, BOB)
            params = {"name": "send", "arguments": {}}
            found = await web.legacy(revision, session, "tools/call", params, headers=BOB)
        assert found.status == 403
        [challenge] = read(found.headers["www-authenticate"])
        assert challenge.parameters["error"] == "insufficient_scope"
        assert challenge.parameters["scope"] == "mail:send"
        assert challenge.parameters["resource_metadata"].endswith("/.well-known/oauth-protected-resource/mcp")
        assert found.message["error"]["data"]["requiredScopes"] == ["mail:send"]


@run
async def test_without_sessions_a_missing_scope_is_reported_too() -> None:
    async with served(mail(), stateless=True) as site:
        found = await Web(site).legacy(
            "2025-06-18", None, "tools/call", {"name": "send", "arguments": {}}, headers=BOB
        )
        assert found.status == 403
        assert read(found.headers["www-authenticate"])[0].scopes == ("mail:send",)


@run
async def test_the_metadata_lies_at_both_places_and_needs_no_token() -> None:
    async with served(mail(), authorization_servers=("https://id.example",)) as site:
        web = Web(site)
        for place in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
            found = await web.ask("GET", {"Host": f"127.0.0.1:{site.port}"}, path=place)
            assert found.status == 200
            assert found.message == {
                "resource": f"http://127.0.0.1:{site.port}/mcp",
                "authorization_servers": ["https://id.example"],
                "scopes_supported": ["mail:send"],
                "bearer_methods_supported": ["header"],
                "resource_name": "mail",
            }
            assert (await web.ask("OPTIONS", {}, path=place)).status == 204
            assert (await web.ask("DELETE", {}, path=place)).status == 405


@run
async def test_an_open_server_has_no_metadata() -> None:
    async with served(Server("open", "1")) as site:
        assert (await Web(site).ask("GET", {}, path="/.well-known/oauth-protected-resource")).status == 404


@run
async def test_a_preflight_and_the_signs_of_life_need_no_token() -> None:
    async with served(mail(), cors=True, allowed_origins=("https://page.example",)) as site:
        web = Web(site)
        origin = {"Origin": "https://page.example"}
        assert (await web.ask("OPTIONS", origin)).status == 204
        assert (await web.ask("GET", {}, path="/livez")).status == 200
        refused = await post(site, call("who"), origin)
        assert refused.status == 401
        assert "WWW-Authenticate" in refused.headers["access-control-expose-headers"]


@run
async def test_the_pair_of_2024_needs_a_token_on_both_sides() -> None:
    async with served(mail()) as site, await site.connect() as connection:
        web = Web(site)
        events = {"Accept": "text/event-stream"}
        assert (await web.ask("GET", events, path="/sse")).status == 401
        connection.request("GET", "/sse", events | ANN)
        await connection.head()
        path = (await anext(aiter(connection.events()))).data
        assert path is not None
        body = json.dumps(request("ping")).encode()
        for headers, status in ((ANN, 202), (BOB, 404), ({}, 401)):
            found = await web.ask("POST", legacy_headers(None) | headers, body, path.decode())
            assert found.status == status


@run
async def test_a_websocket_shows_its_token_at_the_handshake() -> None:
    async with served(mail()) as site:
        where = f"ws://127.0.0.1:{site.port}/mcp"
        for headers in ({}, {"Authorization": "Bearer x"}):
            with pytest.raises(InvalidStatus) as refused:
                await connect(where, additional_headers=headers)
            assert refused.value.response.status_code == 401
        async with connect(where, additional_headers=BOB) as socket:
            await socket.send(json.dumps(call("who")))
            assert json.loads(await socket.recv())["result"]["content"][0]["text"] == "bob"
            await socket.send(json.dumps(call("send")))
            error = json.loads(await socket.recv())["error"]
            assert (error["code"], error["data"]["requiredScopes"]) == (1005, ["mail:send"])


@run
async def test_a_key_of_an_own_header_or_a_bearer_token() -> None:
    auth = AnyOf(StaticTokens(TOKENS), ApiKeys({"k3y": Principal("robot")}, header="X-Robot"))
    async with served(mail(auth)) as site:
        for headers, status in (
            (ANN, 200),
            ({"X-Robot": "k3y"}, 200),
            ({"X-Robot": "k3y", "Authorization": "Bearer x"}, 200),
            ({"Authorization": "Bearer k3y"}, 401),
            ({"X-Robot": "ann-token"}, 401),
            ({"X-API-Key": "k3y"}, 401),
        ):
            assert (await post(site, call("who"), headers)).status == status


class Away(Verifier):
    """Its authorization server cannot be reached."""

    async def verify(self, token: str, scope: Any) -> Principal | None:
        raise Unavailable("the authorization server is unavailable")


@run
async def test_an_authorization_server_that_is_away_keeps_out_only_those_who_need_it() -> None:
    both = AnyOf(Away(), StaticTokens(TOKENS))
    async with served(mail(both)) as site:
        assert (await post(site, call("who"), ANN)).status == 200
        found = await post(site, call("who"), {"Authorization": "Bearer other"})
        assert (found.status, "retry-after" in found.headers) == (503, True)
        assert "www-authenticate" not in found.headers
    assert await both.verify("ann-token", {}) == "ann"
    with pytest.raises(Unavailable):
        await both.verify("other", {})


@run
async def test_any_function_verifies() -> None:
    seen: list[Any] = []

    async def verify(token: str, scope: Any) -> Principal | None:
        seen.append((token, scope["method"]))
        return Principal("eve") if token == "good" else None

    class Own:
        async def verify(self, token: str, scope: Any) -> Principal | None:
            return await verify(token, scope)

    for auth in (verify, Own(), Own().verify):
        async with served(mail(auth)) as site:
            assert (await post(site, call("who"), {"Authorization": "Bearer good"})).status == 200
            refused = await post(site, call("who"), {"Authorization": "Bearer bad"})
            assert refused.status == 401
            assert read(refused.headers["www-authenticate"])[0].parameters["error"] == "invalid_token"
    assert set(seen) == {("good", "POST"), ("bad", "POST")}


@run
async def test_a_plain_function_verifies_in_a_thread() -> None:
    threads: set[int] = set()

    def verify(token: str, scope: Any) -> Principal | None:
        threads.add(threading.get_ident())
        return Principal("eve") if token == "good" else None

    class Own:
        def verify(self, token: str, scope: Any) -> Principal | None:
            return verify(token, scope)

    class Derived(Verifier):
        def verify(self, token: str, scope: Any) -> Principal | None:  # type: ignore[override]
            return verify(token, scope)

    class Called:
        async def __call__(self, token: str, scope: Any) -> Principal | None:
            return Principal("eve") if token == "good" else None

    wrapped = Called()
    for auth in (verify, Own(), Derived(), AnyOf(verify), wrapped, lambda *given: wrapped(*given)):
        async with served(mail(auth)) as site:
            assert (await post(site, call("who"), {"Authorization": "Bearer good"})).status == 200
            assert (await post(site, call("who"), {"Authorization": "Bearer bad"})).status == 401
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("wrong", [RuntimeError("secret reason"), "a string"])
@run
async def test_an_auth_function_that_fails_denies_access_without_details(wrong: Any) -> None:
    async def verify(token: str, scope: Any) -> Any:
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    async with served(mail(verify)) as site:
        found = await post(site, call("who"), ANN)
        assert found.status == 500
        assert b"secret" not in found.body
        assert b"string" not in found.body


@run
async def test_an_app_may_be_protected_where_its_server_is_not() -> None:
    server = mail(StaticTokens({"other": Principal("x")}))
    async with served(server, auth=StaticTokens(TOKENS)) as site:
        assert (await post(site, call("who"), ANN)).status == 200
        assert (await post(site, call("who"), {"Authorization": "Bearer other"})).status == 401


@run
async def test_scopes_required_of_all_callers() -> None:
    async with served(mail(StaticTokens(TOKENS, scopes=["mail:send"]))) as site:
        assert (await post(site, call("who"), ANN)).status == 200
        found = await post(site, call("who"), BOB)
        assert found.status == 403
        challenge = read(found.headers["www-authenticate"])[0].parameters
        assert (challenge["error"], challenge["scope"]) == ("insufficient_scope", "mail:send")


@run
async def test_an_unauthenticated_caller_is_refused_before_its_body_is_read() -> None:
    async with served(mail()) as site, await site.connect() as connection:
        headers = modern_headers(call("who")) | {"Content-Length": "1000000"}
        connection.request("POST", "/mcp", headers, None)
        async with asyncio.timeout(HANG):
            assert (await connection.head()).status == 401


@pytest.mark.parametrize("wrong", [5, "token", StaticTokens])
def test_what_cannot_verify_is_refused_when_the_app_is_made(wrong: Any) -> None:
    with pytest.raises(TypeError, match="async def verify"):
        Server("x", "1", auth=wrong).asgi()


def test_an_empty_token_is_no_token() -> None:
    with pytest.raises(ValueError, match="empty"):
        StaticTokens({"": "everybody"})


def test_one_server_is_one_resource() -> None:
    with pytest.raises(ValueError, match="same audience"):
        AnyOf(StaticTokens({}, audience="https://a"), StaticTokens({}, audience="https://b"))


REASONS = {
    "expired": InvalidToken("the token has expired"),
    "audience": InvalidToken("the audience of the token is not this server"),
    "issuer": InvalidToken("the issuer of the token is not accepted"),
}


@pytest.mark.parametrize("why", REASONS)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_the_reason_of_a_refusal_reaches_the_client_and_the_log(
    why: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def verify(token: str, scope: Any) -> Principal | None:
        raise REASONS[why]

    caplog.set_level("INFO", "dovetail")
    async with served(mail(verify)) as site:
        with pytest.raises(DovetailError, match=REASONS[why].message):
            async with Client(f"http://127.0.0.1:{site.port}/mcp", revision=revision, auth="a-token"):
                pass
    assert f"request refused kind=invalid_token path=/mcp reason={REASONS[why].message}" in caplog.text
    assert "a-token" not in caplog.text


FORBIDDEN = [
    ProtocolError("insufficient_permissions", "this tenant is closed"),
    ProtocolError("authorization_failed", "this tenant is closed"),
    ProtocolError("access_denied", "this tenant is closed"),
]


@pytest.mark.parametrize("error", FORBIDDEN, ids=lambda error: error.kind)
@run
async def test_a_verifier_that_forbids_answers_403_and_asks_for_no_other_token(error: ProtocolError) -> None:
    async def verify(token: str, scope: Any) -> Principal | None:
        raise error

    async with served(mail(verify)) as site:
        answer = await post(site, call("who"), ANN)
        [challenge] = read(answer.headers["www-authenticate"])
        assert answer.status == 403
        assert challenge.parameters["error"] == "insufficient_scope"
        assert challenge.parameters["error_description"] == "this tenant is closed"


SIGNING = OctKey.generate_key(256, {"kid": "k"})
BAD: dict[int, tuple[Any, dict[str, str]]] = {
    -32053: (ApiKeys({"k3y": "ci"}), {"X-API-Key": "wrong"}),
    -32054: (
        JwtVerifier(issuer="https://id.example", audience="a", keys=SIGNING.as_dict(), algorithms=["HS256"]),
        {"Authorization": "Bearer " + jwt.encode({"alg": "HS256", "kid": "k"}, {
            "iss": "https://id.example", "aud": "a", "sub": "ann", "exp": 1}, SIGNING)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("code", BAD)
@run
async def test_a_bad_key_and_an_expired_token_have_their_own_kinds(code: int) -> None:
    auth, headers = BAD[code]
    kind = {-32053: "invalid_credentials", -32054: "token_expired"}[code]
    async with served(mail(auth)) as site:
        answer = await post(site, call("who"), headers)
        assert (answer.status, answer.message["error"]["data"]["kind"]) == (401, kind)
        assert read(answer.headers["www-authenticate"])[0].parameters["error"] == "invalid_token"
    async with served(mail(auth, dialect="erlmcp")) as site:
        body = json.dumps(request("tools/list")).encode()
        answer = await Web(site).ask("POST", legacy_headers("2025-11-25") | headers, body)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (401, code)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@run
async def test_a_client_without_a_token_learns_what_to_set(revision: str) -> None:
    server = Server("closed", auth=StaticTokens({"secret": Principal("ann")}))
    async with served(server) as site:
        with pytest.raises(DovetailError, match='requires authorization: set auth="oauth" or a token'):
            async with Client(f"http://127.0.0.1:{site.port}/mcp", revision=revision):
                pass


@run
async def test_the_commands_say_how_to_use_a_server_with_static_tokens() -> None:
    server = Server("closed", auth=StaticTokens({"secret": Principal("ann")}))
    async with served(server) as site:
        for command, said in (("login", "the server has no OAuth"), ("doctor", "--auth TOKEN")):
            process = await asyncio.create_subprocess_exec(
                *CLI, command, f"http://127.0.0.1:{site.port}/mcp",
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            out, _ = await process.communicate()
            assert said in out.decode()
