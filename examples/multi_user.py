"""Notes of many users on one server: tokens, rights and separate data. `dovetail run multi_user.py --http`

NOTES_TOKENS names the users: "secret=ada:read,write;other=bob:read". For tokens of a provider see
docs/authentication.md.
"""

import os
from dataclasses import dataclass

from dovetail import Context, Principal, Server, ToolError
from dovetail.auth import StaticTokens
from dovetail.middleware import Audit, RateLimit
from dovetail.stores import MemoryStore

MOST = 100


def users(text: str) -> dict[str, Principal]:
    found: dict[str, Principal] = {}
    for entry in filter(None, text.split(";")):
        token, _, rest = entry.partition("=")
        name, _, scopes = rest.partition(":")
        found[token] = Principal(name, scopes=frozenset(filter(None, scopes.split(","))))
    return found


@dataclass
class Note:
    number: int
    text: str


server = Server(
    "notes",
    version="1.0.0",
    auth=StaticTokens(users(os.environ.get("NOTES_TOKENS", "only-for-a-first-try=ada:read,write"))),
    store=os.environ.get("DOVETAIL_STORE") or MemoryStore(),
    middleware=[
        RateLimit(per_principal="50/s", burst=100),
        *([Audit(os.environ["NOTES_AUDIT"])] if "NOTES_AUDIT" in os.environ else []),
    ],
)


async def load(ctx: Context) -> list[str | None]:
    """The notes of who is calling: what is kept in `ctx.state` belongs to the principal."""
    return await ctx.state.get("notes", [])


@server.tool(scopes=["write"])
async def write(text: str, ctx: Context) -> Note:
    """Write a note."""
    notes = await load(ctx)
    if len(notes) >= MOST:
        raise ToolError(f"{MOST} notes are enough; erase one.")
    await ctx.state.set("notes", [*notes, text])
    return Note(len(notes), text)


@server.tool(scopes=["write"], annotations={"destructiveHint": True})
async def erase(number: int, ctx: Context) -> str:
    """Erase a note; the others keep their numbers."""
    notes = await load(ctx)
    if not 0 <= number < len(notes) or notes[number] is None:
        raise ToolError(f"You have no note {number}.")
    notes[number] = None
    await ctx.state.set("notes", notes)
    return "Erased."


@server.tool(scopes=["read"], annotations={"readOnlyHint": True})
async def read(ctx: Context, word: str = "") -> list[Note]:
    """Your notes, all or those with a word."""
    notes = await load(ctx)
    return [Note(number, text) for number, text in enumerate(notes) if text is not None and word in text]


@server.tool(auth=lambda principal: principal is not None and principal.subject == "ada")
def users_known() -> int:
    """How many users there are; only ada sees this tool."""
    return len(users(os.environ.get("NOTES_TOKENS", "only-for-a-first-try=ada:read,write")))
