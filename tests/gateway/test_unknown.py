"""What no revision knows goes through a proxy between any two of them; what one cannot say is left out by its edits."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Server
from dovetail.gateway import Proxy
from dovetail.transports import tcp
from tests.budget.test_handle import MODERN
from tests.support.aio import run

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
Json = dict[str, Any]
LATER = {"later": {"deep": [1, {"x": 2.50}]}}
META = {"example.com/kept": {"a": [1]}}
OBJECT = {"type": "object"}
BLOCK = {"type": "text", "text": "hi", **LATER}
STRANGE = {"type": "hologram", "middleware": [1, 2]}
RESULTS: dict[str, Json] = {
    "tools/list": {"tools": [{"name": "t", "inputSchema": OBJECT, **LATER}, {"name": "u", "inputSchema": OBJECT}]},
    "resources/list": {"resources": [{"name": "r", "uri": "note://r", **LATER}]},
    "resources/templates/list": {"resourceTemplates": [{"name": "r", "uriTemplate": "note://{x}", **LATER}]},
    "prompts/list": {"prompts": [{"name": "p", "arguments": [{"name": "a", **LATER}], **LATER}]},
    "tools/call": {"content": [BLOCK, STRANGE], "structuredContent": {"s": 1}, "_meta": META, **LATER},
    "resources/read": {"contents": [{"uri": "note://r", "text": "x", **LATER}], "_meta": META, **LATER},
    "prompts/get": {"messages": [{"role": "user", "content": BLOCK, **LATER}], "_meta": META, **LATER},
    "completion/complete": {"completion": {"values": ["v"], **LATER}, "_meta": META, **LATER},
}  # fmt: skip
"""The responses of the upstream server, on every revision."""
ASKED: dict[str, Json] = {
    "tools/call": {"name": "t", "arguments": {"big": 12345678901234567890, **LATER}, **LATER},
    "resources/read": {"uri": "note://r", **LATER},
    "prompts/get": {"name": "p", "arguments": {"a": "1"}, **LATER},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "p", **LATER}, "argument": {"name": "a", "value": "v", **LATER}, **LATER,
    },
}  # fmt: skip


class Raw:
    """A server that speaks ``revision`` in lines, and remembers what it was asked."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.asked: dict[str, Json] = {}

    def answer(self, message: Json) -> Json | None:
        method, params = message["method"], message.get("params") or {}
        self.asked[method] = params
        offered = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
        named = {"name": "raw", "version": "1"}
        if method == "initialize":
            return {"protocolVersion": self.revision, "capabilities": offered, "serverInfo": named}
        if method == "server/discover":
            result: Json = {"supportedVersions": [self.revision], "capabilities": offered}
        else:
            result = {**RESULTS[method]} if method in RESULTS else {}
        if self.revision >= "2026":
            result |= {"resultType": "complete"}
            if "/list" in method or method in ("resources/read", "server/discover"):
                result |= {"ttlMs": 0, "cacheScope": "private"}
        return result

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            message = json.loads(line)
            if "id" in message and "method" in message:
                reply = {"jsonrpc": "2.0", "id": message["id"], "result": self.answer(message)}
                writer.write(json.dumps(reply).encode() + b"\n")
        writer.close()


Ask = Callable[..., Any]


@asynccontextmanager
async def between(front: str, behind: str, prefix: str | None = None) -> AsyncIterator[tuple[Ask, Raw]]:
    raw = Raw(behind)
    listening = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    proxy: Server = Proxy(f"tcp://127.0.0.1:{port}", revision=behind)
    if prefix is not None:
        inner, proxy = proxy, Server("front", "1")
        proxy.mount(inner, prefix)

    async def ask(method: str, _meta: Json = META, **params: Any) -> Json:
        meta = {**MODERN, **_meta} if front == REVISIONS[-1] else _meta
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        scope = None if front == REVISIONS[-1] else {"revision": front}
        reply = json.loads(await proxy.handle(json.dumps(message), scope) or b"")
        return reply["result"]

    async with listening, proxy.running():
        yield ask, raw


FORM = {"type": "object", "properties": {"seat": {"type": "string"}}}
QUESTIONS: dict[str, Json] = {
    "elicitation/create": {"message": "seat?", "requestedSchema": FORM, **LATER},
    "sampling/createMessage": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi", **LATER}, **LATER}],
        "maxTokens": 5,
        **LATER,
    },
    "roots/list": {},
}
ANSWERS: dict[str, Json] = {
    "elicitation/create": {"action": "accept", "content": {"seat": "1a"}, **LATER},
    "sampling/createMessage": {"role": "assistant", "model": "m", "content": {**BLOCK}, **LATER},
    "roots/list": {"roots": [{"uri": "file:///a", **LATER}], **LATER},
}
CAN: Json = {"elicitation": {}, "sampling": {}, "roots": {}}
PROGRESS: Json = {"progress": 1, "total": 2, **LATER}
LOGGED: Json = {"level": "error", "data": "d", **LATER}


class Asking(Raw):
    """It tells and asks something in the middle of each call."""

    def __init__(self, revision: str, question: str) -> None:
        super().__init__(revision)
        self.question = question
        self.answered: Json = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(**message: Any) -> None:
            writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

        waiting: Any = None
        while line := await reader.readline():
            message = json.loads(line)
            params = message.get("params") or {}
            if message.get("id") == "asked":
                self.answered, message = message["result"], waiting
                say(id=message["id"], result=self.answer(message))
            elif message.get("method") == "tools/call" and "inputResponses" not in params:
                token, waiting = params["_meta"]["progressToken"], message
                say(method="notifications/progress", params={"progressToken": token, **PROGRESS})
                say(method="notifications/message", params=LOGGED)
                question = {"method": self.question, "params": QUESTIONS[self.question]}
                if self.revision >= "2026":
                    result = {
                        "resultType": "input_required",
                        "inputRequests": {"k": question},
                        "requestState": "s",
                    }
                    say(id=message["id"], result=result)
                else:
                    say(id="asked", **question)
            elif "id" in message and "method" in message:
                if params.get("inputResponses"):
                    self.answered = params["inputResponses"]["k"]
                result = self.answer(message)
                if message["method"] in ("initialize", "server/discover"):
                    result["capabilities"]["logging"] = {}
                say(id=message["id"], result=result)
        writer.close()


class Front:
    """A client that sends lines, and records what it receives."""

    def __init__(self, proxy: Server, revision: str) -> None:
        self._proxy, self._revision = proxy, revision
        self.told: dict[str, Json] = {}
        self.question: Json = {}

    async def call(self) -> Json:
        meta: Json = {"progressToken": "p"}
        listener = await tcp.listen(self._proxy.dispatcher)
        self._reader, self._writer = await asyncio.open_connection(*listener.address)
        if self._revision == REVISIONS[-1]:
            names = {"logLevel": "debug", "clientCapabilities": CAN}
            meta |= {**MODERN, **{f"io.modelcontextprotocol/{name}": value for name, value in names.items()}}
        else:
            named = {"name": "c", "version": "1"}
            told = {"protocolVersion": self._revision, "capabilities": CAN, "clientInfo": named}
            await self._ask("initialize", told)
            self._say(method="notifications/initialized")
        result = await self._ask("tools/call", {"name": "t", "_meta": meta})
        if result.get("resultType") == "input_required":
            ((key, self.question),) = result["inputRequests"].items()
            answers = {key: ANSWERS[self.question["method"]]}
            state = {"inputResponses": answers, "requestState": result["requestState"]}
            result = await self._ask("tools/call", {"name": "t", "_meta": meta, **state})
        self._writer.close()
        await listener.close()
        return result

    def _say(self, **message: Any) -> None:
        self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _ask(self, method: str, params: Json) -> Json:
        self._say(id=1, method=method, params=params)
        while True:
            message = json.loads(await self._reader.readline())
            if "method" in message and "id" in message:
                self.question = message
                self._say(id=message["id"], result=ANSWERS[message["method"]])
            elif "method" in message:
                self.told[message["method"]] = message["params"]
            else:
                return message["result"]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("front", REVISIONS)
@pytest.mark.parametrize("behind", REVISIONS)
@run
async def test_input_requests_answers_and_notifications_keep_unknown_members_too(
    front: str, behind: str, question: str
) -> None:
    if question == "elicitation/create" and min(front, behind) < "2025-06":
        pytest.skip("nobody elicits there")
    raw = Asking(behind, question)
    listening = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    proxy: Server = Proxy(f"tcp://127.0.0.1:{listening.sockets[0].getsockname()[1]}", revision=behind)
    async with listening, proxy.running():
        client = Front(proxy, front)
        result = await client.call()
    assert (result["content"], result["later"]) == ([BLOCK, STRANGE], LATER["later"])
    assert client.question["method"] == question
    assert without(client.question.get("params") or {}, "_meta") == QUESTIONS[question]
    assert without(raw.answered, "_meta") == ANSWERS[question]
    assert client.told["notifications/progress"] == {"progressToken": "p", **PROGRESS}
    if behind != REVISIONS[-1]:  # where a line does not say to which call it belongs
        assert client.told["notifications/message"] == LOGGED
    assert "dovetail/" not in json.dumps([result, client.told, client.question, raw.answered])


def without(value: Json, *names: str) -> Json:
    return {name: member for name, member in value.items() if name not in names}


OURS = ("_meta", "resultType", "ttlMs", "cacheScope")


@pytest.mark.parametrize("front", REVISIONS)
@pytest.mark.parametrize("behind", REVISIONS)
@run
async def test_unknown_members_are_forwarded_in_both_directions(front: str, behind: str) -> None:
    async with between(front, behind) as (ask, raw):
        for method, params in ASKED.items():
            result = await ask(method, **params)
            assert result["_meta"]["example.com/kept"] == META["example.com/kept"]
            assert not [name for name in result["_meta"] if name.startswith("dovetail/")]
            left_out = ("structuredContent",) if front < "2025-06" and front != behind else ()
            assert without(result, *OURS) == without(RESULTS[method], "_meta", *left_out), method
            asked = raw.asked[method]
            assert without(asked, "_meta") == params, method
            assert asked["_meta"]["example.com/kept"] == META["example.com/kept"]


@pytest.mark.parametrize("front", REVISIONS)
@pytest.mark.parametrize("behind", REVISIONS)
@run
async def test_entries_of_lists_keep_unknown_members(front: str, behind: str) -> None:
    async with between(front, behind) as (ask, _):
        for method in [name for name in RESULTS if name.endswith("/list")]:
            result = without(await ask(method), *OURS)
            assert result == RESULTS[method]


@pytest.mark.parametrize(
    ("front", "behind"), [(one, one) for one in REVISIONS] + [(REVISIONS[1], REVISIONS[-1])]
)
@run
async def test_under_a_prefix_too(front: str, behind: str) -> None:
    async with between(front, behind, "p") as (ask, raw):
        (contents,) = (await ask("resources/read", uri="note://p/r", **LATER))["contents"]
        assert contents == {"uri": "note://p/r", "text": "x", **LATER}
        assert raw.asked["resources/read"]["later"] == LATER["later"]
        assert (await ask("tools/list"))["tools"][0]["later"] == LATER["later"]
        assert (await ask("tools/call", name="p_t"))["content"] == [BLOCK, STRANGE]


@run
async def test_received_data_cannot_make_the_server_write_other_messages() -> None:
    async with between("2025-06-18", "2026-07-28") as (ask, raw):
        forged = {"dovetail/came": {"data": {"injected": 1}}}
        await ask("tools/call", forged, name="t")
        assert "injected" not in raw.asked["tools/call"]
        assert raw.asked["tools/call"]["_meta"]["dovetail/came"] == forged["dovetail/came"]
