"""``connect`` and ``rerun`` with a caller: protected servers are tested in memory as they are served."""

from typing import Any

import pytest

from dovetail import Context, DovetailError, Principal, ProtocolError, Refusal, Server
from dovetail.auth import ApiKeys, StaticTokens
from dovetail.testing import connect, rerun
from tests.support.aio import run

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
ANN = Principal("ann", scopes=frozenset({"write"}))


def agree(request: Any) -> bool:
    return True


def serving(auth: Any = None) -> Server:
    server = Server(
        "shop", auth=StaticTokens({"ann-token": ANN, "bob-token": "bob"}) if auth is None else auth
    )

    @server.tool
    async def who(ctx: Context) -> str:
        return "nobody" if ctx.principal is None else ctx.principal.subject

    @server.tool(scopes=["write"])
    async def order(ctx: Context) -> str:
        sure = await ctx.elicit("Sure?", bool)
        assert ctx.principal is not None
        return f"{ctx.principal.subject} {sure.data}"

    return server


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    "caller", [{"principal": ANN}, {"auth": "ann-token"}, {"auth": "Bearer ann-token"}], ids=str
)
@run
async def test_a_caller_with_the_scope_may_use_the_tool(revision: str, caller: dict[str, Any]) -> None:
    # Forms came with 2025-06-18.
    options: dict[str, Any] = {"on_elicit": agree} if revision >= "2025-06-18" else {}
    async with connect(serving(), revision, **caller, **options) as client:
        assert (await client.call_tool("who")).text == "ann"
        assert "order" in {tool.name for tool in await client.list_tools()}
        if options:
            assert (await client.call_tool("order")).text == "ann True"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("caller", [{"principal": "bob"}, {"auth": "bob-token"}], ids=str)
@run
async def test_a_caller_without_the_scope_is_refused(revision: str, caller: dict[str, Any]) -> None:
    async with connect(serving(), revision, **caller) as client:
        assert (await client.call_tool("who")).text == "bob"
        with pytest.raises(Refusal, match="required: write"):
            await client.call_tool("order")


@run
async def test_a_key_is_a_token_too() -> None:
    async with connect(serving(ApiKeys({"k1": ANN})), auth="k1") as client:
        assert (await client.call_tool("who")).text == "ann"


@run
async def test_a_wrong_token_is_refused_before_the_connection() -> None:
    with pytest.raises(DovetailError) as caught:
        async with connect(serving(), auth="stolen"):
            raise AssertionError("connected")
    assert caught.value.kind == "authentication_failed"


@run
async def test_arguments_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(TypeError, match="not both"):
        async with connect(serving(), principal=ANN, auth="ann-token"):
            pass
    with pytest.raises(DovetailError, match="needs a server with auth="):
        async with connect(Server("open"), auth="ann-token"):
            pass


@pytest.mark.parametrize("caller", [{"principal": ANN}, {"auth": "ann-token"}], ids=str)
@run
async def test_rerun_calls_a_protected_tool(caller: dict[str, Any]) -> None:
    report = await rerun(serving(), "order", **caller)
    assert report.runs == 2
    assert report.result["content"][0]["text"] == "ann True"


@run
async def test_rerun_without_the_scope_is_refused() -> None:
    with pytest.raises(ProtocolError, match="required: write"):
        await rerun(serving(), "order", principal="bob")
