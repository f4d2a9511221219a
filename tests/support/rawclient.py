"""A client that knows nothing but JSON, to test servers with.

It speaks any revision over any link, answers the server's questions in both eras, and checks every message it gets
against the official schema of its revision. It is a `Receiver`: hand it to whatever makes a link.
"""

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

from . import schemas
from .waiting import HANG
from .waiting import until as until

MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
REVISIONS = (*LEGACY, MODERN)
META = "io.modelcontextprotocol/"

CAPABILITIES = {
    "2024-11-05": {"roots": {}, "sampling": {}},
    "2025-03-26": {"roots": {}, "sampling": {}},
    "2025-06-18": {"roots": {}, "sampling": {}, "elicitation": {}},
    "2025-11-25": {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}},
    MODERN: {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}},
}
"""All a client of each revision can declare of what a server may ask it for."""

SCHEMAS: dict[str, str] = {}
"""Whose schema a made-up revision is checked against."""

Json = dict[str, Any]
Handler = Callable[[Json], Any]


class Failed(Exception):
    """The server answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code = error.get("code")
        self.error = error


class RawClient:
    """One connection, in one revision. ``answers`` maps the methods a server may ask to functions of the params."""

    def __init__(
        self, revision: str, *, answers: dict[str, Handler] | None = None, check: bool = True
    ) -> None:
        self.revision = revision
        self.modern = revision >= MODERN
        self.schema = SCHEMAS.get(revision, revision)
        self.answers: dict[str, Handler] = answers or {}
        self.check = check
        self.meta: Json = {}
        self.link: Any = None
        self.received_messages: list[Any] = []
        self.notifications: list[Json] = []
        self.questions: list[Json] = []
        self.over: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.ids = itertools.count(1)
        self._methods: dict[Any, str] = {}
        self.futures: dict[Any, asyncio.Future[Json]] = {}
        self._news = asyncio.Event()

    # --- Receiver ---------------------------------------------------------------------------------------------

    def connected(self, link: Any) -> None:
        self.link = link

    def received(self, message: bytes) -> None:
        data = json.loads(message)
        self.received_messages.append(data)
        for one in data if isinstance(data, list) else [data]:
            self._take(one)
        self._news.set()

    def oversized(self, limit: int) -> None:
        raise AssertionError(f"the server sent more than {limit} bytes")

    def ended(self) -> None:
        pass

    def lost(self, error: Any) -> None:
        if not self.over.done():
            self.over.set_result(error)
        self._fail(ConnectionError(str(error)))
        self._news.set()

    def _fail(self, error: BaseException) -> None:
        for future in self.futures.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # a waiting caller receives it, if there is one

    def _take(self, message: Json) -> None:
        if self.check:
            try:
                schemas.validate(message, self.schema, method=self._asked(message))
            except AssertionError as fault:
                self._fail(fault)
        if "method" not in message:
            future = self.futures.get(message.get("id"))
            if future is not None and not future.done():
                future.set_result(message)
        elif "id" in message:
            self._answer(message)
        else:
            self.notifications.append(message)

    def _asked(self, message: Json) -> str | None:
        return None if "method" in message else self._methods.get(message.get("id"))

    def _answer(self, question: Json) -> None:
        assert not self.modern, f"2026-07-28 has no requests by the server: {question}"
        self.questions.append(question)
        handler = self.answers.get(question["method"])
        if handler is None:
            self.send({"id": question["id"], "error": {"code": -32601, "message": "Method not found"}})
            return
        answer = handler(question.get("params", {}))
        if answer is not None:  # None: leave the server waiting
            self.send({"id": question["id"], "result": answer})

    # --- speaking ---------------------------------------------------------------------------------------------

    def send(self, message: Json) -> None:
        message = {"jsonrpc": "2.0", **message}
        self.link.send(json.dumps(message).encode())

    def send_bytes(self, data: bytes) -> None:
        self.link.send(data)

    def notify(self, method: str, params: Json | None = None) -> None:
        self.send({"method": method} | ({} if params is None else {"params": params}))

    def start(
        self, method: str, params: Json | None = None, *, meta: Json | None = None, id: Any = None
    ) -> Any:
        """Send a request and return its id; `response` waits for the answer."""
        id = next(self.ids) if id is None else id
        whole = {**self._modern_meta(), **self.meta, **(meta or {})}
        params = {**(params or {}), **({"_meta": whole} if whole else {})}
        self._methods[id] = method
        self.futures[id] = asyncio.get_running_loop().create_future()
        self.send({"id": id, "method": method} | ({"params": params} if params else {}))
        return id

    async def response(self, id: Any) -> Json:
        """The whole answer to ``id``."""
        future = self.futures.get(id)
        assert future is not None, f"{id} was answered already"
        try:
            async with asyncio.timeout(HANG):
                return await future
        finally:
            self.futures.pop(id, None)

    async def request(self, method: str, params: Json | None = None, *, meta: Json | None = None) -> Json:
        """Ask, answer what the server asks meanwhile, and return the result; raises `Failed`."""
        params = dict(params or {})
        for _ in range(16):
            answer = await self.response(self.start(method, params, meta=meta))
            if "error" in answer:
                raise Failed(answer["error"])
            result = answer["result"]
            if result.get("resultType") != "input_required":
                return result
            params |= self._fulfil(result)
        raise AssertionError("the server never stops asking")

    def _fulfil(self, result: Json) -> Json:
        responses: Json = {}
        for key, question in result.get("inputRequests", {}).items():
            self.questions.append(question)
            responses[key] = self.answers[question["method"]](question.get("params", {}))
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        return {"inputResponses": responses, **state}

    async def notification(self, method: str, *, after: int = 0) -> Json:
        """The params of the first ``method`` notification beyond the ``after`` ones seen before."""
        async with asyncio.timeout(HANG):
            while True:
                found = [one for one in self.notifications if one["method"] == method][after:]
                if found:
                    return found[0].get("params", {})
                self._news.clear()
                await self._news.wait()

    def _modern_meta(self) -> Json:
        if not self.modern:
            return {}
        return {
            f"{META}protocolVersion": self.revision,
            f"{META}clientCapabilities": CAPABILITIES[MODERN],
            f"{META}clientInfo": {"name": "raw", "version": "1"},
        }

    async def open(self, **declared: Any) -> Json:
        """Do what the era wants before anything else, and return what the server says about itself."""
        if self.modern:
            return await self.request("server/discover")
        result = await self.request(
            "initialize",
            {
                "protocolVersion": self.revision,
                "capabilities": {**CAPABILITIES[self.revision], **declared},
                "clientInfo": {"name": "raw", "version": "1"},
            },
        )
        assert result["protocolVersion"] == self.revision
        self.notify("notifications/initialized")
        return result

    async def close(self) -> None:
        """End the connection and wait until that is known."""
        if not self.over.done():
            self.link.close()
        async with asyncio.timeout(HANG):
            await self.over
            wait_closed = getattr(self.link, "wait_closed", None)
            if wait_closed is not None:
                await wait_closed()
