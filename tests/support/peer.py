"""A client by hand for servers under test: real bytes both ways, every message checked against its schema."""

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dovetail.core.channel import Call, PlainChannel, Rejection, Session
from dovetail.core.principal import Principal
from dovetail.errors import DovetailError
from dovetail.model import ClientCapabilities
from dovetail.server import Server
from dovetail.wire.frames import decode
from dovetail.wire.methods import METHODS

from .schemas import REVISIONS, validate

MODERN = "2026-07-28"
LEGACY = REVISIONS[:-1]
EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}

Answers = Callable[[str, dict[str, Any]], dict[str, Any]]


def no_answers(method: str, params: dict[str, Any]) -> dict[str, Any]:
    raise AssertionError(f"nobody expected the question {method}")


class Peer(PlainChannel):
    """One client of ``server`` on ``revision``; it answers questions with ``answer(method, params)``."""

    def __init__(
        self,
        server: Server,
        revision: str = MODERN,
        *,
        capabilities: dict[str, Any] | None = None,
        answer: Answers = no_answers,
        principal: str | None = None,
    ) -> None:
        self.server = server
        self.revision = revision
        self.capabilities = EVERYTHING if capabilities is None else capabilities
        self.answer = answer
        self.principal = None if principal is None else Principal(principal)
        self.notes: list[dict[str, Any]] = []
        self.told = asyncio.Event()
        """Set with the first notification."""
        self.questions: list[dict[str, Any]] = []
        self.rounds = 0
        self.meta: dict[str, Any] = {}
        codec = server.dispatcher.admission.codecs[revision]
        self.codec = codec
        self.session: Session | None = None
        if revision != MODERN:
            declared = ClientCapabilities(self.capabilities)
            self.session = Session(revision=codec.revision, codec=codec, capabilities=declared, phase="ready")
            self.session.notify = self._note
            server.dispatcher.session_opened(self.session)
        self._ids = itertools.count(1)

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One request, one whole reply; questions of a modern server come back as they are."""
        if self.session is None:
            self.meta = {
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
                **self.meta,
            }
        if self.meta:
            params["_meta"] = self.meta
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        reply = await self._exchange(json.dumps(message).encode())
        validate(reply, self.revision, method=method)
        answer = json.loads(reply)
        assert answer.get("id") == message["id"]
        return answer

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole reply once every question has been answered, in whichever way the era asks."""
        reply = await self.send(method, **params)
        while reply.get("result", {}).get("resultType") == "input_required":
            self.rounds += 1
            result = reply["result"]
            params.pop("requestState", None)
            if "requestState" in result:
                params["requestState"] = result["requestState"]
            params["inputResponses"] = {
                key: self._answer(question["method"], question.get("params", {}))
                for key, question in result.get("inputRequests", {}).items()
            }
            reply = await self.send(method, **params)
        return reply

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        reply = await self.ask(method, **params)
        assert "result" in reply, reply
        return reply["result"]

    async def error(self, method: str, **params: Any) -> dict[str, Any]:
        reply = await self.ask(method, **params)
        assert "error" in reply, reply
        return reply["error"]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.result("tools/call", name=tool, arguments=arguments)

    async def text(self, tool: str, **arguments: Any) -> str:
        return (await self.call(tool, **arguments))["content"][0]["text"]

    async def _exchange(self, message: bytes) -> bytes:
        if self.session is None:
            scope: dict[str, Any] = {"notify": self._take, "principal": self.principal}
            reply = await self.server.handle(message, scope)
            assert reply is not None
            return reply
        admitted = self.server.dispatcher.admission.admit(
            decode(message), self.session, principal=self.principal
        )
        if isinstance(admitted, Rejection):
            return admitted.body
        assert isinstance(admitted, Call)
        try:
            result = await self.server.dispatcher.respond(admitted, self)
            return self.codec.encode_result(admitted.id, result)
        except DovetailError as error:
            return self.codec.encode_error(admitted.id, error)

    # The channel of a legacy call

    def notify(self, method: str, params: Struct | None) -> None:
        self._note(method, params)

    async def request(self, method: str, params: Struct) -> Any:
        data = self.codec.encode_request(99, method, params)
        validate(data, self.revision, method=method)
        reply = self._answer(method, json.loads(data).get("params", {}))
        if "error" in reply:
            raise self.codec.decode_error(json.dumps(reply["error"]).encode())
        return self.codec.decode_result(METHODS[method], json.dumps(reply).encode())

    async def drain(self) -> None:
        return None

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.questions.append({"method": method, "params": params})
        return self.answer(method, params)

    def _note(self, method: str, params: Struct | None) -> None:
        self._take(self.codec.encode_notification(method, params))

    def _take(self, data: bytes) -> None:
        validate(data, self.revision)
        self.notes.append(json.loads(data))
        self.told.set()
