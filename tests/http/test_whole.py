"""An answer written in one go is the answer that the host would have written."""

import json
from typing import Any

import pytest

from dovetail.transports.http.host import whole
from tests.support.aio import run
from tests.support.everything import build
from tests.support.web import Web, modern, modern_headers, served, text

NEWEST = "2025-11-25"


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "WHOLE", {})
    for module in ("server.modern", "server.session_calls"):
        monkeypatch.setattr(f"dovetail.transports.http.{module}.WHOLE", {})


async def heads() -> list[tuple[int, dict[str, str], Any]]:
    found: list[tuple[int, dict[str, str], Any]] = []
    async with served(build()) as site, await site.connect() as connection:
        web = Web(site)
        session, _ = await web.initialize(NEWEST)
        for words in ("one", "x" * 100_000, "three"):
            message = modern("tools/call", {"name": "shout", "arguments": {"words": words}}, id=1)
            connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
            answer = await connection.response()
            answer.headers.pop("date")
            found.append((answer.status, answer.headers, answer.message))
        answer = await web.legacy(NEWEST, session, "tools/call", message["params"], id=2)
        answer.headers.pop("date")
        found.append((answer.status, answer.headers, answer.message))
        closing = modern_headers(message) | {"Connection": "close"}
        connection.request("POST", "/mcp", closing, json.dumps(message).encode())
        answer = await connection.response()
        found.append((answer.status, {"connection": answer.headers["connection"]}, answer.message))
        assert await connection.at_end()
    return found


@run
async def test_the_uvicorn_that_is_installed_is_the_one_we_know() -> None:
    whole.register()
    assert whole.WHOLE


def test_both_ways_say_the_same(request: pytest.FixtureRequest) -> None:
    answers: list[Any] = []

    @run
    async def scenario() -> None:
        answers.append(await heads())

    scenario()
    request.getfixturevalue("ordinary")
    scenario()
    assert answers[0] == answers[1]


@run
async def test_requests_sent_without_waiting_are_answered_in_order_and_continue_is_honoured() -> None:
    async with served(build()) as site, await site.connect() as connection:
        for id in range(20):
            message = modern("tools/call", {"name": "add", "arguments": {"a": id, "b": 0}}, id=id)
            connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
        for id in range(20):
            found = await connection.response()
            assert (found.message["id"], json.loads(text(found.message["result"]))["total"]) == (id, id)
        message = modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        body = json.dumps(message).encode()
        headers = modern_headers(message) | {"Expect": "100-continue", "Content-Length": str(len(body))}
        connection.request("POST", "/mcp", headers)
        assert (await connection.head()).status == 100
        connection.send(body)
        assert (await connection.response()).status == 200
