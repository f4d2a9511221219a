"""Our client against anybody's server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from dovetail import Client, Timeouts

from .features import OK

STEP = 15.0
"""Seconds one feature may take."""
Check = Callable[["Visit"], Awaitable[None]]


class Visit:
    """One connection of our client, and what it heard."""

    def __init__(self, target: Any, era: str, env: Mapping[str, str] | None = None) -> None:
        self.updated = asyncio.Event()
        self.asked: list[Any] = []
        self.client = Client(
            target,
            revision=era,
            on_elicit=self._elicit,
            on_sample=self._sample,
            on_roots=[{"uri": "file:///tmp", "name": "tmp"}],
            on_resource_updated=lambda uri: self.updated.set(),
            env=env,
            on_stderr=lambda _: None,
            # Some peers take seconds to start on a busy machine; that says nothing about their era.
            discovery_timeout=30,
            timeouts=Timeouts(connect=60),
        )

    async def _elicit(self, request: Any) -> dict[str, Any]:
        self.asked.append(request)
        schema = request.requested_schema or {}
        properties, required = schema.get("properties", {}), schema.get("required", [])
        made_up: dict[str, Any] = {"string": "Ada", "integer": 1, "number": 1.0, "boolean": True}
        content = {name: made_up.get(properties[name].get("type"), "Ada") for name in required}
        return {"action": "accept", "content": content}

    async def _sample(self, request: Any) -> dict[str, Any]:
        self.asked.append(request)
        return {"role": "assistant", "content": {"type": "text", "text": "a thought"}, "model": "none"}

    async def text(self, tool: str, arguments: Mapping[str, Any] | None = None) -> str:
        return (await self.client.call_tool(tool, arguments or {})).text


class Wanted(Exception):
    """The server answered, but something else."""


def want(condition: object, found: object) -> None:
    if not condition:
        raise Wanted(f"unexpected: {str(found)[:200]}")


class Stage(NamedTuple):
    """The names of a server for the tested features."""

    tools: frozenset[str]
    call: tuple[str, dict[str, Any], str]
    uri: str
    content: str
    prompt: tuple[str, dict[str, str], str]
    complete: tuple[str, str, str, str]
    touch: str
    think: tuple[str, dict[str, Any]]
    ask: str
    ask_says: str


INTEROP = Stage(
    tools=frozenset({"add", "ask", "think"}),
    call=("add", {"a": 2, "b": 3}, "5"),
    uri="interop://note",
    content="a note",
    prompt=("greet", {"name": "Ada"}, "Say hello to Ada."),
    complete=("greet", "name", "A", "Alan"),
    touch="touch",
    think=("think", {}),
    ask="ask",
    ask_says="yes",
)
EVERYTHING = Stage(
    tools=frozenset({"echo", "get-sum", "trigger-sampling-request", "trigger-elicitation-request"}),
    call=("get-sum", {"a": 2, "b": 3}, "The sum of 2 and 3 is 5."),
    uri="demo://resource/static/document/architecture.md",
    content="Everything Server",
    prompt=("args-prompt", {"city": "Oslo", "state": "Oslo"}, "What's weather in Oslo, Oslo?"),
    complete=("completable-prompt", "department", "E", "Engineering"),
    touch="toggle-subscriber-updates",
    think=("trigger-sampling-request", {"prompt": "Think.", "maxTokens": 50}),
    ask="trigger-elicitation-request",
    ask_says="User provided the requested information",
)


def checks(stage: Stage) -> dict[str, Check]:
    """The features in the order in which they are tried."""

    async def listing(visit: Visit) -> None:
        client = visit.client
        names = {tool.name for tool in await client.list_tools()}
        want(stage.tools <= names, names)
        want(stage.uri in [one.uri for one in await client.list_resources()], "no such resource")
        want(stage.prompt[0] in [one.name for one in await client.list_prompts()], "no such prompt")

    async def call(visit: Visit) -> None:
        tool, arguments, says = stage.call
        text = await visit.text(tool, arguments)
        want(text == says, text)

    async def read(visit: Visit) -> None:
        contents = (await visit.client.read_resource(stage.uri)).contents
        want(stage.content in str(contents[0].text), contents)

    async def prompt(visit: Visit) -> None:
        name, arguments, says = stage.prompt
        found = await visit.client.get_prompt(name, arguments)
        want(getattr(found.messages[0].content, "text", None) == says, found)

    async def complete(visit: Visit) -> None:
        name, argument, value, expected = stage.complete
        found = await visit.client.complete(name, argument, value)
        want(expected in found.completion.values, found)

    async def subscribe(visit: Visit) -> None:
        await visit.client.subscribe_resource(stage.uri)
        await visit.client.call_tool(stage.touch, {})
        await visit.updated.wait()
        await visit.client.unsubscribe_resource(stage.uri)

    async def sample(visit: Visit) -> None:
        text = await visit.text(*stage.think)
        want("a thought" in text, text)

    async def elicit(visit: Visit) -> None:
        text = await visit.text(stage.ask)
        want(stage.ask_says in text, text)

    return {
        "list": listing,
        "call": call,
        "read": read,
        "prompt": prompt,
        "complete": complete,
        "subscribe": subscribe,
        "sample": sample,
        "elicit": elicit,
    }


async def visit(
    target: Any,
    era: str,
    stage: Stage = INTEROP,
    absent: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[str, dict[str, str]]:
    """Connect and try everything: the revision, and what came of each feature."""
    guest = Visit(target, era, env)
    outcome: dict[str, str] = {}
    async with guest.client:
        for feature, check in checks(stage).items():
            if feature in (absent or {}):
                continue
            try:
                async with asyncio.timeout(STEP):
                    await check(guest)
                outcome[feature] = OK
            except Exception as error:
                outcome[feature] = f"{type(error).__name__}: {error}"[:300]
    return str(guest.client.revision), outcome
