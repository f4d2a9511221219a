"""`FastMCP`: a server as users of FastMCP 2 and 3 write it, carried by one of ours."""

from __future__ import annotations

import logging
import secrets
import warnings
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Generic

from typing_extensions import TypeVar

from ....server import Server as Native
from ....server.context import LEVELS
from ...mcp import types as t
from ...serving import Served
from ..generation import generation
from ..prompts.base import PromptResult
from ..resources.base import ResourceResult
from ..settings import settings
from ..tools.base import ToolResult
from ..utilities.types import NotSet
from .lifespan import Lifespan
from .low_level import LowLevelServer
from .managers import PromptManager, ResourceManager, ToolManager
from .mounting import Mounting
from .operations import Operations
from .providers.local import LocalProvider
from .registering import Registering
from .running import Running
from .transforms.namespace import add_resource_prefix, has_resource_prefix, remove_resource_prefix
from .transforms.tool_transform import ToolTransform
from .transforms.visibility import rules

LifespanResultT = TypeVar("LifespanResultT", default=Any)
VERSIONS: Final = {2: "2.14.7", 3: "3.4.10"}
"""What a server without a version of its own says, by generation: that of the library it was written for."""
_SETTINGS: Final = frozenset(
    {
        "log_level", "debug", "host", "port", "sse_path", "message_path", "streamable_http_path", "json_response",
        "stateless_http",
    }
)  # fmt: skip
"""Settings that FastMCP 2 takes from a server's keywords, too."""
_DUPLICATES: Final = {
    "on_duplicate_tools": ("tool",), "on_duplicate_resources": ("resource", "template"),
    "on_duplicate_prompts": ("prompt",),
}  # fmt: skip
log = logging.getLogger("fastmcp")


class FastMCP(Registering, Running, Operations, Mounting, Served, Generic[LifespanResultT]):
    """A server of tools, resources and prompts."""

    def __init__(
        self, name: str | None = None, instructions: str | None = None, *, version: Any = None,
        website_url: str | None = None, icons: list[t.Icon] | None = None, auth: Any = NotSet,
        middleware: Sequence[Any] | None = None, lifespan: Any = None, tools: Sequence[Any] | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        Operations.__init__(self)
        self._settings = settings.model_copy()
        self.middleware: list[Any] = list(middleware or ())
        self._additional_http_routes: list[Any] = []
        self._lifespan = Lifespan.of(lifespan)
        self.lifespan_result: Any = {}
        self._living = 0
        self.auth: Any = self._default_auth() if auth is NotSet else auth
        transforms = self._take(options)
        self._mcp_server = LowLevelServer(
            self, name=name or self.generate_name(), version=_version(version), instructions=instructions,
            website_url=website_url, icons=icons, lifespan=self._low_level_lifespan,
        )  # fmt: skip
        self._tool_manager = ToolManager(self)
        self._resource_manager = ResourceManager(self)
        self._prompt_manager = PromptManager(self)
        for transform in transforms:
            self.add_transform(transform)
        for tool in tools or ():
            self.add_tool(tool)

    def _take(self, options: dict[str, Any]) -> list[Any]:
        """The rest of the keywords, old and new; returns what transforms they mean.

        Raises:
            TypeError: nobody knows one of them.
        """
        said, settings = options.pop, self._settings
        self._local_provider = LocalProvider(said("on_duplicate", None) or "warn", self._changed)
        self.providers: list[Any] = [self._local_provider, *(said("providers", None) or ())]
        self._tool_serializer = said("tool_serializer", None)
        self._mask_error_details = _first(said("mask_error_details", None), settings.mask_error_details)
        self.include_fastmcp_meta = _first(said("include_fastmcp_meta", None), settings.include_fastmcp_meta)
        self.sampling_handler = said("sampling_handler", None)
        self.sampling_always = said("sampling_handler_behavior", None) == "always"
        self.strict_input_validation: bool = _first(
            said("strict_input_validation", None), settings.strict_input_validation
        )
        transforms: list[Any] = list(said("transforms", None) or ())
        if changes := said("tool_transformations", None):
            transforms.append(ToolTransform(changes))
        if include := said("include_tags", None) or settings.include_tags:
            transforms += rules(True, only=True, tags=set(include))
        if exclude := said("exclude_tags", None) or settings.exclude_tags:
            transforms += rules(False, tags=set(exclude))
        self.dereference_schemas: bool = said("dereference_schemas", True)
        self._take_newer(options)
        self._take_older(options)
        return transforms

    def _take_newer(self, options: dict[str, Any]) -> None:
        """Keywords of FastMCP 3.

        Raises:
            ValueError: a page has no entries, or a level is none.
        """
        said = options.pop
        self.list_page_size: int | None = said("list_page_size", None)
        if self.list_page_size is not None and self.list_page_size < 1:
            raise ValueError("list_page_size must be a positive integer")
        self.client_log_level: Any = said("client_log_level", None)
        if self.client_log_level not in (None, *LEVELS):
            raise ValueError(f"client_log_level is one of {', '.join(LEVELS)}")
        self.session_state_store: Any = said("session_state_store", None)
        self.support_tasks = bool(said("tasks", None))

    def _take_older(self, older: dict[str, Any]) -> None:
        """Keywords that come and go between versions.

        Raises:
            TypeError: nobody knows one of them.
        """
        for word, kinds in _DUPLICATES.items():
            said = older.pop(word, None)
            if said is not None:
                self._local_provider.set_duplicates(kinds, said)
        for word in _SETTINGS & older.keys():
            value = older.pop(word)
            if value is not None:
                warnings.warn(f"give {word} to run(), not to FastMCP()", DeprecationWarning, stacklevel=4)
                setattr(self._settings, word, value)
        for word in ("dependencies", "loglevel"):
            if older.pop(word, None) is not None:
                log.info("FastMCP(%s=…) makes no difference here", word)
        if older:
            words = ", ".join(repr(word) for word in older)
            raise TypeError(f"FastMCP() got unexpected keyword argument(s): {words}")

    @classmethod
    def generate_name(cls, name: str | None = None) -> str:
        return "-".join((cls.__name__, *([] if name is None else [name]), secrets.token_hex(2)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    # What it is

    @property
    def native(self) -> Native:
        return self._mcp_server.native

    @property
    def name(self) -> str:
        return self._mcp_server.name

    @property
    def instructions(self) -> str | None:
        return self._mcp_server.instructions

    @instructions.setter
    def instructions(self, value: str | None) -> None:
        self._mcp_server.instructions = value
        if self._mcp_server.started:
            self.native.instructions = value

    @property
    def version(self) -> str | None:
        return self._mcp_server.version

    @property
    def website_url(self) -> str | None:
        return self._mcp_server.website_url

    @property
    def icons(self) -> list[t.Icon]:
        return list(self._mcp_server.icons or ())

    @property
    def settings(self) -> Any:
        return self._settings

    @property
    def local_provider(self) -> LocalProvider:
        """What is registered with this server itself."""
        return self._local_provider

    def add_middleware(self, middleware: Any) -> None:
        """Put ``middleware`` around every request, inside of what was added before."""
        self.middleware.append(middleware)

    # What changes

    def _changed(self, kind: str) -> None:
        if self._mcp_server_made() and self._mcp_server.started:
            self.native.changed("resources" if kind == "template" else f"{kind}s")  # type: ignore[arg-type]

    def _mcp_server_made(self) -> bool:
        return "_mcp_server" in vars(self)

    def components_changed(self) -> None:
        for kind in ("tool", "resource", "prompt"):
            self._changed(kind)

    def component_changed(self, component: Any) -> None:
        self._changed(component.KEY_PREFIX)

    # Its life

    @asynccontextmanager
    async def running_lifespan(self) -> AsyncGenerator[Any, None]:
        """The lifespan of this server and of all it has mounted; entered more than once it is one life."""
        self._living += 1
        if self._living > 1:
            try:
                yield self.lifespan_result
            finally:
                self._living -= 1
            return
        try:
            async with AsyncExitStack() as stack:
                value = await stack.enter_async_context(self._lifespan(self))
                self.lifespan_result = {} if value is None else value
                for provider in self.providers[1:]:
                    await stack.enter_async_context(provider.lifespan())
                yield self.lifespan_result
        finally:
            self._living -= 1
            self.lifespan_result = {}

    def _low_level_lifespan(self, _: Any) -> Any:
        return self.running_lifespan()

    _lifespan_manager = running_lifespan

    # What FastMCP 2 calls below its decorators

    async def _call_tool_mcp(self, key: str, arguments: dict[str, Any]) -> Any:
        return (await self.call_tool(key, arguments)).to_mcp_result()

    async def _read_resource_mcp(self, uri: Any) -> Any:
        result = await self.read_resource(str(uri))
        return result.contents if generation() == 2 else result.to_mcp_result(uri)

    async def _get_prompt_mcp(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        return (await self.render_prompt(name, arguments)).to_mcp_prompt_result()

    async def _list_tools_mcp(self, *_: Any) -> Any:
        return [one.to_mcp_tool() for one in await self.list_tools()]


def _first(given: Any, default: Any) -> Any:
    return default if given is None else given


def _version(version: Any) -> str:
    return VERSIONS[generation()] if version is None else str(version)


__all__ = [
    "FastMCP", "PromptResult", "ResourceResult", "ToolResult", "add_resource_prefix", "has_resource_prefix",
    "remove_resource_prefix",
]  # fmt: skip
