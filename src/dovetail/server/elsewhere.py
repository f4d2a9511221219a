"""What a server shows beside what is registered with it: the services mounted in it, as `gateway` does it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, Protocol, TypedDict

from msgspec import Raw, Struct

from ..core.channel import Call, Channel
from ..core.rights import Rights

ListName = Literal["tools", "resources", "templates", "prompts"]


class ViewOptions(TypedDict, total=False):
    """What `Server.transform` takes; all names are those of before."""

    only: Collection[str] | None
    without: Collection[str]
    rename: Mapping[str, str]
    describe: Mapping[str, str]
    hide: Mapping[str, Collection[str]]
    """Arguments that are not shown, by tool."""
    fix: Mapping[str, Mapping[str, Any]]
    """Values of arguments that are not shown, by tool."""


class TaskTool(Struct, frozen=True):
    """What decides whether a call of somebody else's tool becomes a task of this server."""

    name: str
    task: Literal["forbidden", "optional", "required"]
    rights: Rights = ()
    asks_first: bool = False


class Elsewhere(Protocol):
    """Who is asked for what a server does not know itself."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def respond(self, call: Call, channel: Channel) -> Struct | Raw | None:
        """The answer of whoever has the component; None when nobody has."""
        ...

    async def shown(self, kind: ListName, call: Call) -> Any:
        """The whole list, for a server that this one is mounted in."""
        ...

    async def has(self, kind: ListName, name: str, call: Call) -> bool: ...

    def task_tool(self, name: str) -> TaskTool | None:
        """A tool of others whose calls may become tasks of this server; None where there is none."""
        ...

    async def watch(self, uri: str, call: Call) -> bool:
        """Somebody wants to hear of ``uri``.

        Raises:
            ProtocolError: it is not there for them.
        """
        ...

    def unwatch(self, uri: str) -> None: ...

    def scopes(self) -> frozenset[str]: ...
