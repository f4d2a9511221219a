"""Attacks on authorization: forged tokens, clients, issuers, and files of other users."""

import asyncio
import base64
import json
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey

from dovetail.auth import (
    AuthError,
    ClientCredentials,
    IntrospectionVerifier,
    InvalidToken,
    JwtVerifier,
    MemoryTokens,
    TokenStore,
    Unavailable,
    WorkloadIdentity,
)
from dovetail.auth.client.authorizer import Authorizer
from dovetail.auth.proxy.registered_clients import CLIENT_DOCUMENT_FETCHES_OF_HOST
from dovetail.auth.server.introspection import INTROSPECTIONS
from tests.support.aio import run
from tests.support.certificates import Authority
from tests.support.waiting import HANG, until

from .documents import documents
from .provider import log_in, oauth, provided
from .visitor import BACK, visitor

NOW, ISSUER, AUDIENCE = 1_800_000_000, "https://id.example", "https://shop.example/mcp"
CLAIMS = {"iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "exp": NOW + 60}
MINE, EVIL = (ECKey.generate_key("P-256", {"kid": "k"}) for _ in range(2))

# --- tokens that bring their own keys, and keys that are for something else ------------------------------------------


def verifier(*keys: Any) -> JwtVerifier:
    document = {"keys": [key.as_dict(private=False) for key in keys]}
    return JwtVerifier(issuer=ISSUER, audience=AUDIENCE, keys=document, clock=lambda: NOW)


@pytest.mark.parametrize("named", [True, False])
@run
async def test_keys_that_a_token_brings_are_neither_used_nor_fetched(named: bool) -> None:
    async with documents() as site:
        jwk = EVIL.as_dict(private=False)
        site.places["/keys"] = {"keys": [jwk]}
        for more in (
            {"jwk": jwk},
            {"jku": f"{site.url}/keys"},
            {"x5u": f"{site.url}/keys"},
            {"x5c": [base64.b64encode(b"certificate").decode()]},
        ):
            header = {"alg": "ES256", **({"kid": "k"} if named else {}), **more}
            token = jws.serialize_compact(header, json.dumps(CLAIMS).encode(), EVIL, algorithms=["ES256"])
            with pytest.raises(InvalidToken, match="signature"):
                await verifier(MINE).verify(token, {})
        assert site.asked == []


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512", "Ed25519", "RS256", "PS256"])
@run
async def test_a_key_of_another_curve_or_purpose_verifies_nothing_and_breaks_nothing(algorithm: str) -> None:
    keys = [
        ECKey.generate_key("P-384", {"kid": "k"}),
        ECKey.generate_key("secp256k1", {"kid": "k"}),
        OKPKey.generate_key("X25519", {"kid": "k"}),  # agrees on keys, signs nothing
        OKPKey.generate_key("Ed448", {"kid": "k"}),
    ]
    parts = [json.dumps(part).encode() for part in ({"alg": algorithm, "kid": "k"}, CLAIMS)]
    for signature in (b"", b"\0" * 64, b"\xff" * 96):
        token = ".".join(base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in (*parts, signature))
        with pytest.raises(InvalidToken, match=r"signature|unknown key"):
            await verifier(*keys).verify(token, {})


# --- being in the way ------------------------------------------------------------------------------------------------


@run
async def test_a_flood_of_unknown_tokens_does_not_evict_verified_ones() -> None:
    now = [float(NOW)]
    async with documents() as site:
        site.places["/introspect"] = {"active": True, "sub": "ann", "aud": AUDIENCE}
        checking = IntrospectionVerifier(
            endpoint=f"{site.url}/introspect",
            client_id="us",
            client_secret="s",
            audience=AUDIENCE,
            clock=lambda: now[0],
        )
        assert await checking.verify("mine", {}) is not None
        now[0] += 100  # that answer is not believed any more
        site.held.clear()
        flood = [asyncio.ensure_future(checking.verify(f"t{one}", {})) for one in range(INTROSPECTIONS)]
        await until(lambda: len(site.asked) == 1 + INTROSPECTIONS)
        with pytest.raises(Unavailable):
            await checking.verify("another", {})
        again = asyncio.ensure_future(checking.verify("mine", {}))
        await until(lambda: len(site.asked) == 2 + INTROSPECTIONS)
        site.held.set()
        assert await again is not None
        await asyncio.gather(*flood)


@run
async def test_one_host_of_documents_that_never_come_keeps_out_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    asked: list[str] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.split()[1])
        if "\r\nhost: localhost" in head.lower():
            url = f"https://localhost:{port}{head.split()[1]}"
            body = json.dumps({"client_id": url, "redirect_uris": [BACK]}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        else:
            await over.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=authority.server("localhost", "127.0.0.1"))
    port = server.sockets[0].getsockname()[1]
    async with visitor(allow_private=True) as one:
        slow = [
            asyncio.ensure_future(one.visit(one.authorize_url(f"https://127.0.0.1:{port}/{number}")))
            for number in range(CLIENT_DOCUMENT_FETCHES_OF_HOST)
        ]
        await until(lambda: len(asked) == len(slow))
        for spelt in (f"127.0.0.1:{port}", "127.0.0.1:1", "127.0.0.1"):
            assert (await one.visit(one.authorize_url(f"https://{spelt}/more")))[0] == 503
        assert (await one.visit(one.authorize_url(f"https://localhost:{port}/good")))[0] == 200
        over.set()
        assert {status for status, _, _ in await asyncio.gather(*slow)} == {400}
        # Now there is room again, and it is looked for.
        assert (await one.visit(one.authorize_url(f"https://127.0.0.1:{port}/more")))[0] == 400
        assert asked[-1] == "/more"
    server.close()


# --- learning our secrets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "auth",
    [
        lambda: ClientCredentials("m", "s3cret-of-a-machine"),
        lambda: oauth(client_id="c", client_secret="s3cret-of-a-client"),
        lambda: WorkloadIdentity("s3cret.of.workload"),
    ],
)
@run
async def test_what_proves_who_we_are_is_not_shown_to_the_issuer_of_another_server(auth: Any) -> None:
    shared: Authorizer = auth()
    async with AsyncExitStack() as stack:
        good, evil = [await stack.enter_async_context(provided()) for _ in range(2)]
        await log_in(good, shared)
        with pytest.raises(AuthError, match="issuer"):
            await log_in(evil, shared)
        assert evil.forms() == []
        assert not [each for each in evil.fake.requests if b"s3cret" in each.body]
        await log_in(good, shared)


@run
async def test_a_secret_with_its_issuer_is_for_that_one_alone() -> None:
    async with AsyncExitStack() as stack:
        good, evil = [await stack.enter_async_context(provided()) for _ in range(2)]
        store = MemoryTokens()
        await log_in(good, oauth(client_id="c", client_secret="s", issuer=good.issuer, store=store))
        await log_in(evil, oauth(client_id="c", client_secret="s", issuer=evil.issuer, store=store))
        with pytest.raises(AuthError, match="issuer"):
            await log_in(evil, oauth(client_id="c", client_secret="s", issuer=good.issuer))


# --- files -----------------------------------------------------------------------------------------------------------

KEY = ("token", "issuer", "client", "resource")
files_of_users = pytest.mark.skipif(sys.platform == "win32", reason="users, links and modes")


@files_of_users
def test_a_folder_that_others_could_write_to_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    asyncio.run(TokenStore(tmp_path).put(KEY, b"1"))
    assert tmp_path.stat().st_mode & 0o777 == 0o700


@files_of_users
def test_the_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TokenStore(tmp_path)
    asyncio.run(store.put(KEY, b"1"))
    other = os.getuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert asyncio.run(store.get(KEY)) is None  # although it was planted
    with pytest.raises(AuthError, match="another user"):
        asyncio.run(store.put(KEY, b"2"))


@files_of_users
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_foreign_files_are_neither_read_nor_waited_for_nor_written(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        store, elsewhere = TokenStore(tmp_path / "tokens"), tmp_path / "elsewhere"
        await store.put(KEY, b"1")
        (file,) = store.folder.iterdir()
        file.rename(elsewhere)
        if kind == "link":
            file.symlink_to(elsewhere)
        elif kind == "pipe":
            os.mkfifo(file)
        else:
            file.mkdir()
        async with asyncio.timeout(HANG):
            assert await store.get(KEY) is None
        before = elsewhere.read_bytes()
        if kind != "folder":
            await store.put(KEY, b"2")
            assert await store.get(KEY) == b"2"
        assert elsewhere.read_bytes() == before

    asyncio.run(test())


@files_of_users
def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    async def test() -> None:
        store, elsewhere = TokenStore(tmp_path / "tokens"), tmp_path / "elsewhere"
        await store.put(KEY, b"1")
        (file,) = store.folder.iterdir()
        file.with_suffix(".lock").symlink_to(elsewhere)
        with pytest.raises(OSError, match=r"symbolic|loop"):
            async with store.lock(KEY):
                pass
        assert not elsewhere.exists()

    asyncio.run(test())
