"""The files of a new project; ``@NAME@``, ``@MODULE@``, ``@OWNER@`` and ``@VERSION@`` are filled in."""

from __future__ import annotations

from typing import Final

_SERVER: Final = '''"""@NAME@: a server of the Model Context Protocol."""

from dovetail import Context, Server, ToolError

server = Server("@NAME@", version="0.1.0", instructions="Takes notes. Ask before you delete one.")
notes: dict[str, str] = {}


@server.tool
async def add_note(title: str, text: str) -> str:
    """Keep a note.

    Args:
        title: what to find it by
        text: what to remember
    """
    notes[title] = text
    return f"{len(notes)} notes"


@server.tool(annotations={"readOnlyHint": True})
async def find_notes(word: str) -> list[str]:
    """The titles of the notes with a word in them."""
    return [title for title, text in notes.items() if word.lower() in f"{title} {text}".lower()]


@server.tool(annotations={"destructiveHint": True})
async def delete_note(title: str, ctx: Context) -> str:
    """Delete a note, once the user agrees."""
    if title not in notes:
        raise ToolError(f"there is no note {title!r}")
    answer = await ctx.elicit(f"Delete the note {title!r}?", ["yes", "no"])
    if answer.action != "accept" or answer.data != "yes":
        return "kept"
    del notes[title]
    return "deleted"


@server.resource("note://{title}")
async def note(title: str) -> str:
    """One note."""
    return notes[title]


@server.prompt
def summarize(word: str) -> str:
    """Ask for a summary of the notes about something."""
    return f"Find my notes about {word} and summarize them in three sentences."


def main() -> None:
    """What the command `@NAME@` does: serve over stdin and stdout."""
    server.run()


if __name__ == "__main__":
    main()
'''

_TESTS: Final = '''"""The server, as a client sees it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import server as app
from dovetail import Client, ToolError


@asynccontextmanager
async def connected(answer: str = "no") -> AsyncIterator[Client]:
    async def on_elicit(question: object) -> dict[str, object]:
        return {"action": "accept", "content": {"value": answer}}

    app.notes.clear()
    async with Client(app.server, on_elicit=on_elicit) as client:
        yield client


def test_a_note_is_kept_and_found() -> None:
    async def talk() -> None:
        async with connected() as client:
            await client.call_tool("add_note", {"title": "Tea", "text": "Green, 80 degrees"})
            assert (await client.call_tool("find_notes", {"word": "green"})).data == ["Tea"]
            assert (await client.read_resource("note://Tea")).contents[0].text == "Green, 80 degrees"

    asyncio.run(talk())


@pytest.mark.parametrize(("answer", "said"), [("yes", "deleted"), ("no", "kept")])
def test_nothing_is_deleted_without_a_yes(answer: str, said: str) -> None:
    async def talk() -> None:
        async with connected(answer) as client:
            await client.call_tool("add_note", {"title": "Tea", "text": "Green"})
            assert (await client.call_tool("delete_note", {"title": "Tea"})).text == said

    asyncio.run(talk())


def test_a_missing_note_is_said() -> None:
    async def talk() -> None:
        async with connected() as client:
            with pytest.raises(ToolError, match="no note"):
                await client.call_tool("delete_note", {"title": "Coffee"})

    asyncio.run(talk())
'''

_PROJECT: Final = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "@NAME@"
version = "0.1.0"
description = "A server of the Model Context Protocol that takes notes"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["dovetail-mcp[http]>=@VERSION@"]

[project.optional-dependencies]
test = ["pytest>=8"]

[project.scripts]
@NAME@ = "server:main"

[tool.hatch.build.targets.wheel]
include = ["server.py"]

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]
"""

_README: Final = """# @NAME@

A server of the Model Context Protocol.

```console
pip install -e .[test]
python -m pytest
dovetail dev server.py                        # edit it while you look at it
dovetail run server.py --http                 # http://127.0.0.1:8000/mcp
dovetail install server.py --into cursor      # or claude-desktop, vscode, codex, …
dovetail lock server.py                       # write down what clients rely on
dovetail diff mcp.lock server.py              # say what a change means to them
docker build -t @NAME@ . && docker run -p 8000:8000 @NAME@
```

`server.json` is for the registry of servers, `manifest.json` for bundles (MCPB). Both name a version: change it there
and in `pyproject.toml` together; the tests of the release workflow check that.
"""

_DOCKER: Final = """FROM python:3.13-slim
WORKDIR /app
COPY pyproject.toml README.md server.py ./
RUN pip install --no-cache-dir . && useradd --system app
USER app
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/livez')"]
# Behind a proxy that terminates TLS, name its host: --allowed-host @NAME@.example.com
CMD ["dovetail", "run", "server.py", "--http", "--host", "0.0.0.0", "--allow-remote"]
"""

_SERVER_JSON: Final = """{
  "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
  "name": "io.github.@OWNER@/@NAME@",
  "description": "Takes notes",
  "version": "0.1.0",
  "packages": [
    {
      "registryType": "pypi",
      "identifier": "@NAME@",
      "version": "0.1.0",
      "transport": { "type": "stdio" }
    }
  ]
}
"""

_MANIFEST: Final = """{
  "manifest_version": "0.3",
  "name": "@NAME@",
  "version": "0.1.0",
  "description": "Takes notes",
  "author": { "name": "@OWNER@" },
  "server": {
    "type": "python",
    "entry_point": "server.py",
    "mcp_config": { "command": "python", "args": ["${__dirname}/server.py"] }
  },
  "tools": [
    { "name": "add_note", "description": "Keep a note." },
    { "name": "find_notes", "description": "The titles of the notes with a word in them." },
    { "name": "delete_note", "description": "Delete a note, once the user agrees." }
  ]
}
"""

_RELEASE: Final = """name: release
on:
  push:
    tags: ["v*"]
permissions:
  contents: read
jobs:
  release:
    runs-on: ubuntu-latest
    environment: release
    permissions:
      contents: read
      id-token: write  # publishing without a stored token
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.13"
      - run: pip install build -e .[test]
      - run: python -m pytest
      - name: every file names the version of the tag
        run: |
          version="${GITHUB_REF_NAME#v}"
          for file in pyproject.toml server.json manifest.json; do grep -q "\\"$version\\"" "$file"; done
      - name: nothing that clients rely on is broken
        run: test ! -f mcp.lock || dovetail diff mcp.lock server.py
      - run: python -m build
      - uses: pypa/gh-action-pypi-publish@release/v1
"""

_IGNORE: Final = "__pycache__/\n*.egg-info/\n.venv/\ndist/\n.env\n"

FILES: Final = {
    "server.py": _SERVER,
    "tests/test_server.py": _TESTS,
    "pyproject.toml": _PROJECT,
    "README.md": _README,
    "Dockerfile": _DOCKER,
    ".dockerignore": _IGNORE + ".git/\n",
    ".gitignore": _IGNORE,
    "server.json": _SERVER_JSON,
    "manifest.json": _MANIFEST,
    ".github/workflows/release.yml": _RELEASE,
}
"""By their place in the project."""
