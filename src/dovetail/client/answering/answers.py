"""The questions a server may ask: one table of callbacks for both eras.

A legacy server sends a request and waits; a modern one ends the call with `input_required` and waits for the retry.
Either way the question reaches `Answers.answer` as a method name and decoded params, and what it returns goes back
as it is. What we are able to answer is also what we declare: `capabilities` derives it from the callbacks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct

from ...errors import DovetailError, ProtocolError
from ...model import (
    ClientCapabilities,
    CreateMessageResult,
    ElicitRequestParams,
    ListRootsResult,
    Root,
    TextContent,
)
from ...model.meta import SKILLS_EXTENSION, TASKS_EXTENSION
from ...wire.revisions import Revision, sieve_for
from .forms import read_answer

Callback = Callable[..., Any]

# What each callback lets us declare, under the method it answers.
_DECLARED: dict[str, tuple[str, dict[str, Any]]] = {
    "roots/list": ("roots", {"listChanged": True}),
    "sampling/createMessage": ("sampling", {}),
    "elicitation/create": ("elicitation", {"form": {}, "url": {}}),
}


class Answers:
    """The callbacks of one client. Absent callbacks are not declared and are answered with an error."""

    def __init__(
        self,
        *,
        on_elicit: Callback | None = None,
        on_sample: Callback | None = None,
        on_roots: Callback | Sequence[Any] | None = None,
        declared: Mapping[str, Any] | None = None,
    ) -> None:
        self._declared = dict(declared or {})
        if on_roots is not None and not callable(on_roots):
            roots = list(on_roots)
            on_roots = lambda: roots  # noqa: E731
        self._callbacks: dict[str, tuple[Callback, Callable[[Any, Any], Struct]]] = {}
        if on_elicit is not None:
            self._callbacks["elicitation/create"] = (_one_argument(on_elicit), _elicited)
        if on_sample is not None:
            self._callbacks["sampling/createMessage"] = (_one_argument(on_sample), _sampled)
        if on_roots is not None:
            self._callbacks["roots/list"] = (_one_argument(on_roots), _rooted)
        self._sample_tools = bool(getattr(on_sample, "supports_tools", False))

    def capabilities(self, revision: Revision) -> ClientCapabilities:
        """What to declare on ``revision``: the callbacks there are, and what the application added."""
        able = ClientCapabilities(_DECLARED[method] for method in self._callbacks)
        if self._sample_tools:
            able["sampling"] = {"tools": {}}
        if requests := self._taskable():
            able["tasks"] = {"list": {}, "cancel": {}, "requests": requests}
        found: dict[str, Any] = sieve_for(revision).edit(able)
        if revision.modern:
            # Both are answered by the client itself, so every modern server may count on them.
            found["extensions"] = {TASKS_EXTENSION: {}, SKILLS_EXTENSION: {}}
        for name, setting in self._declared.items():
            old = found.get(name)
            merge = isinstance(old, dict) and isinstance(setting, dict)
            found[name] = {**cast("dict[str, Any]", old), **setting} if merge else setting
        return ClientCapabilities(found)

    def _taskable(self) -> dict[str, Any]:
        """Which questions 2025-11-25 may ask as tasks."""
        found: dict[str, Any] = {}
        if "sampling/createMessage" in self._callbacks:
            found["sampling"] = {"createMessage": {}}
        if "elicitation/create" in self._callbacks:
            found["elicitation"] = {"create": {}}
        return found

    def answers(self, method: str) -> bool:
        """Whether somebody answers this question."""
        return method in self._callbacks

    def read_url(self, entry: Any) -> ElicitRequestParams | None:
        """One entry of a URLElicitationRequired error as a question; None when it is not one."""
        try:
            params = msgspec.convert(entry, ElicitRequestParams)
        except (msgspec.ValidationError, ValueError):
            return None
        return params if params.mode == "url" else None

    async def answer(self, method: str, params: Any) -> Struct:
        """Ask the application and return the result to send.

        Raises:
            ProtocolError: nobody answers this question, or the answer cannot be sent.
        """
        known = self._callbacks.get(method)
        if known is None:
            raise ProtocolError("method_not_found", f"this client does not answer {method}")
        callback, convert = known
        value = callback(params)
        if inspect.isawaitable(value):
            value = await value
        try:
            return convert(value, params)
        except DovetailError:
            raise
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise ProtocolError(
                "internal_error", f"the answer to {method} cannot be sent: {error}"
            ) from error


def _one_argument(callback: Callback) -> Callback:
    """Call ``callback`` with the request, or without it when it takes no argument."""
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        return callback
    takes = any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
    if takes:
        return callback

    def without_request(_: Any) -> Any:
        return callback()

    return without_request


def _elicited(value: Any, params: Any) -> Struct:
    schema = None if params.mode == "url" else cast("Mapping[str, Any]", params.requested_schema)
    return read_answer(value, schema)


def _sampled(value: Any, params: Any) -> Struct:
    if isinstance(value, CreateMessageResult):
        return value
    if value is None:
        raise ProtocolError("sampling_failed", "User rejected sampling request", code=-1)
    if isinstance(value, str):
        value = TextContent(value)
    if isinstance(value, Mapping) and "content" in value:
        return msgspec.convert({"role": "assistant", "model": "unknown", **value}, CreateMessageResult)
    block = msgspec.to_builtins(value)
    return msgspec.convert({"role": "assistant", "content": block, "model": "unknown"}, CreateMessageResult)


def _rooted(value: Any, params: Any) -> Struct:
    if isinstance(value, ListRootsResult):
        return value
    entries = cast("Mapping[str, Any]", value).get("roots") if isinstance(value, Mapping) else value
    return ListRootsResult([_root(entry) for entry in cast("Sequence[Any]", entries or ())])


def _root(entry: Any) -> Root:
    if isinstance(entry, Root):
        return entry
    if isinstance(entry, PurePath):
        return Root(entry.absolute().as_uri() if hasattr(entry, "absolute") else entry.as_uri())  # pyright: ignore
    if isinstance(entry, str):
        return Root(entry, name=UNSET)
    return msgspec.convert(entry, Root)
