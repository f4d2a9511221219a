"""A repository for a model: status, history, differences, and commits after a question. `dovetail run git.py`

GIT_ROOT names the repository (the working directory otherwise).
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dovetail import Context, Server, ToolError

ROOT = Path(os.environ.get("GIT_ROOT", ".")).resolve()
LONGEST = 200_000
"""Characters of a difference that are shown."""

server = Server(
    "git", version="1.0.0", instructions="Look at the status and the difference before you commit."
)


@dataclass
class Commit:
    id: str
    author: str
    date: str
    subject: str


async def git(*arguments: str) -> str:
    """Return the output of git. Arguments are passed one by one, without a shell."""
    process = await asyncio.create_subprocess_exec(
        "git",
        "-C",
        str(ROOT),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
    )
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()  # the caller gave up
        await process.wait()
        raise
    if process.returncode:
        raise ToolError(errors.decode(errors="replace").strip() or f"git {arguments[0]} failed")
    return output.decode(errors="replace")


def name(value: str) -> str:
    """A name of a commit, branch or file that git cannot take for an option."""
    if value.startswith("-"):
        raise ToolError(f"{value} looks like an option.")
    return value


@server.tool(annotations={"readOnlyHint": True})
async def status() -> str:
    """What has changed since the last commit."""
    return await git("status", "--short", "--branch") or "nothing"


@server.tool(annotations={"readOnlyHint": True})
async def log(count: Annotated[int, "At most 200"] = 20, path: str = "") -> list[Commit]:
    """The last commits, of one file or of all."""
    where = ["--", path] if path else []
    text = await git("log", f"-{max(1, min(count, 200))}", "--format=%h%x1f%an%x1f%as%x1f%s", *where)
    return [Commit(*line.split("\x1f", 3)) for line in text.splitlines()]


@server.tool(annotations={"readOnlyHint": True})
async def diff(
    commit: Annotated[str, "Against which commit; empty: what is not staged"] = "", path: str = ""
) -> str:
    """The difference, as a patch."""
    arguments = ["--no-ext-diff", *([name(commit)] if commit else []), "--", *([path] if path else [])]
    text = await git("diff", *arguments)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n… {len(text) - LONGEST} characters more"


@server.tool(annotations={"destructiveHint": True})
async def commit(message: str, paths: list[str], ctx: Context) -> str:
    """Commit some files, after the user has agreed."""
    summary = await git("diff", "--stat", "HEAD", "--", *paths)
    sure = await ctx.elicit(f"Commit this as {message!r}?\n\n{summary or 'new files'}", bool)
    if sure.action != "accept" or not sure.data:
        return "Nothing was committed."

    async def do() -> str:
        await git("add", "--", *paths)
        return await git("commit", "--quiet", "-m", message, "--", *paths) or await git(
            "rev-parse", "--short", "HEAD"
        )

    return await ctx.step("commit", do)  # once, though the question makes the handler run again
