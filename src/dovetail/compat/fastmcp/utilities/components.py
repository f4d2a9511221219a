"""`FastMCPComponent`: what tools, resources, templates and prompts of FastMCP have in common."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr

from ...mcp.types import Icon
from ..generation import generation
from .types import FastMCPBaseModel


def _tags(value: Any) -> Any:
    return set[str]() if value is None else set(value)


def _version(value: Any) -> Any:
    return None if value is None else str(value)


class FastMCPComponent(FastMCPBaseModel):
    """Something that a server lists."""

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True, defer_build=True)
    KEY_PREFIX: ClassVar[str] = ""

    name: str
    version: Annotated[str | None, BeforeValidator(_version)] = None
    title: str | None = None
    description: str | None = None
    icons: list[Icon] | None = None
    tags: Annotated[set[str], BeforeValidator(_tags)] = Field(default_factory=set)
    meta: dict[str, Any] | None = None
    enabled: bool = True
    auth: Any = Field(default=None, exclude=True)
    task_config: Any = Field(default=None, exclude=True)

    _key: str | None = PrivateAttr(None)
    _owner: Any = PrivateAttr(None)
    """The server it is registered with, which tells its clients of changes."""
    _mirrored: bool = PrivateAttr(False)
    """It belongs to a server behind a proxy of FastMCP 2."""

    @property
    def key(self) -> str:
        """What it is registered under."""
        if self._key is not None:
            return self._key
        return (
            self._identity()
            if generation() == 2
            else self.make_key(self._identity()) + f"@{self.version or ''}"
        )

    def _identity(self) -> str:
        return self.name

    @classmethod
    def make_key(cls, identifier: str) -> str:
        return f"{cls.KEY_PREFIX}:{identifier}" if cls.KEY_PREFIX else identifier

    def get_meta(self, include_fastmcp_meta: bool | None = None) -> dict[str, Any] | None:
        """The ``_meta`` that clients see: the author's, and what FastMCP says of itself."""
        meta = dict(self.meta or {})
        if include_fastmcp_meta is not False:
            word = "_fastmcp" if generation() == 2 else "fastmcp"
            own: dict[str, Any] = {"tags": sorted(self.tags)}
            if self.version is not None:
                own["version"] = self.version
            meta[word] = {**meta.get(word, {}), **own}
        return meta or None

    def enable(self) -> None:
        """Show it again."""
        self._show(shown=True)

    def disable(self) -> None:
        """Show it no more, nor answer for it."""
        self._show(shown=False)

    def _show(self, *, shown: bool) -> None:
        if self._mirrored:
            how = "enable" if shown else "disable"
            raise RuntimeError(
                f"Cannot {how} mirrored component '{self.name}'. "
                f"Create a local copy first with {self.name}.copy() and add it to your server."
            )
        self.enabled = shown
        if self._owner is not None:
            self._owner.component_changed(self)

    def copy(self, **_: Any) -> Self:
        copied = self.model_copy()
        copied._mirrored = False
        return copied

    def model_copy(self, *, update: Any = None, deep: bool = False, key: str | None = None) -> Self:
        copied = super().model_copy(update=update, deep=deep)
        if key is not None:
            copied._key = key
        return copied

    def common(self, include_fastmcp_meta: bool | None) -> dict[str, Any]:
        """The members that the protocol has for every component."""
        members = {
            "name": self.name, "title": self.title, "description": self.description, "icons": self.icons,
            "_meta": self.get_meta(include_fastmcp_meta),
        }  # fmt: skip
        return {name: value for name, value in members.items() if value is not None}

    def __repr__(self) -> str:
        words = (
            f"name={self.name!r}, title={self.title!r}, description={self.description!r}, tags={self.tags!r}"
        )
        return f"{type(self).__name__}({words})"
