"""Who is at the other end where there are no headers."""

import asyncio
import json
import os
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Context, DovetailError, Principal, Server, TransportError
from dovetail.auth import AnyOf, ApiKeys, StaticTokens
from dovetail.auth.server.connection_auth import certificate_principal, environment_principal
from dovetail.transports import tcp
from tests.support.aio import run
from tests.support.certificates import Authority
from tests.support.web import modern

CERTIFICATE: dict[str, Any] = {
    "subject": ((("organizationName", "Shop"),), (("commonName", "robot"),)),
    "issuer": ((("commonName", "our CA"),),),
    "notAfter": "Jun  1 12:00:00 2030 GMT",
    "serialNumber": "0A",
    "subjectAltName": (("DNS", "robot.example"), ("IP Address", "10.0.0.1")),
}


def test_a_certificate_reports_its_subject_and_expiry() -> None:
    found = certificate_principal(CERTIFICATE)
    assert found == Principal("robot", "commonName=our CA")
    assert found is not None
    assert found.expires == ssl.cert_time_to_seconds(CERTIFICATE["notAfter"])


def test_another_name_of_the_certificate_replaces_the_common_name_and_none_is_anonymous() -> None:
    nameless = CERTIFICATE | {"subject": ()}
    assert str(certificate_principal(nameless)) == "robot.example"
    assert certificate_principal(nameless | {"subjectAltName": ()}) is None
    assert certificate_principal({}) is None
    assert certificate_principal(None) is None


@run
async def test_a_server_with_auth_does_not_listen_where_tokens_cannot_be_sent() -> None:
    server = Server("x", "1", auth=StaticTokens({"t": "ann"}))
    with pytest.raises(TransportError, match="client certificates"):
        await tcp.listen(server.dispatcher)
    listener = await tcp.listen(server.dispatcher, allow_anonymous=True)
    await listener.close()


@run
async def test_a_pipe_takes_its_token_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    auth = AnyOf(StaticTokens({"t": "ann"}), ApiKeys({"k": "robot"}))
    monkeypatch.delenv("DOVETAIL_TOKEN", raising=False)
    assert await environment_principal(auth) is None
    for token, who in (("t", "ann"), ("k", "robot")):
        monkeypatch.setenv("DOVETAIL_TOKEN", token)
        assert await environment_principal(auth) == who
        assert await environment_principal(None) is None
    monkeypatch.setenv("DOVETAIL_TOKEN", "wr0ng")
    with pytest.raises(DovetailError, match="DOVETAIL_TOKEN") as refused:
        await environment_principal(auth)
    assert "wr0ng" not in refused.value.message


PIPE = """
from dovetail import Context, Principal, Server
from dovetail.auth import StaticTokens
server = Server("x", "1", auth=StaticTokens({"t0ken": Principal("ann", scopes=frozenset({"a"}))}))
@server.tool(scopes=["a"])
async def who(ctx: Context) -> str:
    "Who."
    return str(ctx.principal)
server.run()
"""


@run
async def test_a_server_started_with_a_token_knows_its_caller(tmp_path: Path) -> None:
    from dovetail import Client

    (tmp_path / "server.py").write_text(PIPE)
    # What a client starts inherits little of its environment.
    command = [
        "env",
        f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}",
        sys.executable,
        str(tmp_path / "server.py"),
    ]
    async with Client([*command[:2], "DOVETAIL_TOKEN=t0ken", *command[2:]]) as client:
        assert (await client.call_tool("who", {})).text == "ann"
    async with Client(command) as client:
        assert json.dumps([tool.name for tool in await client.list_tools()]) == "[]"


@run
async def test_a_client_certificate_identifies_the_caller_over_tcp(tmp_path: Path) -> None:
    server = Server("x", "1", auth=StaticTokens({"t": "ann"}))

    @server.tool
    async def who(ctx: Context) -> str:
        """Who."""
        return f"{ctx.principal} {ctx.principal.issuer if ctx.principal else None}"

    authority = Authority(tmp_path)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(authority.certificate("localhost"))
    ours.load_verify_locations(authority.path)
    ours.verify_mode = ssl.CERT_REQUIRED
    theirs = ssl.create_default_context(cafile=str(authority.path))
    theirs.load_cert_chain(authority.certificate("robot"))
    listener = await tcp.listen(server.dispatcher, ssl=ours)
    try:
        reader, writer = await asyncio.open_connection(
            *listener.address[:2], ssl=theirs, server_hostname="localhost"
        )
        message = modern("tools/call", {"name": "who", "arguments": {}})
        writer.write(json.dumps(message).encode() + b"\n")
        found = json.loads(await reader.readline())["result"]["content"][0]["text"]
        assert found == "robot commonName=an authority of the tests"
        writer.close()
    finally:
        await listener.close()
