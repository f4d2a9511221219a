"""One server the page looks at: a client, what it hears, and how its questions are answered."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import UNSET, Struct

from ..client import Client
from ..client.client_config import ClientOptions
from ..client.connecting.targets import Target
from ..client.samplers import Anthropic, LMStudio, Mock, Ollama, OpenAI
from ..errors import DovetailError, ProtocolError
from ..extensions import apps
from ..settings import Limits, Timeouts
from ..telemetry.terminal_sanitizer import printable
from .captured_headers import WatchedFetch, Wire
from .truncation import NAME_SIZE

if TYPE_CHECKING:
    from .inspector import Inspector

MESSAGE_SIZE: Final = 256 << 20
"""The largest message a server may send us."""
LOGS_KEPT: Final = 5_000
"""Log messages stored for one connection."""
LOG_SIZE: Final = 10_000
"""Characters stored of one log message; the message log has all of it."""
LOG_BYTES: Final = 8 << 20
"""Bytes of log messages stored for one connection."""
UPDATES_COUNTED: Final = 1_000
"""Resources of one connection whose updates are counted."""


FIRST_LEVEL: Final = "info"
"""What a server is asked to log, until somebody chooses."""
_PROVIDERS: Final = {"anthropic": Anthropic, "openai": OpenAI, "ollama": Ollama, "lmstudio": LMStudio}


class Wish(Struct, kw_only=True):
    """What to connect to, and how."""

    target: Target
    label: str
    revision: str = "auto"
    headers: Mapping[str, str] = {}
    auth: Any = None
    env: Mapping[str, str] | None = None
    cwd: str | None = None


class Sampling(Struct, kw_only=True):
    """Who answers when a server wants to sample."""

    mode: str = "hand"
    """hand, mock or a provider."""
    reply: str = ""
    model: str = ""
    base_url: str = ""
    api_key: str = ""


class _Sampler:
    """Asks whoever the page has chosen."""

    supports_tools = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def __call__(self, request: Any) -> Any:
        return await self._connection.sample(request)


class Connection:
    """A client of one server."""

    def __init__(self, inspector: Inspector, id: int, wish: Wish) -> None:
        self._inspector = inspector
        self.id = id
        self.wish = wish
        self.sampling = Sampling()
        self.roots: list[dict[str, Any]] = []
        self.level: str | None = None
        self.subscribed: dict[str, int] = {}
        """By URI: how often it has changed."""
        self.logs: deque[dict[str, Any]] = deque()
        self._log_sizes: deque[int] = deque()
        self._log_bytes = 0
        self.problem: dict[str, Any] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._wire = Wire(inspector.frames, id, inspector.news.stir)
        self.client = self._made(wish.revision)

    # --- life ---------------------------------------------------------------------------------------------------------

    def _made(self, revision: str) -> Client:
        heard: ClientOptions = {
            "on_log": self._logged,
            "on_list_changed": self._changed,
            "on_resource_updated": self._updated,
            "on_task": self.heard_of,
            "on_state": self._state,
        }
        return Client(self.wish.target, **{**self.options(revision), **heard})

    def options(self, revision: str) -> ClientOptions:
        """Those of every client of this server, the one beside the others for `revisions.py` too."""
        wish = self.wish
        found: ClientOptions = {
            "revision": revision,
            "on_elicit": self._elicit,
            "on_sample": _Sampler(self),
            "on_roots": lambda: self.roots,
            "on_stderr": self._print_stderr,
            "on_message": self._wire.on_message,
            "cache": False,
            "limits": Limits(max_message_bytes=MESSAGE_SIZE),
            # Whoever looks decides how long to wait; there is a button.
            "timeouts": Timeouts(idle=None, total=None),
            "capabilities": {"extensions": {apps.EXTENSION: {"mimeTypes": [apps.HTML]}}},
            "headers": wish.headers,
            "auth": wish.auth,
            "env": wish.env,
            "cwd": wish.cwd,
        }
        if wish.target.kind == "http":
            from ..transports.http.client.connection_pool import HttpFetch

            found["http"] = WatchedFetch(HttpFetch(), self._wire)
        return found

    def open(self) -> None:
        """Begin to connect; the page is told how it went."""
        self.problem = None
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        try:
            await self.client.open()
            if self.client.server_capabilities.has("logging"):
                await self.client.set_logging_level(self.level or FIRST_LEVEL)
                self.level = self.level or FIRST_LEVEL
        except DovetailError as error:
            self.problem = problem_of(error)
        self.tell()

    async def opened(self) -> None:
        """Wait for the attempt that is under way."""
        if self._opening is not None:
            await asyncio.wait([self._opening])

    async def reopen(self, revision: str) -> None:
        """Connect anew, perhaps with another revision.

        Raises:
            ValueError: there is no such revision.
        """
        client = self._made(revision)
        await self.close()
        self.wish.revision, self.client = revision, client
        self.subscribed.clear()
        self.open()
        self.tell()

    async def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        await self.client.close()
        self._inspector.frames.forget_requests(self.id)

    # --- what the page sees -------------------------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        client = self.client
        return {
            "id": self.id, "label": self.wish.label, "kind": self.wish.target.kind, "wanted": self.wish.revision,
            "url": self.wish.target.label if self.wish.target.url else "",
            "command": list(self.wish.target.command),
            "state": "failed" if self.problem is not None else client.state, "problem": self.problem,
            "revision": client.revision, "server": msgspec.to_builtins(client.server_info),
            "capabilities": msgspec.to_builtins(client.server_capabilities), "instructions": client.instructions,
            "violations": client.violations, "sampling": {"mode": self.sampling.mode, "model": self.sampling.model},
            "roots": self.roots, "level": self.level, "subscribed": self.subscribed,
        }  # fmt: skip

    def tell(self) -> None:
        self._inspector.news.tell("connection", connection=self.shown())

    async def listing(self) -> dict[str, Any]:
        """All that the server offers; what cannot be had is left out, with the reason.

        Raises:
            DovetailError: there is no connection.
        """
        await self.opened()
        client, offered = self.client, self.client.server_capabilities
        asked = {
            "tools": ("tools", client.list_tools),
            "resources": ("resources", client.list_resources),
            "templates": ("resources", client.list_resource_templates),
            "prompts": ("prompts", client.list_prompts),
        }
        found: dict[str, Any] = {"problems": {}}
        for name, (capability, ask) in asked.items():
            found[name] = []
            if offered.has(capability):
                try:
                    found[name] = msgspec.to_builtins(await ask())
                except DovetailError as error:
                    found["problems"][name] = problem_of(error)
        return found

    # --- what the server says -----------------------------------------------------------------------------------------

    def _state(self, state: str) -> None:
        self.tell()

    def _logged(self, params: Any) -> None:
        self._log(
            {"level": params.level, "logger": params.logger or "", "data": msgspec.to_builtins(params.data)}
        )

    def _print_stderr(self, data: bytes) -> None:
        sys.stderr.write(printable(data.decode("utf-8", "replace")))
        self.log_stderr(data)

    def log_stderr(self, data: bytes) -> None:
        """Show what the process of the server writes to stderr in the panel of logs."""
        for line in data.decode("utf-8", "replace").splitlines():
            self._log({"level": "stderr", "logger": "", "data": line})

    def _log(self, entry: dict[str, Any]) -> None:
        entry |= {"at": time.time() * 1000, "connection": self.id, "logger": entry["logger"][:NAME_SIZE]}
        data = msgspec.json.encode(entry["data"])
        if len(data) > LOG_SIZE:
            entry["data"] = f"{data[:LOG_SIZE].decode(errors='replace')}… ({len(data)} bytes)"
        size = min(len(data), LOG_SIZE)
        self.logs.append(entry)
        self._log_sizes.append(size)
        self._log_bytes += size
        while len(self.logs) > LOGS_KEPT or self._log_bytes > LOG_BYTES:
            self.logs.popleft()
            self._log_bytes -= self._log_sizes.popleft()
        self._inspector.news.tell("log", entry=entry)

    def _changed(self, kind: str) -> None:
        self._inspector.news.tell("listChanged", connection=self.id, list=kind)

    def _updated(self, uri: str) -> None:
        known, count = uri in self.subscribed, self.subscribed.get(uri, 0) + 1
        # A server may say this of resources that nobody has subscribed to, of ever new ones too.
        if known or (len(self.subscribed) < UPDATES_COUNTED and len(uri) <= NAME_SIZE):
            self.subscribed[uri] = count
        self._inspector.news.tell("updated", connection=self.id, uri=uri, count=count)

    def heard_of(self, task: Any) -> None:
        """A task has another state, or is new."""
        self._inspector.news.tell("task", connection=self.id, task=state_of(task))

    # --- what it asks -------------------------------------------------------------------------------------------------

    async def _elicit(self, request: Any) -> Any:
        return await self._inspector.questions.ask(self.id, "elicit", request)

    async def sample(self, request: Any) -> Any:
        wanted = self.sampling
        if wanted.mode == "hand":
            return await self._inspector.questions.ask(self.id, "sample", request)
        if wanted.mode == "mock":
            return await Mock(*([wanted.reply] if wanted.reply else []))(request)
        if wanted.mode not in _PROVIDERS or not wanted.model:
            raise ProtocolError("sampling_failed", "the inspector has no such model")
        more: dict[str, Any] = {"base_url": wanted.base_url} if wanted.base_url else {}
        if wanted.api_key:
            more["api_key"] = wanted.api_key
        return await _PROVIDERS[wanted.mode](wanted.model, **more)(request)

    async def change(self, wanted: dict[str, Any]) -> None:
        """Take settings of the page: ``sampling``, ``roots`` or ``level``.

        Raises:
            msgspec.ValidationError: one of them is none.
        """
        if "sampling" in wanted:
            self.sampling = msgspec.convert(wanted["sampling"], Sampling)
        if "roots" in wanted:
            self.roots = msgspec.convert(wanted["roots"], list[dict[str, Any]])
            with suppress(DovetailError):
                await self.client.notify_roots_changed()
        if "level" in wanted:
            level = msgspec.convert(wanted["level"], str)
            await self.client.set_logging_level(level)
            self.level = level
        self.tell()


def state_of(task: Any) -> Any:
    """A task as the page shows it: without its result, which the call has."""
    return msgspec.to_builtins(
        msgspec.structs.replace(task, result=UNSET) if hasattr(task, "result") else task
    )


def problem_of(error: BaseException) -> dict[str, Any]:
    """An error as the page shows it."""
    if isinstance(error, ProtocolError):
        data = cast("Any", error.data)
        return {
            "kind": error.kind, "message": error.message, "code": error.code,
            "data": None if data is None else msgspec.to_builtins(data),
        }  # fmt: skip
    if isinstance(error, DovetailError):
        return {"kind": error.kind, "message": error.message}
    return {"kind": "failed", "message": f"{type(error).__name__}: {error}"}
