"""The samplers: what each provider is sent, what comes back, and which one is chosen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from dovetail.client.samplers import Anthropic, LMStudio, Mock, Ollama, OpenAI, Profile, Samplers, choose
from dovetail.errors import ProtocolError
from dovetail.model import CreateMessageRequestParams

from ..support.aio import run


def request(**more: Any) -> CreateMessageRequestParams:
    base = {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "What is this?"}},
            {"role": "user", "content": {"type": "image", "data": "aW1n", "mimeType": "image/png"}},
        ],
        "maxTokens": 50,
        "systemPrompt": "Be brief.",
        "temperature": 0.2,
        "stopSequences": ["END"],
    }
    return msgspec.convert({**base, **more}, CreateMessageRequestParams)


class Provider:
    """A provider that returns scripted answers, and records its requests."""

    def __init__(self, answer: Any, status: int = 200) -> None:
        self.answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.status = status
        self.headers: Mapping[str, str] = {}
        self.asked: list[tuple[str, str, Mapping[str, str], Any]] = []

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        yield self.send

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> Any:
        self.asked.append((method, url, headers, json.loads(body or b"")))
        return self

    async def read(self, limit: int) -> bytes:
        return self.answer

    def close(self) -> None: ...


OPENAI = {"model": "gpt-4o-x", "choices": [{"message": {"content": "A cat."}, "finish_reason": "length"}]}
CLAUDE = {
    "model": "claude-x",
    "content": [{"type": "text", "text": "A cat."}],
    "stop_reason": "stop_sequence",
}
OLLAMA = {"model": "llama", "message": {"content": "A cat."}, "done_reason": "stop"}


@run
async def test_openai_is_asked_by_chat_completions() -> None:
    provider = Provider(OPENAI)
    found = await OpenAI("gpt-4o", api_key="k", http=provider)(request())
    method, url, headers, body = provider.asked[0]
    assert (method, url) == ("POST", "https://api.openai.com/v1/chat/completions")
    assert headers["Authorization"] == "Bearer k"
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["messages"][1] == {"role": "user", "content": "What is this?"}
    assert body["messages"][2]["content"][0]["image_url"]["url"] == "data:image/png;base64,aW1n"
    assert (body["model"], body["max_tokens"], body["temperature"], body["stop"]) == (
        "gpt-4o",
        50,
        0.2,
        ["END"],
    )
    assert (found.content.text, found.model, found.stop_reason) == ("A cat.", "gpt-4o-x", "maxTokens")


@run
async def test_lm_studio_is_openai_on_this_machine_without_a_key() -> None:
    provider = Provider(OPENAI)
    await LMStudio("local", http=provider)(request())
    _, url, headers, _ = provider.asked[0]
    assert url == "http://127.0.0.1:1234/v1/chat/completions"
    assert "Authorization" not in headers


@run
async def test_anthropic_is_asked_by_messages() -> None:
    provider = Provider(CLAUDE)
    found = await Anthropic("claude-3-5-sonnet", api_key="k", http=provider)(request())
    _, url, headers, body = provider.asked[0]
    assert url == "https://api.anthropic.com/v1/messages"
    assert headers["x-api-key"] == "k"
    assert body["system"] == "Be brief."
    assert body["messages"][1]["content"][0]["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": "aW1n",
    }
    assert (found.content.text, found.stop_reason) == ("A cat.", "stopSequence")


@run
async def test_ollama_is_asked_by_its_own_chat() -> None:
    provider = Provider(OLLAMA)
    found = await Ollama("llama3.2", http=provider)(request())
    _, url, _, body = provider.asked[0]
    assert url == "http://127.0.0.1:11434/api/chat"
    assert body["stream"] is False
    assert body["options"] == {"num_predict": 50, "temperature": 0.2, "stop": ["END"]}
    assert body["messages"][2]["images"] == ["aW1n"]
    assert (found.content.text, found.stop_reason) == ("A cat.", "endTurn")


TOOLS = {
    "tools": [{"name": "look", "description": "Look", "inputSchema": {"type": "object"}}],
    "toolChoice": {"mode": "required"},
    "messages": [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "1", "name": "look", "input": {"a": 1}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "toolUseId": "1", "content": [{"type": "text", "text": "seen"}]}
            ],
        },
    ],
}


@run
async def test_tools_travel_in_both_directions() -> None:
    call = {"id": "c1", "function": {"name": "look", "arguments": '{"b": 2}'}}
    openai = Provider(
        {"choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    )
    found = await OpenAI("gpt", http=openai)(request(**TOOLS))
    body = openai.asked[0][3]
    assert body["tools"][0]["function"]["name"] == "look"
    assert body["tool_choice"] == "required"
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"a":1}'
    assert body["messages"][2] == {"role": "tool", "tool_call_id": "1", "content": "seen"}
    assert (found.content.name, found.content.input, found.stop_reason) == ("look", {"b": 2}, "toolUse")

    claude = Provider(
        {"content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}], "stop_reason": "tool_use"}
    )
    found = await Anthropic("claude", api_key="k", http=claude)(request(**TOOLS))
    body = claude.asked[0][3]
    assert body["tool_choice"] == {"type": "any"}
    assert body["messages"][1]["content"][0]["tool_use_id"] == "1"
    assert found.content.id == "t"


@pytest.mark.parametrize(
    ("answer", "status", "kind"),
    [
        ({}, 200, "sampling_failed"),
        ({"choices": []}, 200, "sampling_failed"),
        ([], 200, "sampling_failed"),
        (b"<html>", 200, "sampling_failed"),
        ({"error": "x"}, 500, "sampling_failed"),
        ({"error": "x"}, 401, "sampling_failed"),
        ({"error": "x"}, 429, "sampling_rate_limited"),
        ({"error": "x"}, 404, "model_not_available"),
        ({"error": "x"}, 408, "sampling_timeout"),
        ({"error": "x"}, 504, "sampling_timeout"),
    ],
)
@run
async def test_a_failing_provider_is_a_sampling_error_without_its_text(
    answer: Any, status: int, kind: str
) -> None:
    with pytest.raises(ProtocolError) as caught:
        await OpenAI("gpt", api_key="secret", http=Provider(answer, status))(request())
    assert caught.value.kind == kind
    assert "secret" not in caught.value.message


@run
async def test_a_provider_that_is_silent_and_one_that_is_unreachable_are_distinguished() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(ProtocolError) as caught:
            await OpenAI("gpt", base_url=f"http://127.0.0.1:{port}/v1", timeout=0.05)(request())
    assert caught.value.kind == "sampling_timeout"
    with pytest.raises(ProtocolError) as caught:
        await OpenAI("gpt", base_url=f"http://127.0.0.1:{port}/v1", timeout=5)(request())
    assert caught.value.kind == "sampling_failed"


@run
async def test_the_mock_repeats_or_recites() -> None:
    echo = Mock()
    assert (await echo(request())).content.text == "What is this?"
    recite = Mock("one", "two")
    assert [(await recite(request())).content.text for _ in range(3)] == ["one", "two", "one"]


CHEAP = Mock(model="tiny", profile=Profile(cheap=1, fast=0.9, clever=0.1))
CLEVER = Mock(model="claude-3-5-sonnet", profile=Profile(cheap=0.1, fast=0.3, clever=1))


def preferring(**preferences: Any) -> CreateMessageRequestParams:
    return request(modelPreferences=preferences)


@pytest.mark.parametrize(
    ("preferences", "chosen"),
    [
        ({"hints": [{"name": "sonnet"}]}, CLEVER),
        ({"hints": [{"name": "gpt-9"}, {"name": "TINY"}], "intelligencePriority": 1}, CHEAP),
        ({"intelligencePriority": 0.9, "costPriority": 0.1}, CLEVER),
        ({"intelligencePriority": 0.1, "costPriority": 0.9}, CHEAP),
        ({"speedPriority": 1}, CHEAP),
        ({}, CHEAP),
    ],
)
def test_hints_decide_first_and_then_the_priorities(preferences: Any, chosen: Mock) -> None:
    assert choose(preferring(**preferences), [CHEAP, CLEVER])[0] is chosen


@run
async def test_several_samplers_are_one_callback() -> None:
    found = await Samplers(CHEAP, CLEVER)(preferring(hints=[{"name": "claude"}]))
    assert found.model == "claude-3-5-sonnet"
