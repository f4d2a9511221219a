"""Run by another environment's Python: ``FILE sdk|fastmcp ERA COMMAND…`` visits quickstart.py with that client."""

import asyncio
import json
import sys
import warnings

library, era, *command = sys.argv[1:]
mode = "legacy" if era == "legacy" else "auto"
warnings.simplefilter("ignore")


async def with_sdk():
    import mcp_types as types
    from mcp import Client, StdioServerParameters

    async def elicit(context, params):
        field = next(iter(params.requested_schema["properties"]))
        return types.ElicitResult(action="accept", content={field: "window"})

    server = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(server, mode=mode, elicitation_callback=elicit) as client:
        return {
            "revision": client.protocol_version,
            "tools": sorted(tool.name for tool in (await client.list_tools()).tools),
            "price": (await client.call_tool("price", {"city": "Oslo"})).content[0].text,
            "refused": (await client.call_tool("price", {"city": "Rome"})).is_error,
            "book": (await client.call_tool("book", {"city": "Oslo"})).content[0].text,
            "prices": json.loads((await client.read_resource("flights://prices")).contents[0].text),
            "weekend": (await client.get_prompt("weekend", {"city": "Oslo"})).messages[0].content.text,
        }


async def with_fastmcp():
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async def elicit(message, kind, params, context):
        field = next(iter(params.requested_schema["properties"]))
        return {field: "window"}

    server = StdioTransport(command[0], command[1:], keep_alive=False)
    async with Client(server, mode=mode, elicitation_handler=elicit) as client:
        refused = await client.call_tool("price", {"city": "Rome"}, raise_on_error=False)
        return {
            "revision": client.session.protocol_version,
            "tools": sorted(tool.name for tool in await client.list_tools()),
            "price": (await client.call_tool("price", {"city": "Oslo"})).content[0].text,
            "refused": refused.is_error,
            "book": (await client.call_tool("book", {"city": "Oslo"})).content[0].text,
            "prices": json.loads((await client.read_resource("flights://prices"))[0].text),
            "weekend": (await client.get_prompt("weekend", {"city": "Oslo"})).messages[0].content.text,
        }


print(json.dumps(asyncio.run(with_sdk() if library == "sdk" else with_fastmcp())))
