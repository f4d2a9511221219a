"""Questions in the middle of a call: one handler, every revision."""

import asyncio
import json
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from dovetail import (
    CapabilityError,
    Context,
    Elicit,
    ElicitUrl,
    InputRequired,
    Keys,
    Limits,
    Roots,
    Sample,
    Server,
    StateError,
    ToolError,
)
from dovetail.server.forms import form_of
from tests.support.aio import run
from tests.support.peer import EVERYTHING, LEGACY, MODERN, Peer
from tests.support.schemas import REVISIONS

every_revision = pytest.mark.parametrize("revision", REVISIONS)
WITH_ELICITATION = [revision for revision in REVISIONS if revision >= "2025-06-18"]
KEY = b"k" * 32


@dataclass
class Seat:
    row: int
    side: Literal["window", "aisle"] = "window"


class Paid(msgspec.Struct):
    amount: int
    receipt: str


class Bank:
    def __init__(self) -> None:
        self.payments: list[int] = []

    def charge(self, amount: int) -> Paid:
        self.payments.append(amount)
        return Paid(amount, f"r{len(self.payments)}")


def booking(bank: Bank, **options: Any) -> Server:
    server = Server("air", "1", seal_keys=KEY, **options)

    @server.tool
    async def book(flight: str, ctx: Context) -> str:
        seat = await ctx.elicit("Which seat?", Seat)
        if seat.action != "accept":
            raise ToolError("No seat chosen")
        paid = await ctx.step("pay", bank.charge, 100)
        again = await ctx.elicit(f"Paid {paid.amount}. Lunch?", bool)
        words = await ctx.sample("Thank them", max_tokens=50, system="Be kind")
        return f"{flight} {seat.data.row}{seat.data.side} {paid.receipt} {again.data} {words.text}"

    @server.tool
    async def other(flight: str, ctx: Context) -> str:
        return str((await ctx.elicit("Which seat?", Seat)).data)

    return server


def answers(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "sampling/createMessage":
        return {
            "role": "assistant",
            "content": {"type": "text", "text": "Thanks!"},
            "model": "m",
            "stopReason": "endTurn",
        }
    if method == "roots/list":
        return {"roots": [{"uri": "file:///a", "name": "a"}]}
    if params.get("mode") == "url":
        return {"action": "accept"}
    if "value" in params["requestedSchema"]["properties"]:
        return {"action": "accept", "content": {"value": True}}
    return {"action": "accept", "content": {"row": 7, "side": "aisle"}}


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


@run
async def test_rounds_may_be_served_by_different_workers_with_the_same_keys() -> None:
    bank = Bank()
    workers = [Peer(booking(bank), answer=answers) for _ in range(2)]
    first = (await workers[0].send("tools/call", name="book", arguments={"flight": "SK1"}))["result"]
    params: dict[str, Any] = {"name": "book", "arguments": {"flight": "SK1"}}
    turn = 1
    while first["resultType"] == "input_required":
        responses = {key: answers(q["method"], q["params"]) for key, q in first["inputRequests"].items()}
        first = (
            await workers[turn % 2].send(
                "tools/call", **params, requestState=first["requestState"], inputResponses=responses
            )
        )["result"]
        turn += 1
    assert first["content"][0]["text"] == "SK1 7aisle r1 True Thanks!"
    assert bank.payments == [100]


@run
async def test_a_state_that_is_not_exactly_ours_for_this_call_is_refused_with_one_message() -> None:
    now = [1000.0]
    server = booking(Bank(), clock=lambda: now[0], state_lifetime=60)
    ann = Peer(server, principal="ann", answer=answers)
    arguments = {"flight": "SK1"}
    asked = (await ann.send("tools/call", name="book", arguments=arguments))["result"]
    state: str = asked["requestState"]
    responses = {key: answers(q["method"], q["params"]) for key, q in asked["inputRequests"].items()}

    async def retry(peer: Peer, state: str, name: str = "book", **arguments: Any) -> dict[str, Any]:
        return await peer.send(
            "tools/call", name=name, arguments=arguments, requestState=state, inputResponses=responses
        )

    good = await retry(ann, state, flight="SK1")
    assert good["result"]["resultType"] == "input_required"
    flipped = [
        state[:i] + ("A" if state[i] != "A" else "B") + state[i + 1 :] for i in range(0, len(state), 7)
    ]
    wrong = [await retry(ann, bad, flight="SK1") for bad in ["", "v1", state + "x", state[:-1], *flipped]]
    wrong.append(await retry(ann, state, flight="SK2"))
    wrong.append(await retry(ann, state, name="other", flight="SK1"))
    wrong.append(await retry(Peer(server, principal="bob"), state, flight="SK1"))
    wrong.append(await retry(Peer(server), state, flight="SK1"))
    stranger = Peer(Server("air", "1", seal_keys=b"z" * 32), principal="ann")

    @stranger.server.tool
    async def book(flight: str, ctx: Context) -> str:
        return str((await ctx.elicit("Which seat?", Seat)).data)

    wrong.append(await retry(stranger, state, flight="SK1"))
    now[0] += 61
    wrong.append(await retry(ann, state, flight="SK1"))
    messages = {(reply["error"]["code"], reply["error"]["message"]) for reply in wrong}
    assert len(messages) == 1
    assert messages.pop()[0] == -32602


@run
async def test_a_state_is_checked_even_where_nobody_asks() -> None:
    server = Server("x", "1")

    @server.tool
    async def plain() -> str:
        return "fine"

    reply = await Peer(server).send("tools/call", name="plain", requestState="forged")
    assert reply["error"]["code"] == -32602


@run
async def test_old_keys_still_open_and_new_ones_seal() -> None:
    bank = Bank()
    old, new = b"o" * 32, b"n" * 32
    before = Peer(booking(bank), answer=answers)
    before.server.seal.keys = Keys(old)
    asked = (await before.send("tools/call", name="other", arguments={"flight": "a"}))["result"]
    after = Peer(booking(bank), answer=answers)
    after.server.seal.keys = Keys(new, old)
    responses = {key: answers(q["method"], q["params"]) for key, q in asked["inputRequests"].items()}
    reply = await after.send(
        "tools/call",
        name="other",
        arguments={"flight": "a"},
        requestState=asked["requestState"],
        inputResponses=responses,
    )
    assert reply["result"]["content"][0]["text"] == "Seat(row=7, side='aisle')"


@run
async def test_a_missing_answer_is_asked_again_and_unknown_ones_are_ignored() -> None:
    peer = Peer(booking(Bank()))
    arguments = {"flight": "SK1"}
    asked = (await peer.send("tools/call", name="book", arguments=arguments))["result"]
    again = (
        await peer.send(
            "tools/call",
            name="book",
            arguments=arguments,
            requestState=asked["requestState"],
            inputResponses={"nobody_asked": {"action": "accept"}},
        )
    )["result"]
    assert again["inputRequests"] == asked["inputRequests"]


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
async def test_a_url_question_has_an_id_only_where_the_revision_wants_one(revision: str) -> None:
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
async def test_independent_questions_go_out_in_one_round(revision: str) -> None:
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
async def test_a_handler_cannot_swallow_an_open_question() -> None:
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


@every_revision
@run
async def test_a_handler_may_keep_its_own_account_of_the_rounds(revision: str) -> None:
    server = Server("x", "1")

    @server.tool
    async def own(ctx: Context) -> str | InputRequired:
        if ctx.request_state is None:
            return InputRequired({"said": Sample("hi")}, state={"round": 1})
        if ctx.request_state["round"] == 1:
            text = ctx.input_responses["said"]["content"]["text"]
            return InputRequired({"roots": {"method": "roots/list"}}, state={"round": 2, "text": text})
        return f"{ctx.request_state['text']} {ctx.input_responses['roots']['roots'][0]['uri']}"

    peer = Peer(server, revision, answer=answers)
    assert await peer.text("own") == "Thanks! file:///a"
    assert peer.rounds == (2 if revision == MODERN else 0)


@every_revision
@run
async def test_a_call_that_never_stops_asking_is_ended(revision: str) -> None:
    server = Server("x", "1", limits=Limits(rounds=3))

    @server.tool
    async def endless(ctx: Context) -> InputRequired:
        return InputRequired({"roots": Roots()}, state="more")

    error = await Peer(server, revision, answer=answers).error("tools/call", name="endless")
    assert error["code"] == 1004


@every_revision
@run
async def test_a_step_runs_once_and_comes_back_as_its_annotation_says(revision: str) -> None:
    server = Server("x", "1")
    runs: list[str] = []

    async def fetch(name: str) -> Paid:
        runs.append(name)
        return Paid(5, name)

    def untyped():
        runs.append("untyped")
        return {"a": (1, 2)}

    @server.tool
    async def steps(ctx: Context) -> str:
        first = await ctx.step("fetch", fetch, "x")
        second = await ctx.step("untyped", untyped)
        same = await ctx.step("fetch", fetch, "never")
        await ctx.list_roots()
        assert same == first
        return f"{type(first).__name__} {first.receipt} {second}"

    peer = Peer(server, revision, answer=answers)
    assert await peer.text("steps") == "Paid x {'a': [1, 2]}"
    assert runs == ["x", "untyped"]
    await server.stop()


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
    assert "no way back" in result["content"][0]["text"]


# Forms


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Typed(TypedDict, total=False):
    name: Annotated[str, msgspec.Meta(description="Your name", min_length=1, pattern="x")]
    age: Annotated[int, msgspec.Meta(ge=0, le=150)]


class Named(NamedTuple):
    a: int
    b: bool = True


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(description="Who", max_length=20)
    colour: Colour = Colour.RED
    note: str | None = None


class Struct(msgspec.Struct):
    colours: list[Colour]
    when: Literal["now", "later"]
    ratio: float = 0.5
    note: str | None = None


def test_forms_are_flat_schemas_with_defaults_and_choices() -> None:
    assert form_of(Struct).schema == {
        "type": "object",
        "properties": {
            "colours": {"type": "array", "items": {"type": "string", "enum": ["blue", "red"]}},
            "when": {"type": "string", "enum": ["later", "now"]},
            "ratio": {"type": "number", "default": 0.5},
            "note": {"type": "string"},
        },
        "required": ["colours", "when"],
    }
    assert form_of(Typed).schema["properties"]["name"] == {
        "type": "string",
        "description": "Your name",
        "minLength": 1,
    }
    assert form_of(Typed).schema["properties"]["age"] == {"type": "integer", "minimum": 0, "maximum": 150}
    model = form_of(Model).schema
    assert model["properties"]["name"]["maxLength"] == 20
    assert model["properties"]["colour"]["enum"] == ["red", "blue"]
    assert model["required"] == ["name"]
    assert form_of(None).schema == {"type": "object", "properties": {}}
    assert form_of(["a", "b"]).schema["properties"]["value"] == {"type": "string", "enum": ["a", "b"]}


def test_forms_read_answers_into_their_type() -> None:
    assert form_of(Struct).read({"colours": ["red"], "when": "now"}) == Struct([Colour.RED], "now")
    assert form_of(Model).read({"name": "a"}) == Model(name="a")
    assert form_of(Seat).read({"row": "7"}) == Seat(7)
    assert form_of(Colour).read({"value": "blue"}) is Colour.BLUE
    assert form_of(Annotated[int, msgspec.Meta(extra={"unhashable": []})]).read({"value": 3}) == 3
    assert form_of({"type": "object", "properties": {}}).read({"x": 1}) == {"x": 1}
    with pytest.raises(ValueError, match="value"):
        form_of(int).read({})


@pytest.mark.parametrize("kind", [list[int], dict[str, int], Literal[1, 2]])
def test_what_does_not_fit_into_a_form_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(TypeError, match="form"):
        form_of(msgspec.defstruct("Form", [("odd", kind)]))


@run
async def test_a_url_question_needs_the_url_capability() -> None:
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

    @server.tool(timeout=0.05)
    async def patient(ctx: Context) -> str:
        first, second = await asyncio.gather(ctx.elicit("Seat?", Seat), ctx.elicit("Lunch?", bool))
        return f"{first.action} {second.action}"

    @server.tool(timeout=0.05)
    async def slow(ctx: Context) -> str:
        await ctx.elicit("Seat?", Seat)
        await asyncio.Event().wait()
        return ""

    class Thinking(Peer):
        async def request(self, method: str, params: Any) -> Any:
            await asyncio.sleep(0.15)
            return await super().request(method, params)

    peer = Thinking(server, revision, answer=answers)
    assert await peer.text("patient") == "accept accept"
    assert "did not finish within its timeout of 0.05 s" in await peer.text("slow")


@run
async def test_nobody_is_asked_after_the_call_is_over() -> None:
    server = Server("x", "1")
    kept: list[Context] = []

    @server.tool
    async def keep(ctx: Context) -> str:
        kept.append(ctx)
        return ""

    for revision in ("2025-06-18", MODERN):
        await Peer(server, revision).call("keep")
        with pytest.raises(StateError, match="over"):
            await kept[-1].elicit("Seat?", Seat)


@run
async def test_a_handler_without_a_context_cannot_ask_by_returning_questions() -> None:
    server = Server("x", "1")

    @server.tool
    async def confused() -> InputRequired:
        return InputRequired({"roots": Roots()})

    for revision in REVISIONS:
        assert (await Peer(server, revision).call("confused"))["isError"] is True
