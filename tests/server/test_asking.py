"""Questions in the middle of a call: one handler, every revision."""

import asyncio
import json
from typing import Any

import pytest

from dovetail import (
    CapabilityError,
    Context,
    Elicit,
    ElicitUrl,
    InputRequired,
    Roots,
    Sample,
    Server,
    StateError,
)
from tests.server.booking import WITH_ELICITATION, Bank, Seat, answers, booking, every_revision
from tests.support.aio import run
from tests.support.peer import EVERYTHING, LEGACY, MODERN, Peer
from tests.support.schemas import REVISIONS


@pytest.mark.parametrize("revision", WITH_ELICITATION)
@run
async def test_a_tool_that_asks_three_times_and_pays_once_runs_unchanged_everywhere(revision: str) -> None:
    bank = Bank()
    peer = Peer(booking(bank), revision, answer=answers)
    assert await peer.text("book", flight="SK1") == "SK1 7aisle r1 True Thanks!"
    assert bank.payments == [100]
    assert [question["method"] for question in peer.questions] == [
        "elicitation/create",
        "elicitation/create",
        "sampling/createMessage",
    ]
    assert peer.rounds == (3 if revision == MODERN else 0)


@pytest.mark.parametrize("revision", WITH_ELICITATION)
@run
async def test_an_answer_that_does_not_fit_the_form_is_the_clients_error(revision: str) -> None:
    def wrong(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"row": "secret", "side": "aisle"}}

    error = await Peer(booking(Bank()), revision, answer=wrong).error(
        "tools/call", name="book", arguments={"flight": "SK1"}
    )
    assert error["code"] == -32602
    assert "row" in error["message"]
    assert "secret" not in json.dumps(error)


@pytest.mark.parametrize("revision", WITH_ELICITATION)
@pytest.mark.parametrize("action", ["decline", "cancel"])
@run
async def test_the_handler_learns_that_the_user_said_no(revision: str, action: str) -> None:
    peer = Peer(booking(Bank()), revision, answer=lambda method, params: {"action": action})
    result = await peer.call("book", flight="SK1")
    assert (result["isError"], result["content"][0]["text"]) == (True, "No seat chosen")


@every_revision
@run
async def test_only_what_the_client_declared_is_asked(revision: str) -> None:
    server = Server("x", "1")

    @server.tool
    async def sample(ctx: Context) -> str:
        return (await ctx.sample("hi")).text

    @server.tool
    async def degrade(ctx: Context) -> str:
        try:
            return (await ctx.sample("hi", tools=[{"name": "t", "inputSchema": {"type": "object"}}])).text
        except CapabilityError as error:
            return f"no {error.capability}"

    @server.prompt
    async def prompt(ctx: Context) -> str:
        return (await ctx.sample("hi")).text

    peer = Peer(server, revision, capabilities={})
    assert await peer.text("degrade") == "no sampling.tools"
    reply = await peer.ask("tools/call", name="sample")
    prompted = await peer.error("prompts/get", name="prompt")
    if revision == MODERN:
        for error in (reply["error"], prompted):
            assert error["code"] == -32021
            assert error["data"]["requiredCapabilities"] == {"sampling": {}}
    else:
        assert reply["result"]["isError"] is True
        assert "sampling" in reply["result"]["content"][0]["text"]
        assert prompted["code"] == -32601
    assert peer.questions == []


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
@run
async def test_a_revision_without_elicitation_is_never_asked_for_it(revision: str) -> None:
    peer = Peer(booking(Bank()), revision, capabilities=EVERYTHING)
    result = await peer.call("book", flight="SK1")
    assert result["isError"] is True
    assert peer.questions == []


@every_revision
@run
async def test_sampling_and_roots_work_on_every_revision(revision: str) -> None:
    server = Server("x", "1")

    @server.tool
    async def ask(ctx: Context) -> dict[str, Any]:
        said = await ctx.sample(
            ["one", {"role": "assistant", "content": "two"}],
            max_tokens=10,
            temperature=0.5,
            model_preferences="claude",
            stop_sequences=["."],
            include_context="none",
            metadata={"a": 1},
        )
        roots = await ctx.list_roots()
        return {
            "text": said.text,
            "model": said.model,
            "stop": said.stop_reason,
            "roots": [r.uri for r in roots],
        }

    peer = Peer(server, revision, answer=answers)
    assert json.loads(await peer.text("ask")) == {
        "text": "Thanks!",
        "model": "m",
        "stop": "endTurn",
        "roots": ["file:///a"],
    }
    params = peer.questions[0]["params"]
    assert [message["role"] for message in params["messages"]] == ["user", "assistant"]
    assert params["modelPreferences"] == {"hints": [{"name": "claude"}]}


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@run
async def test_a_url_input_request_has_an_id_only_where_the_revision_wants_one(revision: str) -> None:
    server = Server("x", "1")

    @server.tool
    async def pay(ctx: Context) -> str:
        answer = await ctx.elicit_url("Pay here", "https://pay.example/1")
        return answer.action

    peer = Peer(server, revision, answer=answers)
    assert await peer.text("pay") == "accept"
    params = peer.questions[0]["params"]
    assert (params["mode"], params["url"]) == ("url", "https://pay.example/1")
    assert ("elicitationId" in params) is (revision == "2025-11-25")


@pytest.mark.parametrize("revision", WITH_ELICITATION)
@run
async def test_independent_input_requests_go_out_in_one_round(revision: str) -> None:
    server = Server("x", "1")

    @server.tool
    async def together(ctx: Context) -> str:
        seat, words = await ctx.ask_all(Elicit("Seat?", Seat), Sample("hi"))
        named = await ctx.ask_all(roots=Roots(), lunch=Elicit("Lunch?", bool))
        assert seat.action == "accept"
        return f"{seat.data.row} {words.text} {len(named['roots'])} {named['lunch'].data}"

    @server.tool
    async def gathered(ctx: Context) -> str:
        seat, words = await asyncio.gather(ctx.elicit("Seat?", Seat), ctx.sample("hi"))
        return f"{seat.data} {words.text}"

    @server.tool
    async def grouped(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            seat = group.create_task(ctx.elicit("Seat?", Seat, key="seat"))
            words = group.create_task(ctx.sample("hi", key="words"))
        return f"{seat.result().data} {words.result().text}"

    peer = Peer(server, revision, answer=answers)
    assert await peer.text("together") == "7 Thanks! 1 True"
    assert len(peer.questions) == 4
    assert peer.rounds == (2 if revision == MODERN else 0)
    for tool in ("gathered", "grouped"):
        peer.rounds = 0
        assert await peer.text(tool) == "Seat(row=7, side='aisle') Thanks!"
        assert peer.rounds == (1 if revision == MODERN else 0)


@run
async def test_a_handler_cannot_suppress_an_unanswered_input_request() -> None:
    server = Server("x", "1")
    runs = 0

    @server.tool
    async def stubborn(ctx: Context) -> str:
        nonlocal runs
        runs += 1
        try:
            answer = await ctx.elicit("Seat?", Seat)
        except Exception:
            return "swallowed"
        except BaseException:
            return "swallowed it all"
        return str(answer.data)

    @server.tool
    async def noisy(ctx: Context) -> str:
        try:
            return str((await ctx.elicit("Seat?", Seat)).data)
        finally:
            if runs < 3:
                raise RuntimeError("in the way out")

    peer = Peer(server, answer=answers)
    assert await peer.text("stubborn") == "Seat(row=7, side='aisle')"
    assert runs == 2
    reply = await peer.send("tools/call", name="noisy")
    assert reply["result"]["resultType"] == "input_required"


@every_revision
@run
async def test_prompts_and_resources_may_ask_too(revision: str) -> None:
    server = Server("x", "1")

    @server.prompt
    async def prompt(topic: str, ctx: Context) -> str:
        return f"{topic}: {(await ctx.sample('hi')).text}"

    @server.resource("x://{name}")
    async def read(name: str, ctx: Context) -> str:
        return f"{name}: {(await ctx.sample('hi')).text}"

    peer = Peer(server, revision, answer=answers)
    got = await peer.result("prompts/get", name="prompt", arguments={"topic": "a"})
    assert got["messages"][0]["content"]["text"] == "a: Thanks!"
    assert (await peer.result("resources/read", uri="x://b"))["contents"][0]["text"] == "b: Thanks!"
    assert peer.rounds == (2 if revision == MODERN else 0)


@pytest.mark.parametrize("revision", LEGACY)
@run
async def test_a_client_that_answers_with_an_error_fails_the_tool_not_the_protocol(revision: str) -> None:
    server = Server("x", "1")

    @server.tool
    async def sample(ctx: Context) -> str:
        return (await ctx.sample("hi")).text

    def rejects(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"error": {"code": -1, "message": "User rejected sampling request"}}

    result = await Peer(server, revision, answer=rejects).call("sample")
    assert (result["isError"], result["content"][0]["text"]) == (True, "User rejected sampling request")


@pytest.mark.parametrize(
    ("said", "heard"), [(-32046, -32046), (-32049, -32049), (-32601, -32031), (-1, -32031)]
)
@run
async def test_an_erlmcp_tool_that_asked_in_vain_answers_with_an_error(said: int, heard: int) -> None:
    server = Server("x", "1", dialect="erlmcp")

    @server.tool
    async def sample(ctx: Context) -> str:
        """Ask."""
        return (await ctx.sample("hi")).text

    def fails(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"error": {"code": said, "message": "the model is away"}}

    error = await Peer(server, "2025-11-25", answer=fails).error("tools/call", name="sample")
    assert error["code"] == heard
    assert "the model is away" in (error["message"], error["data"].get("reason"))


@run
async def test_a_legacy_call_without_a_way_back_fails_readably() -> None:
    server = booking(Bank())
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "book", "arguments": {"flight": "a"}},
    }
    reply = await server.handle(
        json.dumps(message).encode(), {"revision": "2025-06-18", "capabilities": {"elicitation": {}}}
    )
    assert reply is not None
    result = json.loads(reply)["result"]
    assert result["isError"] is True
    assert "cannot send requests to the client" in result["content"][0]["text"]


@run
async def test_a_url_input_request_needs_the_url_capability() -> None:
    server = Server("x", "1")

    @server.tool
    async def pay(ctx: Context) -> str:
        (answer,) = await ctx.ask_all(ElicitUrl("Pay", "https://pay.example"))
        return answer.action

    peer = Peer(server, capabilities={"elicitation": {}})
    error = await peer.error("tools/call", name="pay")
    assert error["data"]["requiredCapabilities"] == {"elicitation": {"url": {}}}


@pytest.mark.parametrize("revision", WITH_ELICITATION)
@run
async def test_the_time_a_user_takes_to_answer_is_not_the_tools(revision: str) -> None:
    server = Server("x", "1")

    @server.tool(timeout=0.5)
    async def patient(ctx: Context) -> str:
        first, second = await asyncio.gather(ctx.elicit("Seat?", Seat), ctx.elicit("Lunch?", bool))
        return f"{first.action} {second.action}"

    @server.tool(timeout=0.5)
    async def slow(ctx: Context) -> str:
        await ctx.elicit("Seat?", Seat)
        await asyncio.Event().wait()
        return ""

    class Thinking(Peer):
        async def request(self, method: str, params: Any) -> Any:
            await asyncio.sleep(0.8)
            return await super().request(method, params)

    peer = Thinking(server, revision, answer=answers)
    assert await peer.text("patient") == "accept accept"
    assert "did not finish within its timeout of 0.5 s" in await peer.text("slow")


@run
async def test_no_input_can_be_requested_after_the_call_has_ended() -> None:
    server = Server("x", "1")
    kept: list[Context] = []

    @server.tool
    async def keep(ctx: Context) -> str:
        kept.append(ctx)
        return ""

    for revision in ("2025-06-18", MODERN):
        await Peer(server, revision).call("keep")
        with pytest.raises(StateError, match="has ended"):
            await kept[-1].elicit("Seat?", Seat)


@run
async def test_a_handler_without_a_context_cannot_ask_by_returning_input_requests() -> None:
    server = Server("x", "1")

    @server.tool
    async def confused() -> InputRequired:
        return InputRequired({"roots": Roots()})

    for revision in REVISIONS:
        assert (await Peer(server, revision).call("confused"))["isError"] is True


def test_a_misspelt_option_of_an_input_request_is_refused() -> None:
    with pytest.raises(TypeError, match="takes no option temprature"):
        Sample("hello", temprature=1)  # pyright: ignore[reportCallIssue]
