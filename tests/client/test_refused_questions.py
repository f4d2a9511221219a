"""Questions of a legacy server that a client cannot answer: each is refused with the code that says why."""

import asyncio
from typing import Any

import pytest

from dovetail import Client, RequestTimeout, Sample
from dovetail.client.samplers import OpenAI

from ..support.aio import run
from .scripted import Peer, legacy
from .test_samplers import Provider

HELLO = {"role": "user", "content": {"type": "text", "text": "hello"}}


def content(block: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": block}]}


def preferences(**members: Any) -> dict[str, Any]:
    return {"messages": [HELLO], "modelPreferences": members}


async def slow(_: Any) -> str:
    raise TimeoutError


async def late(_: Any) -> str:
    raise RequestTimeout("nothing came")


CASES: dict[str, tuple[Any, dict[str, Any], str, int, int]] = {
    "cost": ("x", preferences(costPriority=1.01), "invalid_model_preferences", -32602, -32048),
    "speed": ("x", preferences(speedPriority=-1), "invalid_model_preferences", -32602, -32048),
    "intelligence": ("x", preferences(intelligencePriority=5), "invalid_model_preferences", -32602, -32048),
    "no number": ("x", preferences(costPriority=[]), "invalid_model_preferences", -32602, -32048),
    "content type": ("x", content({"type": "video", "data": "YQ=="}), "invalid_content_type", -32602, -32013),
    "media type": (
        "x",
        content({"type": "image", "data": "YQ==", "mimeType": "png"}),
        "invalid_mime_type",
        -32602,
        -32018,
    ),
    "sound": (
        "x",
        content([HELLO["content"], {"type": "audio", "data": "YQ==", "mimeType": ""}]),
        "invalid_mime_type",
        -32602,
        -32018,
    ),
    "timeout": (slow, {"messages": [HELLO]}, "sampling_timeout", -32603, -32047),
    "late": (late, {"messages": [HELLO]}, "sampling_timeout", -32603, -32047),
    "rejected": (lambda _: None, {"messages": [HELLO]}, "user_rejected", -1, -1),
    "model": (
        OpenAI("gpt", http=Provider({"error": "x"}, 404)),
        {"messages": [HELLO]},
        "model_not_available",
        -32603,
        -32049,
    ),
    "rate": (
        OpenAI("gpt", http=Provider({"error": "x"}, 429)),
        {"messages": [HELLO]},
        "sampling_rate_limited",
        1003,
        -32050,
    ),
}


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("name", CASES)
@run
async def test_an_input_request_that_cannot_be_answered_is_refused_with_its_code(
    name: str, revision: str
) -> None:
    sampler, params, kind, official, erlmcp = CASES[name]
    answered = sampler if callable(sampler) else lambda _: sampler
    for dialect, number in (("official", official), ("erlmcp", erlmcp)):
        heard: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        def answer(
            peer: Peer, message: dict[str, Any], heard: asyncio.Future[dict[str, Any]] = heard
        ) -> None:
            if message.get("method") == "ping":
                ask = {"method": "sampling/createMessage", "params": {"maxTokens": 1, **params}}
                peer.say({"jsonrpc": "2.0", "id": "q", **ask})
                peer.result(message, {})
            elif message.get("id") == "q":
                heard.set_result(message)

        target = legacy(answer, revision)
        async with Client(target, revision=revision, dialect=dialect, on_sample=answered) as client:
            await client.ping()
            error = (await heard)["error"]
            assert (error["code"], error["data"]["kind"]) == (number, kind)


@run
async def test_numeric_priorities_and_enumerated_values_are_answered() -> None:
    told: list[Any] = []
    heard = asyncio.Event()

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "ping":
            for number, given in enumerate(
                (preferences(costPriority=0, speedPriority=1), preferences(costPriority="balanced"))
            ):
                ask = {"method": "sampling/createMessage", "params": {"maxTokens": 1, **given}}
                peer.say({"jsonrpc": "2.0", "id": f"q{number}", **ask})
            peer.result(message, {})
        elif "result" in message:
            told.append(message["id"])
            if len(told) == 2:
                heard.set()

    async with Client(legacy(answer, "2025-11-25"), revision="2025-11-25", on_sample=lambda _: "x") as client:
        await client.ping()
        await heard.wait()


def test_a_handler_cannot_ask_for_more_than_everything() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Sample("hello", model_preferences={"costPriority": 2})
