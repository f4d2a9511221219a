"""What a client may not send as an answer (2026-07-28): it is notified so at once, and not asked again."""

import json
from typing import Any

import pytest

from dovetail import Context, Elicit, InputRequired, Roots, Sample, Server
from tests.server.works import Works, begun, reaches
from tests.support.aio import run
from tests.support.peer import Peer

WRONG = {
    "a number": 5,
    "null": None,
    "a text": "accept",
    "a list": [],
    "nothing": {},
    "an unknown action": {"action": "maybe"},
    "content that is no object": {"action": "accept", "content": 5},
    "another result type": {"resultType": "input_required"},
}
ANSWERS: dict[str, dict[str, Any]] = {
    "form": {"action": "accept", "content": {"value": "a"}},
    "url": {"action": "decline"},
    "sample": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}},
    "roots": {"roots": []},
    "own": {"action": "cancel"},
}
KIND = {"form": "elicit", "url": "elicit", "own": "elicit"}
"""Tools whose answers look alike."""


class Runs:
    count = 0


def build() -> Server:
    server = Server("asking")

    @server.tool
    async def form(ctx: Context) -> str:
        Runs.count += 1
        return (await ctx.elicit("which?", ["a", "b"])).action

    @server.tool
    async def url(ctx: Context) -> str:
        Runs.count += 1
        return (await ctx.elicit_url("go", "https://example.com")).action

    @server.tool
    async def sample(ctx: Context) -> str:
        Runs.count += 1
        return (await ctx.sample("hello")).text

    @server.tool
    async def roots(ctx: Context) -> str:
        Runs.count += 1
        return str(await ctx.list_roots())

    @server.tool
    async def own(ctx: Context) -> str | InputRequired:
        Runs.count += 1
        if ctx.input_responses:
            return json.dumps(ctx.input_responses)
        return InputRequired(requests={"input_1": Elicit("which?", ["a", "b"])})

    @server.prompt
    async def letter(ctx: Context) -> str:
        return (await ctx.elicit("which?", ["a", "b"])).action

    @server.resource("asking://all")
    async def everything(ctx: Context) -> str:
        given = await ctx.ask_all(form=Elicit("which?", ["a", "b"]), sample=Sample("hello"), roots=Roots())
        return str(sorted(given))

    return server


async def asked(peer: Peer, tool: str) -> dict[str, Any]:
    reply = await peer.send("tools/call", name=tool, arguments={})
    return {"name": tool, "arguments": {}, "requestState": reply["result"]["requestState"]}


def refused(reply: dict[str, Any]) -> bool:
    error = reply.get("error", {})
    return (error.get("code"), error.get("data", {}).get("kind")) == (-32602, "invalid_params")


@pytest.mark.parametrize("tool", ANSWERS)
@run
async def test_what_is_no_answer_is_refused_before_the_handler_runs_again(tool: str) -> None:
    peer = Peer(build())
    call = await asked(peer, tool)
    of_other_kinds = {
        f"the answer to {other}": answer
        for other, answer in ANSWERS.items()
        if KIND.get(other, other) != KIND.get(tool, tool)
    }
    runs = Runs.count
    for what, wrong in {**WRONG, **of_other_kinds}.items():
        reply = await peer.send("tools/call", **call, inputResponses={"input_1": wrong})
        assert refused(reply), (what, reply)
    assert Runs.count == runs
    right = await peer.send("tools/call", **call, inputResponses={"input_1": ANSWERS[tool]})
    assert right["result"]["resultType"] == "complete"


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@run
async def test_an_answer_without_a_state_is_refused_the_same_way(wrong: Any) -> None:
    peer = Peer(build())
    for tool in ("form", "url", "sample", "roots"):
        reply = await peer.send("tools/call", name=tool, arguments={}, inputResponses={"input_1": wrong})
        assert refused(reply), reply


@run
async def test_one_wrong_answer_among_open_input_requests_is_not_lost() -> None:
    peer = Peer(build())
    address = "asking://all"
    state = (await peer.send("resources/read", uri=address))["result"]["requestState"]
    for given in ({"form": {"action": "maybe"}}, {"form": ANSWERS["form"], "roots": None}):
        assert refused(
            await peer.send("resources/read", uri=address, requestState=state, inputResponses=given)
        )
        assert refused(await peer.send("resources/read", uri=address, inputResponses=given))
    # Content that does not fit its form is not an answer, even if other requests are open.
    unfit = {"form": {"action": "accept", "content": {"value": "z"}}}
    assert refused(await peer.send("resources/read", uri=address, requestState=state, inputResponses=unfit))


@run
async def test_prompts_and_tasks_refuse_it_too() -> None:
    server = build()
    peer = Peer(server)
    state = (await peer.send("prompts/get", name="letter"))["result"]["requestState"]
    reply = await peer.send("prompts/get", name="letter", requestState=state, inputResponses={"input_1": 7})
    assert refused(reply)

    works = Works()
    peer = works.peer()
    task = await begun(peer, "confirm")
    (key,) = (await reaches(peer, task, "input_required"))["inputRequests"]
    for wrong in (*WRONG.values(), ANSWERS["sample"], ANSWERS["roots"]):
        reply = await peer.send("tasks/update", taskId=task, inputResponses={key: wrong})
        assert refused(reply), reply
    await peer.result("tasks/cancel", taskId=task)


@pytest.mark.parametrize("wrong", [5, None, [], "x"])
@run
async def test_answers_that_are_no_object_are_refused(wrong: Any) -> None:
    peer = Peer(build())
    assert refused(await peer.send("tools/call", name="form", arguments={}, inputResponses=wrong))
