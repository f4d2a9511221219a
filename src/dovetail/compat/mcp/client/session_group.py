"""`ClientSessionGroup`: several servers of SDK 1.x's client behind one register of what they offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeAlias

from pydantic import BaseModel

from .. import types
from ..shared.exceptions import McpError
from .session import ClientSession
from .sse import sse_client
from .stdio import StdioServerParameters, stdio_client
from .streamable_http import streamablehttp_client


class SseServerParameters(BaseModel):
    url: str
    headers: dict[str, Any] | None = None
    timeout: float = 5
    sse_read_timeout: float = 300


class StreamableHttpParameters(BaseModel):
    url: str
    headers: dict[str, Any] | None = None
    timeout: timedelta = timedelta(seconds=30)
    sse_read_timeout: timedelta = timedelta(seconds=300)
    terminate_on_close: bool = True


ServerParameters: TypeAlias = StdioServerParameters | SseServerParameters | StreamableHttpParameters


@dataclass
class ClientSessionParameters:
    """What every session of a group is made with."""

    read_timeout_seconds: timedelta | None = None
    sampling_callback: Callable[..., Any] | None = None
    elicitation_callback: Callable[..., Any] | None = None
    list_roots_callback: Callable[..., Any] | None = None
    logging_callback: Callable[..., Any] | None = None
    message_handler: Callable[..., Any] | None = None
    client_info: types.Implementation | None = None


def _way(given: ServerParameters) -> Any:
    if isinstance(given, StdioServerParameters):
        return stdio_client(given)
    if isinstance(given, SseServerParameters):
        return sse_client(given.url, given.headers, given.timeout, given.sse_read_timeout)
    return streamablehttp_client(given.url, given.headers, given.timeout, given.sse_read_timeout)


class _Member:
    """One session: what it added to the group, by kind and name, and what ends it."""

    def __init__(self, session: ClientSession, stack: AsyncExitStack | None) -> None:
        self.session, self.stack = session, stack
        self.offers: dict[str, dict[str, Any]] = {}
        self.own: dict[str, str] = {}
        """Tools: their name in the group → the server's own."""


class ClientSessionGroup:
    """Open it with ``async with``. A name that two servers share is refused, unless the hook gives it others."""

    def __init__(
        self,
        exit_stack: AsyncExitStack | None = None,
        component_name_hook: Callable[[str, types.Implementation], str] | None = None,
    ) -> None:
        self._stack, self._owned = exit_stack or AsyncExitStack(), exit_stack is None
        self._name = component_name_hook or _own_name
        self._members: list[_Member] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owned:
            await self._stack.aclose()

    # --- what there is --------------------------------------------------------------------------------------

    @property
    def sessions(self) -> list[ClientSession]:
        return [member.session for member in self._members]

    @property
    def prompts(self) -> dict[str, types.Prompt]:
        return self._all("prompts")

    @property
    def resources(self) -> dict[str, types.Resource]:
        return self._all("resources")

    @property
    def tools(self) -> dict[str, types.Tool]:
        return self._all("tools")

    def _all(self, kind: str) -> dict[str, Any]:
        return {name: one for member in self._members for name, one in member.offers[kind].items()}

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None,
        read_timeout_seconds: timedelta | None = None, progress_callback: Callable[..., Any] | None = None, *,
        meta: dict[str, Any] | None = None, args: dict[str, Any] | None = None,
    ) -> types.CallToolResult:  # fmt: skip
        """Call a tool of whichever server has it; raises KeyError where none has."""
        member = next((one for one in self._members if name in one.own), None)
        if member is None:
            raise KeyError(name)
        given = args if arguments is None else arguments
        return await member.session.call_tool(
            member.own[name], given, read_timeout_seconds, progress_callback, meta=meta
        )

    # --- who belongs to it ----------------------------------------------------------------------------------

    async def connect_to_server(
        self, server_params: ServerParameters, session_params: ClientSessionParameters | None = None
    ) -> ClientSession:
        """Connect, and take over what the server offers.

        Raises:
            McpError: it cannot be reached, or a name is taken.
        """
        stack = AsyncExitStack()
        try:
            read, write, *_ = await stack.enter_async_context(_way(server_params))
            session = ClientSession(read, write, **vars(session_params or ClientSessionParameters()))
            await stack.enter_async_context(session)
            greeting = await session.initialize()
            await self._take_over(greeting.serverInfo, _Member(session, stack))
        except BaseException:
            await stack.aclose()
            raise
        await self._stack.enter_async_context(stack)
        return session

    async def connect_with_session(
        self, server_info: types.Implementation, session: ClientSession
    ) -> ClientSession:
        """Take over what the server of a session of the caller's own offers."""
        await self._take_over(server_info, _Member(session, None))
        return session

    async def disconnect_from_server(self, session: ClientSession) -> None:
        """Forget what the server offers, and end the session if the group has begun it."""
        member = next((one for one in self._members if one.session is session), None)
        if member is None:
            raise _refused("Provided session is not managed or already disconnected.")
        self._members.remove(member)
        if member.stack is not None:
            await member.stack.aclose()

    async def _take_over(self, info: types.Implementation, member: _Member) -> None:
        session = member.session
        has = session.get_server_capabilities() or types.ServerCapabilities()
        lists: Mapping[str, Any] = {
            "prompts": (has.prompts, session.list_prompts),
            "resources": (has.resources, session.list_resources),
            "tools": (has.tools, session.list_tools),
        }
        for kind, (offered, listing) in lists.items():
            found: list[Any] = [] if offered is None else getattr(await listing(), kind)
            named = {self._name(one.name, info): one for one in found}
            if taken := named.keys() & self._all(kind).keys():
                raise _refused(f"{taken} already exist in group {kind}.")
            member.offers[kind] = named
            if kind == "tools":
                member.own = {name: one.name for name, one in named.items()}
        self._members.append(member)


def _own_name(name: str, _: types.Implementation) -> str:
    return name


def _refused(message: str) -> McpError:
    return McpError(types.ErrorData(code=types.INVALID_PARAMS, message=message))
