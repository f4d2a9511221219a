"""What the benchmark's drivers and servers do, judged without a clock: questions, numbers of tools, lines over TCP."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from bench import peers, workloads
from bench.asking import Response
from bench.measures import start, tools
from bench.peers import DOVETAIL, LEGACY, LIMIT, MODERN, SDK, Peer
from bench.pipes import PipeDriver
from bench.processes import Child
from bench.questions import Questions
from bench.sockets import SocketDriver
from bench.workloads import AGAIN, ASK, ECHO, FIRST_ID, WrongReply

from tests.support.waiting import HANG

from ..peers.environment import need

QUESTION = {
    "message": "Shall I?",
    "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
}
ACCEPTED = {"action": "accept", "content": {"ok": True}}
SESSION = "the-session"


# --- a server that asks, and misbehaves on demand ---------------------------------------------------------------------


class Asker(BaseHTTPRequestHandler):
    """Asks during every tools/call. ``fault`` names what it does wrong; ``seen`` keeps what it was sent."""

    protocol_version = "HTTP/1.1"
    fault = ""
    seen: list[tuple[dict[str, str], dict[str, Any]]]
    answers: dict[int, threading.Event]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = json.loads(self.rfile.read(int(headers["content-length"])))
        self.seen.append((headers, body))
        if "method" not in body:
            self._take(body)
        elif headers["mcp-protocol-version"] == MODERN:
            self._modern(body)
        else:
            self._legacy(body)

    def _take(self, body: dict[str, Any]) -> None:
        self.send_response(400 if self.fault == "refuses the answer" else 202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.answers[body["id"]].set()

    def _legacy(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.fault != "does not ask":
            params = QUESTION | ({"message": "Why?"} if self.fault == "asks something else" else {})
            self.answers[body["id"]] = threading.Event()
            self._event(
                {"jsonrpc": "2.0", "id": body["id"], "method": "elicitation/create", "params": params}
            )
            self.answers[body["id"]].wait(HANG)
        self._event({"jsonrpc": "2.0", "id": body["id"], "result": self._said()})
        self.wfile.write(b"0\r\n\r\n")

    def _modern(self, body: dict[str, Any]) -> None:
        first = "inputResponses" not in body["params"] or self.fault == "asks for ever"
        result = self._said()
        if first and self.fault != "does not ask":
            params = QUESTION | ({"message": "Why?"} if self.fault == "asks something else" else {})
            result = {
                "resultType": "input_required",
                "inputRequests": {"it": {"method": "elicitation/create", "params": params}},
                "requestState": f"state of {body['id']}",
            }
        reply = json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def _said(self) -> dict[str, Any]:
        text = "no" if self.fault == "does not hear" else "yes"
        return {"content": [{"type": "text", "text": text}], "resultType": "complete"}

    def _event(self, message: dict[str, Any]) -> None:
        # In two chunks, because one event can have several chunks.
        event = b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"
        for part in (event[:30], event[30:]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))


class Standing:
    """What a driver wants to know of a child process."""

    peer = DOVETAIL

    def __init__(self, port: int) -> None:
        self.port = port

    def cpu(self) -> float:
        return 0.0


@contextmanager
def asking(era: str, fault: str = "") -> Iterator[tuple[SocketDriver, type[Asker]]]:
    class Handler(Asker):
        pass

    Handler.fault, Handler.seen, Handler.answers = fault, [], {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        driver = SocketDriver(Standing(server.server_address[1]), era)  # type: ignore[arg-type]
        driver.session = SESSION.encode()
        yield driver, Handler
    finally:
        for event in Handler.answers.values():
            event.set()
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_legacy_input_request_is_answered_by_a_post_of_its_own_in_the_session() -> None:
    with asking(LEGACY) as (driver, server):
        sample = driver.sequential(ASK, 5.0, most=3)
    assert sample.calls == 3
    answers = [(headers, body) for headers, body in server.seen if "method" not in body]
    assert [body["id"] for _, body in answers] == [FIRST_ID, FIRST_ID + 1, FIRST_ID + 2]
    for headers, body in answers:
        assert body["result"] == ACCEPTED
        assert headers["mcp-session-id"] == SESSION
        assert headers["mcp-protocol-version"] == LEGACY


def test_a_modern_input_request_is_answered_by_the_call_made_again_with_its_state_and_a_new_id() -> None:
    with asking(MODERN) as (driver, server):
        sample = driver.throughput(ASK, 4, 0.0)
    assert sample.calls == 4
    first = {body["id"]: body for _, body in server.seen if "inputResponses" not in body["params"]}
    again = [(headers, body) for headers, body in server.seen if "inputResponses" in body["params"]]
    assert sorted(first) == [FIRST_ID + number for number in range(4)]
    assert sorted(body["id"] for _, body in again) == [id + AGAIN for id in sorted(first)]
    for headers, body in again:
        params = dict(body["params"])
        assert params.pop("inputResponses") == {"it": ACCEPTED}
        assert params.pop("requestState") == f"state of {body['id'] - AGAIN}"
        assert params == first[body["id"] - AGAIN]["params"]
        assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "ask")


@pytest.mark.parametrize("era", [LEGACY, MODERN])
@pytest.mark.parametrize("fault", ["does not ask", "asks something else", "does not hear"])
def test_an_invalid_response_invalidates_the_measurement(era: str, fault: str) -> None:
    with asking(era, fault) as (driver, _), pytest.raises(WrongReply):
        driver.sequential(ASK, 5.0, most=2)


@pytest.mark.parametrize(("era", "fault"), [(LEGACY, "refuses the answer"), (MODERN, "asks for ever")])
def test_an_answer_that_is_not_taken_spoils_the_measurement(era: str, fault: str) -> None:
    with asking(era, fault) as (driver, _), pytest.raises(WrongReply):
        driver.sequential(ASK, 5.0, most=2)


def test_a_call_without_its_input_request_is_not_counted_on_pipes_either() -> None:
    reply = {"jsonrpc": "2.0", "id": FIRST_ID, "result": {"content": [{"type": "text", "text": "yes"}]}}
    questions = Questions(ASK, LEGACY)
    assert questions.answer(json.dumps(reply).encode()) is None
    with pytest.raises(WrongReply):
        workloads.check(ASK, [json.dumps(reply).encode()], 1, questions.count)


PARTS = (b": ping\r\n\r\nda", b'ta: {"a":1}\r\n\r', b'\nevent: message\ndata: {"b":', b"0}\n\n")
STREAMED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in PARTS)
    + b"0\r\n\r\n"
)
PLAIN = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{"a":1}'


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(STREAMED, [b'{"a":1}', b'{"b":0}']), (PLAIN, [b'{"a":1}'])],
    ids=["stream", "plain"],
)
def test_a_response_cut_anywhere_gives_the_same_messages(raw: bytes, expected: list[bytes]) -> None:
    for cut in range(1, len(raw)):
        response = Response()
        found = response.feed(raw[:cut])
        assert not response.done
        found += response.feed(raw[cut:])
        assert (response.status, response.done, found) == (200, True, expected)


@pytest.mark.parametrize("peer", [LIMIT, DOVETAIL], ids=lambda peer: peer.name)
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_the_limit_and_we_ask_once_per_call(peer: Peer, transport: str, era: str) -> None:
    with Child(peer, transport) as child:
        driver = PipeDriver(child, era) if transport == "stdio" else SocketDriver(child, era)
        driver.open()
        assert driver.sequential(ASK, 10.0, most=5).calls == 5
        assert driver.throughput(ASK, 8, 0.0).calls >= 8


# --- numbers of tools -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "count"),
    [
        pytest.param(
            peer,
            count,
            marks=pytest.mark.peer if peer.environment else (),
            id=f"{count}-{peer.name}",
        )
        for count in (1, 50)
        for peer in peers.ALL
    ],
)
def test_a_server_has_exactly_the_tools_it_is_measured_with(peer: Peer, count: int) -> None:
    need(peer.environment)
    with Child(peer, "stdio", BENCH_TOOLS=str(count)) as child:
        driver = PipeDriver(child, LEGACY)
        driver.open()
        tools.counted(driver, count)
        with pytest.raises(WrongReply):
            tools.counted(driver, count + 1)
        assert driver.sequential(ECHO, 10.0, most=2).calls == 2


@pytest.mark.parametrize(
    "peer",
    [DOVETAIL, pytest.param(SDK, marks=pytest.mark.peer)],
    ids=lambda peer: peer.name,
)
def test_a_large_server_has_as_many_tools_as_its_figure_says(peer: Peer) -> None:
    need(peer.environment)
    with Child(peer, "stdio", BENCH_MIXED=str(start.MIXED)) as child:
        driver = PipeDriver(child, LEGACY)
        driver.open()
        tools.counted(driver, start.TOOLS)


# --- lines over TCP ---------------------------------------------------------------------------------------------------


def read_lines(connection: socket.socket, number: int) -> list[dict[str, Any]]:
    data = b""
    while data.count(b"\n") < number:
        chunk = connection.recv(1 << 16)
        assert chunk, data
        data += chunk
    return [json.loads(line) for line in data.splitlines()]


def test_the_limit_answers_lines_over_tcp_however_they_are_cut() -> None:
    echo = workloads.template(ECHO, MODERN)
    lines = b"".join(echo % number + b"\n" for number in (FIRST_ID, FIRST_ID + 1, FIRST_ID + 2))
    with Child(LIMIT, "tcp") as child:
        child.wait_for_port()
        with socket.create_connection(("127.0.0.1", child.port), 5) as connection:
            connection.sendall(lines[:300])
            connection.sendall(lines[300:])
            found = {message["id"]: message["result"] for message in read_lines(connection, 3)}
    assert sorted(found) == [FIRST_ID, FIRST_ID + 1, FIRST_ID + 2]
    for result in found.values():
        assert result["content"] == [{"text": "hello", "type": "text"}]
        assert result["resultType"] == "complete"


@pytest.mark.parametrize("peer", peers.TCP, ids=lambda peer: peer.name)
def test_bursts_over_tcp_are_answered_and_checked(peer: Peer) -> None:
    with Child(peer, "tcp") as child:
        driver = SocketDriver(child, MODERN, "tcp")
        driver.open()
        assert driver.burst(workloads.KIB, 5, 2).calls == 10
        wrong = workloads.KIB._replace(check=workloads.text_is("something else"))
        with pytest.raises(WrongReply):
            driver.burst(wrong, 5, 1)
