"""FastMCP's client against our server: ``FILE stdio|http ERA TARGET…``; prints one JSON object."""

import asyncio
import json
import sys
import warnings

import mcp_types as types
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

warnings.simplefilter("ignore")
transport, era, *target = sys.argv[1:]
NOTE = "interop://note"
updated = asyncio.Event()


async def elicit(message, kind, params, context):
    return {"ok": True}


async def sample(messages, params, context):
    return "a thought"


async def heard(message):
    if isinstance(message, types.ResourceUpdatedNotification):
        updated.set()


async def listing(client):
    names = {tool.name for tool in await client.list_tools()}
    assert {"add", "ask", "think", "touch"} <= names, names
    assert await client.list_resources(), "no resources"
    assert [one.name for one in await client.list_prompts()] == ["greet"]


async def call(client):
    assert (await client.call_tool("add", {"a": 2, "b": 3})).content[0].text == "5"


async def read(client):
    assert (await client.read_resource(NOTE))[0].text == "a note"


async def prompt(client):
    found = await client.get_prompt("greet", {"name": "Ada"})
    assert found.messages[0].content.text == "Say hello to Ada."


async def complete(client):
    found = await client.complete(types.PromptReference(name="greet"), {"name": "name", "value": "A"})
    assert found.values == ["Ada", "Alan"], found


async def subscribe(client):
    # FastMCP's client has no method for this; its session is the official SDK's.
    if era == "modern":
        from mcp.client.subscriptions import listen

        async with listen(client.session, resource_subscriptions=[NOTE]) as events:
            await client.call_tool("touch", {})
            async for event in events:
                assert NOTE in str(event), event
                return
    await client.session.subscribe_resource(NOTE)
    await client.call_tool("touch", {})
    await updated.wait()


async def sampling(client):
    assert (await client.call_tool("think", {})).content[0].text == "a thought"


async def elicitation(client):
    assert (await client.call_tool("ask", {})).content[0].text == "yes"


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
    server = target[0] if transport == "http" else StdioTransport(target[0], target[1:], keep_alive=False)
    client = Client(
        server,
        mode="legacy" if era == "legacy" else "auto",
        elicitation_handler=elicit,
        sampling_handler=sample,
        message_handler=heard,
    )
    outcome = {}
    async with client:
        outcome["revision"] = client.session.protocol_version
        for name, check in CHECKS.items():
            try:
                async with asyncio.timeout(10):
                    await check(client)
                outcome[name] = "ok"
            except Exception as error:
                outcome[name] = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps(outcome), flush=True)


asyncio.run(main())
