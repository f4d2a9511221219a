"""Custom methods: parameters and results of handlers, declarations, and refusals."""

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from dovetail import Context, InputRequired, Limits, RegistrationError, Server
from dovetail.model import ContentBlock, Result, TextContent
from dovetail.server.input_requests.request_kinds import Sample
from tests.support.aio import run
from tests.support.peer import Peer

from .weather import every_revision


class AsStruct(msgspec.Struct):
    count: int
    note: str = "none"


@dataclass
class AsDataclass:
    count: int
    note: str = "none"


class AsTypedDict(TypedDict):
    count: int


class AsModel(BaseModel, extra="forbid"):
    count: int
    note: str = "none"


async def nothing() -> None: ...


def returned(result: dict[str, Any]) -> dict[str, Any]:
    """The author's part of a result."""
    return {name: value for name, value in result.items() if name not in ("_meta", "resultType")}


# --- params and results -----------------------------------------------------------------------------------------


@every_revision
@pytest.mark.parametrize(
    "kind", [AsStruct, AsDataclass, AsTypedDict, AsModel], ids=lambda kind: kind.__name__
)
@run
async def test_params_and_results_of_every_kind_of_type(revision: str, kind: Any) -> None:
    server = Server("acme")
    got: list[Any] = []

    async def keep(params: Any) -> Any:
        got.append(params)
        return params

    server.add_method("acme/keep", keep, params=kind, result=kind)
    result = await Peer(server, revision).result("acme/keep", count=3)
    assert returned(result)["count"] == 3
    assert isinstance(got[0], dict if kind is AsTypedDict else kind)
    error = await Peer(server, revision).error("acme/keep", count="three")
    assert error["code"] == -32602
    assert "count" in error["message"]
    assert "three" not in error["message"]


@run
async def test_the_annotations_of_the_handler_do_as_well() -> None:
    server = Server("acme")

    @server.method("acme/double")
    async def double(params: AsStruct) -> AsDataclass:
        return AsDataclass(params.count * 2)

    assert returned(await Peer(server).result("acme/double", count=3)) == {"count": 6, "note": "none"}
    assert (await double(AsStruct(1))).count == 2  # and it is still an ordinary function


@every_revision
@run
async def test_without_a_type_the_handler_gets_the_members_that_are_its_own(revision: str) -> None:
    server = Server("acme")
    server.add_method("acme/echo", lambda params: {"said": params})
    peer = Peer(server, revision)
    peer.meta = {"progressToken": 1}
    assert returned(await peer.result("acme/echo", a=1, inputResponses={}))["said"] == {"a": 1}


@every_revision
@run
async def test_a_handler_may_take_nothing_and_return_nothing(revision: str) -> None:
    server = Server("acme")
    server.add_method("acme/nothing", nothing)
    assert returned(await Peer(server, revision).result("acme/nothing", whatever=1)) == {}


class Said(Result):
    content: list[ContentBlock]


@run
async def test_a_result_of_the_model_is_edited_for_its_revision() -> None:
    server = Server("acme")

    async def say() -> Said:
        return Said([TextContent("hi", annotations={"lastModified": "2026-01-01"})], meta={"acme/x": 1})

    server.add_method("acme/say", say)
    modern = await Peer(server).result("acme/say")
    assert modern["content"][0]["annotations"] == {"lastModified": "2026-01-01"}
    assert (modern["resultType"], modern["_meta"]["acme/x"]) == ("complete", 1)
    oldest = await Peer(server, "2024-11-05").result("acme/say")
    assert oldest == {"content": [{"type": "text", "text": "hi"}], "_meta": {"acme/x": 1}}


@pytest.mark.parametrize("value", [5, [1], "text", object(), {"count": "x"}])
@run
async def test_what_is_no_result_is_masked_and_logged(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("acme")

    async def wrong() -> Any:
        return value

    server.add_method("acme/wrong", wrong, result=AsStruct if isinstance(value, dict) else None)
    error = await Peer(server).error("acme/wrong")
    assert (error["code"], error["message"]) == (-32603, "Internal error")
    assert error["data"]["incident"] in caplog.text


@run
async def test_failures_of_a_handler_are_masked_and_its_own_errors_are_not() -> None:
    server = Server("acme")

    async def fail(params: dict[str, Any]) -> None:
        if params:
            raise RegistrationError("a secret")
        raise TypeError("a secret")

    server.add_method("acme/fail", fail)
    for error in (await Peer(server).error("acme/fail"), await Peer(server).error("acme/fail", a=1)):
        assert (error["code"], error["data"]["method"]) == (-32603, "acme/fail")
        assert "secret" not in str(error)


@run
async def test_only_modern_clients_may_keep_what_is_cacheable() -> None:
    server = Server("acme", ttl_ms=500, cache_scope="public")
    server.add_method("acme/kept", lambda: {"a": 1}, cacheable=True)
    kept = await Peer(server).result("acme/kept")
    assert (kept["ttlMs"], kept["cacheScope"], kept["a"]) == (500, "public", 1)
    assert await Peer(server, "2025-11-25").result("acme/kept") == {"a": 1}


@run
async def test_a_timeout_and_a_limit_hold_for_it_too() -> None:
    server = Server("acme")
    never = asyncio.Event()

    async def wait() -> None:
        await never.wait()

    server.add_method("acme/slow", wait, timeout=0.01)
    server.add_method("acme/one", wait, limit=1, queue=0)
    assert "did not finish" in (await Peer(server).error("acme/slow"))["message"]
    first = asyncio.create_task(Peer(server).result("acme/one"))
    await asyncio.sleep(0)
    assert (await Peer(server).error("acme/one"))["data"]["kind"] == "too_many_tools"
    never.set()
    await first


# --- asking -----------------------------------------------------------------------------------------------------


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}}


@every_revision
@run
async def test_a_handler_may_keep_its_own_account_of_the_rounds(revision: str) -> None:
    server = Server("acme")

    async def ask(params: dict[str, Any], ctx: Context) -> Any:
        params.setdefault("runs", 0)
        params["runs"] += 1
        if not ctx.input_responses:
            return InputRequired(requests={"pay": Sample("Pay?", max_tokens=5)}, state={"n": 1})
        return {"heard": ctx.input_responses["pay"]["content"]["text"], "state": ctx.request_state, **params}

    server.add_method("acme/ask", ask)
    result = await Peer(server, revision, answer=answer).result("acme/ask", x=1)
    # Every run gets its params as they came.
    assert returned(result) == {"heard": "yes", "state": {"n": 1}, "x": 1, "runs": 1}


@run
async def test_a_state_is_good_for_the_same_params_alone() -> None:
    server = Server("acme")

    async def ask(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
        return {"words": (await ctx.sample("?", max_tokens=5)).text}

    server.add_method("acme/ask", ask)
    first = (await Peer(server).send("acme/ask", amount=1))["result"]
    answers = {key: answer("", {}) for key in first["inputRequests"]}
    again = {"inputResponses": answers, "requestState": first["requestState"]}
    assert (await Peer(server).send("acme/ask", amount=1, **again))["result"]["words"] == "yes"
    assert (await Peer(server).send("acme/ask", amount=2, **again))["error"]["code"] == -32602


@run
async def test_one_that_may_not_ask_fails_when_it_does() -> None:
    server = Server("acme")

    async def ask(ctx: Context) -> dict[str, Any]:
        return {"words": (await ctx.sample("?", max_tokens=5)).text}

    server.add_method("acme/ask", ask, may_ask=False)
    assert (await Peer(server).error("acme/ask"))["code"] == -32603


# --- where it exists --------------------------------------------------------------------------------------------


@run
async def test_only_clients_that_opted_in_may_call_where_that_is_asked() -> None:
    server = Server("acme")
    server.add_method("acme/do", lambda: {"a": 1}, capability="extensions.com.acme/do", opt_in=True)
    error = await Peer(server).error("acme/do")
    assert (error["code"], error["data"]["requiredCapabilities"]) == (
        -32021,
        {"extensions": {"com.acme/do": {}}},
    )
    able = Peer(server, capabilities={"extensions": {"com.acme/do": {}}})
    assert returned(await able.result("acme/do")) == {"a": 1}
    assert (await Peer(server, "2025-06-18").error("acme/do"))["code"] == -32601
    able = Peer(server, "2025-06-18", capabilities={"extensions": {"com.acme/do": {}}})
    assert await able.result("acme/do") == {"a": 1}


@run
async def test_settings_declared_before_are_kept() -> None:
    server = Server("acme")
    server.dispatcher.add_capability("extensions.com.acme/do", {"depth": 2})
    server.add_method("acme/do", nothing, capability="extensions.com.acme/do")
    server.add_method("acme/plain", nothing, capability="acme")
    offered = (await Peer(server).result("server/discover"))["capabilities"]
    assert offered["extensions"] == {"com.acme/do": {"depth": 2}}
    assert offered["acme"] == {}


@run
async def test_before_initialize_it_is_refused_like_any_other() -> None:
    server = Server("acme")
    server.add_method("acme/do", nothing)
    message = {"jsonrpc": "2.0", "id": 1, "method": "acme/do"}
    reply = json.loads(await server.handle(json.dumps(message).encode()) or b"")
    assert reply["error"]["data"]["kind"] == "not_initialized"
    served = json.loads(await server.handle(json.dumps(message).encode(), {"revision": "2025-06-18"}) or b"")
    assert served["result"] == {}


@every_revision
@run
async def test_what_was_removed_is_unknown_again_and_may_come_back(revision: str) -> None:
    server = Server("acme")
    for _ in range(2):
        server.add_method("acme/do", lambda: {"a": 1})
        assert returned(await Peer(server, revision).result("acme/do")) == {"a": 1}
        server.dispatcher.custom_methods.remove("acme/do")
        assert (await Peer(server, revision).error("acme/do"))["code"] == -32601
    with pytest.raises(RegistrationError, match="no method 'acme/do'"):
        server.dispatcher.custom_methods.remove("acme/do")


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("tools/call", {}, "belongs to the protocol"),
        ("initialize", {}, "belongs to the protocol"),
        ("notifications/progress", {}, "belongs to the protocol"),
        ("tasks/create", {}, "belongs to the protocol"),
        ("rpc.discover", {}, "belongs to the protocol"),
        ("taken", {}, "already registered"),
        ("", {}, "visible ASCII"),
        ("acme do", {}, "visible ASCII"),
        ("acme/dö", {}, "visible ASCII"),
        ("a" * 129, {}, "visible ASCII"),
        ("acme/do", {"since": "2025-12-12"}, "no revision '2025-12-12'"),
        ("acme/do", {"since": "2025-11-25", "until": "2025-06-18"}, "is older than its first"),
        ("acme/do", {"opt_in": True}, "the capability of an extension"),
        ("acme/do", {"opt_in": True, "capability": "acme"}, "the capability of an extension"),
        ("acme/do", {"parms": dict}, "did you mean 'params'"),
        ("acme/do", {"timeout": 0}, "more than 0"),
    ],
)
def test_what_cannot_be_added_is_said_at_once(name: str, options: Any, reason: str) -> None:
    server = Server("acme")
    server.add_method("taken", nothing)
    with pytest.raises(RegistrationError, match=reason):
        server.add_method(name, nothing, **options)


def test_a_handler_takes_its_params_as_one_value() -> None:
    server = Server("acme")
    with pytest.raises(RegistrationError, match="as one value"):
        server.add_method("acme/do", lambda a, b: {})


# --- notifications ----------------------------------------------------------------------------------------------


async def told(server: Server, method: str, **params: Any) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    await server.handle(json.dumps(message).encode(), {"revision": "2025-11-25"})


@run
async def test_a_notification_reaches_its_handler_and_a_failure_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("acme", limits=Limits(max_requests_per_connection=1))
    done = asyncio.Event()

    async def heard(params: AsStruct) -> None:
        done.set()
        raise KeyError(params.count)

    server.add_notification("acme/heard", heard)
    with caplog.at_level(logging.WARNING):
        await told(server, "acme/heard", count="x")  # malformed: counted and dropped
        await asyncio.sleep(0)
        assert not done.is_set()
        await told(server, "acme/heard", count=7)
        await told(server, "acme/heard", count=8)
        await done.wait()
        await asyncio.sleep(0)
    assert "the handler of acme/heard failed" in caplog.text
    assert "dropped acme/heard" in caplog.text  # one at a time is this server's limit
    assert "KeyError: 8" not in caplog.text


@run
async def test_stopping_the_server_ends_what_notifications_began() -> None:
    server = Server("acme")
    ended = asyncio.Event()

    async def heard() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    server.add_notification("acme/heard", heard)
    await told(server, "acme/heard")
    await asyncio.sleep(0)
    await server.lifecycle.stop()
    await ended.wait()


def test_sending_a_notification_does_not_wait() -> None:
    server = Server("acme")

    async def heard(ctx: Context) -> None: ...

    with pytest.raises(RegistrationError, match="only handlers of requests can have"):
        server.add_notification("acme/heard", heard)
    server.add_notification("acme/heard", lambda: None)
