"""The official SDK's client as a customer of `fleet`: ``python FILE URL ERA NAME CALLS`` in .peers/sdk.

It has no words for tasks. For each call it says its number and how it ended: done, or why not.
"""

import asyncio
import sys
import warnings
from contextlib import asynccontextmanager

import httpx2
import mcp_types as types
from mcp import Client, MCPError

warnings.simplefilter("ignore")
url, era, name, calls = sys.argv[1:]
URI = f"fleet://stock/{name}"
heard = asyncio.Event()


async def sample(context, params):
    text = f"grey, says {name} to {params.messages[0].content.text}"
    content = types.TextContent(type="text", text=text)
    return types.CreateMessageResult(role="assistant", content=content, model="none", stop_reason="endTurn")


async def take(message):
    if isinstance(message, types.ResourceUpdatedNotification):
        heard.set()


async def listen(client, listening):
    """Hear of the resource on 2026-07-28; where the stream ends, whatever happened meanwhile may have been missed."""
    while True:
        try:
            async with client.listen(resource_subscriptions=[URI]) as events:
                listening.set()
                async for _ in events:
                    heard.set()
        except Exception:
            pass  # cut off; the next attempt waits for the server itself
        heard.set()


@asynccontextmanager
async def connected():
    mode = "legacy" if era == "legacy" else "2026-07-28"
    async with Client(url, mode=mode, sampling_callback=sample, message_handler=take) as client:
        if era == "legacy":
            await client.subscribe_resource(URI)
            yield client
            return
        listening = asyncio.Event()
        task = asyncio.create_task(listen(client, listening))
        await listening.wait()
        try:
            yield client
        finally:
            task.cancel()
            await asyncio.wait([task])


async def one(client, number):
    kind = number % 4
    if kind == 0:
        result = await client.call_tool("ask", {"number": number})
        assert result.content[0].text == f"grey, says {name} to Which colour is {number}?", result
    elif kind == 2:
        heard.clear()
        await client.call_tool("sell", {"name": name})
        await heard.wait()
    else:
        assert not (await client.call_tool("pid", {})).is_error


async def visit(number):
    """Call until all is done or something fails; the number of the next call."""
    try:
        async with connected() as client:
            while number < int(calls):
                word = "done"
                try:
                    async with asyncio.timeout(60):
                        await one(client, number)
                except MCPError as error:
                    word = f"{error.code} {error}"
                except Exception as error:
                    word = f"{type(error).__name__}: {error}"
                print(number, " ".join(word.split()), flush=True)
                number += 1
                if word != "done":
                    break  # with a new connection
    except* OSError:
        raise
    except* httpx2.TransportError:
        pass  # a request that was cut off takes this client down as a whole
    return number


async def main():
    number = 0
    for _ in range(3 * int(calls)):  # connections
        number = await visit(number)
        if number >= int(calls):
            break


asyncio.run(main())
