"""What a shell offers after ``dovetail call|read|prompt TARGET``: names of tools, resources, prompts and arguments.

It connects to TARGET, which starts a server that is a file or a command. Servers in a file of servers are started only
where their commands were confirmed before.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from argparse import ArgumentError
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ..auth.client.oauth import OAuth
from ..auth.commands.auth_option import chosen
from ..client import Client
from ..command_parser import CommandParser
from ..errors import DovetailError
from ..shapes import is_list, is_object
from .call import add_client_options, client_of

COMPLETED: Final = ("call", "read", "prompt")
"""Commands whose words a server knows."""
COMPLETION_SECONDS: Final = 5.0
"""The longest that a shell waits for a server."""
_WORD_BREAKS: Final = ":="
"""Characters at which bash splits words: it replaces only what follows the last one."""
_SPECIAL: Final = re.compile(r"[^\w@%+=:,./-]")
"""Characters that a shell may interpret."""


def of_line(line: str) -> list[str]:
    """Return what can follow ``line`` in bash: the rest of the current word after its last word break.

    Bash inserts it as it is, so characters that it would interpret are escaped.
    """
    try:
        words = shlex.split(line)[1:]
    except ValueError:  # an open quote
        return []
    if not line or line[-1].isspace():
        words.append("")
    typed = max(words[-1].rfind(mark) for mark in _WORD_BREAKS) + 1
    return [_SPECIAL.sub(r"\\\g<0>", one[typed:]) for one in of_words(words) if one.isprintable()]


def of_words(words: Sequence[str]) -> list[str]:
    """Return what the last of ``words`` can be, after the command and its target; empty if no server knows it."""
    if not words or words[0] not in COMPLETED:
        return []
    command, *before, current = words
    parser = CommandParser(command, "", exit_on_error=False, add_help=False)
    add_client_options(parser)
    parser.add_argument("--timeout", type=float)
    parser.add_argument("rest", nargs="*")
    try:
        options = parser.parse_intermixed_args(before)
        auth = chosen(options.auth, options.target)
        # A shell that completes a word opens no browser: stored tokens are used, and a login is not begun.
        client = client_of(options, auth=OAuth(open_browser=None) if auth == "oauth" else auth)
        found = asyncio.run(_offered(command, client, options.rest))
    except (DovetailError, ArgumentError, ValueError, TypeError, OSError, TimeoutError, SystemExit):
        return []
    return [one for one in found if one.startswith(current)]


async def _offered(command: str, client: Client, rest: Sequence[str]) -> list[str]:
    async with asyncio.timeout(COMPLETION_SECONDS), client:
        if command == "read":
            return [one.uri for one in await client.list_resources()] if not rest else []
        listed = await (client.list_tools() if command == "call" else client.list_prompts())
    if not rest:
        return [one.name for one in listed]
    given = {word.partition("=")[0].removesuffix(":") for word in rest[1:]}
    chosen = next((one for one in listed if one.name == rest[0]), None)
    return [word for name, word in _arguments(chosen) if name not in given]


def _arguments(entry: Any) -> Iterator[tuple[str, str]]:
    """Return the names of arguments and the words for them: ``name=``, or ``name=value`` for each value of an enum."""
    schema: Any = getattr(entry, "input_schema", None)
    if schema is None:
        named: Any = getattr(entry, "arguments", None)
        yield from ((one.name, f"{one.name}=") for one in (named if is_list(named) else ()))
        return
    properties: Any = schema.get("properties")
    for name, one in properties.items() if is_object(properties) else ():
        values: Any = one.get("enum") if is_object(one) else None
        if is_list(values):
            yield from ((name, f"{name}={value}") for value in values if isinstance(value, str | int))
        else:
            yield name, f"{name}="
