"""`Resource` and the ready-made ones."""

from __future__ import annotations

import asyncio
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import to_json

from ......shapes import is_object
from .....common.signatures import name_of
from .... import types
from ....types import Annotations, Icon
from ....types.base import Url


class Resource(BaseModel, ABC):
    """Something that can be read."""

    model_config = ConfigDict(validate_default=True, defer_build=True)

    uri: Url
    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str = "text/plain"
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _found_by_something(cls, given: Any) -> Any:
        if is_object(given) and not {"uri", "name"} & given.keys():
            raise ValueError("Either name or uri must be provided")
        return given

    @model_validator(mode="after")
    def _default_name(self) -> Resource:
        if not self.name:
            self.name = str(self.uri)
        return self

    @abstractmethod
    async def read(self) -> str | bytes:
        """Its content."""


class TextResource(Resource):
    """A text."""

    text: str

    async def read(self) -> str:
        return self.text


class BinaryResource(Resource):
    """Some bytes."""

    data: bytes

    async def read(self) -> bytes:
        return self.data


class FunctionResource(Resource):
    """A resource that a function reads when somebody wants it."""

    fn: Callable[[], Any] = Field(exclude=True)

    @classmethod
    def from_function(
        cls, fn: Callable[..., Any], uri: str, name: str | None = None, description: str | None = None,
        **options: Any,
    ) -> FunctionResource:  # fmt: skip
        """A resource that ``fn`` reads."""
        name = name or name_of(fn)
        if name == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        options["mime_type"] = options.get("mime_type") or "text/plain"
        return cls(
            uri=types.AnyUrl(uri), name=name, description=description or fn.__doc__ or "", fn=fn, **options
        )

    async def read(self) -> str | bytes:
        try:
            value = self.fn()
            if inspect.isawaitable(value):
                value = await value
            if isinstance(value, Resource):
                return await value.read()
            if isinstance(value, str | bytes):
                return value
            return to_json(value, fallback=str, indent=2).decode()
        except Exception as error:
            raise ValueError(f"Error reading resource {self.uri}: {error}") from error


class FileResource(Resource):
    """A file, read when somebody wants it."""

    path: Path
    is_binary: bool = False

    @model_validator(mode="after")
    def _checked(self) -> FileResource:
        if not self.path.is_absolute():
            raise ValueError("Path must be absolute")
        self.is_binary = self.is_binary or not self.mime_type.startswith("text/")
        return self

    async def read(self) -> str | bytes:
        try:
            return await asyncio.to_thread(self.path.read_bytes if self.is_binary else self.path.read_text)
        except Exception as error:
            raise ValueError(f"Error reading file {self.path}: {error}") from error


class DirectoryResource(Resource):
    """The names of the files in a folder."""

    path: Path
    recursive: bool = False
    pattern: str | None = None
    mime_type: str = "application/json"

    def list_files(self) -> list[Path]:
        found = self.path.rglob if self.recursive else self.path.glob
        return list(found(self.pattern or "*"))

    async def read(self) -> str:
        files = await asyncio.to_thread(self.list_files)
        names = [str(one.relative_to(self.path)) for one in files if one.is_file()]
        return json.dumps({"files": names}, indent=2)
