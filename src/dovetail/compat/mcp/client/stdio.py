"""``stdio_client()``: a server that is a child process."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from pydantic import BaseModel, Field

from .ways import Way

DEFAULT_INHERITED_ENV_VARS: Final = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"]


def get_default_environment() -> dict[str, str]:
    """What a child may know of our environment."""
    known = {name: os.environ.get(name) for name in DEFAULT_INHERITED_ENV_VARS}
    return {name: value for name, value in known.items() if value is not None and not value.startswith("()")}


class StdioServerParameters(BaseModel):
    command: str
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] | None = None
    cwd: str | Path | None = None
    encoding: str = "utf-8"
    encoding_error_handler: Literal["strict", "ignore", "replace"] = "strict"


@asynccontextmanager
async def stdio_client(
    server: StdioServerParameters, errlog: TextIO = sys.stderr
) -> AsyncGenerator[tuple[Way, Way], None]:
    """The way to a child process; a `ClientSession` starts it."""

    def heard(data: bytes) -> None:
        errlog.write(data.decode(server.encoding, "replace"))

    options: dict[str, Any] = {
        "env": {**get_default_environment(), **(server.env or {})},
        "cwd": server.cwd,
        "on_stderr": heard,
    }
    way = Way([server.command, *server.args], options)
    yield way, way
