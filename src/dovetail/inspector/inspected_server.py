"""One inspected server: its client, its notifications, and the answers to its requests."""

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

from ..auth.commands.auth_option import chosen
from ..client import Client
from ..client.client_config import ClientOptions
from ..client.connecting.targets import Target
from ..client.samplers import Anthropic, LMStudio, Mock, Ollama, OpenAI
from ..errors import DovetailError, ProtocolError
from ..extensions import apps
from ..kinds import KINDS
from ..settings import Limits, Timeouts
from ..telemetry.terminal_sanitizer import printable
from .captured_headers import MessageCapture, WatchedFetch
from .open_requests import calling
from .stderr_entries import StderrEntries
from .truncation import NAME_SIZE

if TYPE_CHECKING:
    from .inspector import Inspector

MESSAGE_SIZE: Final = 256 << 20
"""The largest message that a server can send."""
LOGS_KEPT: Final = 5_000
"""Log messages stored for one connection."""
LOG_SIZE: Final = 10_000
"""Characters stored of one log message; the message log has all of it."""
LOG_BYTES: Final = 8 << 20
"""Bytes of log messages stored for one connection."""
UPDATES_COUNTED: Final = 1_000
"""Resources of one connection whose updates are counted."""


FIRST_LEVEL: Final = "info"
"""The log level to request, until the page selects one."""
_PROVIDERS: Final = {"anthropic": Anthropic, "openai": OpenAI, "ollama": Ollama, "lmstudio": LMStudio}


class ConnectRequest(Struct, kw_only=True):
    """What to connect to, and with which options."""

    target: Target
    label: str
    revision: str = "auto"
    headers: Mapping[str, str] = {}
    auth: Any = None
    env: Mapping[str, str] | None = None
    cwd: str | None = None


class Sampling(Struct, kw_only=True):
    """How sampling requests of a server are answered."""

    mode: str = "hand"
    """"hand", "mock" or the name of a provider."""
    reply: str = ""
    model: str = ""
    base_url: str = ""
    api_key: str = ""


class _Sampler:
    """Answers sampling requests as the page has selected."""

    supports_tools = True

    def __init__(self, connection: InspectedServer) -> None:
        self._connection = connection

    async def __call__(self, request: Any) -> Any:
        return await self._connection.sample(request)


class InspectedServer:
    """A client of one server, and the state that the page shows."""

    def __init__(self, inspector: Inspector, id: int, request: ConnectRequest) -> None:
        self._inspector = inspector
        self.id = id
        self.request = request
        self.sampling = Sampling()
        self.roots: list[dict[str, Any]] = []
        self.level: str | None = None
        self.subscribed: dict[str, int] = {}
        """The number of changes by URI."""
        self.logs: deque[dict[str, Any]] = deque()
        self._log_sizes: deque[int] = deque()
        self._log_bytes = 0
        self._stderr = StderrEntries(self._log_entry)
        self.problem: dict[str, Any] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._wire = MessageCapture(inspector.frames, id, inspector.news.stir)
        self.client = self._made(request.revision)

    # --- lifecycle --------------------------------------------------------------------------------------------------

    def _made(self, revision: str) -> Client:
        heard: ClientOptions = {
            "on_log": self._logged,
            "on_list_changed": self._changed,
            "on_resource_updated": self._updated,
            "on_task": self.heard_of,
            "on_state": self._state,
        }
        return Client(self.request.target, **{**self.options(revision), **heard})

    def options(self, revision: str) -> ClientOptions:
        """The options of all clients of this server, also of those in `revision_comparison.py`."""
        request = self.request
        found: ClientOptions = {
            "revision": revision,
            "on_elicit": self._elicit,
            "on_sample": _Sampler(self),
            "on_roots": lambda: self.roots,
            "on_stderr": self._print_stderr,
            "on_message": self._wire.on_message,
            "cache": False,
            "limits": Limits(max_message_bytes=MESSAGE_SIZE),
            # No timeout: the page has a cancel button.
            "timeouts": Timeouts(idle=None, total=None),
            "capabilities": {"extensions": {apps.EXTENSION: {"mimeTypes": [apps.HTML]}}},
            "headers": request.headers,
            "auth": request.auth,
            "env": request.env,
            "cwd": request.cwd,
        }
        if request.target.kind == "http":
            from ..transports.http.client.connection_pool import HttpFetch

            found["http"] = WatchedFetch(HttpFetch(), self._wire)
        return found

    def open(self) -> None:
        """Start to connect; the page receives the outcome."""
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
        """Wait for the running attempt."""
        if self._opening is not None:
            await asyncio.wait([self._opening])

    async def reopen(self, revision: str, auth: str | None = None) -> None:
        """Connect again, optionally with another revision, or with ``auth``: a token, or "oauth" to log in.

        Raises:
            ValueError: the revision does not exist.
        """
        if auth:
            self.request.auth = chosen(auth, self.request.target.url)
        client = self._made(revision)
        await self.close()
        self.request.revision, self.client = revision, client
        self.subscribed.clear()
        self.open()
        self.tell()

    async def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        await self.client.close()
        self._stderr.flush()
        self._inspector.frames.forget_requests(self.id)

    # --- state for the page -----------------------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        client = self.client
        return {
            "id": self.id, "label": self.request.label, "kind": self.request.target.kind,
            "wanted": self.request.revision,
            "url": self.request.target.label if self.request.target.url else "",
            "command": list(self.request.target.command),
            "state": "failed" if self.problem is not None else client.state, "problem": self.problem,
            "unauthorized": self.problem is not None and _is_unauthorized(self.problem["kind"]),
            "revision": client.revision, "server": msgspec.to_builtins(client.server_info),
            "capabilities": msgspec.to_builtins(client.server_capabilities), "instructions": client.instructions,
            "violations": client.violations, "sampling": {"mode": self.sampling.mode, "model": self.sampling.model},
            "roots": self.roots, "level": self.level, "subscribed": self.subscribed,
        }  # fmt: skip

    def tell(self) -> None:
        self._inspector.news.tell("connection", connection=self.shown())

    async def listing(self) -> dict[str, Any]:
        """Return the lists of the server, with the reason for each list that fails.

        Raises:
            DovetailError: not connected.
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

    # --- notifications ----------------------------------------------------------------------------------------------

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
        """Show the stderr output of the server process in the Logs panel."""
        self._stderr.feed(data)

    def _log_entry(self, level: str, text: str) -> None:
        self._log({"level": level, "logger": "stderr", "data": text})

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
        # A server can send updates for resources without a subscription, with ever new URIs.
        if known or (len(self.subscribed) < UPDATES_COUNTED and len(uri) <= NAME_SIZE):
            self.subscribed[uri] = count
        self._inspector.news.tell("updated", connection=self.id, uri=uri, count=count)

    def heard_of(self, task: Any) -> None:
        """Handle a new task or a new state of a task."""
        self._inspector.news.tell("task", connection=self.id, task=state_of(task), call=calling.get())

    # --- requests of the server -------------------------------------------------------------------------------------

    async def _elicit(self, request: Any) -> Any:
        return await self._ask("elicit", request)

    async def _ask(self, kind: str, request: Any) -> Any:
        call = calling.get() or self._inspector.calls.only_running(self.id)
        return await self._inspector.questions.ask(self.id, kind, request, call=call)

    async def sample(self, request: Any) -> Any:
        wanted = self.sampling
        if wanted.mode == "hand":
            return await self._ask("sample", request)
        if wanted.mode == "mock":
            return await Mock(*([wanted.reply] if wanted.reply else []))(request)
        if wanted.mode not in _PROVIDERS or not wanted.model:
            raise ProtocolError("sampling_failed", "the inspector has no model for this request")
        more: dict[str, Any] = {"base_url": wanted.base_url} if wanted.base_url else {}
        if wanted.api_key:
            more["api_key"] = wanted.api_key
        return await _PROVIDERS[wanted.mode](wanted.model, **more)(request)

    async def change(self, wanted: dict[str, Any]) -> None:
        """Apply settings of the page: ``sampling``, ``roots`` or ``level``.

        Raises:
            msgspec.ValidationError: a setting is not valid.
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


def _is_unauthorized(kind: str) -> bool:
    """Return whether a token or a login can help against an error of this kind."""
    row = KINDS.get(kind)
    return row is not None and row.status == 401


def state_of(task: Any) -> Any:
    """Return a task without its result, which is in the call."""
    return msgspec.to_builtins(
        msgspec.structs.replace(task, result=UNSET) if hasattr(task, "result") else task
    )


def problem_of(error: BaseException) -> dict[str, Any]:
    """Return an error in the form for the page."""
    if isinstance(error, ProtocolError):
        data = cast("Any", error.data)
        return {
            "kind": error.kind, "message": error.message, "code": error.code,
            "data": None if data is None else msgspec.to_builtins(data),
        }  # fmt: skip
    if isinstance(error, DovetailError):
        return {"kind": error.kind, "message": error.message}
    return {"kind": "failed", "message": f"{type(error).__name__}: {error}"}
