"""A worker that makes one keyed call after the other and says what became of each, until it is killed."""

import asyncio
import sys
import time

from dovetail import Client, DovetailError, Server
from dovetail.stores import SqliteStore


async def main(path: str, effects: str, ahead: float, first: int) -> None:
    def clock() -> float:
        return time.time() + ahead

    server = Server("till", store=SqliteStore(path, clock=clock), clock=clock)

    @server.tool
    def pay(number: int) -> int:
        with open(effects, "a") as file:
            file.write(f"{number}\n")
        return number

    async with server.running(), Client(server) as client:
        for number in range(first, sys.maxsize):
            try:
                await client.call_tool("pay", {"number": number}, idempotency_key=f"key-{number}")
                said = "done"
            except DovetailError as error:
                said = error.kind
            sys.stdout.write(f"{number} {said}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
