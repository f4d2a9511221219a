"""`CommandParser`: the argument parser of a ``dovetail`` command, with an example and suggestions for misspelt options.

It stands left of all packages with commands, because ``auth`` has commands, too.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from difflib import get_close_matches
from typing import Any, Final, NoReturn

EXAMPLES: Final = {
    "run": "dovetail run server.py --http --port 8000",
    "worker": "dovetail worker server.py --store redis://localhost:6379/0 --tasks 8",
    "bridge": 'dovetail bridge "npx some-server" --http',
    "gateway": "dovetail gateway mcp.json --http --search",
    "list": "dovetail list server.py",
    "call": "dovetail call server.py add a=1 b=2",
    "read": "dovetail read server.py config://app",
    "prompt": "dovetail prompt server.py summarize topic=whales",
    "new": "dovetail new my-notes",
    "dev": "dovetail dev server.py",
    "inspect": "dovetail inspect https://example.com/mcp",
    "stub": "dovetail stub server.py -o client.py",
    "migrate": "dovetail migrate old_server.py --write",
    "completion": 'eval "$(dovetail completion bash)"',
    "install": "dovetail install server.py --into cursor",
    "uninstall": "dovetail uninstall server --from cursor",
    "discover": "dovetail discover",
    "lock": "dovetail lock server.py",
    "diff": "dovetail diff mcp.lock server.py",
    "login": "dovetail login https://example.com/mcp",
    "logout": "dovetail logout https://example.com/mcp",
    "whoami": "dovetail whoami https://example.com/mcp",
    "doctor": "dovetail doctor https://example.com/mcp",
    "doctor auth": "dovetail doctor auth https://example.com/mcp",
    "explain": "dovetail explain rate_limited",
    "audit": "dovetail audit verify audit.jsonl",
}
"""An example of each command, for its ``--help`` and for the documentation."""

_UNKNOWN: Final = re.compile(r"unrecognized arguments: (-\S*)")
_CHOICE: Final = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


class CommandParser(ArgumentParser):
    """A parser for ``dovetail COMMAND``; ``--help`` ends with an example."""

    def __init__(self, command: str, description: str, **options: Any) -> None:
        super().__init__(prog=f"dovetail {command}", description=description, **options)
        self.example = EXAMPLES[command]

    def format_help(self) -> str:
        """Return the help of `ArgumentParser`, and the example on a line that is not wrapped."""
        return f"{super().format_help()}\nexample:\n  {self.example}\n"

    def error(self, message: str) -> NoReturn:
        """Exit with status 2; a misspelt option or choice gets a suggestion."""
        meant = (
            None if "maybe you meant" in message else self._meant(message)
        )  # argparse of Python 3.15 suggests
        super().error(message if meant is None else f"{message}. Did you mean {meant}?")

    def _meant(self, message: str) -> str | None:
        known: list[str] = []
        given = _UNKNOWN.search(message)
        if given is not None:
            known = re.findall(r"(?<![\w-])--[a-z][a-z-]*", super().format_help())
        elif (given := _CHOICE.search(message)) is not None:
            known = [one.strip("'") for one in given.group(2).split(", ")]
        close = [] if given is None else get_close_matches(given.group(1).partition("=")[0], known, 1)
        return close[0] if close else None
