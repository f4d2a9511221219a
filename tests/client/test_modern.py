"""Features of modern revisions: rounds of input requests, listen streams, tasks of the extension, skills."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest

from dovetail import Client
from dovetail.client import SkillError
from dovetail.errors import (
    DovetailError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    RequestTimeout,
)
from dovetail.settings import Limits
from dovetail.testing import FakeClock

from ..support.aio import run
from ..support.schemas import validate
from ..support.waiting import HANG
from .scripted import Peer, Scripted, modern, text

FORM = {
    "method": "elicitation/create",
    "params": {
        "message": "Name?",
        "mode": "form",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string", "default": "Ada"}}},
    },
}
ROOTS = {"method": "roots/list"}
SAMPLE = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


def asking(*rounds: dict[str, Any]) -> Scripted:
    """Ends the first calls with these questions, the next one with a result."""
    left = list(rounds)

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if left:
            peer.result(message, {"resultType": "input_required", **left.pop(0)})
        else:
            peer.result(
                message, text(json.dumps(message["params"].get("inputResponses")), resultType="complete")
            )

    return modern(answer)


# --- rounds ----------------------------------------------------------------------------------------------------------


@run
async def test_the_state_is_echoed_byte_for_byte_with_a_fresh_id() -> None:
    state = 'v1.é"\\\u2028 \n=?'
    target = asking({"inputRequests": {"k": FORM}, "requestState": state})
    async with Client(target, on_elicit=lambda request: True) as client:
        result = await client.call_tool("x", {"a": 1})
        first, second = [m for m in target.peer.heard if m["method"] == "tools/call"]
        assert second["params"]["requestState"] == state
        assert second["params"]["arguments"] == first["params"]["arguments"]
        assert second["id"] != first["id"]
        assert json.loads(result.text) == {"k": {"action": "accept", "content": {"name": "Ada"}}}
        for message in target.peer.heard:
            validate(message, "2026-07-28")


@run
async def test_an_absent_state_stays_absent_and_old_answers_are_not_sent_again() -> None:
    target = asking({"inputRequests": {"a": FORM}, "requestState": "1"}, {"inputRequests": {"b": FORM}})
    async with Client(target, on_elicit=lambda request: True) as client:
        await client.call_tool("x")
        calls = [m["params"] for m in target.peer.heard if m["method"] == "tools/call"]
        assert "requestState" not in calls[2]
        assert list(calls[2]["inputResponses"]) == ["b"]


@run
async def test_input_requests_of_one_round_are_answered_in_parallel() -> None:
    together = asyncio.Barrier(3)

    async def meet(answer: Any) -> Any:
        await asyncio.wait_for(together.wait(), HANG)
        return answer

    client = Client(
        asking({"inputRequests": {"f": FORM, "r": ROOTS, "s": SAMPLE}}),
        on_elicit=lambda request: meet({"name": "Bo"}),
        on_roots=lambda: meet(["file:///r"]),
        on_sample=lambda request: meet("words"),
    )
    async with client:
        answers = json.loads((await client.call_tool("x")).text)
        assert answers["f"]["content"] == {"name": "Bo"}
        assert answers["r"] == {"roots": [{"uri": "file:///r"}]}
        assert answers["s"]["content"]["text"] == "words"


@run
async def test_one_failure_ends_the_other_input_requests() -> None:
    ended = asyncio.Event()

    async def forever(request: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fails(request: Any) -> Any:
        await asyncio.sleep(0)
        raise LookupError("no model")

    async with Client(
        asking({"inputRequests": {"f": FORM, "s": SAMPLE}}), on_elicit=forever, on_sample=fails
    ) as client:
        with pytest.raises(LocalProtocolError, match=r"sampling/createMessage.*no model") as caught:
            await client.call_tool("x")
        assert isinstance(caught.value.__cause__, LookupError)
        assert ended.is_set()


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError(), KeyError("x")])
@run
async def test_every_exception_of_a_callback_becomes_a_dovetail_error(error: Exception) -> None:
    def fails(request: Any) -> Any:
        raise error

    async with Client(asking({"inputRequests": {"f": FORM}}), on_elicit=fails) as client:
        with pytest.raises(DovetailError) as caught:
            await client.call_tool("x")
        assert caught.value.__cause__ is error


@run
async def test_a_result_that_needed_answers_is_not_kept() -> None:
    kept = {
        "contents": [{"uri": "a:b", "text": "Ada's"}],
        "resultType": "complete",
        "ttlMs": 60_000,
        "cacheScope": "private",
    }

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        asked = "inputResponses" in message["params"] or message["params"]["uri"] == "plain:"
        question = {"resultType": "input_required", "inputRequests": {"f": FORM}}
        peer.result(message, kept if asked else question)

    target = modern(answer)
    async with Client(target, on_elicit=lambda request: {"name": "Ada"}) as client:
        for uri, asked in (("plain:", 1), ("a:b", 4)):
            before = target.peer.methods.count("resources/read")
            for _ in range(2):
                await client.read_resource(uri)
            assert target.peer.methods.count("resources/read") - before == asked


@run
async def test_rounds_are_bounded() -> None:
    target = asking(*[{"inputRequests": {"k": FORM}}] * 50)
    async with Client(target, on_elicit=lambda request: True, limits=Limits(max_input_rounds=3)) as client:
        with pytest.raises(RemoteProtocolError, match="more than 3 rounds"):
            await client.call_tool("x")
        assert target.peer.methods.count("tools/call") == 4


@run
async def test_a_state_alone_means_ask_again_later() -> None:
    clock = FakeClock()
    target = asking({"requestState": "busy"})
    async with Client(target, clock=clock) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await settle()
        assert target.peer.methods.count("tools/call") == 1
        await clock.run(1)
        assert (await call).text == "null"


@run
async def test_an_unanswered_input_request_is_an_error_and_not_retried() -> None:
    target = asking({"inputRequests": {"k": SAMPLE}})
    async with Client(target) as client:
        with pytest.raises(ProtocolError, match="does not answer sampling"):
            await client.call_tool("x")
        assert target.peer.methods.count("tools/call") == 1


@run
async def test_a_refused_sampling_is_not_retried() -> None:
    target = asking({"inputRequests": {"k": SAMPLE}})
    async with Client(target, on_sample=lambda request: None) as client:
        with pytest.raises(ProtocolError, match="rejected"):
            await client.call_tool("x")
        assert target.peer.methods.count("tools/call") == 1


@run
async def test_prompts_and_resources_may_ask_too() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if "inputResponses" not in message["params"]:
            peer.result(message, {"resultType": "input_required", "inputRequests": {"k": FORM}})
        elif message["method"] == "prompts/get":
            peer.result(message, {"messages": [], "resultType": "complete"})
        else:
            kept = {"ttlMs": 60000, "cacheScope": "private", "resultType": "complete"}
            peer.result(message, {"contents": [{"uri": "x://y", "text": "t"}], **kept})

    async with Client(modern(answer, prompts={}), on_elicit=lambda request: True) as client:
        assert (await client.get_prompt("p")).messages == []
        assert (await client.read_resource("x://y")).contents[0].text == "t"


@run
async def test_an_absent_result_type_means_complete_and_an_unknown_one_is_invalid() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        peer.result(
            message, text("ok", **({"resultType": "surprise"} if message["params"]["name"] == "b" else {}))
        )

    async with Client(modern(answer)) as client:
        assert (await client.call_tool("a")).text == "ok"
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("b")


# --- listening -------------------------------------------------------------------------------------------------------


def listening(honour: Any = None) -> Scripted:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message["method"] == "subscriptions/listen":
            meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
            params = {"notifications": honour or message["params"]["notifications"], "_meta": meta}
            peer.say(
                {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
            )

    return modern(answer)


@run
async def test_nothing_is_listened_to_unless_wanted() -> None:
    target = listening()
    async with Client(target):
        await settle()
        assert target.peer.methods == ["server/discover"]


@run
async def test_subscribing_opens_the_new_stream_before_it_ends_the_old() -> None:
    updated: list[str] = []
    target = listening()
    async with Client(target, on_resource_updated=updated.append) as client:
        await client.subscribe_resource("x://a")
        await client.subscribe_resource("x://b")
        assert target.peer.methods[1:] == [
            "subscriptions/listen",
            "subscriptions/listen",
            "notifications/cancelled",
        ]
        assert target.peer.heard[2]["params"]["notifications"] == {
            "resourceSubscriptions": ["x://a", "x://b"]
        }
        params = {
            "uri": "x://b",
            "_meta": {"io.modelcontextprotocol/subscriptionId": target.peer.heard[2]["id"]},
        }
        target.peer.say({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
        await settle()
        assert updated == ["x://b"]
        await client.unsubscribe_resource("x://a")
        await client.unsubscribe_resource("x://b")
        assert target.peer.methods[-1] == "notifications/cancelled"
        for message in target.peer.heard:
            validate(message, "2026-07-28")


@run
async def test_a_server_that_refuses_to_report_says_so_to_the_subscriber() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        peer.error(message, -32601)

    async with Client(modern(answer)) as client:
        with pytest.raises(ProtocolError):
            await client.subscribe_resource("x://a")


@run
async def test_a_stream_ended_by_the_server_is_not_opened_again() -> None:
    clock = FakeClock()
    target = listening()
    async with Client(target, clock=clock) as client:
        await client.subscribe_resource("x://a")
        listen = target.peer.heard[-1]
        meta = {"io.modelcontextprotocol/subscriptionId": listen["id"]}
        target.peer.result(listen, {"resultType": "complete", "_meta": meta})
        cancelled = {"requestId": listen["id"]}
        target.peer.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
        await settle()
        await clock.run(60)
        assert target.peer.methods.count("subscriptions/listen") == 1


# --- the log level ---------------------------------------------------------------------------------------------------


@run
async def test_the_log_level_travels_with_each_request() -> None:
    target = modern(lambda peer, message: peer.result(message, text("x", resultType="complete")))
    async with Client(target) as client:
        await client.call_tool("x")
        await client.set_logging_level("warning")
        await client.call_tool("x")
        levels = [m["params"]["_meta"].get("io.modelcontextprotocol/logLevel") for m in target.peer.heard]
        assert levels == [None, None, "warning"]


# --- tasks -----------------------------------------------------------------------------------------------------------

STAMPS = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": None}


def working(*states: dict[str, Any]) -> Scripted:
    """Answers tools/call with a task, and each tasks/get with the next state."""
    left = list(states)

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        base = {"taskId": "t1", **STAMPS, "pollIntervalMs": 100}
        match message["method"]:
            case "tools/call":
                peer.result(message, {"resultType": "task", "status": "working", **base})
            case "tasks/get":
                state = left.pop(0) if len(left) > 1 else left[0]
                peer.result(message, {"resultType": "complete", **base, **state})
            case _:
                peer.result(message, {"resultType": "complete"})

    return modern(answer, extensions={"io.modelcontextprotocol/tasks": {}})


DONE = {"status": "completed", "result": text("computed")}


@run
async def test_a_task_is_driven_to_its_result_inside_the_call() -> None:
    clock = FakeClock()
    async with Client(working({"status": "working"}, DONE), clock=clock) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await settle()
        await clock.run(0.5)
        assert (await call).text == "computed"


@run
async def test_a_task_as_a_handle() -> None:
    target = working({"status": "working"}, DONE)
    async with Client(target) as client:
        handle = await client.call_tool("x", task=True)
        assert handle.id == "t1"
        assert await handle.status() == "working"
        assert (await handle.result()).text == "computed"
        assert await handle.status() == "completed"
        await handle.cancel()
        assert "tasks/cancel" not in target.peer.methods


@run
async def test_a_task_that_asks_is_answered_once() -> None:
    question = {"status": "input_required", "inputRequests": {"k": FORM}}
    target = working(question, question, DONE)
    clock = FakeClock()
    async with Client(target, on_elicit=lambda request: True, clock=clock) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await settle()
        await clock.run(1)
        assert (await call).text == "computed"
        updates = [m["params"] for m in target.peer.heard if m["method"] == "tasks/update"]
        assert len(updates) == 1
        assert updates[0]["inputResponses"] == {"k": {"action": "accept", "content": {"name": "Ada"}}}


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ({"status": "cancelled"}, "task_cancelled"),
        ({"status": "failed", "error": {"code": -32603, "message": "it broke"}}, "task_failed"),
    ],
)
@run
async def test_a_task_that_does_not_succeed_raises(state: dict[str, Any], kind: str) -> None:
    async with Client(working(state)) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("x")
        assert caught.value.kind == kind


@run
async def test_a_call_answered_at_once_is_a_finished_handle() -> None:
    target = modern(lambda peer, message: peer.result(message, text("now", resultType="complete")))
    async with Client(target) as client:
        handle = await client.call_tool("x", task=True)
        assert handle.id is None
        assert await handle.status() == "completed"
        assert (await handle.result()).text == "now"


# --- skills ----------------------------------------------------------------------------------------------------------

SKILL = b"---\nname: pdf\ndescription: Reads PDFs\n---\n\nBody.\n"
NOTES = b"Notes.\n"


def entry(**changes: Any) -> dict[str, Any]:
    def file(uri: str, data: bytes) -> dict[str, Any]:
        return {"uri": uri, "digest": "sha256:" + hashlib.sha256(data).hexdigest(), "size": len(data)}

    resources = [file("skill://pdf/SKILL.md", SKILL), file("skill://pdf/NOTES.md", NOTES)]
    resources[0].update(changes.pop("file", {}))
    return {
        "uri": "skill://pdf/SKILL.md",
        "frontmatter": {"name": "pdf", "description": "Reads PDFs"},
        "resources": resources,
        **changes,
    }


def skilled(listed: dict[str, Any], body: bytes = SKILL) -> Scripted:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        kept = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        if message["method"] == "skills/list":
            peer.result(message, {"skills": [listed], **kept})
        elif message["method"] == "skills/get":
            peer.result(message, {"skill": listed, **kept})
        else:
            uri = message["params"]["uri"]
            data = body if uri.endswith("SKILL.md") else NOTES
            peer.result(message, {"contents": [{"uri": uri, "text": data.decode()}], **kept})

    return modern(answer, extensions={"io.modelcontextprotocol/skills": {}})


@run
async def test_listing_skills_fetches_nothing_and_loading_only_the_skill_itself() -> None:
    target = skilled(entry())
    async with Client(target) as client:
        (listed,) = await client.list_skills()
        assert "resources/read" not in target.peer.methods
        skill = await client.load_skill(listed)
        assert (skill.name, skill.description) == ("pdf", "Reads PDFs")
        assert target.peer.methods.count("resources/read") == 1
        assert await skill.read("NOTES.md") == NOTES
        assert (await client.load_skill("skill://pdf/SKILL.md")).text == SKILL.decode()


@pytest.mark.parametrize(
    ("listed", "body", "problem"),
    [
        (entry(file={"digest": "sha256:" + "0" * 64}), SKILL, "digest"),
        (entry(file={"size": 3}), SKILL, "bytes"),
        (entry(), SKILL.replace(b"Body.", b"Evil."), "digest"),
        (
            entry(frontmatter={"name": "pdf", "description": "Something else"}),
            SKILL,
            "differs from its entry in description",
        ),
        (entry(frontmatter={"name": "pdf", "description": "Reads PDFs", "more": 1}), SKILL, "more"),
        (entry(file={"digest": "md5:1"}), SKILL, "no SHA-256 digest"),
    ],
)
@run
async def test_a_skill_that_is_not_what_was_listed_is_refused(listed: Any, body: bytes, problem: str) -> None:
    async with Client(skilled(listed, body)) as client:
        (found,) = await client.list_skills()
        with pytest.raises(SkillError, match=problem):
            await client.load_skill(found)


@run
async def test_a_file_that_is_not_listed_is_not_read() -> None:
    target = skilled(entry())
    async with Client(target) as client:
        skill = await client.load_skill((await client.list_skills())[0])
        with pytest.raises(SkillError, match="not among the files"):
            await skill.read("../../etc/passwd")
        assert target.peer.methods.count("resources/read") == 1


def asking_for_ever(peer: Peer, message: dict[str, Any]) -> None:
    question = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    asked = {"q": {"method": "elicitation/create", "params": question}}
    peer.result(message, {"resultType": "input_required", "requestState": "s", "inputRequests": asked})


def putting_off_for_ever(peer: Peer, message: dict[str, Any]) -> None:
    peer.result(message, {"resultType": "input_required", "requestState": "s"})


@pytest.mark.parametrize("answer", [asking_for_ever, putting_off_for_ever])
@run
async def test_the_total_limit_is_for_all_rounds_together(answer: Any) -> None:
    async def hesitate(_: Any) -> dict[str, Any]:
        await asyncio.sleep(0.05)
        return {"action": "accept", "content": {}}

    async with Client(modern(answer), on_elicit=hesitate) as client:
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("x", timeout=0.3)
        assert caught.value.limit == "total"
        assert client.pending == 0
