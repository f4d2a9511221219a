"""A server that says exactly what a test tells it to, on a link in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from dovetail.client.conversation import Conversation
from dovetail.core.channel import Link
from dovetail.errors import TransportError

INITIALIZED = {
    "protocolVersion": "2024-11-05",
    "capabilities": {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}},
    "serverInfo": {"name": "scripted", "version": "1"},
}

Answer = Callable[["Peer", dict[str, Any]], Any]


class Peer(Link):
    """One connection, seen by the script."""

    def __init__(self, conversation: Conversation, answer: Answer) -> None:
        self._conversation = conversation
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self.heard: list[dict[str, Any]] = []
        self.closed = False

    # --- what a script does

    def say(self, message: dict[str, Any] | bytes) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._loop.call_soon(self._deliver, data)

    def result(self, asked: dict[str, Any], value: Any) -> None:
        self.say({"jsonrpc": "2.0", "id": asked["id"], "result": value})

    def error(self, asked: dict[str, Any], code: int, message: str = "no", data: Any = None) -> None:
        problem = {"code": code, "message": message, **({} if data is None else {"data": data})}
        self.say({"jsonrpc": "2.0", "id": asked["id"], "error": problem})

    def drop(self, cause: str = "eof") -> None:
        self._loop.call_soon(self._lose, cause)

    def _lose(self, cause: str) -> None:
        if not self.closed:
            self.closed = True
            self._conversation.lost(TransportError("the server went away", cause=cause))

    def _deliver(self, data: bytes) -> None:
        if not self.closed:
            self._conversation.received(data)

    @property
    def methods(self) -> list[str]:
        return [message.get("method", "(answer)") for message in self.heard]

    # --- Link

    def send(self, message: bytes) -> None:
        heard = json.loads(message)
        self.heard.append(heard)
        self._answer(self, heard)

    async def drain(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._conversation.lost(None)

    abort = close


class Scripted:
    """A target. ``answer(peer, message)`` is called with everything the client sends, handshake included."""

    http = False

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.peers: list[Peer] = []
        self.refuse = 0
        """How many of the next connections are refused."""

    @property
    def peer(self) -> Peer:
        return self.peers[-1]

    async def open(self, conversation: Conversation, transport: str) -> None:
        if self.refuse:
            self.refuse -= 1
            raise TransportError("nobody listens", cause="refused")
        peer = Peer(conversation, self.answer)
        self.peers.append(peer)
        conversation.connected(peer)

    async def release(self, link: Link) -> None:
        link.close()


def legacy(then: Answer, version: str = "2024-11-05", **capabilities: Any) -> Scripted:
    """A server that does the handshake and leaves the rest to ``then``."""
    declared = {**INITIALIZED["capabilities"], **capabilities}  # type: ignore[dict-item]

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method == "initialize":
            peer.result(message, {**INITIALIZED, "protocolVersion": version, "capabilities": declared})
        elif method == "server/discover":
            peer.error(message, -32601)
        elif method != "notifications/initialized":
            then(peer, message)

    return Scripted(answer)


def modern(then: Answer, **capabilities: Any) -> Scripted:
    """A 2026-07-28 server that answers discovery and leaves the rest to ``then``."""
    declared = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        **capabilities,
    }

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "server/discover":
            peer.result(
                message,
                {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": declared,
                    "ttlMs": 0,
                    "cacheScope": "private",
                    "resultType": "complete",
                },
            )
        else:
            then(peer, message)

    return Scripted(answer)


def text(words: str, **more: Any) -> dict[str, Any]:
    """The result of a tool."""
    return {"content": [{"type": "text", "text": words}], **more}
