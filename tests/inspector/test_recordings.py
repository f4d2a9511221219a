"""What is left of secrets in a session that is saved, and in the heads that the wire shows."""

from typing import Any

import msgspec
import pytest

from dovetail.inspector.captured_headers import masked as masked_headers
from dovetail.inspector.messages import MessageLog
from dovetail.inspector.recordings import masked, masked_text, write
from dovetail.testing import Recording

SECRET = "hunter2-hunter2"


def saved(*messages: bytes, title: str = "a server") -> str:
    log = MessageLog()
    for message in messages:
        log.add(1, "server", message)
    return write(log.of(1), title, raw=False)


@pytest.mark.parametrize(
    "value",
    [
        {"password": SECRET},
        {"tokens": [SECRET, SECRET]},
        {"credentials": {"user": "ada", "value": SECRET}},
        {"access_key": SECRET, "accessKey": SECRET},
        {"content": [{"type": "text", "text": f'{{"password":"{SECRET}"}}'}]},
        {"content": [{"type": "text", "text": f'Here it is: {{"api_key": "{SECRET}"}}'}]},
        {"text": f"DB_PASSWORD={SECRET}\nHOME=/root"},
        {"uri": f"https://ada:{SECRET}@example.com/"},
        {"uri": f"https://example.com/?page=1&access_token={SECRET}&size=2"},
        {"text": f"run it with --api-key {SECRET} --fast"},
        {"text": f"Authorization: Bearer {SECRET}"},
    ],
)
def test_a_secret_is_masked_wherever_it_stands(value: Any) -> None:
    message = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": value})
    assert SECRET not in saved(message)
    assert Recording.parse(saved(message)).messages


def test_the_title_of_a_session_is_masked_too() -> None:
    title = f"npx server --token {SECRET} https://ada:{SECRET}@example.com/mcp?key=1&api_key={SECRET}"
    assert SECRET not in saved(title=title)
    assert "npx server --token" in saved(title=title)


def test_what_a_replay_needs_stays() -> None:
    schema = {
        "type": "object",
        "properties": {"token": {"type": "string", "description": "the token: ask for it"}},
    }
    for value in (
        {"tools": [{"name": "login", "description": "Takes a token and a password", "inputSchema": schema}]},
        {"_meta": {"progressToken": 7}, "nextCursor": "page-2", "requestState": "sealed"},
        {
            "content": [{"type": "text", "text": "[1, 2]  {nothing}"}],
            "structuredContent": {"authors": ["Ende"]},
        },
    ):
        assert masked(value) == value
    assert masked({"tokensUsed": 120, "isPrivate": True}) == {"tokensUsed": 0, "isPrivate": True}


def test_an_unreadable_message_does_not_prevent_saving_a_session() -> None:
    good = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    deep = b'{"jsonrpc":"2.0","method":"x","params":' + b"[" * 900 + b"]" * 900 + b"}"
    assert len(Recording.parse(saved(b"[garbage", b'["\xff"]', deep, good)).messages) == 1


def test_text_that_nearly_matches_is_searched_once() -> None:
    for text in ("token" * 200_000, "a-" * 500_000, "://" + "x" * 1_000_000, 'token="' * 100_000):
        masked_text(text)  # it would not come back


def test_credentials_in_headers_are_masked() -> None:
    sent = {
        "Authorization": f"Basic {SECRET}", "X-Auth-Token": SECRET, "X-Api-Key": SECRET, "Cookie": SECRET,
        "DPoP": SECRET, "Referer": f"https://example.com/?token={SECRET}",
    }  # fmt: skip
    assert SECRET not in str(masked_headers(sent))
    plain = {"Mcp-Session-Id": "abc", "Content-Type": "application/json", "Mcp-Method": "tools/call"}
    assert masked_headers(plain) == plain
