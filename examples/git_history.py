"""The history of a git repository. ``REPOSITORY=. dovetail run git_history.py``"""

import asyncio
import os
import re

from dovetail import Server, ToolError

server = Server("git")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./~^-]{0,100}")


async def git(*words: str) -> str:
    """What git says. No shell, and nothing of the caller's is ever taken for an option."""
    child = await asyncio.create_subprocess_exec(
        "git", "-C", os.environ.get("REPOSITORY", "."), "--no-pager", *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = await child.communicate()
    except BaseException:
        child.kill()
        raise
    if child.returncode:
        raise ToolError(err.decode(errors="replace").strip())
    return out.decode(errors="replace")


@server.tool(annotations={"readOnlyHint": True}, timeout=30)
async def log(count: int = 10, path: str | None = None) -> list[dict[str, str]]:
    """The last commits, of a file or of everything."""
    out = await git("log", f"-{min(count, 200)}", "--format=%h%x00%an%x00%s", "--", *([path] if path else []))
    return [
        dict(zip(("commit", "author", "subject"), line.split("\0"), strict=True)) for line in out.splitlines()
    ]


@server.tool(annotations={"readOnlyHint": True}, timeout=30)
async def show(commit: str) -> str:
    """One commit with its changes."""
    if not _REVISION.fullmatch(commit):
        raise ToolError("name a commit, a branch or a tag")
    return (await git("show", "--stat", "--patch", commit, "--"))[:50_000]
