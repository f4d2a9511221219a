"""Resources that need no function: text, bytes, files, folders."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from pydantic import Field

from .base import Resource


class TextResource(Resource):
    """A text."""

    text: str

    async def read(self) -> Any:
        return self.text


class BinaryResource(Resource):
    """Some bytes."""

    data: bytes

    async def read(self) -> Any:
        return self.data


class FileResource(Resource):
    """A file, read when somebody wants it."""

    path: Path
    is_binary: bool = False

    def model_post_init(self, context: Any, /) -> None:
        if not self.path.is_absolute():
            raise ValueError("Path must be absolute")

    async def read(self) -> Any:
        text = not self.is_binary and self.mime_type.startswith("text/")
        return await asyncio.to_thread(self.path.read_text if text else self.path.read_bytes)


class DirectoryResource(Resource):
    """The names of the files in a folder."""

    path: Path
    recursive: bool = False
    pattern: str | None = None
    mime_type: str = Field(default="application/json")

    async def read(self) -> Any:
        found = self.path.rglob if self.recursive else self.path.glob
        files = [
            str(one.relative_to(self.path)) for one in sorted(found(self.pattern or "*")) if one.is_file()
        ]
        return json.dumps({"files": files}, indent=2)
