"""Reading the options of a `Client` that come in several shapes."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ..errors import LocalProtocolError
from ..settings import Reconnect
from ..wire.dialects import DIALECTS, Dialect
from ..wire.revisions import BY_NAME
from .connecting.negotiate import Policy


def read_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def read_params(method: str, params: dict[str, Any], kind: type[Struct]) -> Struct:
    """The params of a known method.

    Raises:
        LocalProtocolError: they are not what it takes.
    """
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        raise LocalProtocolError("invalid_params", f"{method}: {error}") from None


def read_dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}; not {name!r}")
    return DIALECTS[name]


def read_policy(revision: str, dialect: Dialect) -> Policy:
    if revision in BY_NAME or not dialect.versions:
        return Policy.of(revision)
    return Policy.of(dialect.versions[0])


def read_reconnect(option: Reconnect | bool | None) -> Reconnect:
    if isinstance(option, Reconnect):
        return option
    return Reconnect() if option is None or option else Reconnect(enabled=False)
