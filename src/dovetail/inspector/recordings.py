"""Sessions as text for `dovetail.testing.replay`, with secrets masked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from ..middleware.sensitive_data import MASK, SECRETS, is_secret_name
from ..testing import Recording
from .messages import CapturedMessage

_PROTOCOL: Final = frozenset(
    {"progressToken", "nextCursor", "cursor", "requestState", "protocolVersion", "maxTokens"}
)
"""Members that a replay needs and that are not secrets in spite of their names."""
_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema", "requestedSchema"})
"""Members of a schema: the name of a secret there describes a type."""
_USER: Final = re.compile(r"(?<=://)[^/\s?#@\"']{1,500}@")
_GIVEN: Final = re.compile(
    r"(?<![\w-])(--[\w-]{1,60}[ =]|[\w-]{1,60}(?:\\?[\"']\s?[:=]\s?\\?[\"']|=\\?[\"']?))([^\s\\\"'&;,)}\]]{1,4000})"
)
"""``name=value`` of addresses and environments, ``"name": "value"`` of JSON in texts, ``--name value`` of commands."""


def write(frames: list[CapturedMessage], title: str, *, raw: bool) -> str:
    """Return the messages as a recording; ``raw`` keeps secrets."""
    recording = Recording()
    for frame in frames:
        if frame.kind in ("http", "unreadable"):
            continue
        try:
            message = frame.data if raw else msgspec.json.encode(masked(msgspec.json.decode(frame.data)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue  # not readable: an invalid batch, or nested too deeply
        recording.add(frame.sender, message)
    note = "with secrets" if raw else "secrets are masked"
    named = " ".join((title if raw else masked_text(title)).split())
    return f"# {named}\n# recorded by dovetail inspect, {note}\n{recording.text()}"


def masked(value: Any) -> Any:
    """Return ``value`` without secrets and with the same shape, so that it can be replayed."""
    return _made(value, _masked_document, masked, _masked_member)


def masked_text(text: str) -> str:
    """Return ``text`` without values that look like secrets or follow the name of one."""
    for pattern in SECRETS.values():
        text = pattern.sub(MASK, text)
    text = _USER.sub(f"{MASK}@", text)
    return _GIVEN.sub(lambda found: f"{found[1]}{MASK}" if is_secret_name(found[1]) else found[0], text)


def _masked_document(text: str) -> str:
    """Mask a text that may be JSON, as in most results with structured content."""
    if text[:1] in ("{", "["):
        try:
            found = msgspec.json.decode(text)
        except msgspec.MsgspecError:
            return masked_text(text)
        without = masked(found)
        return text if without == found else msgspec.json.encode(without).decode()
    return masked_text(text)


def _masked_member(name: str, value: Any) -> Any:
    if name in _SCHEMAS:
        return _schema(value)
    return _hidden(value) if name not in _PROTOCOL and is_secret_name(name) else masked(value)


def _schema(value: Any) -> Any:
    return _made(value, masked_text, _schema, lambda name, member: _schema(member))


def _hidden(value: Any) -> Any:
    """Mask the value of a member with the name of a secret."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0
    return _made(value, lambda text: MASK, _hidden, lambda name, member: _hidden(member))


def _made(
    value: Any, text: Callable[[str], str], item: Callable[[Any], Any], member: Callable[[str, Any], Any]
) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [item(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: member(name, one) for name, one in cast("dict[str, Any]", value).items()}
    return value
