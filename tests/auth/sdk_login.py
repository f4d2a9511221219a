"""The official SDK's client logs in: ``python FILE URL ERA`` in .peers/sdk. Pages to visit go to stdout, one line
each; what the browser came back with is read from stdin. Prints what the tool ``who`` says."""

import asyncio
import sys
from urllib.parse import parse_qsl, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

url, era = sys.argv[1:]


class Memory:
    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def visit(page):
    print("visit", page, flush=True)


async def come_back():
    line = await asyncio.to_thread(sys.stdin.readline)
    found = dict(parse_qsl(urlsplit(line.strip()).query))
    return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))


async def main():
    about = OAuthClientMetadata(
        redirect_uris=["http://localhost:3030/callback"],
        client_name="the official SDK",
        grant_types=["authorization_code", "refresh_token"],
        token_endpoint_auth_method="none",
    )
    auth = OAuthClientProvider(url, about, Memory(), visit, come_back)
    async with (
        httpx2.AsyncClient(auth=auth, follow_redirects=True) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        print("who", (await client.call_tool("who", {})).content[0].text, flush=True)


asyncio.run(main())
