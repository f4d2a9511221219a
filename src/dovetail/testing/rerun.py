"""Test whether a tool can be run again.

On 2026-07-28, a handler that requests input is run again for each round of answers. Effects before a request happen
again, unless they are in ``ctx.step``. `rerun` gives one answer at a time, so that the handler runs as often as
possible, and reports effects that happened in more than one run.

    report = await rerun(server, "book", {"flight": "SK1"}, watch=[charge])
    report.check()     # AssertionError: charge('SK1') happened in runs 1, 2: do it in ctx.step
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, Final

from msgspec import Struct

from ..core.principal import Principal
from ..errors import DovetailError, ProtocolError
from ..model.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from ..server import Server
from ..wire.revisions import newest
from .in_memory_pair import caller_of

RERUN_RUNS: Final = 100
"""The most runs of one handler."""

Answer = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Takes the method and params of a server-to-client request, and returns the result of the client."""

CAPABILITIES: Final[Mapping[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}

OUTSIDE: Final = frozenset(
    {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "socket.connect", "socket.sendto"}
    | {"subprocess.Popen", "os.system", "urllib.Request", "smtplib.send"}
)
"""Audit events of Python for effects outside the process."""


class Effect(Struct, frozen=True):
    """One effect, and the runs of the handler in which it happened (from 1)."""

    what: str
    runs: tuple[int, ...]

    def __str__(self) -> str:
        runs = ", ".join(map(str, self.runs))
        return f"{self.what} happened in runs {runs}: do it in ctx.step, or after the last request for input"


class Rerun(Struct, frozen=True):
    """The result of `rerun`."""

    result: dict[str, Any]
    runs: int
    repeated: tuple[Effect, ...]

    def check(self) -> None:
        """Raise AssertionError if anything happened in more than one run."""
        if self.repeated:
            raise AssertionError("; ".join(map(str, self.repeated)))


async def rerun(
    server: Server,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    answer: Answer | None = None,
    watch: Sequence[Callable[..., Any]] = (),
    principal: Principal | str | None = None,
    auth: str | None = None,
) -> Rerun:
    """Call ``tool`` and answer one input request per run.

    ``answer`` acts as the client; by default, forms are filled in with their defaults or the first valid value.
    ``watch`` names functions whose calls are effects; written files, opened connections and started processes are
    detected automatically. The effects are real: use test doubles for external services.

    Raises:
        ProtocolError: the call ended with a JSON-RPC error.
        DovetailError: the tool did not finish within `RERUN_RUNS` runs.
    """
    caller = await caller_of(server, principal, auth)
    seen: dict[str, set[int]] = {}
    params: dict[str, Any] = {"name": tool, "arguments": dict(arguments or {})}
    for number in range(1, RERUN_RUNS + 1):
        with _watching(watch, seen, number):
            result = await _call(server, params, caller)
        if result.get("resultType") != "input_required":
            repeated = [Effect(what, tuple(sorted(runs))) for what, runs in seen.items() if len(runs) > 1]
            return Rerun(result, number, tuple(repeated))
        params["requestState"] = result.get("requestState")
        params["inputResponses"] = _first_answer(result.get("inputRequests") or {}, answer or fill_in)
    raise DovetailError(f"{tool!r} did not finish within {RERUN_RUNS} runs")


async def _call(server: Server, params: Mapping[str, Any], caller: Principal | None) -> dict[str, Any]:
    meta = {PROTOCOL_VERSION: newest(modern=True).name, CLIENT_CAPABILITIES: CAPABILITIES}
    given = {name: value for name, value in params.items() if value is not None}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**given, "_meta": meta}}
    scope = {"transport": "memory", "principal": caller}
    reply = json.loads(await server.handle(json.dumps(message).encode(), scope) or b"{}")
    if "error" in reply:
        error = reply["error"]
        kind = error.get("data", {}).get("kind", "internal_error")
        raise ProtocolError(kind, error["message"], data=error.get("data"), code=error["code"])
    return reply["result"]


def _first_answer(questions: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    for key, question in questions.items():
        return {key: dict(answer(question["method"], question.get("params") or {}))}
    return {}


def fill_in(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The default client: accepts forms with defaults, samples "ok", has no roots."""
    if method == "sampling/createMessage":
        return {"role": "assistant", "content": {"type": "text", "text": "ok"}, "model": "none"}
    if method == "roots/list":
        return {"roots": []}
    schema = params.get("requestedSchema")
    if schema is None:
        return {"action": "accept"}
    fields: Mapping[str, Any] = schema.get("properties") or {}
    return {"action": "accept", "content": {name: _value(field) for name, field in fields.items()}}


def _value(field: Mapping[str, Any]) -> Any:
    if "default" in field:
        return field["default"]
    if choices := field.get("enum"):
        return choices[0]
    if options := field.get("oneOf"):
        return options[0]["const"]
    kind = field.get("type")
    if kind == "array":
        return []
    if kind in ("integer", "number"):
        return field.get("minimum", 1)
    return True if kind == "boolean" else "x" * max(1, field.get("minLength", 1))


# Watching

_watchers: set[Callable[[str], None]] = set()


@contextmanager
def _watching(
    functions: Sequence[Callable[..., Any]], seen: dict[str, set[int]], run: int
) -> Generator[None, None, None]:
    codes = {_code_of(function) for function in functions}

    def note(what: str) -> None:
        seen.setdefault(what, set()).add(run)

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in codes:
            note(_described(frame))

    _hook()
    _watchers.add(note)
    before = sys.getprofile()
    if codes:
        sys.setprofile(profile)
        threading.setprofile(profile)
    try:
        yield
    finally:
        _watchers.discard(note)
        if codes:
            sys.setprofile(before)
            threading.setprofile(before)  # pyright: ignore[reportArgumentType]


def _code_of(function: Callable[..., Any]) -> CodeType:
    plain = inspect.unwrap(function.__func__ if isinstance(function, MethodType) else function)
    if not isinstance(plain, FunctionType):
        raise TypeError(f"{function!r} cannot be watched: it is not a Python function")
    return plain.__code__


def _described(frame: FrameType) -> str:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    values = [repr(frame.f_locals[name]) for name in names if name in frame.f_locals and name != "self"]
    return f"{code.co_name}({', '.join(values)})"


@functools.cache
def _hook() -> None:
    sys.addaudithook(_audit)  # audit hooks cannot be removed; without watchers this one does nothing


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watchers or (event not in OUTSIDE and not (event == "open" and _writes(arguments))):
        return
    what = f"{event}({', '.join(map(repr, arguments[:2]))})"
    for note in tuple(_watchers):
        note(what)


def _writes(arguments: tuple[Any, ...]) -> bool:
    flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR))
