"""`Composition`: the interface through which a server shows mounted servers and views. `gateway` implements it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypedDict

from msgspec import Raw, Struct

from ..core.channel import Call, Channel, Notice
from ..core.rights import Rights
from ..drivers.middleware_chain import Component

if TYPE_CHECKING:
    from ..gateway.providers import Mount
    from ..gateway.selectors import Traits

ListName = Literal["tools", "resources", "templates", "prompts"]


NAME_LENGTH: Final = 64
"""The longest tool name that several model APIs accept."""
SHORTEST_LIMIT: Final = 24


class ViewOptions(TypedDict, total=False):
    """The options of `Server.transform` that define a view. All names are the names before the view."""

    include: Collection[str] | None
    """The components that clients see; kinds that it does not name are all visible. None: all components."""
    exclude: Collection[str]
    """Components that clients do not see."""
    rename: Mapping[str, str]
    """The new names of components, by name."""
    describe: Mapping[str, str]
    """The new descriptions of components, by name."""
    hide: Mapping[str, Collection[str]]
    """Arguments that clients do not see, by tool."""
    preset_arguments: Mapping[str, Mapping[str, Any]]
    """Values of arguments that clients do not see, by tool."""
    default: Mapping[str, Mapping[str, Any]]
    """Defaults of arguments, by tool."""
    rename_arguments: Mapping[str, Mapping[str, str]]
    """The new names of arguments, by tool."""


class TransformOptions(ViewOptions, total=False):
    """The options of `Server.transform`."""

    schemas: str | Mapping[str, str]
    """How schemas are written: "spec", "inline", "openai-strict" or "gemini"; "auto", or a mapping from the prefix of a
    client's name to one of these.
    """
    max_bytes: int
    """The maximum number of bytes of a result; larger results are split into pages."""
    max_name_length: int
    """The maximum length of a mounted tool's name with its prefix: at least 24, by default 64."""
    resources_as_tools: bool
    """Offer resources as the tools ``list_resources``, ``list_resource_templates`` and ``read_resource`` too."""
    prompts_as_tools: bool
    """Offer prompts as the tools ``list_prompts`` and ``get_prompt`` too."""


class TaskTool(Struct, frozen=True):
    """The task options of a mounted tool, which decide whether its calls become tasks of this server."""

    name: str
    task: Literal["forbidden", "optional", "required"]
    rights: Rights = ()
    asks_first: bool = False
    upstream: bool = False
    """The upstream server decides while the call runs."""


class Composition(Protocol):
    """Answers for components that are not registered with the server itself."""

    @property
    def mounts(self) -> Sequence[Mount]:
        """The mounted servers and providers, in order of mounting."""
        ...

    def limit_names(self, limit: int) -> None:
        """Limit the names of tools in prefixed mounts to ``limit`` characters."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def prepare_client(self, call: Call) -> None:
        """Prepare for a client that has sent ``initialize`` or ``server/discover``."""
        ...

    async def respond(self, call: Call, channel: Channel) -> Struct | Raw | None:
        """The response of the mounted server that has the component; None when no mounted server has it."""
        ...

    def receive_notification(self, notice: Notice) -> None:
        """Handle a notification that is not part of the protocol and has no handler in this server."""
        ...

    async def page(self, kind: ListName, call: Call, channel: Channel) -> Raw:
        """One page of the merged list of the server and its mounts."""
        ...

    async def set_level(self, call: Call, channel: Channel) -> None:
        """Forward the log level that a client has set."""
        ...

    async def shown(self, kind: ListName, call: Call) -> Any:
        """The whole list, for a parent server in which this server is mounted."""
        ...

    def known(self, kind: ListName, call: Call) -> Any:
        """The whole list if it is cached; otherwise None."""
        ...

    def is_static(self, kind: ListName) -> bool:
        """Whether callers without a principal see the same list until a change is published."""
        ...

    async def has(self, kind: ListName, name: str, call: Call) -> bool: ...

    async def traits(self, name: str, call: Call) -> Sequence[Traits]:
        """All versions of a mounted tool, newest first; empty if the tool does not exist."""
        ...

    def component(self, kind: ListName, name: str) -> Component | None:
        """What is known locally of a mounted component; None if it must be fetched or does not exist."""
        ...

    def unwrapped(self, call: Call) -> Call | None:
        """The call that ``call_tool`` of a mounted search wraps; None for every other call."""
        ...

    def task_tool(self, name: str) -> TaskTool | None:
        """The task options of a mounted tool whose calls may become tasks of this server; None if no such
        tool.
        """
        ...

    async def watch(self, uri: str, call: Call) -> bool:
        """Subscribe a client to ``uri``.

        Raises:
            ProtocolError: the client cannot see ``uri``.
        """
        ...

    def unwatch(self, uri: str) -> None: ...

    def rights_of(self, uri: str) -> Rights:
        """The access rights of a mounted URI, as far as they are known here."""
        ...

    async def sees(self, uri: str, call: Call) -> bool:
        """Whether the caller can still see ``uri``."""
        ...

    def scopes(self) -> frozenset[str]: ...

    def find_routes(self, path: str) -> list[Any]:
        """The custom HTTP routes of mounted servers that match ``path``."""
        ...


def chosen(names: Collection[str], tags: Collection[str]) -> list[str]:
    """Names and tags as selectors of components."""
    return [*names, *(f"tag:{tag}" for tag in tags)]
