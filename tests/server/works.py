"""A server whose tools run as tasks, on a separate clock."""

import asyncio
from dataclasses import dataclass
from typing import Any

from dovetail import Context, Elicit, InputRequired, ProtocolError, Server, ToolError
from tests.support.peer import EVERYTHING, Peer

EXTENSION = "io.modelcontextprotocol/tasks"


DECLARED = {**EVERYTHING, "extensions": {EXTENSION: {}}}


@dataclass
class Name:
    name: str


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Works:
    """A server with a tool of every kind, and what happened to them."""

    def __init__(self, **options: Any) -> None:
        self.gate = asyncio.Event()
        self.reached = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.server = server = Server("works", **options)

        @server.tool(task="optional")
        async def wait(label: str = "x") -> str:
            """Wait until the gate opens."""
            self.reached.set()
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return f"done {label}"

        @server.tool(task="required")
        async def fail() -> str:
            """Fail."""
            raise ToolError("no luck")

        @server.tool(task="optional")
        async def crash() -> str:
            """Fail in another way."""
            raise ProtocolError("internal_error", "out of order")

        @server.tool(task="optional")
        async def confirm(ctx: Context) -> str:
            """Ask one thing."""
            answer = await ctx.elicit("Who?", Name, key="who")
            return f"Hello, {answer.data.name}!" if answer.action == "accept" else answer.action

        @server.tool(task="optional")
        async def both(ctx: Context) -> str:
            """Ask two things."""
            first, last = await ctx.ask_all(Elicit("First?", Name), Elicit("Last?", Name))
            return f"{first.data and first.data.name} {last.data and last.data.name}"

        @server.tool(task="optional")
        async def again(ctx: Context) -> str:
            """Ask the same thing twice."""
            names = [await ctx.elicit("Who?", Name, key="who") for _ in range(2)]
            return " ".join(answer.data.name for answer in names if answer.action == "accept")

        @server.tool(task="optional")
        async def returned(ctx: Context) -> Any:
            """Ask by returning the question."""
            if not ctx.input_responses:
                return InputRequired(requests={"who": Elicit("Who?", Name)}, state={"n": 1})
            return f"{ctx.input_responses['who']['content']['name']} {ctx.request_state['n']}"

        @server.tool(task="optional")
        async def report(ctx: Context) -> str:
            """Report on the way."""
            await ctx.report_progress(1, 2, "half way")
            await ctx.info("a log line")
            self.reached.set()
            await self.gate.wait()
            return "reported"

        @server.tool(task="optional", asks_first=True)
        async def first(ctx: Context) -> str:
            """Ask, then work."""
            self.reached.set()
            answer = await ctx.elicit("Who?", Name, key="who")
            await ctx.continue_as_task()
            await self.gate.wait()
            second = await ctx.elicit("Sure?", Name, key="sure")
            return f"{answer.data and answer.data.name} {second.data and second.data.name}"

        @server.tool(task="optional", asks_first=True)
        async def linger(ctx: Context) -> str:
            """Work before detaching."""
            self.reached.set()
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "never detached"

        @server.tool
        def plain() -> str:
            """No task."""
            return "plain"

    def peer(self, **options: Any) -> Peer:
        return Peer(self.server, **{"capabilities": DECLARED, **options})


async def reaches(peer: Peer, id: str, *statuses: str) -> dict[str, Any]:
    """The task once its status is one of ``statuses``; only turns of the loop pass."""
    for _ in range(500):
        task = await peer.result("tasks/get", taskId=id)
        if task["status"] in statuses:
            return task
        await asyncio.sleep(0)
    raise AssertionError(f"the task stays {task['status']}")


async def begun(peer: Peer, tool: str, **arguments: Any) -> str:
    created = await peer.call(tool, **arguments)
    assert created["resultType"] == "task"
    return created["taskId"]


def accepted(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}
