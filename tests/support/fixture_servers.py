"""The servers that transcripts talk to, one function each. They say what the reference documents say."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

from dovetail import Context, Refusal, Server, ToolError
from dovetail.model import (
    AudioContent,
    CallToolResult,
    Completion,
    GetPromptResult,
    PromptMessage,
    ResourceLink,
    TextContent,
)
from dovetail.wire.dialects import VENDOR

NOTHING: dict[str, Any] = {"type": "object"}
SQL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "SQL query to execute"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
    },
    "required": ["query"],
}
PNG = base64.b64decode("iVBORw0KGgo=")

MAKERS: dict[str, Callable[[Server], None]] = {}
_NAMES = {
    "sql": ("erlmcp-server", "2.2.0", "Ask for rows, not for tables."),
    "files": ("example-server", "1.0.0", None),
}


def make(name: str, dialect: str = "official") -> Server:
    """The server of this name, speaking ``dialect``."""
    title, version, instructions = _NAMES.get(name, (name, "1.0.0", None))
    server = Server(
        title,
        version,
        instructions,
        dialect=dialect,
    )
    MAKERS[name](server)
    return server


def fixture(maker: Callable[[Server], None]) -> Callable[[Server], None]:
    MAKERS[maker.__name__] = maker
    return maker


async def _wait(arguments: dict[str, Any]) -> str:
    await asyncio.Event().wait()
    return "never"


# --- official ----------------------------------------------------------------------------------------------


@fixture
def tools(server: Server) -> None:
    number = {"type": "integer"}
    city = {"type": "string"}

    async def add(arguments: dict[str, Any]) -> str:
        return str(arguments["a"] + arguments["b"])

    async def forecast(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"city": arguments["city"], "celsius": 3.5}

    async def fail(arguments: dict[str, Any]) -> str:
        raise ToolError("the kettle is empty")

    server.add_tool(
        name="add",
        description="Add two numbers",
        input_schema={"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]},
        handler=add,
        annotations={"readOnlyHint": True},
    )
    server.add_tool(
        name="forecast",
        title="Forecast",
        description="The weather in a city",
        input_schema={"type": "object", "properties": {"city": city}, "required": ["city"]},
        output_schema={
            "type": "object",
            "properties": {"city": city, "celsius": {"type": "number"}},
            "required": ["city", "celsius"],
        },
        handler=forecast,
    )
    server.add_tool(name="fail", description="Always fails", input_schema=NOTHING, handler=fail)


@fixture
def library(server: Server) -> None:
    @server.resource("doc://readme", name="README", description="The project", mime_type="text/markdown")
    async def readme() -> str:
        return "# Readme"

    @server.resource("doc://logo", name="logo", mime_type="image/png")
    async def logo() -> bytes:
        return PNG

    @server.resource(
        "user://{username}/profile",
        name="profile",
        description="A user's profile",
        mime_type="application/json",
    )
    async def profile(username: str) -> str:
        return json.dumps({"name": username}, separators=(",", ":"))

    @server.prompt
    async def code_review(language: str, style: str = "any style") -> str:
        """Review code"""
        return f"Review this {language} code by {style}."

    @server.completion(ref="code_review", argument="language")
    async def languages(value: str) -> list[str]:
        return [name for name in ("python", "pypy", "erlang") if name.startswith(value)]

    async def touch(arguments: dict[str, Any]) -> str:
        await server.notify_resource_updated("doc://readme")
        return "touched"

    async def grow(arguments: dict[str, Any]) -> str:
        server.add_tool(name="grown", input_schema=NOTHING, handler=touch)
        return "grown"

    server.add_tool(name="touch", input_schema=NOTHING, handler=touch)
    server.add_tool(name="grow", input_schema=NOTHING, handler=grow)


@fixture
def media(server: Server) -> None:
    async def sound(arguments: dict[str, Any]) -> AudioContent:
        return AudioContent("UklGRg==", "audio/wav")

    async def link(arguments: dict[str, Any]) -> ResourceLink:
        return ResourceLink("doc://readme", "README")

    server.add_tool(name="sound", input_schema=NOTHING, handler=sound)
    server.add_tool(name="link", input_schema=NOTHING, handler=link)


@fixture
def talk(server: Server) -> None:
    async def count(arguments: dict[str, Any], ctx: Context) -> str:
        await ctx.report_progress(1, 2, "step 1")
        await ctx.report_progress(2, 2, "step 2")
        return "counted"

    async def chat(arguments: dict[str, Any], ctx: Context) -> str:
        await ctx.info("nobody minds", logger="talk")
        await ctx.warning("mind the gap", logger="talk")
        return "said"

    async def ask_model(arguments: dict[str, Any], ctx: Context) -> str:
        return (await ctx.sample("Say hello", max_tokens=20)).text

    async def ask_name(arguments: dict[str, Any], ctx: Context) -> str:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        answer = await ctx.elicit("Your name?", schema)
        if answer.action != "accept":
            raise ToolError("no name")
        return f"hello {answer.data['name']}"

    async def ask_roots(arguments: dict[str, Any], ctx: Context) -> str:
        return ", ".join(root.uri for root in await ctx.list_roots())

    async def refuse(arguments: dict[str, Any]) -> str:
        raise Refusal(1003, "slow down", 1.5)

    for handler in (count, chat, ask_model, ask_name, ask_roots, refuse):
        server.add_tool(name=handler.__name__, input_schema=NOTHING, handler=handler)
    server.add_tool(name="wait", input_schema=NOTHING, handler=_wait)


# --- erlmcp ------------------------------------------------------------------------------------------------


async def sql_query(arguments: dict[str, Any]) -> Any:
    query = arguments["query"]
    if query == "SELECT * FROM users":
        block = TextContent('[{id:1, name:"Alice"}, ...]', meta={VENDOR + "mimeType": "application/json"})
        return CallToolResult([block], is_error=False)
    if query == "SELEC":
        block = TextContent("SQL syntax error", meta={VENDOR + "mimeType": "text/plain"})
        return CallToolResult([block], is_error=True)
    if query == "INVALID SQL":
        raise ToolError("SQL syntax error: unexpected token at position 0")
    if query == "SELECT active FROM users":
        raise ToolError("SQL syntax error: invalid column 'active'")
    return "Query executed successfully. Returned 42 rows."


@fixture
def database(server: Server) -> None:
    server.add_tool(
        name="sql_query",
        description="Execute SQL queries on the database",
        input_schema=SQL,
        handler=sql_query,
        task="optional",
    )


@fixture
def versions(server: Server) -> None:
    server.add_tool(
        name="sql_query",
        description="Execute SQL queries against the database",
        input_schema=SQL,
        handler=sql_query,
        deprecated=False,
        version="1.0.0",
    )


@fixture
def waiting(server: Server) -> None:
    server.add_tool(
        name="wait", description="Waits for ever", input_schema=NOTHING, handler=_wait, task="optional"
    )


@fixture
def sql(server: Server) -> None:
    database(server)

    @server.resource(
        "doc://readme", name="README", description="Project documentation", mime_type="text/markdown"
    )
    async def readme() -> str:
        return "# Project Documentation\n\nThis is the main README file."

    @server.resource(
        "file://data.json", name="Data File", description="Configuration data", mime_type="application/json"
    )
    async def data() -> str:
        return "{}"

    @server.prompt(description="Generate a code review prompt for a specific language")
    async def code_review(language: str, style: str = "default") -> Any:
        """
        Args:
            language: Target programming language
            style: Code style guide (e.g., Google, PEP8)
        """
        if language == "erlang":
            return [
                PromptMessage("system", TextContent("You are an Erlang code reviewer...")),
                PromptMessage("user", TextContent("Please review my code for...")),
            ]
        text = (
            "You are an expert Python code reviewer. Review the following code according to "
            f"{style} style guidelines..."
        )
        return [{"role": "system", "content": text, "annotations": {"audience": ["user"]}}]

    @server.completion(ref="sql_query", argument="query")
    async def keywords(value: str) -> Completion:
        return Completion(["SELECT", "INSERT", "UPDATE", "DELETE"], has_more=True, total=4000)

    async def long_running_operation(arguments: dict[str, Any], ctx: Context) -> str:
        for done in (25, 50, 100):
            await ctx.report_progress(done, 100)
        return "Backup completed successfully"

    server.add_tool(
        name="long_running_operation",
        description="Takes its time",
        input_schema=NOTHING,
        handler=long_running_operation,
    )


@fixture
def pages(server: Server) -> None:
    @server.resource(
        "doc://readme",
        name="README",
        description="Application README",
        mime_type="text/markdown",
        annotations={"lastModified": "2022-01-01T00:00:00Z"},
        meta={VENDOR + "metadata": {}},
    )
    async def readme() -> str:
        return "# Readme"

    @server.resource("doc://other", name="other")
    async def other() -> str:
        return "other"


@fixture
def pictures(server: Server) -> None:
    @server.resource("img://dot", name="dot", mime_type="image/png")
    async def dot() -> bytes:
        return PNG


@fixture
def users(server: Server) -> None:
    @server.resource(
        "user://{username}/profile",
        name="User Profile",
        description="User profile resource",
        mime_type="application/json",
    )
    async def profile(username: str) -> str:
        return "{}"


@fixture
def weather(server: Server) -> None:
    @server.resource("weather://city", name="weather")
    async def city() -> str:
        return "72"

    async def change(arguments: dict[str, Any]) -> str:
        await server.notify_resource_updated(
            "weather://city", {"updated_at": 1640995200000, "version": "2024-01-01", "temperature": 72}
        )
        return "changed"

    server.add_tool(name="change", description="Change the weather", input_schema=NOTHING, handler=change)


# --- the Elixir client's peers -----------------------------------------------------------------------------


@fixture
def search(server: Server) -> None:
    async def search_files(arguments: dict[str, Any]) -> str:
        if arguments.get("path") == "/missing":
            raise ToolError("Error: Path /src does not exist")
        return f"Found 42 files matching {arguments['pattern']}"

    text = {"type": "string"}
    server.add_tool(
        name="search_files",
        description="Search files by pattern",
        input_schema={
            "type": "object",
            "properties": {"pattern": text, "path": text},
            "required": ["pattern"],
        },
        handler=search_files,
    )


@fixture
def files(server: Server) -> None:
    @server.resource(
        "file:///path/to/file.txt", name="file.txt", description="A text file", mime_type="text/plain"
    )
    async def file() -> str:
        return "File contents here..."

    async def touch(arguments: dict[str, Any]) -> str:
        await server.notify_resource_updated("file:///path/to/file.txt")
        return "touched"

    async def connect(arguments: dict[str, Any], ctx: Context) -> str:
        await ctx.info("Connected to database", logger="server.database")
        return "connected"

    async def long_operation(arguments: dict[str, Any], ctx: Context) -> str:
        await ctx.report_progress(0.5, 1.0)
        return "done"

    for handler in (touch, connect, long_operation):
        server.add_tool(name=handler.__name__, input_schema=NOTHING, handler=handler)
    server.add_tool(name="wait", input_schema=NOTHING, handler=_wait)
    summaries(server)


@fixture
def summaries(server: Server) -> None:
    @server.prompt(description="Summarize text")
    async def summarize(text: str) -> Any:
        """
        Args:
            text: Text to summarize
        """
        message = PromptMessage("user", TextContent(f"Please summarize: {text}"))
        return GetPromptResult([message], description="Summarization prompt")


# --- MiniMCP -----------------------------------------------------------------------------------------------


@fixture
def mini(server: Server) -> None:
    @server.prompt
    async def pair(arg1: str, arg2: str) -> str:
        return arg1 + arg2

    @server.prompt
    async def number(n: int) -> str:
        return str(n)

    @server.prompt
    async def broken() -> str:
        raise RuntimeError("secret detail")

    @server.prompt
    async def as_text() -> str:
        return "hello"

    @server.prompt
    async def as_dict() -> dict[str, Any]:
        return {"role": "assistant", "content": {"type": "text", "text": "from a dict"}}

    @server.prompt
    async def as_list() -> list[str]:
        return ["one", "two"]

    @server.resource("file:///some/resource")
    async def fails() -> str:
        raise RuntimeError("secret detail")

    @server.resource("math://constants/pi")
    async def pi() -> str:
        return "3.14159"

    @server.resource("math://bytes")
    async def raw() -> bytes:
        return b"\x00\x01\x02"

    @server.resource("db://tables/{table}")
    async def table(table: str) -> str:
        return f"rows of {table}"

    @server.tool
    async def fetch(url: str) -> str:
        raise ToolError("Error: Failed to fetch data from API")

    @server.tool
    async def point() -> dict[str, int]:
        return {"x": 1, "y": 2}

    @server.tool
    async def crash() -> str:
        raise RuntimeError("secret detail")
