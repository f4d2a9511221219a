"""Transcripts: read them, check every line, and replay them with a real server.

A transcript is a few header lines, an empty line, and what is said, one message per line:

    shows: a tool is called and answers with text
    server: tools

    C> {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "now", "arguments": {}}}
    S> {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "noon"}]}}

``C>`` is sent by the client, ``S>`` must be sent by the server, in this order and with nothing in between;
``C!`` are bytes that are no well-formed message; ``#`` is a comment. Headers:

    shows      what the conversation is about
    source     the document whose example it is
    revision   (default: the folder's name)   dialect    (default: the folder's name, or official)
    server     a function of `fixture_servers`
    client     the client's capabilities
    handshake  ``shown``: the lines contain it; otherwise a legacy session is opened before the first line
    match      ``exact``, or ``contains``: the server may say more than the line (default for dialects)
    level      ``codec``: the lines are only decoded and encoded, without a server
    understood ``yes``: the lines use names and shapes that we understand but would not write ourselves
    validate   ``server``: the client's lines are wrong on purpose, only the server's follow the schema

In a line, ``"<any>"`` stands for any value; another ``"<word>"`` for a value the server chooses, which later
lines repeat; ``"<meta>"`` for the metadata every request of 2026-07-28 needs; ``"<server>"`` for the name of
the server in its results. The data of an error may always hold more than the line shows.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from dovetail.core.channel import Link
from dovetail.core.endpoint import Endpoint
from dovetail.drivers.duplex import Duplex
from dovetail.errors import TransportError
from dovetail.transports.memory import connect
from dovetail.wire.codec import Codec, codec_for
from dovetail.wire.dialects import DIALECTS as PROFILES
from dovetail.wire.frames import decode
from dovetail.wire.methods import METHODS
from dovetail.wire.revisions import BY_NAME

from . import fixture_servers
from .schemas import validate

ROOT = Path(__file__).resolve().parents[1] / "transcripts"
EXAMPLES = Path(__file__).resolve().parents[1] / "dialects" / "examples"
"""The examples of the reference documents, a folder for each dialect."""
DIALECTS = ("erlmcp", "minimcp", "mcp_client")
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
PATIENCE = 5.0
"""Seconds to wait for a line of the server; only a failing test waits that long."""

Members = dict[str, Any]

_WORD = re.compile(r"<(\w+)>")
_HEADERS = {
    "shows",
    "source",
    "revision",
    "dialect",
    "server",
    "client",
    "handshake",
    "match",
    "level",
    "understood",
    "validate",
}


@dataclass
class Line:
    speaker: str
    text: str
    number: int
    message: Any = None


@dataclass
class Transcript:
    path: Path
    headers: dict[str, str] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def dialect(self) -> str:
        folder = self.path.parent.name
        return self.headers.get("dialect", folder if folder in DIALECTS else "official")

    @property
    def revision(self) -> str:
        return self.headers.get("revision", self.path.parent.name)

    @property
    def exact(self) -> bool:
        return self.headers.get("match", "exact" if self.dialect == "official" else "contains") == "exact"

    @property
    def client(self) -> dict[str, Any]:
        return json.loads(self.headers.get("client", "{}"))

    @property
    def spoken(self) -> bool:
        """Whether a server replays this transcript; otherwise its lines are only decoded and encoded."""
        return self.headers.get("level") != "codec"


def load(path: Path) -> Transcript:
    """Read one transcript.

    Raises:
        ValueError: naming the file and line that cannot be understood.
    """
    transcript = Transcript(path)
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not text or text.startswith("#"):
            continue
        if text[:3] in ("C> ", "S> ", "C! "):
            transcript.lines.append(Line(text[:2], text[3:], number))
            continue
        name, colon, value = text.partition(": ")
        if transcript.lines or not colon or name not in _HEADERS:
            raise ValueError(f"{path}:{number}: neither a header nor a line of the conversation")
        transcript.headers[name] = value
    for line in transcript.lines:
        if line.speaker != "C!":
            line.message = _expand(json.loads(line.text), transcript)
    if not transcript.lines or "shows" not in transcript.headers:
        raise ValueError(f"{path}: a transcript says what it shows and has at least one line")
    return transcript


def load_all(*roots: Path) -> list[Transcript]:
    return [load(path) for root in roots or (ROOT, EXAMPLES) for path in sorted(root.glob("*/*.txt"))]


def _expand(value: Any, transcript: Transcript) -> Any:
    if value == "<meta>":
        return {META + "protocolVersion": transcript.revision, META + "clientCapabilities": transcript.client}
    if value == "<server>":
        return {META + "serverInfo": {"name": transcript.headers["server"], "version": "1.0.0"}}
    if isinstance(value, dict):
        return {name: _expand(member, transcript) for name, member in value.items()}
    return [_expand(item, transcript) for item in value] if isinstance(value, list) else value


# --- line by line ------------------------------------------------------------------------------------------


def check_lines(transcript: Transcript) -> None:
    """Every message is read and written again without loss; official ones follow their schema."""
    codec = codec_for(BY_NAME[transcript.revision], PROFILES[transcript.dialect])
    asked: dict[Any, str] = {}
    for line in transcript.lines:
        if line.speaker == "C!":
            continue
        messages = line.message if isinstance(line.message, list) else [line.message]
        for message in messages:
            method = asked.get(message.get("id"))
            if "method" in message and "id" in message:
                asked[message["id"]] = message["method"]
            if not _malformed(line, transcript):
                _check_message(codec, message, method, line, transcript)


def _malformed(line: Line, transcript: Transcript) -> bool:
    return line.speaker == "C>" and transcript.headers.get("validate") == "server"


def _check_message(
    codec: Codec, message: dict[str, Any], method: str | None, line: Line, transcript: Transcript
) -> None:
    place = f"{transcript.path}:{line.number}"
    data = json.dumps(message).encode()
    if _WILD.search(line.text) is None:
        written = rewritten(codec, data, method)
        official = transcript.dialect == "official"
        if "understood" not in transcript.headers:
            assert matches(message, json.loads(written), exact=official), f"{place}\n{written.decode()}"
        # However it was said: written and read again, it is the same.
        assert rewritten(codec, written, method) == written, f"{place}\n{written.decode()}"
    if transcript.dialect == "official" and not _has_null_id(message):
        validate(_sampled(message), transcript.revision, method=method)


def rewritten(codec: Codec, data: bytes, answers: str | None) -> bytes:
    """Read one message and write it again. ``answers`` is the method whose result the message may hold."""
    frame = decode(data)
    id: Any = None if frame.id is UNSET else frame.id
    if frame.error is not UNSET:
        return codec.encode_error(id, codec.decode_error(frame.error))
    if frame.method is UNSET:
        row = METHODS.get(answers or "")
        assert isinstance(frame.result, Raw)
        return codec.encode_result(
            id, frame.result if row is None else codec.decode_result(row, frame.result)
        )
    method = codec.dialect.inbound_methods.get(frame.method, frame.method)
    row, params = METHODS.get(method), None
    if frame.params is not UNSET:
        params = msgspec.json.decode(frame.params) if row is None else codec.decode_params(row, frame.params)
    if frame.id is UNSET:
        return codec.encode_notification(method, params)
    return codec.encode_request(id, method, params)


def _sampled(value: Any) -> Any:
    """The message with something of the right form where the line leaves it open."""
    if isinstance(value, str) and _WORD.fullmatch(value) is not None:
        return f"any:{value[1:-1]}"
    if isinstance(value, dict):
        return {name: _sampled(member) for name, member in value.items()}
    return [_sampled(item) for item in value] if isinstance(value, list) else value


_WILD = re.compile(r': "<any>"[,}]')


# --- with a server -----------------------------------------------------------------------------------------


class Listener:
    """The client's end of the connection: keeps what the server says."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[bytes | None] = asyncio.Queue()
        """What was said; None when the server has hung up."""

    def connected(self, link: Link) -> None:
        self.link = link

    def received(self, message: bytes) -> None:
        self.heard.put_nowait(message)

    def oversized(self, limit: int) -> None: ...

    def lost(self, error: TransportError | None) -> None:
        self.heard.put_nowait(None)

    async def next(self) -> Any:
        """The next message, decoded; None when there will be none."""
        said = await asyncio.wait_for(self.heard.get(), PATIENCE)
        return None if said is None else json.loads(said)


async def hold(transcript: Transcript) -> None:
    """Hold the conversation with the transcript's server over the in-memory transport.

    Raises:
        AssertionError: naming the line the server did not keep to, and what it said.
    """
    server = fixture_servers.make(transcript.headers["server"], transcript.dialect)
    listener = Listener()
    async with server.running():
        duplex = Duplex(Endpoint(server.dispatcher.admission, server.limits), server.dispatcher)
        link, _ = connect(listener, duplex)
        try:
            await speak(transcript, listener)
        finally:
            link.close()
            await duplex.wait_closed()


async def speak(transcript: Transcript, listener: Listener, *, ordered: bool = True) -> None:
    """Say the client's lines over a connection that is up, and compare what the server says with its lines.

    Over Streamable HTTP responses and notifications take different connections. There the lines between two lines
    of the client may arrive in any order: ``ordered=False``.
    """
    if transcript.revision != MODERN and transcript.headers.get("handshake") != "shown":
        await _open(transcript, listener)
    await _converse(transcript, listener, ordered)
    await _nothing_more(transcript, listener)


async def _open(transcript: Transcript, listener: Listener) -> None:
    params = {
        "protocolVersion": transcript.revision,
        "capabilities": transcript.client,
        "clientInfo": {"name": "transcript", "version": "1"},
    }
    _say(listener, {"jsonrpc": "2.0", "id": "handshake", "method": "initialize", "params": params})
    answer = await listener.next()
    assert answer["result"]["protocolVersion"] == transcript.revision
    _say(listener, {"jsonrpc": "2.0", "method": "notifications/initialized"})


async def _converse(transcript: Transcript, listener: Listener, ordered: bool) -> None:
    words: dict[str, Any] = {}
    expected: list[Line] = []
    for line, following in zip(transcript.lines, [*transcript.lines[1:], None], strict=True):
        if line.speaker == "C!":
            listener.link.send(line.text.encode())
        elif line.speaker == "C>":
            _say(listener, _fill(line.message, words))
        else:
            expected.append(line)
            if ordered or following is None or following.speaker != "S>":
                while expected:
                    await _expect(transcript, listener, expected, words)


async def _expect(
    transcript: Transcript, listener: Listener, expected: list[Line], words: dict[str, Any]
) -> None:
    """Wait for one message, and remove the line it matches."""
    place = f"{transcript.path}:{expected[0].number}"
    try:
        said = await listener.next()
    except TimeoutError:
        raise AssertionError(f"{place}: the server said nothing") from None
    for line in expected:
        learned = dict(words)
        if matches(line.message, said, exact=transcript.exact, words=learned):
            words.update(learned)
            expected.remove(line)
            break
    else:
        texts = " or ".join(line.text for line in expected)
        raise AssertionError(f"{place}\nexpected {texts}\nheard    {json.dumps(said)}")
    if transcript.dialect == "official" and not _has_null_id(said):
        validate(said, transcript.revision)


async def _nothing_more(transcript: Transcript, listener: Listener) -> None:
    """One more question: its answer must be the next thing the server says, unless it has hung up."""
    modern = transcript.revision == MODERN
    question = {
        "jsonrpc": "2.0",
        "id": "last",
        "method": "server/discover" if modern else "ping",
        "params": {"_meta": _expand("<meta>", transcript)} if modern else {},
    }
    _say(listener, question)
    said = await listener.next()
    assert said is None or said.get("id") == "last", f"{transcript.path}: and then {json.dumps(said)}"


def _has_null_id(message: Any) -> bool:
    """An error without a readable id: the older schemas have no form for it."""
    return isinstance(message, dict) and message.get("id", 0) is None


def _say(listener: Listener, message: Any) -> None:
    listener.link.send(json.dumps(message).encode())


def _fill(value: Any, words: dict[str, Any]) -> Any:
    """Put the values the server chose where the line names them."""
    if isinstance(value, str) and (word := _WORD.fullmatch(value)) is not None:
        return words[word[1]]
    if isinstance(value, dict):
        return {_fill(name, words): _fill(member, words) for name, member in value.items()}
    return [_fill(item, words) for item in value] if isinstance(value, list) else value


# --- comparing ---------------------------------------------------------------------------------------------

_ABSENT = {"isError": False}
"""Members that may as well be left out."""


def matches(expected: Any, actual: Any, *, exact: bool, words: dict[str, Any] | None = None) -> bool:
    """Whether ``actual`` is what the line demands; learns the words it names."""
    words = {} if words is None else words
    if isinstance(expected, str) and (word := _WORD.fullmatch(expected)) is not None:
        return word[1] == "any" or words.setdefault(word[1], actual) == actual
    if isinstance(expected, dict) and isinstance(actual, dict):
        return _members_match(expected, actual, exact, words)
    if isinstance(expected, list) and isinstance(actual, list):
        if expected and isinstance(expected[0], dict) and "jsonrpc" in expected[0]:
            # JSON-RPC: the answers of a batch may come in any order.
            expected, actual = (sorted(batch, key=_id) for batch in (expected, actual))
        return len(expected) == len(actual) and all(
            matches(one, other, exact=exact, words=words) for one, other in zip(expected, actual, strict=True)
        )
    return (type(expected) is type(actual) and expected == actual) or _same_number(expected, actual)


def _members_match(expected: Members, actual: Members, exact: bool, words: Members) -> bool:
    named = {name: member for name, member in expected.items() if _WORD.fullmatch(name) is None}
    if len(named) != len(expected):
        return _named_match(expected, actual, exact, words)
    if "code" in expected and "message" in expected:
        actual = {"data": {}, **actual} if isinstance(expected.get("data"), dict) else actual
        return all(
            name in actual and matches(member, actual[name], exact=exact and name != "data", words=words)
            for name, member in expected.items()
        )
    if exact and not set(actual) - set(_ABSENT) <= set(expected):
        return False
    return all(
        matches(member, actual[name], exact=exact, words=words)
        if name in actual
        else _ABSENT.get(name, ...) == member
        for name, member in expected.items()
    )


def _named_match(expected: Members, actual: Members, exact: bool, words: Members) -> bool:
    """An object whose one key the server chooses."""
    if len(expected) != 1 or len(actual) != 1:
        return False
    ((name, member),) = expected.items()
    ((chosen, value),) = actual.items()
    return matches([name, member], [chosen, value], exact=exact, words=words)


def _id(message: Members) -> str:
    return str(message.get("id"))


def _same_number(expected: Any, actual: Any) -> bool:
    numbers = {type(expected), type(actual)} <= {int, float}
    return numbers and expected == actual
