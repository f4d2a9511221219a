"""Token exchange for upstreams of a gateway: tokens of callers are exchanged, never forwarded."""

import asyncio
import itertools
import json
import logging
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from dovetail import Client, Context, DovetailError, Principal, Server
from dovetail.auth import AnyOf, ApiKeys, StaticTokens
from dovetail.extensions import Skills
from dovetail.gateway import ConfigError, Gateway, Proxy
from tests.client.fake_http import JSON, FakeHttp, Reply, Request, modern, serving
from tests.extensions.test_skills import write_skill
from tests.support.aio import run
from tests.support.web import served

CALLERS = {
    "ann-token": Principal("ann", scopes=frozenset({"read", "write"})),
    "ann-less": Principal("ann", scopes=frozenset({"read"})),
    "bob-token": Principal("bob"),
}
ACCESS = "urn:ietf:params:oauth:token-type:access_token"


class Bank:
    """A token endpoint. ``spoil`` answers in its place; what it issues is for ``audience``."""

    def __init__(self) -> None:
        self.issued: dict[str, str] = {}
        """Tokens, and whose name they are in."""
        self.audience = "the-notes"
        self.lifetime: float | None = 3600
        self.spoil: Callable[[dict[str, str]], Reply | None] = lambda form: None
        self.count = itertools.count(1)
        self.fake: FakeHttp
        self.base = ""

    @property
    def endpoint(self) -> str:
        return f"{self.base}/token"

    @property
    def forms(self) -> list[dict[str, str]]:
        return [dict(parse_qsl(one.body.decode())) for one in self.fake.requests if one.verb == "POST"]

    def __call__(self, request: Request) -> Reply:
        if request.verb == "GET":
            found = {"issuer": self.base, "token_endpoint": self.endpoint}
            return Reply(200, JSON, json.dumps(found).encode())
        form = dict(parse_qsl(request.body.decode()))
        spoilt = self.spoil(form)
        if spoilt is not None:
            return spoilt
        if form.get("audience", form.get("resource")) != self.audience:
            return refusal("invalid_target")
        token = f"exchanged-{next(self.count)}"
        self.issued[token] = form["subject_token"].partition("-")[0]
        return self.answer(token)

    def answer(self, token: str, **more: Any) -> Reply:
        said = {"access_token": token, "issued_token_type": ACCESS, "token_type": "Bearer", **more}
        if self.lifetime is not None:
            said["expires_in"] = self.lifetime
        return Reply(200, JSON, json.dumps(said).encode())

    async def verify(self, token: str, scope: Any) -> Principal | None:
        """In the way of the upstream server."""
        return Principal(self.issued[token]) if token in self.issued else None


def refusal(code: str) -> Reply:
    return Reply(400, JSON, json.dumps({"error": code}).encode())


@asynccontextmanager
async def gateway(
    auth: Any = None, equip: Callable[[Server], object] | None = None, **changed: Any
) -> AsyncIterator[tuple[Bank, str]]:
    """A gateway with a server that wants exchanged tokens and one that wants none, and where it is."""
    bank = Bank()
    notes = Server("notes", auth=bank.verify)

    @notes.tool
    def who(ctx: Context) -> str:
        return str(ctx.principal)

    if equip is not None:
        equip(notes)

    plain = Server("plain")
    plain.add_tool(lambda: "plain", name="tool", description="")
    async with serving(bank) as (bank.fake, url), served(notes) as behind, served(plain) as beside:
        bank.base = url.removesuffix("/mcp")
        exchange = {
            "token_endpoint": bank.endpoint,
            "client_id": "gate",
            "client_secret": "s3cret",
            "audience": "the-notes",
            "scopes": ["notes"],
        } | changed
        if "issuer" in changed:
            del exchange["token_endpoint"]
            exchange["issuer"] = bank.base
        if exchange["audience"] is None:
            del exchange["audience"]
            bank.audience = f"http://127.0.0.1:{behind.port}/mcp"
        members = {
            "notes": {"url": f"http://127.0.0.1:{behind.port}/mcp", "auth": {"exchange": exchange}},
            "plain": {"url": f"http://127.0.0.1:{beside.port}/mcp"},
        }
        server = Gateway({"mcpServers": members}, auth=auth or StaticTokens(CALLERS))
        async with served(server) as site:
            yield bank, f"http://127.0.0.1:{site.port}/mcp"


async def names(client: Client) -> list[str]:
    return sorted(tool.name for tool in await client.list_tools())


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_every_caller_is_represented_by_its_own_token(revision: str) -> None:
    async with gateway() as (bank, url):
        for token, name in (("ann-token", "ann"), ("bob-token", "bob")):
            async with Client(url, auth=token, revision=revision) as client:
                assert await names(client) == ["notes_who", "plain_tool"]
                assert (await client.call_tool("notes_who")).text == name
                assert (await client.call_tool("notes_who")).text == name
        assert len(bank.forms) == 2, "one exchange for each, however many requests"
        form = bank.forms[0]
        assert form == {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": ACCESS,
            "subject_token": "ann-token",
            "subject_token_type": ACCESS,
            "audience": "the-notes",
            "scope": "notes",
            "client_id": "gate",
        }
        said = next(one for one in bank.fake.requests if one.verb == "POST").headers["authorization"]
        assert b64decode(said.removeprefix("Basic ")) == b"gate:s3cret"


async def anew(token: str, scope: Any) -> Principal | None:
    """A verifier without identities: every request has the same anonymous caller."""
    return Principal(token.partition("-")[0]) if token in CALLERS else None


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("scheme", ["http", "ws"])
@run
async def test_the_token_that_came_with_a_request_is_the_one_that_is_exchanged(
    scheme: str, revision: str
) -> None:
    async with gateway(anew) as (bank, url):
        url = url.replace("http", scheme)
        async with (
            Client(url, auth="ann-token", revision=revision) as ann,
            Client(url, auth="bob-token", revision=revision) as bob,
        ):
            said = await asyncio.gather(*(each.call_tool("notes_who") for each in (ann, bob) * 5))
            assert [one.text for one in said] == ["ann", "bob"] * 5
        assert sorted(form["subject_token"] for form in bank.forms) == ["ann-token", "bob-token"]


@run
async def test_the_issuer_has_the_endpoints_and_the_url_of_the_server_is_the_resource() -> None:
    async with gateway(issuer=True, audience=None) as (bank, url), Client(url, auth="ann-token") as client:
        assert (await client.call_tool("notes_who")).text == "ann"
        assert bank.forms[0]["resource"] == bank.audience


@run
async def test_a_token_that_may_do_less_gets_one_of_its_own() -> None:
    async with gateway() as (bank, url):
        for token in ("ann-token", "ann-less", "ann-token"):
            async with Client(url, auth=token) as client:
                assert (await client.call_tool("notes_who")).text == "ann"
        assert [form["subject_token"] for form in bank.forms] == ["ann-token", "ann-less"]


@run
async def test_a_token_is_exchanged_again_shortly_before_it_expires() -> None:
    async with gateway() as (bank, url):
        bank.lifetime = 0.001
        async with Client(url, auth="ann-token") as client:
            await client.call_tool("notes_who")
            before = len(bank.forms)
            bank.lifetime = 3600
            for _ in range(3):
                assert (await client.call_tool("notes_who")).text == "ann"
            assert len(bank.forms) == before + 1


@run
async def test_a_token_revoked_upstream_is_exchanged_again() -> None:
    async with gateway() as (bank, url), Client(url, auth="ann-token") as client:
        await client.call_tool("notes_who")
        bank.issued.clear()
        assert (await client.call_tool("notes_who")).text == "ann"
        assert len(bank.forms) == 2


@pytest.mark.parametrize("keyed", [False, True])
@run
async def test_a_caller_without_a_verified_token_is_refused(
    keyed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An API key identifies the caller; a bearer token in the same request was not verified."""
    keys = ApiKeys({"k3y": Principal("ci")})
    options: dict[str, Any] = {"headers": {"X-API-Key": "k3y"}}
    if keyed:
        options["headers"]["Authorization"] = "Bearer ann-token"
    auth = AnyOf(keys, StaticTokens(CALLERS))
    with caplog.at_level(logging.WARNING, "dovetail.gateway"):
        async with gateway(auth) as (bank, url), Client(url, **options) as client:
            assert await names(client) == ["plain_tool"]
            assert (await client.call_tool("plain_tool")).text == "plain"
            with pytest.raises(DovetailError, match="notes needs a caller that authenticates"):
                await client.call_tool("notes_who")
            assert not bank.forms
    assert "list=tools: notes needs a caller that authenticates" in caplog.text


REFUSED: dict[str, tuple[Callable[[Bank], Any], str]] = {
    "audience": (lambda bank: setattr(bank, "audience", "another"), "invalid_target"),
    "expired": (lambda bank: setattr(bank, "spoil", lambda _: refusal("invalid_grant")), "invalid_grant"),
    "client": (lambda bank: setattr(bank, "spoil", lambda _: refusal("invalid_client")), "invalid_client"),
    "down": (lambda bank: setattr(bank, "spoil", lambda _: Reply(503)), "the authorization server failed"),
    "rubbish": (
        lambda bank: setattr(bank, "spoil", lambda _: Reply(200, JSON, b"[")),
        "the authorization server failed",
    ),
    "slow": (
        lambda bank: setattr(bank, "spoil", lambda _: Reply(hang=True)),
        "the authorization server failed",
    ),
    "the same": (
        lambda bank: setattr(bank, "spoil", lambda form: bank.answer(form["subject_token"])),
        "the authorization server failed",
    ),
    "another kind": (
        lambda bank: setattr(bank, "spoil", lambda _: bank.answer("t", issued_token_type="urn:x:saml")),
        "the authorization server failed",
    ),
    "not accepted behind": (
        lambda bank: setattr(bank, "spoil", lambda _: bank.answer("for-somebody-else")),
        "its configuration was rejected",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@run
async def test_without_an_exchanged_token_that_server_alone_is_away(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    spoil, reason = REFUSED[case]
    with caplog.at_level(logging.DEBUG):
        async with gateway(timeout=2.0) as (bank, url):
            spoil(bank)
            async with Client(url, auth="ann-token") as client:
                assert await names(client) == ["plain_tool"]
                with pytest.raises(DovetailError, match=f"no access token for notes: {reason}") as error:
                    await client.call_tool("notes_who")
                assert bank.base not in str(error.value)
                assert (await client.call_tool("plain_tool")).text == "plain"
    for secret in ("ann-token", "s3cret", "exchanged-"):
        assert secret not in caplog.text


@run
async def test_a_provider_that_comes_back_is_asked_again() -> None:
    async with gateway() as (bank, url):
        bank.spoil = lambda _: Reply(503)
        async with Client(url, auth="ann-token") as client:
            assert await names(client) == ["plain_tool"]
            bank.spoil = lambda _: None
            assert (await client.call_tool("notes_who")).text == "ann"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"token_endpoint": None}, "give either token_endpoint or issuer"),
        ({"issuer": "https://a.test"}, "give either token_endpoint or issuer"),
        ({"token_endpoint": "http://a.test/token"}, "token_endpoint"),
        ({"client_secrets": "x"}, "client_secrets"),
        ({"token_endpoint_auth_method": "magic"}, "client_secret_post"),
        ({"client_secret": "${NOT_SET_ANYWHERE}"}, "NOT_SET_ANYWHERE"),
    ],
)
def test_what_is_wrong_with_an_exchange_is_said(changed: dict[str, Any], reason: str) -> None:
    exchange = {"token_endpoint": "https://a.test/token", "client_id": "gate"} | changed
    entry = {"url": "https://b.test/mcp", "auth": {"exchange": exchange}}
    with pytest.raises(ConfigError, match=reason):
        Gateway({"mcpServers": {"notes": entry}})


def test_a_command_has_no_tokens_to_exchange() -> None:
    exchange = {"token_endpoint": "https://a.test/token", "client_id": "gate"}
    with pytest.raises(ConfigError, match="an http or ws URL"):
        Gateway({"mcpServers": {"notes": {"command": "x", "auth": {"exchange": exchange}}}})


@run
async def test_a_function_of_the_principal_may_say_that_there_is_no_token() -> None:
    async with serving(modern) as (fake, url), Client(Proxy(url, auth=lambda principal: None)) as client:
        await client.list_tools()
        assert fake.requests
        assert not any("authorization" in request.headers for request in fake.requests)


@run
async def test_skills_and_tasks_are_there_for_who_has_a_token(tmp_path: Path) -> None:
    write_skill(tmp_path, "review")

    def equip(notes: Server) -> None:
        notes.extensions.add(Skills(tmp_path))

        @notes.tool(task="required")
        async def long(ctx: Context) -> str:
            return f"for {ctx.principal}"

    async with gateway(equip=equip) as (_, url):
        for token, name in (("ann-token", "ann"), ("bob-token", "bob")):
            async with Client(url, auth=token, revision="2026-07-28") as client:
                assert [skill.uri for skill in await client.list_skills()] == [
                    "skill://notes/review/SKILL.md"
                ]
                handle = await client.call_tool("notes_long", task=True)
                assert (await handle.result()).text == f"for {name}"
        async with Client(url, auth="ann-token", revision="2025-11-25") as client:
            handle = await client.call_tool("notes_long", task=True)
            assert (await handle.result()).text == "for ann"


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_an_upstream_that_requires_a_token_is_visible_to_callers_with_one(
    revision: str,
) -> None:
    behind = Server("behind", auth=StaticTokens({"key-of-ann": Principal("ann")}))
    behind.add_tool(lambda: "hello", name="greet", description="")
    keys = {"ann": "key-of-ann"}
    async with served(behind) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        front = Server("front", auth=StaticTokens(CALLERS))
        front.mount(Proxy(url, "vault", auth=lambda who: keys.get(who.subject) if who else None))
        async with served(front) as face:
            url = f"http://127.0.0.1:{face.port}/mcp"
            async with Client(url, auth="ann-token", revision=revision) as ann:
                assert await names(ann) == ["greet"]
                assert (await ann.call_tool("greet")).text == "hello"
            async with Client(url, auth="bob-token", revision=revision) as bob:
                assert await names(bob) == []
                with pytest.raises(DovetailError, match="vault cannot be reached"):
                    await bob.call_tool("greet")
