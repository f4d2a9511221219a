"""What the modules of the frameworks share: the tools of a client, calls of them, and results in plain values.

A framework calls a tool on its own event loop or in a thread. The connection belongs to the event loop on which
`remote_tools` was called: `RemoteTool` sends every call from there, so one connection serves all of them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import copy
import hashlib
import importlib
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct

from .. import sync
from ..client import Client
from ..client.calling.results import ToolResult
from ..errors import DovetailError, ProtocolError, RequestTimeout, StateError, ToolError
from ..extras import install_package
from ..model import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent, Tool

READABLE: Final = (ToolError, ProtocolError, RequestTimeout)
"""Failures of one call: the model reads their text and continues. All others end the run of the agent."""

NAME_CHARACTERS: Final = "a-zA-Z0-9_-"
"""What the APIs of the models accept in the name of a function."""
NAME_LENGTH: Final = 64


class MissingFramework(DovetailError, AttributeError):
    """A framework is not installed.

    It is an `AttributeError` too, so that ``help(dovetail.integrations)`` and ``hasattr`` skip the module.
    """


class Part(Struct, frozen=True):
    """One content block of a result, in plain values."""

    kind: Literal["text", "image", "audio", "file", "link"]
    text: str = ""
    data: str = ""
    """The base64 of an image, a sound or a file."""
    mime_type: str = "application/octet-stream"
    uri: str = ""

    @property
    def bytes(self) -> bytes:
        """The decoded ``data``; empty when it is not base64."""
        try:
            return base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError):
            return b""

    @property
    def data_url(self) -> str:
        return f"data:{self.mime_type};base64,{self.data}"

    def __str__(self) -> str:
        """The block for a model that reads text alone."""
        if self.kind in ("text", "link"):
            return self.text
        return f"[{self.kind}: {self.mime_type}, {len(self.bytes)} bytes]"


class RemoteTool:
    """A tool of a server, and how to call it."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop, definition: Tool, name: str) -> None:
        self._client = client
        self._loop = loop
        self.definition = definition
        self.name = name
        """A name that models accept; ``definition.name`` is the server's."""
        self.description: str = definition.description or definition.title or ""
        self.input_schema = object_schema(definition.input_schema)
        output = definition.output_schema
        self.output_schema: dict[str, Any] | None = None if output is UNSET else copy.deepcopy(output)
        self.annotations: dict[str, Any] = dict(definition.annotations or {})

    async def call(self, arguments: Mapping[str, Any] | None) -> ToolResult:
        """Call the tool, from any event loop. Cancelling the caller cancels the call on the server.

        Raises:
            ToolError: the tool failed.
            DovetailError: the call failed; see `READABLE`.
        """
        if asyncio.get_running_loop() is self._loop:
            return await self._send(arguments)
        return await asyncio.wrap_future(self._submit(arguments))

    def call_from_thread(self, arguments: Mapping[str, Any] | None) -> ToolResult:
        """`call` for synchronous code in a thread other than the event loop's.

        Raises:
            StateError: this is the thread of the event loop, which cannot wait for itself.
        """
        if _running_loop() is self._loop:
            raise StateError(
                f"the tool {self.name!r} was called without await on the event loop of its client: await it, run the"
                " agent in a thread (asyncio.to_thread), or use dovetail.sync.Client with load_tools_sync"
            )
        future = self._submit(arguments)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _submit(self, arguments: Mapping[str, Any] | None) -> Any:
        if not self._loop.is_running():
            raise StateError(
                f"the tool {self.name!r} cannot be called: the event loop of its client has ended"
            )
        return asyncio.run_coroutine_threadsafe(self._send(arguments), self._loop)

    async def _send(self, arguments: Mapping[str, Any] | None) -> ToolResult:
        return await self._client.call_tool(self.definition.name, dict(arguments or {}))


async def remote_tools(
    client: Client, *, characters: str = NAME_CHARACTERS, length: int = NAME_LENGTH
) -> list[RemoteTool]:
    """The tools of ``client``, under names made of ``characters``, with at most ``length`` of them.

    Raises:
        TypeError: it is not an asynchronous client.
    """
    _check(
        client, Client, "load_tools takes a dovetail.Client; for a dovetail.sync.Client use load_tools_sync"
    )
    tools = await client.list_tools()
    loop = asyncio.get_running_loop()
    taken: set[str] = set()
    found: list[RemoteTool] = []
    for tool in tools:
        name = function_name(tool.name, characters, length)
        if name in taken:
            name = _with_digest(name, tool.name, length)
        taken.add(name)
        found.append(RemoteTool(client, loop, tool, name))
    return found


def function_name(name: str, characters: str = NAME_CHARACTERS, length: int = NAME_LENGTH) -> str:
    """``name`` with ``_`` for what a model does not accept; one that is too long ends with a digest of the whole."""
    plain = re.sub(f"[^{characters}]", "_", name)
    return plain if len(plain) <= length else _with_digest(plain, name, length)


def _with_digest(plain: str, name: str, length: int) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: length - 9]}_{digest}"


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an input schema that says ``type`` and ``properties``, which some frameworks read unchecked."""
    return {"type": "object", "properties": {}, **copy.deepcopy(dict(schema))}


def parts(result: ToolResult) -> list[Part]:
    """The content of a result. A result without content becomes its structured content as JSON."""
    found = [_part(block) for block in result.content]
    if not found and result.structured_content is not None:
        found = [Part("text", msgspec.json.encode(result.structured_content).decode())]
    return found


def text_of(result: ToolResult) -> str:
    """The content of a result as text; of images, sounds and files their types and sizes."""
    return "\n".join(map(str, parts(result)))


def _part(block: Any) -> Part:
    if isinstance(block, TextContent):
        return Part("text", block.text)
    if isinstance(block, ImageContent):
        return Part("image", data=block.data, mime_type=block.mime_type)
    if isinstance(block, AudioContent):
        return Part("audio", data=block.data, mime_type=block.mime_type)
    if isinstance(block, ResourceLink):
        title = block.title or block.name
        return Part("link", f"{title}: {block.uri}", mime_type=block.mime_type or "", uri=block.uri)
    assert isinstance(block, EmbeddedResource)
    resource = block.resource
    if resource.text is not UNSET:
        return Part("text", resource.text, uri=resource.uri or "")
    kind = resource.mime_type or "application/octet-stream"
    data = resource.blob or ""
    return Part("image" if kind.startswith("image/") else "file", "", data, kind, resource.uri or "")


def plain(value: Any) -> Any:
    """A Struct of the model as the protocol writes it: dicts, lists and scalars."""
    return msgspec.json.decode(msgspec.json.encode(value))


def arguments_model(tool: RemoteTool) -> Any:
    """A pydantic model of the arguments for frameworks that ask for one.

    It takes every argument as it is, and its JSON Schema is the server's, word for word: nothing is lost in a
    translation to Python types, and the server checks the arguments.
    """
    pydantic = framework("pydantic", "pydantic")

    def model_json_schema(cls: Any, *args: Any, **options: Any) -> dict[str, Any]:
        return copy.deepcopy(tool.input_schema)

    members = {
        "__module__": __name__,
        "__doc__": tool.description,
        "model_config": pydantic.ConfigDict(extra="allow"),
        "model_json_schema": classmethod(model_json_schema),
    }
    return type(pydantic.BaseModel)(f"{tool.name}_arguments", (pydantic.BaseModel,), members)


def framework(module: str, package: str) -> Any:
    """A module of a framework.

    Raises:
        MissingFramework: ``package`` is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        message = f"this integration needs the module {module}: {install_package(f'--upgrade {package}')}"
        raise MissingFramework(message, kind="missing_extra") from error


def blocking(
    load: Callable[[Client], Coroutine[Any, Any, list[Any]]],
) -> Callable[[sync.Client], list[Any]]:
    """``load_tools`` for programs without an event loop: it takes a `dovetail.sync.Client`."""

    def load_tools_sync(client: sync.Client) -> list[Any]:
        """`load_tools` of a `dovetail.sync.Client`; its tools may be called from every thread."""
        _check(
            client, sync.Client, "load_tools_sync takes a dovetail.sync.Client; otherwise await load_tools"
        )
        return client.run(load)

    return load_tools_sync


def _check(client: object, kind: type[object], message: str) -> None:
    if not isinstance(client, kind):
        raise TypeError(f"{message}, not {type(client).__name__}")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
