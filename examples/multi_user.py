"""Several users, each with their own list; only some may see all. ``dovetail run multi_user.py --http``"""

from dovetail import Context, Principal, Request, Server
from dovetail.auth import StaticTokens

# For a real one: JwtVerifier(issuer=…, audience=…), see docs/auth.md
users = StaticTokens({
    "ada-token": Principal("ada", scopes=frozenset({"list"})),
    "root-token": Principal("root", scopes=frozenset({"list", "admin"})),
})  # fmt: skip
server = Server("shopping", auth=users)
seen: set[str] = set()


@server.tool(scopes=["list"])
async def add(item: str, ctx: Context) -> list[str]:
    """Put something on your list."""
    items: list[str] = [*(await ctx.state.get("items", [])), item]
    await ctx.state.set("items", items)
    seen.add("" if ctx.principal is None else ctx.principal.subject)
    return items


@server.tool(scopes=["admin"], annotations={"readOnlyHint": True})
async def everybody() -> list[str]:
    """Who has a list."""
    return sorted(seen)


@server.route("/me")
async def me(request: Request) -> dict[str, str]:
    """The same people over plain HTTP, with the same tokens."""
    return {"user": "" if request.principal is None else request.principal.subject}
