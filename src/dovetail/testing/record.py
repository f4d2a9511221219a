"""Record the conversation with a real server, and replay it in tests.

A recording is text, one message a line: ``> `` for what the client sent, ``< `` for what the server sent. Lines that
begin with ``#`` are comments. Ids do not matter: a request is matched by its method and params (``initialize`` by
its method), and its recorded responses are sent with its present id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from ..client import Client
from ..client.connecting.targets import Connector
from ..client.conversation import Conversation
from ..core.channel import Link
from ..errors import TransportError


class Recording:
    """The messages of a conversation, in order."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes]] = []

    def add(self, sender: str, message: bytes) -> None:
        """Store a message; ``sender`` is "client" or "server"."""
        self.messages.append((sender, bytes(message)))

    def text(self) -> str:
        marks = {"client": "> ", "server": "< "}
        lines = ((marks[sender], message.replace(b"\n", b" ")) for sender, message in self.messages)
        return "".join(f"{mark}{line.decode('utf-8', 'replace')}\n" for mark, line in lines)

    @classmethod
    def parse(cls, text: str) -> Recording:
        """Read `text` back.

        Raises:
            ValueError: a line is neither a message nor a comment.
        """
        found = cls()
        for number, line in enumerate(text.split("\n"), 1):  # JSON can contain other line separators
            if not line.strip() or line.startswith("#"):
                continue
            if line[:2] not in ("> ", "< "):
                raise ValueError(f"line {number} begins with neither '> ' nor '< '")
            found.add("client" if line[0] == ">" else "server", line[2:].strip().encode())
        return found


class RecordedClient(Client):
    """A client that stores every message in its ``recording``."""

    def __init__(self, target: Any, **options: Any) -> None:
        self.recording = Recording()
        super().__init__(target, on_message=self.recording.add, **options)


@asynccontextmanager
async def record(
    target: Any, path: str | Path | None = None, **options: Any
) -> AsyncGenerator[RecordedClient, None]:
    """Return a client whose conversation is written to ``path`` when it closes; until then it is in ``recording``."""
    client = RecordedClient(target, **options)
    try:
        async with client:
            yield client
    finally:
        if path is not None:
            await asyncio.to_thread(Path(path).write_text, client.recording.text(), "utf-8")


def replay(source: Recording | str | Path) -> Connector:
    """Return a target that responds as recorded: ``Client(replay("forecast.txt"))``."""
    if isinstance(source, Recording):
        return _Replayer(source)
    text = str(source)
    return _Replayer(Recording.parse(text if "\n" in text else Path(text).read_text("utf-8")))


class _Replayer:
    """A connector whose links respond from a recording."""

    http = False

    def __init__(self, recording: Recording) -> None:
        self._messages = recording.messages

    async def open(self, conversation: Conversation, transport: str) -> None:
        conversation.connected(_ReplayLink(conversation, self._messages))

    async def release(self, link: Link) -> None:
        link.close()


class _ReplayLink(Link):
    """Matches sent messages with the recording, and sends the messages that followed them."""

    def __init__(self, conversation: Conversation, messages: list[tuple[str, bytes]]) -> None:
        self._conversation = conversation
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._exchanges: list[tuple[str, list[Any]]] = []
        """The messages of the server by request."""
        by_id: dict[Any, list[Any]] = {}
        current: list[Any] | None = None
        for sender, message in ((sender, one) for sender, data in messages for one in _messages(data)):
            if sender == "client" and "method" in message:
                current = []
                self._exchanges.append((_key(message), current))
                if "id" in message:
                    by_id[message["id"]] = current
            elif sender == "server":
                answers = by_id.get(message.get("id")) if "method" not in message else current
                if answers is not None:
                    answers.append(message)

    def send(self, message: bytes) -> None:
        asked = msgspec.json.decode(message)
        if "method" not in asked:
            return
        wanted = _key(asked)
        for index, (key, answers) in enumerate(self._exchanges):
            if key == wanted:
                del self._exchanges[index]
                self._loop.call_soon(self._deliver, asked.get("id"), answers)
                return
        if "id" in asked:
            error = {"code": -32603, "message": f"the recording has no {asked['method']} with these params"}
            self._loop.call_soon(self._deliver, asked["id"], [{"jsonrpc": "2.0", "error": error}])

    def _deliver(self, id: Any, answers: list[Any]) -> None:
        for answer in answers:
            said = {**answer, "id": id} if "method" not in answer else _with_token(answer, id)
            if not self._closed:
                self._conversation.received(msgspec.json.encode(said))

    async def drain(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._conversation.lost(TransportError("the recording was closed", cause="closed"))

    abort = close


def _messages(data: bytes) -> Iterator[dict[str, Any]]:
    """Return the messages of a line: several for a batch, none for a malformed message."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return
    for one in cast("list[Any]", found) if isinstance(found, list) else [found]:
        with suppress(msgspec.ValidationError):
            msgspec.convert(one, _Message)
            yield one


class _Message(msgspec.Struct):
    method: str = ""
    id: str | int | float | None = None
    params: dict[str, Any] | None = None


def _key(message: dict[str, Any]) -> str:
    """Return a request without parts that differ between runs: id, metadata and proposed revision."""
    given: dict[str, Any] = (message["method"] != "initialize" and message.get("params")) or {}
    params = {name: value for name, value in given.items() if name != "_meta"}
    return message["method"] + msgspec.json.encode(params, order="sorted").decode()


def _with_token(notice: dict[str, Any], id: Any) -> dict[str, Any]:
    params: dict[str, Any] = notice.get("params") or {}
    return {**notice, "params": {**params, "progressToken": id}} if "progressToken" in params else notice
