"""The client side of the official conformance suite.

The suite starts this program once per scenario: the server's URL is the last argument, the scenario's name and the
revision under test come in the environment. Each scenario below is one short function.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from dovetail import Client, DovetailError
from dovetail.auth import ClientCredentials, DPoP, IdentityAssertion, MemoryTokens, OAuth, WorkloadIdentity
from dovetail.transports.http.client.connection_pool import HttpFetch

Scenario = Callable[[Client], Awaitable[None]]


def accept(request: Any) -> dict[str, Any]:
    """Accept every form; the client itself fills in the defaults."""
    schema: dict[str, Any] = request.requested_schema or {}
    fields: dict[str, Any] = schema.get("properties", {})
    required: list[str] = schema.get("required", [])
    made_up = {"string": "conformance", "integer": 1, "number": 1.0, "boolean": True}
    content = {
        name: made_up.get(fields[name].get("type"), "conformance")
        for name in required
        if name in fields and "default" not in fields[name]
    }
    return {"action": "accept", "content": content}


def sample(_request: Any) -> str:
    return "A sampled answer."


async def list_only(client: Client) -> None:
    if client.server_capabilities.has("tools"):
        await client.list_tools()


async def add_numbers(client: Client) -> None:
    await client.list_tools()
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def call_every_tool(client: Client) -> None:
    for tool in await client.list_tools():
        required = tool.input_schema.get("required", [])
        properties = tool.input_schema.get("properties", {})
        values = {"string": "x", "integer": 1, "number": 1.5, "boolean": True}
        arguments = {name: values.get(properties.get(name, {}).get("type"), "x") for name in required}
        await client.call_tool(tool.name, arguments, check=False)


async def every_method(client: Client) -> None:
    for tool in await client.list_tools():
        await client.call_tool(tool.name, {}, check=False)
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name)


async def custom_headers(client: Client) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    await client.list_tools()
    for call in context.get("toolCalls", []):
        await client.call_tool(call["name"], call.get("arguments"), check=False)


async def request_state(client: Client) -> None:
    await client.list_tools()
    names = ("test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type")
    for name in names:
        await client.call_tool(name, {}, check=False)


async def schema_preservation(client: Client) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await client.call_tool("json_schema_echo", {"schema": schema}, check=False)


async def list_skills(client: Client) -> None:
    await client.list_skills()


async def load_skill(client: Client) -> None:
    for entry in await client.list_skills():
        skill = await client.load_skill(entry)
        for file in skill.files:
            await skill.read(file)


# --- authorization ----------------------------------------------------------------------------------------------------

REDIRECT_URI = "http://localhost:3000/callback"
METADATA_URL = "https://conformance-test.local/client-metadata.json"


async def visit(url: str) -> str:
    """What a browser does whose user agrees at once: the suite redirects without a page."""
    async with HttpFetch().session() as send:
        response = await send("GET", url, {})
        response.close()
        return response.headers["Location"]


def log_in(context: dict[str, Any]) -> OAuth:
    return OAuth(
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        client_metadata_url=METADATA_URL,
        store=MemoryTokens(),
        redirect_uri=REDIRECT_URI,
        authorize=visit,
    )


def by_key(context: dict[str, Any]) -> ClientCredentials:
    return ClientCredentials(
        context["client_id"],
        private_key=context["private_key_pem"],
        algorithm=context.get("signing_algorithm", "ES256"),
    )


def by_secret(context: dict[str, Any]) -> ClientCredentials:
    return ClientCredentials(context["client_id"], context["client_secret"])


def by_employer(context: dict[str, Any]) -> IdentityAssertion:
    return IdentityAssertion(
        context["client_id"],
        context["client_secret"],
        idp_token_endpoint=context["idp_token_endpoint"],
        idp_client_id=context["idp_client_id"],
        idp_id_token=context["idp_id_token"],
    )


AUTH: dict[str, Callable[[dict[str, Any]], Any]] = {
    "auth/client-credentials-jwt": by_key,
    "auth/client-credentials-basic": by_secret,
    "auth/enterprise-managed-authorization": by_employer,
    "auth/dpop": lambda context: DPoP(log_in(context)),
    "auth/dpop-nonce": lambda context: DPoP(log_in(context)),
    "auth/wif-jwt-bearer": lambda context: WorkloadIdentity(context["valid_jwt"]),
}
"""What is not a login with a browser."""


SCENARIOS: dict[str, Scenario] = {
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": call_every_tool,
    "sse-retry": call_every_tool,
    "sep-2322-client-request-state": request_state,
    "http-standard-headers": every_method,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": call_every_tool,
    "json-schema-2020-12-preservation": schema_preservation,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": load_skill,
    "sep-2640-client-verify-size": load_skill,
    "sep-2640-client-verify-frontmatter": load_skill,
}
MODERN_ONLY = "sep-2640-"
"""Skills are an extension of 2026-07-28, whatever revision the suite names."""


async def run(url: str, scenario: str, version: str) -> None:
    auth = None
    if scenario.startswith("auth/"):
        context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
        auth = AUTH.get(scenario, log_in)(context)
    modern = version == "2026-07-28" or scenario.startswith(MODERN_ONLY)
    client = Client(
        url,
        revision="auto" if modern else "legacy",
        on_elicit=accept,
        on_sample=sample,
        on_roots=["file:///tmp"],
        validate="warn",
        auth=auth,
    )
    async with client:
        await SCENARIOS.get(scenario, call_every_tool if auth else list_only)(client)


def main() -> int:
    logging.basicConfig(level=logging.DEBUG if os.environ.get("DEBUG") else logging.WARNING)
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2026-07-28")
    try:
        asyncio.run(run(sys.argv[-1], scenario, version))
    except DovetailError as error:
        print(f"{type(error).__name__} ({error.kind}): {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
