"""Whatever a peer sends, `Server.handle` answers it, answers validly, and serves the next one."""

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail import Context, Server
from tests.support.schemas import REVISIONS, validate

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}},
}


def build() -> Server:
    server = Server("x", "1")

    @server.tool
    async def echo(text: str, count: int = 1, tags: list[str] | None = None) -> dict[str, Any]:
        """Echo."""
        return {"text": text * min(count, 3), "tags": tags}

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask."""
        return str((await ctx.elicit("?", str)).data)

    @server.resource("x://{name}")
    async def read(name: str) -> str:
        return name

    @server.prompt
    async def prompt(topic: str) -> str:
        return topic

    @server.completion(ref="prompt", argument="topic")
    async def complete(value: str) -> list[str]:
        return [value]

    return server


SERVER = build()

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["echo", "ask", "prompt", "nope", "", "x://a", "x://"]) | st.text(max_size=5)
params = st.fixed_dictionaries(
    {},
    optional={
        "name": names | json_values,
        "uri": names | json_values,
        "arguments": json_values
        | st.dictionaries(st.sampled_from(["text", "count", "tags", "topic"]), json_values),
        "cursor": st.text(max_size=10) | json_values,
        "limit": json_values,
        "level": st.sampled_from(["info", "loud"]) | json_values,
        "requestState": st.text(max_size=30) | json_values,
        "inputResponses": st.dictionaries(st.sampled_from(["input_1", "x"]), json_values) | json_values,
        "ref": json_values | st.fixed_dictionaries({"type": st.just("ref/prompt"), "name": names}),
        "argument": json_values | st.fixed_dictionaries({"name": names, "value": st.text(max_size=5)}),
        "task": json_values,
    },
)
METHODS = [
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "shutdown",
    "tasks/get",
    "nope",
]


def handle(message: bytes, scope: dict[str, Any] | None = None) -> bytes | None:
    return asyncio.run(SERVER.handle(message, scope))


def still_serves() -> None:
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
    reply = handle(
        json.dumps(
            {**message, "params": {"name": "echo", "arguments": {"text": "a"}, "_meta": META}}
        ).encode()
    )
    assert reply is not None
    assert json.loads(reply)["result"]["structuredContent"] == {"text": "a", "tags": None}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(METHODS), params, st.sampled_from(REVISIONS), st.integers() | st.text(max_size=5))
def test_any_params_of_any_method_get_a_valid_answer(
    method: str, given_params: dict[str, Any], revision: str, id: int | str
) -> None:
    scope = None if revision == MODERN else {"revision": revision}
    sent = {**given_params, "_meta": META} if scope is None else given_params
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": sent}
    reply = handle(json.dumps(message).encode(), scope)
    assert reply is not None
    validate(reply, revision, method=method)
    still_serves()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_answered_and_the_next_message_is_served(data: bytes) -> None:
    for scope in (None, {"revision": "2025-03-26"}):
        reply = handle(data, scope)
        assert reply is not None
        json.loads(reply)
    still_serves()
