"""Sessions as text that `dovetail.testing.replay` reads; what sounds or looks like a secret is masked."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from ..layers.redaction import MASK, SECRETS, sounds_secret
from ..testing import Recording
from .frames import Frame

_PROTOCOL = frozenset(
    {"progressToken", "nextCursor", "cursor", "requestState", "protocolVersion", "maxTokens"}
)
"""Members that are no secrets whatever they sound like, and that a replay needs."""


def write(frames: list[Frame], title: str, *, raw: bool) -> str:
    """The messages among ``frames``; ``raw`` leaves secrets in."""
    recording = Recording()
    for frame in frames:
        if frame.kind in ("http", "unreadable"):
            continue
        message = frame.data if raw else msgspec.json.encode(masked(msgspec.json.decode(frame.data)))
        recording.add(frame.sender, message.replace(b"\n", b" ").replace(b"\r", b" "))
    note = "as it was" if raw else "secrets are masked"
    head = "".join(
        f"# {line}\n" for line in (title.replace("\n", " "), f"recorded by dovetail inspect, {note}")
    )
    return head + recording.text()


def masked(value: Any) -> Any:
    """``value`` without secrets; its shape stays, so that it can be replayed."""
    if isinstance(value, str):
        for pattern in SECRETS.values():
            value = pattern.sub(MASK, value)
        return value
    if isinstance(value, list):
        return [masked(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _member(name, member) for name, member in members.items()}
    return value


def _member(name: str, value: Any) -> Any:
    secret = isinstance(value, str | int | float) and name not in _PROTOCOL and sounds_secret(name)
    return MASK if secret and not isinstance(value, bool) else masked(value)
