"""The official SDK's client against our server: ``FILE stdio|http ERA TARGET…``; prints one JSON object."""

import asyncio
import json
import sys
import warnings

import mcp_types as types
from mcp import Client, StdioServerParameters

warnings.simplefilter("ignore")
transport, era, *target = sys.argv[1:]
NOTE = "interop://note"
updated = asyncio.Event()


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"ok": True})


async def sample(context, params):
    content = types.TextContent(type="text", text="a thought")
    return types.CreateMessageResult(role="assistant", content=content, model="none", stop_reason="endTurn")


async def heard(message):
    if isinstance(message, types.ResourceUpdatedNotification):
        updated.set()


def text(result):
    assert not result.is_error, result
    return result.content[0].text


async def listing(client):
    names = {tool.name for tool in (await client.list_tools()).tools}
    assert {"add", "ask", "think", "touch"} <= names, names
    assert [r.uri for r in (await client.list_resources()).resources], "no resources"
    assert [p.name for p in (await client.list_prompts()).prompts] == ["greet"]


async def call(client):
    assert text(await client.call_tool("add", {"a": 2, "b": 3})) == "5"


async def read(client):
    assert (await client.read_resource(NOTE)).contents[0].text == "a note"


async def prompt(client):
    found = await client.get_prompt("greet", {"name": "Ada"})
    assert found.messages[0].content.text == "Say hello to Ada."


async def complete(client):
    found = await client.complete(types.PromptReference(name="greet"), {"name": "name", "value": "A"})
    assert found.completion.values == ["Ada", "Alan"], found


async def subscribe(client):
    if era == "modern":
        async with client.listen(resource_subscriptions=[NOTE]) as events:
            await client.call_tool("touch", {})
            async for event in events:
                assert NOTE in str(event), event
                return
    await client.subscribe_resource(NOTE)
    await client.call_tool("touch", {})
    await updated.wait()


async def sampling(client):
    assert text(await client.call_tool("think", {})) == "a thought"


async def elicitation(client):
    assert text(await client.call_tool("ask", {})) == "yes"


CHECKS = {
    "list": listing,
    "call": call,
    "read": read,
    "prompt": prompt,
    "complete": complete,
    "subscribe": subscribe,
    "sample": sampling,
    "elicit": elicitation,
}


async def main():
    server = target[0] if transport == "http" else StdioServerParameters(command=target[0], args=target[1:])
    outcome = {}
    client = Client(
        server,
        mode="legacy" if era == "legacy" else "auto",
        elicitation_callback=elicit,
        sampling_callback=sample,
        message_handler=heard,
    )
    async with client:
        outcome["revision"] = client.protocol_version
        for name, check in CHECKS.items():
            try:
                async with asyncio.timeout(10):
                    await check(client)
                outcome[name] = "ok"
            except Exception as error:
                outcome[name] = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps(outcome), flush=True)


asyncio.run(main())
