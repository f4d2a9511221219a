"""The server that the official conformance suite talks to, written with the public API alone.

    dovetail run examples/conformance/server.py --http --port 3001
    npx @modelcontextprotocol/conformance server --url http://127.0.0.1:3001/mcp --suite all

Names and texts are what the suite looks for; every handler serves all revisions.
"""

import asyncio
import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail import (
    Audio,
    Context,
    Elicit,
    EmbeddedResource,
    Image,
    PromptMessage,
    ProtocolError,
    ResourceContents,
    Roots,
    Sample,
    Server,
    TextContent,
    ToolError,
)
from dovetail.extensions import Skills

server = Server(
    "dovetail-conformance",
    version="1.0.0",
    instructions="The fixture of the conformance suite: every feature once.",
    client_workarounds=False,  # the suite breaks rules to see that they hold
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
PAUSE = 0.05
"""Seconds between the notifications of one call."""


@dataclass
class Name:
    name: str


@dataclass
class Confirmation:
    ok: bool


@dataclass
class Deletion:
    confirm: bool


@dataclass
class Color:
    color: str


# --- tools: what they return ------------------------------------------------------------------------------


@server.tool
def test_simple_text() -> str:
    """Return one text."""
    return "This is a simple text response for testing."


@server.tool
def test_image_content() -> Image:
    """Return one image."""
    return Image(PNG, format="png")


@server.tool
def test_audio_content() -> Audio:
    """Return one sound."""
    return Audio(WAV, format="wav")


@server.tool
def test_embedded_resource() -> EmbeddedResource:
    """Return one embedded resource."""
    return EmbeddedResource(
        ResourceContents(
            "test://embedded-resource",
            mime_type="text/plain",
            text="This is an embedded resource content.",
        )
    )


@server.tool
def test_multiple_content_types() -> list[str | Image | ResourceContents]:
    """Return a text, an image and a resource."""
    return [
        "Multiple content types test:",
        Image(PNG, format="png"),
        ResourceContents(
            "test://mixed-content-resource",
            mime_type="application/json",
            text='{"test":"data","value":123}',
        ),
    ]


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages on the way."""
    await ctx.info("Tool execution started")
    await asyncio.sleep(PAUSE)
    await ctx.info("Tool processing data")
    await asyncio.sleep(PAUSE)
    await ctx.info("Tool execution completed")
    return "Tool with logging executed successfully"


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times on the way."""
    for progress in (0, 50, 100):
        await ctx.report_progress(progress, 100)
        await asyncio.sleep(PAUSE)
    return "Tool with progress executed successfully"


@server.tool
def test_error_handling() -> str:
    """Fail on purpose."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Let go of the stream in the middle; the client comes back for the result."""
    await asyncio.sleep(PAUSE)
    await ctx.close_stream()
    await asyncio.sleep(2 * PAUSE)
    return "Reconnection test completed successfully"


# --- tools: schemas given as they are ---------------------------------------------------------------------


def describe(arguments: dict[str, Any]) -> str:
    return f"Received: {sorted(arguments)}"


server.add_tool(
    name="json_schema_2020_12_tool",
    description="Tool with JSON Schema 2020-12 features",
    handler=describe,
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)

server.add_tool(
    name="test_x_mcp_header",
    description="Mirrors one argument in an HTTP header.",
    handler=describe,
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
)


# --- tools: asking, as on every revision ------------------------------------------------------------------


@server.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    answer = await ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {answer.text}"


@server.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user for a name and an address."""
    answer = await ctx.elicit(
        message,
        {
            "type": "object",
            "properties": {
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            },
            "required": ["username", "email"],
        },
    )
    return f"User response: action={answer.action}, content={answer.data}"


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with defaults of every kind."""
    answer = await ctx.elicit(
        "Please review and update the form fields with defaults",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "User name", "default": "John Doe"},
                "age": {"type": "integer", "description": "User age", "default": 30},
                "score": {"type": "number", "description": "User score", "default": 95.5},
                "status": {
                    "type": "string",
                    "description": "User status",
                    "enum": ["active", "inactive", "pending"],
                    "default": "active",
                },
                "verified": {"type": "boolean", "description": "Verification status", "default": True},
            },
            "required": [],
        },
    )
    return f"Elicitation completed: action={answer.action}, content={answer.data}"


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask with choices of every shape."""
    values = [
        {"const": f"value{n}", "title": f"{word} Option"}
        for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    choices = [
        {"const": f"value{n}", "title": f"{word} Choice"}
        for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    answer = await ctx.elicit(
        "Please choose",
        {
            "type": "object",
            "properties": {
                "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
                "titledSingle": {"type": "string", "oneOf": values},
                "legacyEnum": {
                    "type": "string",
                    "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"],
                },
                "untitledMulti": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
                },
                "titledMulti": {"type": "array", "items": {"anyOf": choices}},
            },
        },
    )
    return f"Elicitation completed: action={answer.action}, content={answer.data}"


@server.tool
async def test_missing_capability(ctx: Context) -> str:
    """Need a model at the other end; without one the call ends with the proper error."""
    answer = await ctx.sample("Are you there?", max_tokens=10)
    return f"LLM response: {answer.text}"


@server.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Report progress, then ask."""
    await ctx.report_progress(1, 2)
    answer = await ctx.elicit("Go on?", Confirmation)
    return f"Answered: {answer.action}"


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Send log messages to clients."""
    await ctx.info("This is logged only on request")
    return "Logged"


@server.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.elicit("What is your name?", Name, key="user_name")
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else "Hello, whoever you are!"


@server.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the model for a capital."""
    answer = await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")
    return f"The model said: {answer.text}"


@server.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the roots."""
    roots = await ctx.list_roots(key="client_roots")
    return f"Roots: {', '.join(root.uri for root in roots)}"


@server.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for a confirmation; the state that comes back with it is verified before this line is reached."""
    answer = await ctx.elicit("Please confirm", Confirmation, key="confirm")
    return f"state-ok: {answer.action}"


@server.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask three things in one round."""
    answers = await ctx.ask_all(
        user_name=Elicit("What is your name?", Name),
        greeting=Sample("Generate a greeting", max_tokens=50),
        client_roots=Roots(),
    )
    name = answers["user_name"].data.name if answers["user_name"].action == "accept" else "you"
    return f"{answers['greeting'].text} {name}, with {len(answers['client_roots'])} roots"


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice, one after the other."""
    first = await ctx.elicit("Step 1: What is your name?", Name, key="step1")
    second = await ctx.elicit("Step 2: What is your favorite color?", Color, key="step2")
    return f"{first.data and first.data.name} likes {second.data and second.data.color}"


@server.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask for a confirmation; a state that was altered on its way never gets here."""
    answer = await ctx.elicit("Please confirm", Confirmation, key="confirm")
    return f"Confirmed: {answer.action}"


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask only what this client can be asked."""
    questions: dict[str, Any] = {}
    if ctx.client_capabilities.has("sampling"):
        questions["greeting"] = Sample("Generate a greeting", max_tokens=50)
    if ctx.client_capabilities.has("elicitation.form"):
        questions["user_name"] = Elicit("What is your name?", Name)
    answers = await ctx.ask_all(**questions)
    return f"Answered: {', '.join(answers)}"


# --- tools: lists that change -----------------------------------------------------------------------------


def extra_tool() -> str:
    """Come and go."""
    return "Here for now"


def extra_prompt() -> str:
    """Come and go."""
    return "Here for now"


@server.tool
def test_trigger_tool_change() -> str:
    """Add a tool, or remove it again; ``list_changed`` is sent automatically."""
    if "extra_tool" in server.registry.tools:
        server.remove_tool("extra_tool")
    else:
        server.add_tool(extra_tool)
    return "Tool list changed"


@server.tool
def test_trigger_prompt_change() -> str:
    """Add a prompt, or take it away again."""
    if "extra_prompt" in server.registry.prompts:
        server.remove_prompt("extra_prompt")
    else:
        server.add_prompt(extra_prompt)
    return "Prompt list changed"


# --- tools: tasks -----------------------------------------------------------------------------------------


@server.tool
def greet(name: str) -> str:
    """Greet at once."""
    return f"Hello, {name}!"


@server.tool(task="optional")
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds:g} s"


@server.tool(task="required")
async def failing_job() -> str:
    """Fail after a second."""
    await asyncio.sleep(1)
    raise ToolError("This job always fails")


@server.tool(task="optional")
async def protocol_error_job() -> str:
    """Fail with a JSON-RPC error."""
    await asyncio.sleep(PAUSE)
    raise ProtocolError("internal_error", "This job ends in a protocol error")


@server.tool(task="optional")
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask before deleting."""
    answer = await ctx.elicit(f"Delete {filename}?", Deletion)
    confirmed = answer.action == "accept" and answer.data.confirm
    return f"Deleted {filename}" if confirmed else f"Kept {filename}"


@server.tool(task="optional")
async def multi_input(ctx: Context) -> str:
    """Ask two things at once."""
    first, second = await ctx.ask_all(
        Elicit("What is your first name?", Name), Elicit("What is your last name?", Name)
    )
    names = [answer.data.name for answer in (first, second) if answer.action == "accept"]
    return f"Hello, {' '.join(names)}!"


@server.tool(task="required", asks_first=True)
async def test_tool_with_task(ctx: Context) -> str:
    """Ask within the call, then go on as a task."""
    answer = await ctx.elicit("What is your name?", Name, key="user_name")
    await ctx.continue_as_task()
    await asyncio.sleep(PAUSE)
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else "Hello!"


# --- resources --------------------------------------------------------------------------------------------


@server.resource("test://static-text", name="static-text", mime_type="text/plain")
def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", name="static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """An image that never changes."""
    return PNG


@server.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """A text to subscribe to."""
    return "Watched resource content"


@server.resource("test://template/{id}/data", name="template-data", mime_type="application/json")
def template_data(id: str) -> str:
    """Data for an id."""
    return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


# --- prompts ----------------------------------------------------------------------------------------------


@server.prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: First test argument.
        arg2: Second test argument.
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[PromptMessage]:  # noqa: N803
    """A prompt with a resource in it.

    Args:
        resourceUri: URI of the resource to embed.
    """
    contents = ResourceContents(
        resourceUri, mime_type="text/plain", text="Embedded resource content for testing."
    )
    return [
        PromptMessage("user", EmbeddedResource(contents)),
        PromptMessage("user", TextContent("Please process the embedded resource above.")),
    ]


@server.prompt
def test_prompt_with_image() -> list[str | Image]:
    """A prompt with an image in it."""
    return [Image(PNG, format="png"), "Please analyze the image above."]


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks for its context."""
    answer = await ctx.elicit(
        "What context should the prompt use?",
        {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]},
        key="user_context",
    )
    return f"Use this context: {answer.data and answer.data['context']}"


@server.completion(ref="test_prompt_with_arguments", argument="arg1")
def complete_arg1(value: str) -> list[str]:
    return [word for word in ("paris", "park", "party") if word.startswith(value)]


server.extensions.add(Skills(Path(__file__).parent / "skills"))

if __name__ == "__main__":
    server.run("http", port=3001)
