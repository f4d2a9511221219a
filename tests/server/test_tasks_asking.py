"""Tasks of the extension that ask: while they run, and before they become tasks."""

import asyncio

from dovetail import Context, Server
from tests.server.works import DECLARED, EXTENSION, Name, Works, accepted, begun, reaches
from tests.support.aio import run
from tests.support.peer import EVERYTHING, Peer


@run
async def test_an_input_request_waits_in_the_task_until_it_is_answered() -> None:
    peer = Works().peer()
    id = await begun(peer, "confirm")
    task = await reaches(peer, id, "input_required")
    assert task["inputRequests"]["who"]["method"] == "elicitation/create"
    assert "result" not in await peer.result(
        "tasks/update", taskId=id, inputResponses={"who": accepted("Ann")}
    )
    task = await reaches(peer, id, "completed")
    assert task["result"]["content"][0]["text"] == "Hello, Ann!"


@run
async def test_any_part_of_the_answers_will_do() -> None:
    peer = Works().peer()
    id = await begun(peer, "both")
    first, last = (await reaches(peer, id, "input_required"))["inputRequests"]
    await peer.result("tasks/update", taskId=id, inputResponses={last: accepted("Bly")})
    task = await reaches(peer, id, "input_required")
    assert list(task["inputRequests"]) == [first]
    await peer.result(
        "tasks/update", taskId=id, inputResponses={first: accepted("Nellie"), last: accepted("x")}
    )
    task = await reaches(peer, id, "completed")
    assert task["result"]["content"][0]["text"] == "Nellie Bly"


@run
async def test_unknown_keys_are_ignored_and_answers_that_do_not_fit_refused() -> None:
    peer = Works().peer()
    id = await begun(peer, "confirm")
    await reaches(peer, id, "input_required")
    await peer.result("tasks/update", taskId=id, inputResponses={"nobody": {"asked": True}})
    error = await peer.error("tasks/update", taskId=id, inputResponses={"who": {"action": "perhaps"}})
    assert error["code"] == -32602
    assert list((await reaches(peer, id, "input_required"))["inputRequests"]) == ["who"]
    await peer.result("tasks/cancel", taskId=id)


@run
async def test_a_key_is_never_used_twice_in_the_life_of_a_task() -> None:
    peer = Works().peer()
    id = await begun(peer, "again")
    keys = []
    for name in ("Ann", "Bea"):
        task = await reaches(peer, id, "input_required")
        keys += list(task["inputRequests"])
        await peer.result("tasks/update", taskId=id, inputResponses={keys[-1]: accepted(name)})
    assert (await reaches(peer, id, "completed"))["result"]["content"][0]["text"] == "Ann Bea"
    assert len(set(keys)) == 2


@run
async def test_a_handler_may_return_its_input_requests() -> None:
    peer = Works().peer()
    id = await begun(peer, "returned")
    await reaches(peer, id, "input_required")
    await peer.result("tasks/update", taskId=id, inputResponses={"who": accepted("Ann")})
    assert (await reaches(peer, id, "completed"))["result"]["content"][0]["text"] == "Ann 1"


@run
async def test_a_client_without_the_capability_ends_the_task_with_an_error() -> None:
    peer = Works().peer(capabilities={"extensions": {EXTENSION: {}}})
    task = await reaches(peer, await begun(peer, "confirm"), "completed", "failed")
    assert task["status"] == "failed"
    assert task["error"]["code"] == -32021


@run
async def test_input_requests_before_detaching_are_asked_in_the_call_and_later_ones_by_the_task() -> None:
    works = Works()
    peer = works.peer()
    reply = (await peer.send("tools/call", name="first", arguments={}))["result"]
    assert reply["resultType"] == "input_required"
    assert "taskId" not in reply
    created = (
        await peer.send(
            "tools/call",
            name="first",
            arguments={},
            inputResponses={"who": accepted("Ann")},
            requestState=reply["requestState"],
        )
    )["result"]
    assert created["resultType"] == "task"
    assert not {"requestState", "inputRequests"} & set(created)
    id = created["taskId"]
    await reaches(peer, id, "working")
    works.gate.set()
    await reaches(peer, id, "input_required")
    await peer.result("tasks/update", taskId=id, inputResponses={"sure": accepted("Yes")})
    assert (await reaches(peer, id, "completed"))["result"]["content"][0]["text"] == "Ann Yes"


@run
async def test_detaching_means_nothing_to_a_client_without_tasks() -> None:
    works = Works()
    works.gate.set()
    names = iter(("Ann", "Yes"))
    peer = works.peer(capabilities=EVERYTHING, answer=lambda method, params: accepted(next(names)))
    assert await peer.text("first") == "Ann Yes"


@run
async def test_a_handler_that_never_detaches_answers_the_call() -> None:
    works = Works()
    works.gate.set()
    assert await works.peer().text("linger") == "never detached"


@run
async def test_a_handler_cannot_detach_with_an_input_request_open() -> None:
    server = Server("stubborn")

    @server.tool(task="optional", asks_first=True)
    async def stubborn(ctx: Context) -> str:
        """Swallow everything."""
        try:
            await ctx.elicit("Who?", Name, key="who")
        except BaseException:
            pass
        await ctx.continue_as_task()
        return "detached"

    reply = await Peer(server, capabilities=DECLARED).send("tools/call", name="stubborn", arguments={})
    assert reply["result"]["resultType"] == "input_required"


@run
async def test_a_call_cancelled_before_detaching_takes_its_handler_with_it() -> None:
    works = Works()
    call = asyncio.create_task(works.peer().call("linger"))
    await works.reached.wait()
    call.cancel()
    await asyncio.wait([call])
    await works.cancelled.wait()


@run
async def test_a_forged_state_is_refused_before_the_handler_runs() -> None:
    works = Works()
    reply = await works.peer().send("tools/call", name="first", arguments={}, requestState="forged")
    assert reply["error"]["code"] == -32602
    assert not works.reached.is_set()
