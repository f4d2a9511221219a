"""A server with bearer tokens: ``ann-token`` and ``bob-token``."""

try:
    from fastmcp import FastMCP
    from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
    from fastmcp.server.dependencies import get_access_token

    tokens = {f"{name}-token": {"client_id": name, "scopes": []} for name in ("ann", "bob")}
    mcp = FastMCP("guarded", auth=StaticTokenVerifier(tokens=tokens))
except ImportError:
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.auth.provider import AccessToken, TokenVerifier
    from mcp.server.auth.settings import AuthSettings

    try:
        from mcp.server.fastmcp import FastMCP
    except ImportError:
        from mcp.server import MCPServer as FastMCP

    class Verifier(TokenVerifier):
        async def verify_token(self, token):
            name = token.removesuffix("-token")
            return AccessToken(token=token, client_id=name, scopes=[]) if name in ("ann", "bob") else None

    url = "http://127.0.0.1:1"
    mcp = FastMCP(
        "guarded",
        token_verifier=Verifier(),
        auth=AuthSettings(issuer_url=url, resource_server_url=f"{url}/mcp"),
    )


@mcp.tool()
async def who() -> str:
    return get_access_token().client_id


if __name__ == "__main__":
    mcp.run()
