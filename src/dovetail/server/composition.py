"""What a server shows beside what is registered with it: the services mounted in it, as `gateway` does it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypedDict, Unpack, cast

from msgspec import Raw, Struct

from ..core.channel import Call, Channel, Notice
from ..core.rights import Rights
from ..drivers.middleware_chain import Component
from ..errors import RegistrationError
from ..stores.base import Store

if TYPE_CHECKING:
    from ..gateway.providers import ComponentProvider, Mount
    from ..gateway.selectors import Traits
    from ..gateway.transform_chain import TransformChain
    from ..openapi.asgi_client import App
    from ..openapi.description import Spec
    from ..openapi.route_map import Route
    from .server import Server

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


class Composing:
    """The part of a `Server` that shows others, and shapes what is shown."""

    composition: Composition | None = None
    """What is mounted here; None without."""
    inherited_store: Store | None = None
    """The store of the server that this one is mounted in."""
    transforms: TransformChain | None = None
    """What is made of the components before anybody sees them; None without."""
    max_name_length = NAME_LENGTH
    """Characters that the name of a mounted tool may have with its prefix."""

    @classmethod
    def from_openapi(
        cls, spec: Spec, *, client: Any = None, routes: Sequence[Route] = (), **options: Any
    ) -> Self:
        """A server for the HTTP API that ``spec`` describes: see `openapi.building.from_openapi`."""
        from ..openapi.build_server import from_openapi  # nobody else needs it

        return from_openapi(cast("Any", cls), spec, client=client, routes=routes, **options)

    @classmethod
    def from_fastapi(cls, app: Any, *, routes: Sequence[Route] = (), **options: Any) -> Self:
        """A server for a FastAPI application, run in this process: see `openapi.building.from_fastapi`."""
        from ..openapi.build_server import from_fastapi

        return from_fastapi(cast("Any", cls), app, routes=routes, **options)

    def mount(self, child: Server | ComponentProvider | App, prefix: str | None = None) -> None:
        """Show what ``child`` has as if it were registered here, and have it answer: tools, resources, prompts.

        With ``prefix="weather"`` its tool ``forecast`` is ``weather_forecast``, its ``city://oslo`` is
        ``city://weather/oslo``; methods of its author's own keep their names. What it gains or loses later shows. Its
        middleware, rights and lifespan stay its own.

        Raises:
            RegistrationError: a name or the prefix is taken; the message says by whom.
        """
        from ..gateway.mounting import mount  # a server without others loads nothing of it

        mount(cast("Server", self), child, prefix)

    def add_tools(self, *tools: Any) -> None:
        """Register several tools at once: functions, and tools of LangChain, the OpenAI Agents SDK and Pydantic AI.

        A `FunctionToolset` of Pydantic AI stands for its tools, a list for its items.

        Raises:
            RegistrationError: one of them is not a tool, or cannot be registered.
        """
        from ..integrations.foreign_tools import tool_options

        for options in tool_options(tools):
            cast("Server", self).add_tool(**options)

    def transform(self, **options: Unpack[TransformOptions]) -> None:
        """Change what is shown, for lists and use alike: ``include`` only these, ``exclude`` those, ``rename`` and
        ``describe`` them, ``rename_arguments``, ``hide`` arguments, set ``preset_arguments`` or give a ``default``:
        ``transform(rename={"add": "cart_add"}, preset_arguments={"add": {"currency": "EUR"}})``.

        ``schemas`` writes them as some clients need them, ``max_bytes`` gives large results in pages.
        ``max_name_length`` is the longest name of a mounted tool with its prefix: of a longer one, a hash replaces the
        end.

        Tools and prompts are chosen by name, resources and templates by address, tools also as ``version:>=2`` or
        ``add@1.0``, all of them as ``tag:admin``; ``prompt:add`` is no tool. ``include`` leaves out nothing of a kind
        that it does not speak of: names are those of tools, ``prompt:…`` those of prompts. Several transforms are
        applied one after the other, each to what the one before it shows; middleware sees the names of before.

        Raises:
            RegistrationError: two of a kind would have one name; the message says whose they are.
        """
        from ..gateway.transforms import View  # a server that shows all it has loads nothing of it

        transforms, schemas, max_bytes = (
            self._transform_chain(),
            options.pop("schemas", None),
            options.pop("max_bytes", None),
        )
        if schemas is not None:
            transforms.write_schemas(schemas)
        if max_bytes is not None:
            transforms.limit_results(max_bytes)
        if "max_name_length" in options:
            self._limit_names(options.pop("max_name_length"))
        if options:
            transforms.add_view(View(**cast("ViewOptions", options)))

    def _limit_names(self, limit: int) -> None:
        if not isinstance(limit, int) or limit < SHORTEST_LIMIT:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError(f"max_name_length is a number from {SHORTEST_LIMIT} on, not {limit!r}")
        self.max_name_length = limit
        if self.composition is not None:
            self.composition.limit_names(limit)

    def hide(self, *names: str, tags: Collection[str] = ()) -> None:
        """Hide these, and all with one of ``tags``, until a handler shows them with ``await ctx.show(…)``.

        Names may also be ``tag:admin``, ``version:<2`` or ``add@1.0``. Without any nothing is hidden yet, but handlers
        may do so: ``await ctx.hide(…)``.
        """
        transforms = self._transform_chain()
        transforms.watch_visibility().hide(chosen(names, tags))
        transforms.change()

    def search(self, *, always: Collection[str] = (), limit: int = 8) -> None:
        """List no more than the tools ``always`` names, and two others: ``search_tools``, which finds up to ``limit``
        tools by words (BM25), and ``call_tool``, which calls what was found.

        For servers with hundreds of tools, those of mounts and proxies included. Nobody finds what they may not call.

        Raises:
            RegistrationError: a tool of the server has one of these names.
        """
        from ..gateway.search import Search

        self._transform_chain().find_tools(Search(cast("Server", self), always, limit))

    def _transform_chain(self) -> TransformChain:
        if self.transforms is None:
            from ..gateway.transform_chain import TransformChain

            self.transforms = TransformChain(cast("Server", self))
            cast("Server", self).pipeline.compose()
        return self.transforms

    def _transform_calls(self) -> None:
        self._transform_chain()


def chosen(names: Collection[str], tags: Collection[str]) -> list[str]:
    """Names and tags as the words that choose components."""
    return [*names, *(f"tag:{tag}" for tag in tags)]
