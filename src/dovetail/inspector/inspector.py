"""What the page shows: connections, calls, questions, logs and the wire, all of it bounded."""

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
from .call_history import Calls
from .event_stream import News
from .inspected_server import Connection, Wish
from .messages import FrameLog
from .open_requests import Questions

CONNECTIONS: Final = 32
"""Connections to servers that one inspector holds."""
APPS_KEPT: Final = 32
"""Documents of MCP Apps that wait to be fetched by their frame."""
APP_BYTES: Final = 64 << 20
"""Bytes of the waiting documents of MCP Apps."""
CONFIRMATIONS: Final = 32
"""Commands that wait for the user's confirmation."""


class AppDocument(Struct):
    """The document of an MCP App, until its frame has fetched it."""

    html: bytes
    policy: str


class Inspector:
    """One inspector. Close it to end all it has started."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self.frames = FrameLog()
        self.news = News(self.frames)
        self.questions = Questions(self.news)
        self.calls = Calls(self.news)
        self.connections: dict[int, Connection] = {}
        self._numbers = count(1)
        self._confirmable: dict[str, list[Wish]] = {}
        self._documents: dict[str, AppDocument] = {}
        self.notes: dict[str, Any] = {}
        """What `dovetail dev` wants the page to show: the last error of an edit."""

    # --- connections --------------------------------------------------------------------------------------------------

    def connect(self, wishes: Iterable[Wish]) -> list[Connection]:
        """Begin to connect: whoever calls this answers for the commands in it.

        Raises:
            DovetailError: there are too many connections.
        """
        made: list[Connection] = []
        for wish in wishes:
            if len(self.connections) >= CONNECTIONS:
                raise DovetailError(f"there are {CONNECTIONS} connections already: close one of them")
            connection = Connection(self, next(self._numbers), wish)
            self.connections[connection.id] = connection
            connection.open()
            connection.tell()
            made.append(connection)
        return made

    def ask_first(self, wishes: list[Wish]) -> str:
        """Keep what would start a program until somebody at the page says yes; returns the word for it."""
        while len(self._confirmable) >= CONFIRMATIONS:
            del self._confirmable[next(iter(self._confirmable))]
        word = secrets.token_urlsafe(16)
        self._confirmable[word] = wishes
        return word

    def confirmed(self, word: str) -> list[Wish]:
        """What was asked about under this word, once.

        Raises:
            DovetailError: nothing was.
        """
        found = self._confirmable.pop(word, None)
        if found is None:
            raise DovetailError("this was not asked about, or too long ago: connect again")
        return found

    def replayed(self, text: str, label: str) -> Connection:
        """A connection to a recording.

        Raises:
            ValueError: it is none.
        """
        target = Target(kind="opener", service=replay(Recording.parse(text)))
        return self.connect([Wish(target=target, label=label)])[0]

    def connection(self, id: Any) -> Connection:
        """The one with this number.

        Raises:
            DovetailError: there is none.
        """
        found = self.connections.get(id)
        if found is None:
            raise DovetailError("there is no such connection")
        return found

    async def disconnect(self, id: int) -> None:
        connection = self.connection(id)
        del self.connections[id]
        await connection.close()
        self.news.tell("disconnected", connection=id)

    # --- apps ---------------------------------------------------------------------------------------------------------

    def keep_document(self, document: AppDocument) -> str:
        """Where a frame finds the document, once."""
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

    # --- the whole ----------------------------------------------------------------------------------------------------

    def note(self, name: str, value: Any) -> None:
        """Show something above all panels; None takes it away."""
        self.notes[name] = value
        self.news.tell("note", name=name, value=value)

    def shown(self) -> dict[str, Any]:
        """All a page needs to begin; frames and results it asks for."""
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
