"""Every primitive, on every revision, over every transport: the same server, the same results.

One conversation is opened per transport and revision, and all tests of the pair take place in it. Every message the
server sends is checked against the official schema of the revision by the client itself.
"""

import asyncio
import base64
import functools
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.support.everything import PIXEL
from tests.support.faces import FACES
from tests.support.rawclient import META, MODERN, REVISIONS, Failed, RawClient
from tests.support.waiting import HANG

SINCE = {revision: index for index, revision in enumerate(REVISIONS, 1)}

ANSWERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "elicitation/create": lambda params: {"action": "accept", "content": {"row": 7, "window": True}},
    "sampling/createMessage": lambda params: {
        "role": "assistant",
        "model": "m",
        "content": {"type": "text", "text": "yes"},
    },
    "roots/list": lambda params: {"roots": [{"uri": "file:///home", "name": "home"}]},
}

_names = itertools.count(1)


class Conversation:
    """One open client and the loop it lives in."""

    def __init__(self, face: str, revision: str) -> None:
        self._runner = asyncio.Runner()
        self._face = FACES[face]
        self._revision = revision
        self._context: Any = None
        self.client: RawClient

    def open(self) -> None:
        self._runner.run(self._open())

    async def _open(self) -> None:
        self.client = RawClient(self._revision, answers=dict(ANSWERS))
        self._context = self._face(self.client)
        await self._context.__aenter__()
        self.introduction = await self.client.open()

    def run(self, test: Awaitable[None]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(HANG):
                await test

        self._runner.run(limited())

    def close(self) -> None:
        self._runner.run(self._context.__aexit__(None, None, None))
        self._runner.close()


@pytest.fixture(scope="module", params=[(f, r) for f in FACES for r in REVISIONS], ids="-".join)
def conversation(request: pytest.FixtureRequest) -> Iterator[Conversation]:
    held = Conversation(*request.param)
    held.open()
    yield held
    held.close()


def spoken(test: Callable[[RawClient], Awaitable[None]]) -> Any:
    """Run an async test of a client inside the conversation of its transport and revision."""

    def wrapper(conversation: Conversation) -> None:
        conversation.client.answers = dict(ANSWERS)
        conversation.run(test(conversation.client))

    functools.update_wrapper(wrapper, test)
    del wrapper.__wrapped__  # pytest would take its parameters for fixtures
    return wrapper


def fresh() -> str:
    return f"name-{next(_names)}"


def since(client: RawClient, index: int) -> bool:
    return SINCE.get(client.revision, len(SINCE) + 1) >= index


async def tool(
    client: RawClient, name: str, /, *, meta: dict[str, Any] | None = None, **arguments: Any
) -> Any:
    return await client.request("tools/call", {"name": name, "arguments": arguments}, meta=meta)


def steps_of(client: RawClient, token: str) -> list[dict[str, Any]]:
    """The progress of one call."""
    found = [one["params"] for one in client.notifications if one["method"] == "notifications/progress"]
    return [params for params in found if params["progressToken"] == token]


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


# --- the server itself ----------------------------------------------------------------------------------------


def test_the_server_says_who_it_is(conversation: Conversation) -> None:
    said = conversation.introduction
    modern = conversation.client.modern
    info = said["_meta"][f"{META}serverInfo"] if modern else said["serverInfo"]
    assert (info["name"], info["version"]) == ("everything", "1.2.3")
    assert said["instructions"] == "Try everything."
    assert {"tools", "resources", "prompts", "logging"} <= set(said["capabilities"])


@spoken
async def test_ping(client: RawClient) -> None:
    if client.modern:
        with pytest.raises(Failed) as caught:
            await client.request("ping")
        assert caught.value.code == -32601
    else:
        assert await client.request("ping") == {}


@spoken
async def test_an_unknown_method_is_refused_and_the_connection_goes_on(client: RawClient) -> None:
    with pytest.raises(Failed) as caught:
        await client.request("no/such/method")
    assert caught.value.code == -32601
    assert text(await tool(client, "shout", words="still here")) == "STILL HERE"


# --- tools ----------------------------------------------------------------------------------------------------


@spoken
async def test_tools_are_listed_with_their_schemas(client: RawClient) -> None:
    listed: dict[str, Any] = {}
    cursor: dict[str, Any] = {}
    while True:
        page = await client.request("tools/list", cursor)
        listed |= {entry["name"]: entry for entry in page["tools"]}
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert listed["add"]["inputSchema"]["required"] == ["a", "b"]
    assert listed["add"]["description"] == "Add two numbers."
    assert ("outputSchema" in listed["add"]) == since(client, 3)


@spoken
async def test_a_structured_result_has_its_text_everywhere_and_its_structure_where_it_is_known(
    client: RawClient,
) -> None:
    result = await tool(client, "add", a=2, b=3)
    assert json.loads(text(result)) == {"total": 5}
    assert result.get("structuredContent") == ({"total": 5} if since(client, 3) else None)


@spoken
async def test_a_plain_function_runs_in_a_thread(client: RawClient) -> None:
    assert text(await tool(client, "shout", words="hey")) == "HEY"


@spoken
async def test_an_image_comes_as_base64(client: RawClient) -> None:
    words, image = (await tool(client, "picture"))["content"]
    assert words["text"] == "look:"
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(image["data"]) == PIXEL


@spoken
async def test_a_sound_is_audio_where_that_exists(client: RawClient) -> None:
    (block,) = (await tool(client, "sound"))["content"]
    assert (block["type"] == "audio") == since(client, 2)


@spoken
async def test_a_resource_link_is_one_where_that_exists(client: RawClient) -> None:
    (block,) = (await tool(client, "link"))["content"]
    assert (block["type"] == "resource_link") == since(client, 3)


@spoken
async def test_a_tool_error_reaches_the_model(client: RawClient) -> None:
    result = await tool(client, "fail")
    assert result["isError"] is True
    assert text(result) == "out of paper"


@spoken
async def test_any_other_exception_is_masked(client: RawClient) -> None:
    result = await tool(client, "crash")
    assert result["isError"] is True
    assert "secret" not in str(result)


@spoken
async def test_an_unknown_tool_is_an_error(client: RawClient) -> None:
    with pytest.raises(Failed) as caught:
        await tool(client, "no-such-tool")
    assert caught.value.code == -32602


@spoken
async def test_wrong_arguments_name_the_path_the_way_the_revision_wants(client: RawClient) -> None:
    if since(client, 4):
        result = await tool(client, "add", a=1, b="two")
        assert result["isError"] is True
        assert "b" in text(result)
    else:
        with pytest.raises(Failed) as caught:
            await tool(client, "add", a=1, b="two")
        assert caught.value.code == -32602
        assert "b" in caught.value.error["message"]


# --- resources, prompts, completion ---------------------------------------------------------------------------


@spoken
async def test_resources_and_templates_are_listed(client: RawClient) -> None:
    resources = (await client.request("resources/list"))["resources"]
    assert {"notes://static", "notes://binary"} <= {entry["uri"] for entry in resources}
    templates = (await client.request("resources/templates/list"))["resourceTemplates"]
    assert [entry["uriTemplate"] for entry in templates] == ["notes://{name}/page/{number}"]


@spoken
async def test_a_resource_is_read(client: RawClient) -> None:
    (contents,) = (await client.request("resources/read", {"uri": "notes://static"}))["contents"]
    assert contents == {"uri": "notes://static", "mimeType": "text/plain", "text": "a note"}
    (contents,) = (await client.request("resources/read", {"uri": "notes://binary"}))["contents"]
    assert base64.b64decode(contents["blob"]) == b"\x00\x01"


@spoken
async def test_a_template_is_filled_in(client: RawClient) -> None:
    (contents,) = (await client.request("resources/read", {"uri": "notes://diary/page/7"}))["contents"]
    assert json.loads(contents["text"]) == {"name": "diary", "number": 7}


@spoken
async def test_an_unknown_resource_has_the_code_of_its_era(client: RawClient) -> None:
    with pytest.raises(Failed) as caught:
        await client.request("resources/read", {"uri": "notes://nowhere"})
    assert caught.value.code == (-32602 if client.modern else -32002)


@spoken
async def test_a_prompt_is_listed_and_filled_in(client: RawClient) -> None:
    (prompt,) = (await client.request("prompts/list"))["prompts"]
    assert [(one["name"], one.get("required", False)) for one in prompt["arguments"]] == [
        ("name", True),
        ("style", False),
    ]
    result = await client.request("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
    assert result["messages"] == [{"role": "user", "content": {"type": "text", "text": "Greet Ada, warm."}}]


@spoken
async def test_completion(client: RawClient) -> None:
    ref = {"type": "ref/prompt", "name": "greet"}
    result = await client.request(
        "completion/complete", {"ref": ref, "argument": {"name": "style", "value": "w"}}
    )
    assert result["completion"]["values"] == ["warm", "wry"]
    ref = {"type": "ref/resource", "uri": "notes://{name}/page/{number}"}
    result = await client.request(
        "completion/complete", {"ref": ref, "argument": {"name": "name", "value": "a"}}
    )
    assert result["completion"]["values"] == ["ax"]


# --- while a call runs ----------------------------------------------------------------------------------------


@spoken
async def test_progress_precedes_the_result_for_callers_that_requested_it(client: RawClient) -> None:
    token = fresh()
    await tool(client, "count", meta={"progressToken": token})
    steps = steps_of(client, token)
    assert [step["progress"] for step in steps] == [1, 2, 3]
    assert [step.get("message") for step in steps] == (
        ["step 1", "step 2", "step 3"] if since(client, 2) else [None] * 3
    )
    before = len(client.notifications)
    await tool(client, "count")
    assert len(client.notifications) == before


@spoken
async def test_log_messages_follow_the_level(client: RawClient) -> None:
    def said() -> list[Any]:
        return [one["params"] for one in client.notifications if one["method"] == "notifications/message"]

    seen = len(said())
    if client.modern:
        await tool(client, "talk")
        assert said()[seen:] == []  # not asked for: not sent
        await tool(client, "talk", meta={f"{META}logLevel": "warning"})
    else:
        await client.request("logging/setLevel", {"level": "warning"})
        await tool(client, "talk")
    (message,) = said()[seen:]
    assert (message["level"], message["logger"], message["data"]) == ("warning", "talk", {"careful": True})


@spoken
async def test_a_cancelled_call_is_stopped_and_not_answered(client: RawClient) -> None:
    key = fresh()
    id = client.start("tools/call", {"name": "wait", "arguments": {"key": key}})
    await tool(client, "shout", words="the call above is running")
    client.notify("notifications/cancelled", {"requestId": id, "reason": "test"})
    assert text(await tool(client, "was_stopped", key=key)) == "true"
    said = [message for message in client.received_messages if not isinstance(message, list)]
    assert not any(message.get("id") == id for message in said)


@spoken
async def test_calls_run_side_by_side(client: RawClient) -> None:
    ids = [client.start("tools/call", {"name": "shout", "arguments": {"words": str(n)}}) for n in range(40)]
    answers = await asyncio.gather(*(client.response(id) for id in ids))
    assert [text(answer["result"]) for answer in answers] == [str(n) for n in range(40)]


# --- what changes ---------------------------------------------------------------------------------------------


async def listen(client: RawClient, **wanted: Any) -> int | None:
    """Subscribe to changes: on modern revisions by a request that stays open."""
    if not client.modern:
        return None
    seen = sum(one["method"] == "notifications/subscriptions/acknowledged" for one in client.notifications)
    id = client.start("subscriptions/listen", {"notifications": wanted})
    await client.notification("notifications/subscriptions/acknowledged", after=seen)
    return id


def stop_listening(client: RawClient, id: int | None) -> None:
    if id is not None:
        client.notify("notifications/cancelled", {"requestId": id})


@spoken
async def test_a_new_tool_is_announced_and_callable(client: RawClient) -> None:
    method = "notifications/tools/list_changed"
    seen = sum(one["method"] == method for one in client.notifications)
    listening = await listen(client, toolsListChanged=True)
    name = fresh()
    await tool(client, "grow", name=name)
    params = await client.notification(method, after=seen)
    if listening is not None:
        assert params["_meta"][f"{META}subscriptionId"] == listening
    assert text(await tool(client, name, words="new")) == "NEW"
    stop_listening(client, listening)


@spoken
async def test_an_updated_resource_is_reported_to_its_subscribers(client: RawClient) -> None:
    method = "notifications/resources/updated"
    uri = "notes://static"
    seen = sum(one["method"] == method for one in client.notifications)
    await tool(client, "touch", uri=uri)
    assert sum(one["method"] == method for one in client.notifications) == seen
    listening = await listen(client, resourceSubscriptions=[uri])
    if listening is None:
        await client.request("resources/subscribe", {"uri": uri})
    await tool(client, "touch", uri=uri)
    assert (await client.notification(method, after=seen))["uri"] == uri
    if listening is None:
        await client.request("resources/unsubscribe", {"uri": uri})
    stop_listening(client, listening)


# --- questions to the client ----------------------------------------------------------------------------------


@spoken
async def test_a_tool_asks_the_user(client: RawClient) -> None:
    result = await tool(client, "seat")
    if since(client, 3):
        assert text(result) == "Seat(row=7, window=True)"
    else:
        assert result["isError"] is True  # such clients have no way to ask anybody


@spoken
async def test_a_user_may_decline(client: RawClient) -> None:
    client.answers["elicitation/create"] = lambda params: {"action": "decline"}
    if since(client, 3):
        assert text(await tool(client, "seat")) == "decline"


@spoken
async def test_an_answer_of_the_wrong_shape_is_refused_and_not_asked_for_again(client: RawClient) -> None:
    if not client.modern:
        return  # there a wrong answer is the answer to a request of the server's own
    params = {"name": "seat"}
    asked = (await client.response(client.start("tools/call", params)))["result"]
    ((key, _),) = asked["inputRequests"].items()
    state = {"requestState": asked["requestState"]} if "requestState" in asked else {}
    for wrong in (7, None, "yes", [], {"action": "perhaps"}, {"role": "user", "content": []}):
        again = {**params, **state, "inputResponses": {key: wrong}}
        answer = await client.response(client.start("tools/call", again))
        assert answer["error"]["code"] == -32602


@spoken
async def test_a_tool_asks_the_model(client: RawClient) -> None:
    assert text(await tool(client, "think")) == "yes"


@spoken
async def test_a_tool_asks_for_the_roots(client: RawClient) -> None:
    result = await tool(client, "where")
    assert "file:///home" in text(result)


@spoken
async def test_a_tool_that_asks_twice_pays_once(client: RawClient) -> None:
    order = fresh()
    before = len(client.questions)
    assert text(await tool(client, "pay", order=order)) == "yes:1:1"
    assert len(client.questions) == before + 2
    assert text(await tool(client, "payments", order=order)) == "1"


@spoken
async def test_a_changed_request_state_is_refused(client: RawClient) -> None:
    if not client.modern:
        return
    first = (await client.response(client.start("tools/call", {"name": "think"})))["result"]
    state = first["requestState"]
    answers = {key: ANSWERS["sampling/createMessage"]({}) for key in first["inputRequests"]}
    refusals: set[str] = set()
    for position in range(0, len(state), max(1, len(state) // 12)):
        character = "A" if state[position] != "A" else "B"
        bent = state[:position] + character + state[position + 1 :]
        with pytest.raises(Failed) as caught:
            await client.request(
                "tools/call", {"name": "think", "inputResponses": answers, "requestState": bent}
            )
        assert caught.value.code == -32602
        refusals.add(caught.value.error["message"])
    with pytest.raises(Failed) as caught:
        await client.request(
            "tools/call", {"name": "where", "inputResponses": answers, "requestState": state}
        )
    refusals.add(caught.value.error["message"])
    assert len(refusals) == 1


# --- methods of the author's own ------------------------------------------------------------------------------


def test_an_extension_is_declared_where_the_revision_has_a_place_for_it(conversation: Conversation) -> None:
    offered = conversation.introduction["capabilities"]
    old = conversation.client.revision in ("2025-06-18", "2025-11-25")
    declared = {"com.acme/sum": {}} | ({"com.acme/old": {}} if old else {})
    assert offered["extensions"] == declared
    assert "experimental" not in offered


@spoken
async def test_a_method_of_ones_own_is_answered(client: RawClient) -> None:
    token = fresh()
    result = await client.request("acme/sum", {"numbers": [1, 2, 3]}, meta={"progressToken": token})
    assert result["total"] == 6
    assert (result.get("resultType") == "complete") is client.modern
    assert [step["progress"] for step in steps_of(client, token)] == [1, 2, 3]
    result = await client.request("acme/echo", {"a": [1, None]})
    assert (result["said"], result["thread"]) == ({"a": [1, None]}, True)


@spoken
async def test_its_params_are_checked_and_the_place_is_named(client: RawClient) -> None:
    for params, place in (
        ({"numbers": [1, "2"]}, "$.numbers[1]"),
        ({}, "numbers"),
        ({"numbers": [], "x": 1}, "x"),
    ):
        with pytest.raises(Failed) as caught:
            await client.request("acme/sum", params)
        assert caught.value.code == -32602
        assert place in caught.value.error["message"]


@spoken
async def test_it_may_ask_the_client(client: RawClient) -> None:
    before = len(client.questions)
    result = await client.request("acme/seat", {"order": 7})
    assert (result["words"], result["roots"], result["order"]) == ("yes", ["file:///home"], 7)
    assert len(client.questions) == before + 2


@spoken
async def test_it_exists_on_the_revisions_it_names(client: RawClient) -> None:
    if client.revision in ("2025-06-18", "2025-11-25"):
        assert await client.request("acme/between") == {}
    else:
        with pytest.raises(Failed) as caught:
            await client.request("acme/between")
        assert caught.value.code == -32601


@spoken
async def test_a_custom_notification_is_received(client: RawClient) -> None:
    word = fresh()
    client.notify("acme/seen", {"word": word})
    client.notify("acme/unknown", {"word": word})
    client.notify("acme/seen", 5)  # type: ignore[arg-type]
    while {"word": word} not in (await client.request("acme/was_seen"))["seen"]:
        pass


# --- both eras together -------------------------------------------------------------------------------


@spoken
async def test_a_modern_request_is_served_on_the_connection_of_a_legacy_session(client: RawClient) -> None:
    if client.modern:
        return
    other = RawClient(MODERN)
    other.link = client.link
    id = other.start("tools/call", {"name": "shout", "arguments": {"words": "x"}}, id=fresh())
    client.futures[id] = other.futures[id]
    client.check = False
    answer = await client.response(id)
    client.check = True
    assert answer["result"]["resultType"] == "complete"


@spoken
async def test_a_batch_is_answered_only_where_the_revision_has_batches(client: RawClient) -> None:
    before = len(client.received_messages)
    client.send_bytes(
        b'[{"jsonrpc":"2.0","id":"b1","method":"ping"},{"jsonrpc":"2.0","id":"b2","method":"ping"}]'
    )
    await tool(client, "shout", words="x")
    answer = client.received_messages[before]
    if client.revision == "2025-03-26":
        assert {one["id"] for one in answer} == {"b1", "b2"}
    else:
        assert answer["error"]["code"] == -32600


@spoken
async def test_what_cannot_be_read_is_answered_and_the_connection_goes_on(client: RawClient) -> None:
    for garbage, code in ((b"{", -32700), (b'"text"', -32600), (b'{"jsonrpc":"2.0","id":1.5}', -32600)):
        before = len(client.received_messages)
        client.check = client.revision != "2024-11-05"  # which demands an id even where none could be read
        client.send_bytes(garbage)
        await tool(client, "shout", words="x")
        assert client.received_messages[before]["error"]["code"] == code
    client.check = True
