"""What a client may be pointed at, and how each of them is opened.

=============================  ====================================================================
target                         connection
=============================  ====================================================================
a `Server` (any service)       in memory, in this event loop
``["python", "server.py"]``    a child process on its standard streams
``"http://…"``, ``"https://…"``  Streamable HTTP, falling back to HTTP+SSE
``"ws://…"``, ``"wss://…"``      WebSocket
``"tcp://host:port"``            TCP; ``"tls://…"`` inside TLS
``"unix:/path"``                 a Unix socket
``"server.py"``, ``Path(...)``   a Python file: its `Server` is run, or the file itself
``{"mcpServers": …}``          all of them as one, in memory
a `Connector`                  whatever it opens: a transport of your own
=============================  ====================================================================
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast, runtime_checkable
from urllib.parse import urlsplit

from msgspec import Struct

from ...core.channel import Link, Responder
from ...core.principal import Principal
from ...imported_packages import ORIGINALS, imported_packages
from ..conversation import Conversation

LABEL_LENGTH: Final = 120
"""Characters of a command that a message shows."""


@runtime_checkable
class Connector(Protocol):
    """Opens links to one target."""

    http: bool

    async def open(self, conversation: Conversation, transport: str) -> None:
        """Connect ``conversation``. ``transport`` is "stream", or for HTTP "streamable" or "sse".

        Raises:
            DovetailError: it cannot be opened.
        """
        ...

    async def release(self, link: Link) -> None:
        """Wait until a closed link has released everything."""
        ...


_NO_SCHEME: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}(/\S*)?|localhost(/\S*)?")


class Target(Struct, frozen=True, kw_only=True):
    """A parsed target. ``kind`` is memory, child, http, websocket, tcp, unix or opener."""

    kind: str
    url: str = ""
    command: tuple[str, ...] = ()
    host: str = ""
    port: int = 0
    path: str = ""
    tls: bool = False
    service: Any = None
    principal: Principal | None = None
    """The principal of calls to a server in this process."""
    every_revision: bool = False
    """Whether the command is ``dovetail run``, which supports every revision: an exit means that it failed to
    start.
    """

    @property
    def key(self) -> str | None:
        """The key of this server in the cache; None for a server in this process."""
        match self.kind:
            case "memory" | "opener":
                return None
            case "child":
                return "child:" + "\0".join((os.getcwd(), *self.command))
            case "http":
                return self.url.partition("?")[0].partition("#")[0]
            case _:
                return f"{self.kind}:{self.url}"

    @property
    def label(self) -> str:
        """The name in messages, without query string and credentials, which may be secret."""
        match self.kind:
            case "memory" | "opener":
                return "the server in this process"
            case "child":
                words = " ".join(" ".join(self.command).split())
                return words if len(words) <= LABEL_LENGTH else words[: LABEL_LENGTH - 1] + "…"
            case _:
                parts = urlsplit(self.url)
                netloc = parts.netloc.rpartition("@")[2]
                return f"{parts.scheme}://{netloc}{parts.path}" if netloc else self.url


def parse_target(target: Any) -> Target:
    """Parse a target.

    Raises:
        ValueError: the string has no known form.
        TypeError: the value is not a target.
    """
    if isinstance(target, Target):
        return target
    if isinstance(target, Path):
        return _file(str(target))
    if isinstance(target, str):
        return _parse_text(target)
    if isinstance(target, Sequence):
        words = tuple(str(word) for word in cast("Sequence[Any]", target))
        if not words:
            raise ValueError("the command is empty")
        return Target(kind="child", command=words)
    if isinstance(target, Mapping):
        from ...gateway import Gateway  # several servers as one

        return Target(kind="memory", service=Gateway(cast("Mapping[str, Any]", target)).dispatcher)
    if isinstance(target, Connector):
        return Target(kind="opener", service=target)
    service = getattr(target, "dispatcher", target)  # of a Server
    if isinstance(service, Responder):
        return Target(kind="memory", service=service)
    raise TypeError(f"a target is a Server, a command list, a URL or a file; not {type(target).__name__}")


def _parse_text(text: str) -> Target:
    scheme, separator, _ = text.partition(":")
    match scheme.lower() if separator else "":
        case "http" | "https":
            return _checked(Target(kind="http", url=text))
        case "ws" | "wss":
            return _checked(Target(kind="websocket", url=text))
        case "tcp" | "tls":
            parts = urlsplit(text)
            if not parts.hostname or not parts.port:
                raise ValueError(f"{text!r} needs a host and a port, as in tcp://127.0.0.1:9000")
            tls = scheme.lower() == "tls"
            return Target(kind="tcp", url=text, host=parts.hostname, port=parts.port, tls=tls)
        case "unix":
            path = text.partition(":")[2]
            path = path[2:] if path.startswith("//") else path
            return Target(kind="unix", url=text, path=path)
        case _ if text.endswith(".py"):
            return _file(text)
        case _:
            if (url := with_scheme(text)) is not None:
                raise ValueError(f"{text!r} has no scheme: write {url}")
            raise ValueError(
                f"{text!r} is no target: give a URL (http, https, ws, wss, tcp, unix), a .py file,"
                " or a command as a list of words"
            )


def with_scheme(text: str) -> str | None:
    """Return the URL for ``HOST:PORT/PATH``; None if ``text`` has another form."""
    return f"http://{text}" if _NO_SCHEME.fullmatch(text) else None


def _checked(target: Target) -> Target:
    if not urlsplit(target.url).hostname:
        raise ValueError(f"{target.url!r} lacks a host")
    return target


def _file(path: str) -> Target:
    """Return the target for a file: one with a server is run by Dovetail, any other as a program."""
    try:
        ours = b"dovetail" in Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{path!r} cannot be read: {error.strerror or error}") from None
    served = ours or ORIGINALS & imported_packages(path)
    command = run_command(path) if served else (sys.executable, path)
    return Target(kind="child", command=command, every_revision=bool(served))


def run_command(file: str) -> tuple[str, ...]:
    """Return the command that serves ``FILE[:name]`` in a child process."""
    return sys.executable, "-m", "dovetail.cli.main", "run", file
