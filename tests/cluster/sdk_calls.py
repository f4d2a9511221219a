"""The official SDK's client: ``python FILE URL ERA FIRST COUNT`` in .peers/sdk. It says how each call ended."""

import asyncio
import sys

from mcp import Client

url, era, first, count = sys.argv[1:]
mode = "legacy" if era == "legacy" else "2026-07-28"


async def call(number):
    """One call on a new connection: the effect of a lost one on the next call is not tested here."""
    try:
        async with asyncio.timeout(60), Client(url, mode=mode) as client:
            result = await client.call_tool("effect", {"number": number})
            return "done" if not result.is_error and result.content[0].text == str(number) else "error"
    except Exception:
        return "lost"


async def main():
    for number in range(int(first), int(first) + int(count)):
        print(number, await call(number), flush=True)


asyncio.run(main())
