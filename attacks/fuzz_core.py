"""Spoilt messages straight into the core: no process and no socket between, so some thousands in a second.

Most are recorded conversations with something wrong in them, some are made by hypothesis from the members that
requests have: one of those takes as long as ten of the others. Nothing may raise, and nothing a peer says is an
internal error.
"""

from __future__ import annotations

import asyncio
import json
import os
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from dovetail import Server
from dovetail.wire.methods import METHODS
from dovetail.wire.revisions import BY_NAME, REVISIONS

from .mutations import conversations, spoil
from .report import GotThrough
from .weight import Weight, in_time, mine

EXAMPLES = 25
"""Messages of hypothesis in a row, …"""
RECORDED = 500
"""… and recorded ones after them."""
INTERNAL = -32603

_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_NAMES = st.sampled_from(
    (
        "name", "uri", "arguments", "cursor", "_meta", "ref", "argument", "level", "taskId", "requestId",
        "protocolVersion", "capabilities", "clientInfo", "inputResponses", "requestState", "notifications",
        "progressToken", "progress",
    )
)  # fmt: skip
_KNOWN = st.sampled_from(("echo", "thing://x", "io.modelcontextprotocol/protocolVersion", *BY_NAME))
_MEMBERS = st.dictionaries(
    _NAMES | st.text(max_size=8), _KNOWN | _VALUES | st.dictionaries(_KNOWN, _KNOWN | _VALUES, max_size=3)
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.integers() | st.text(max_size=5) | _VALUES,
        "method": st.sampled_from(sorted(METHODS)) | st.text(max_size=10),
        "params": _MEMBERS | _VALUES,
        "result": _MEMBERS | _VALUES,
        "error": _MEMBERS | _VALUES,
    },
)


async def fuzz_core(seconds: float, random: Random) -> str:
    server = _victim()
    said = [line for every in conversations("C").values() for one in every for line in one]
    weight, count = Weight(mine, seconds), 0
    while not weight.over():
        messages = [*_made(random), *(spoil(random.choice(said), random) for _ in range(RECORDED))]
        await in_time(_say_all(server, messages, random), os.getpid())
        count += len(messages)
    return f"{count} messages, {weight}"


async def _say_all(server: Server, messages: list[bytes], random: Random) -> None:
    for message in messages:
        revision = random.choice(REVISIONS).name
        try:
            await _say(server, message, revision)
        except asyncio.CancelledError:
            raise GotThrough(f"{message[:500]!r} on {revision} is never answered") from None


def _victim() -> Server:
    server = Server("victim")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.resource("thing://{name}")
    def thing(name: str) -> str:
        return name

    @server.prompt
    def greet(name: str) -> str:
        return f"Greet {name}"

    return server


def _made(random: Random) -> list[bytes]:
    """Messages of hypothesis; they follow from our own seed."""
    made: list[bytes] = []

    @seed(random.getrandbits(64))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(MESSAGES)
    def collect(message: Any) -> None:
        made.append(json.dumps(message).encode(errors="replace"))

    collect()
    return made


async def _say(server: Server, message: bytes, revision: str) -> None:
    try:
        reply = await server.handle(message, {"revision": revision})
    except Exception as error:
        raise GotThrough(f"{message[:500]!r} on {revision} raised {error!r}") from error
    if reply is None:
        return
    answers: Any = json.loads(reply)
    for answer in answers if isinstance(answers, list) else [answers]:
        if answer.get("error", {}).get("code") == INTERNAL:
            raise GotThrough(f"{message[:500]!r} on {revision} was answered {reply[:300]!r}")
