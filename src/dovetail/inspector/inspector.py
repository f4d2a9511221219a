"""The state of the inspector: connections, calls, server requests, logs and messages, all bounded."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from itertools import count
from typing import Any, Final

from msgspec import Struct

from ..client.connecting.targets import Target
from ..errors import DovetailError
from ..testing import Recording, replay
from ..wire.revisions import REVISIONS
from .call_history import CallHistory
from .event_stream import PageEvents
from .inspected_server import ConnectRequest, InspectedServer
from .messages import MessageLog
from .open_requests import OpenRequests

CONNECTIONS: Final = 32
"""Connections to servers that one inspector holds."""
REMOVED_KEPT: Final = 8
"""Removed servers that can be restored."""
APPS_KEPT: Final = 32
"""Documents of MCP Apps that their iframe has not loaded yet."""
APP_BYTES: Final = 64 << 20
"""Bytes of the waiting documents of MCP Apps."""
CONFIRMATIONS: Final = 32
"""Commands that wait for the user's confirmation."""


class AppDocument(Struct):
    """The document of an MCP App, until its iframe has loaded it."""

    html: bytes
    policy: str


class Inspector:
    """One inspector. Closing it ends the processes that it has started."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self.frames = MessageLog()
        self.news = PageEvents(self.frames)
        self.questions = OpenRequests(self.news)
        self.calls = CallHistory(self.news)
        self.connections: dict[int, InspectedServer] = {}
        self._numbers = count(1)
        self._confirmable: dict[str, list[ConnectRequest]] = {}
        self._removed: dict[int, ConnectRequest] = {}
        self._documents: dict[str, AppDocument] = {}
        self.notes: dict[str, Any] = {}
        """A notice of `dovetail dev` above all panels: the error of the last edit."""

    # --- connections ------------------------------------------------------------------------------------------------

    def connect(self, requests: Iterable[ConnectRequest]) -> list[InspectedServer]:
        """Start to connect. The caller has confirmed the commands in ``request``.

        Raises:
            DovetailError: there are too many connections.
        """
        made: list[InspectedServer] = []
        for request in requests:
            if len(self.connections) >= CONNECTIONS:
                raise DovetailError(f"the limit of {CONNECTIONS} connections is reached: close one")
            connection = InspectedServer(self, next(self._numbers), request)
            self.connections[connection.id] = connection
            connection.open()
            connection.tell()
            made.append(connection)
        return made

    def ask_first(self, requests: list[ConnectRequest]) -> str:
        """Store a request that would start a program until the user confirms it; return its id."""
        while len(self._confirmable) >= CONFIRMATIONS:
            del self._confirmable[next(iter(self._confirmable))]
        word = secrets.token_urlsafe(16)
        self._confirmable[word] = requests
        return word

    def confirmed(self, word: str) -> list[ConnectRequest]:
        """Return and remove the request with this id.

        Raises:
            DovetailError: the id is unknown.
        """
        found = self._confirmable.pop(word, None)
        if found is None:
            raise DovetailError("the confirmation is unknown or too old: connect again")
        return found

    def replayed(self, text: str, label: str) -> InspectedServer:
        """Connect to a recording.

        Raises:
            ValueError: ``text`` is not a recording.
        """
        target = Target(kind="opener", service=replay(Recording.parse(text)))
        return self.connect([ConnectRequest(target=target, label=label)])[0]

    def connection(self, id: Any) -> InspectedServer:
        """Return the connection with this number.

        Raises:
            DovetailError: it does not exist.
        """
        found = self.connections.get(id)
        if found is None:
            raise DovetailError("this connection does not exist any more: connect again")
        return found

    async def disconnect(self, id: int) -> None:
        connection = self.connection(id)
        del self.connections[id]
        self._removed[id] = connection.request
        while len(self._removed) > REMOVED_KEPT:
            del self._removed[next(iter(self._removed))]
        await connection.close()
        self.news.tell("disconnected", connection=id)

    def restore(self, id: int) -> InspectedServer:
        """Connect again to a server that was removed: its command was confirmed before.

        Raises:
            DovetailError: it was not removed, or too many others were removed after it.
        """
        request = self._removed.pop(id, None)
        if request is None:
            raise DovetailError("this server cannot be restored any more: connect again")
        return self.connect([request])[0]

    # --- apps -------------------------------------------------------------------------------------------------------

    def keep_document(self, document: AppDocument) -> str:
        """Store a document for an iframe and return its path; it can be loaded once."""
        while self._documents and (
            len(self._documents) >= APPS_KEPT or self._app_bytes(document) > APP_BYTES
        ):
            del self._documents[next(iter(self._documents))]
        word = secrets.token_urlsafe(24)
        self._documents[word] = document
        return f"/app/{word}"

    def _app_bytes(self, another: AppDocument) -> int:
        return sum(len(document.html) for document in (*self._documents.values(), another))

    def take_document(self, word: str) -> AppDocument | None:
        return self._documents.pop(word, None)

    # --- all of it --------------------------------------------------------------------------------------------------

    def note(self, name: str, value: Any) -> None:
        """Show a notice above all panels; None removes it."""
        self.notes[name] = value
        self.news.tell("note", name=name, value=value)

    def shown(self) -> dict[str, Any]:
        """Return the initial state for a page; it requests messages and results separately."""
        return {
            "connections": [connection.shown() for connection in self.connections.values()],
            "calls": [record.shown() for record in self.calls.records.values()],
            "questions": [question.shown() for question in self.questions.waiting.values()],
            "logs": [entry for connection in self.connections.values() for entry in connection.logs],
            "frames": {"first": self.frames.first, "last": self.frames.last},
            "revisions": [revision.name for revision in REVISIONS],
            "notes": self.notes,
        }

    async def close(self) -> None:
        await self.calls.close()
        for id in list(self.connections):
            await self.disconnect(id)
