"""What a modern client carries between two rounds: sealed, bound to its call, readable by every worker."""

from typing import Any

from dovetail import Context, InputRequired, Keys, Limits, Roots, Sample, Server
from tests.server.booking import Bank, Paid, Seat, answers, booking, every_revision
from tests.support.aio import run
from tests.support.peer import MODERN, Peer


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
async def test_a_state_of_another_call_or_server_is_refused_with_one_message() -> None:
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
async def test_a_request_state_is_validated_even_if_the_handler_requests_no_input() -> None:
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
    before.server.dispatcher.seal.keys = Keys(old)
    asked = (await before.send("tools/call", name="other", arguments={"flight": "a"}))["result"]
    after = Peer(booking(bank), answer=answers)
    after.server.dispatcher.seal.keys = Keys(new, old)
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
    server = Server("x", "1", limits=Limits(max_input_rounds=3))

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
    await server.lifecycle.stop()
