"""What a server shows beside its own components: mounted servers and views, which `gateway` implements."""

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
    """What of `Server.transform` makes a view; all names are those of before."""

    include: Collection[str] | None
    exclude: Collection[str]
    rename: Mapping[str, str]
    describe: Mapping[str, str]
    hide: Mapping[str, Collection[str]]
    """Arguments that are not shown, by tool."""
    preset_arguments: Mapping[str, Mapping[str, Any]]
    """Values of arguments that are not shown, by tool."""
    default: Mapping[str, Mapping[str, Any]]
    """Values of arguments that callers may leave out, by tool."""
    rename_arguments: Mapping[str, Mapping[str, str]]
    """What arguments are called from now on, by tool."""


class TransformOptions(ViewOptions, total=False):
    """What `Server.transform` takes."""

    schemas: str | Mapping[str, str]
    """How schemas are written: "spec", "inline", "openai-strict", "gemini"; "auto", or one for each client by the
    beginning of its name."""
    max_bytes: int
    """Bytes a result may have; more is given in pages."""
    max_name_length: int
    """Characters that the name of a mounted tool may have with its prefix, from 24 on; by default 64."""
    resources_as_tools: bool
    """Offer resources as the tools ``list_resources``, ``list_resource_templates`` and ``read_resource`` too."""
    prompts_as_tools: bool
    """Offer prompts as the tools ``list_prompts`` and ``get_prompt`` too."""


class TaskTool(Struct, frozen=True):
    """What decides whether a call of somebody else's tool becomes a task of this server."""

    name: str
    task: Literal["forbidden", "optional", "required"]
    rights: Rights = ()
    asks_first: bool = False
    behind: bool = False
    """A server behind decides, when the call is under way."""


class Composition(Protocol):
    """Who is asked for what a server does not know itself."""

    @property
    def mounts(self) -> Sequence[Mount]:
        """What is mounted, in this order."""
        ...

    def limit_names(self, limit: int) -> None:
        """Give the tools of prefixed mounts names of at most ``limit`` characters from now on."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def meet(self, call: Call) -> None:
        """A client says hello, and is about to be told what there is."""
        ...

    async def respond(self, call: Call, channel: Channel) -> Struct | Raw | None:
        """The answer of whoever has the component; None when nobody has."""
        ...

    def receive_notification(self, notice: Notice) -> None:
        """A client says what is none of the protocol's, and nothing that this server wants to hear."""
        ...

    async def page(self, kind: ListName, call: Call, channel: Channel) -> Raw:
        """A page of what the server and its parts show."""
        ...

    async def set_level(self, call: Call, channel: Channel) -> None:
        """A client says from which level on it wants to hear."""
        ...

    async def shown(self, kind: ListName, call: Call) -> Any:
        """The whole list, for a server that this one is mounted in."""
        ...

    def known(self, kind: ListName, call: Call) -> Any:
        """The whole list where it is known at once; None otherwise."""
        ...

    def steady(self, kind: ListName) -> bool:
        """Whether callers without a principal are shown the same until a change is told."""
        ...

    async def has(self, kind: ListName, name: str, call: Call) -> bool: ...

    async def traits(self, name: str, call: Call) -> Sequence[Traits]:
        """All versions of a tool of others, the newest first; none where there is none."""
        ...

    def component(self, kind: ListName, name: str) -> Component | None:
        """What is known here of a component of others; None where it has to be asked for, or is not there."""
        ...

    def unwrapped(self, call: Call) -> Call | None:
        """The call that ``call_tool`` of a mounted search stands for; None for every other call."""
        ...

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

    def rights_of(self, uri: str) -> Rights:
        """Who may use an address of others, as far as it is known here."""
        ...

    async def sees(self, uri: str, call: Call) -> bool:
        """Whether ``uri`` is still there for them."""
        ...

    def scopes(self) -> frozenset[str]: ...

    def find_routes(self, path: str) -> list[Any]:
        """The own HTTP routes of what is mounted that answer ``path``."""
        ...


def chosen(names: Collection[str], tags: Collection[str]) -> list[str]:
    """Names and tags as the words that choose components."""
    return [*names, *(f"tag:{tag}" for tag in tags)]
