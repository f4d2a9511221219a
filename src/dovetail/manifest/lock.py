"""The lock file: the manifest of a server.

It contains everything that clients see of tools, resources, templates and prompts, and nothing that differs between
runs. It belongs into the repository: a changed line is a change of the interface.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from ..client import Client
from ..errors import DovetailError

FORMAT: Final = 1
LOCK_BYTES: Final = 64 << 20
"""The largest lock file that is read, in bytes."""
_LEFT_OUT: Final = ("_meta", "icons")
"""Members that are not compared."""
Entries = dict[str, dict[str, Any]]


class LockError(DovetailError, ValueError):
    """A file is not a lock file of Dovetail."""


class Manifest(Struct, rename="camel", omit_defaults=True):
    """The components of a server by name or URI, in the form of the newest revision."""

    lock: int
    """The version of the file format."""
    server: dict[str, Any] = {}
    tools: Entries = {}
    resources: Entries = {}
    resource_templates: Entries = field(default_factory=dict[str, dict[str, Any]])
    prompts: Entries = {}


def _ignore(step: str) -> None:
    """Report no progress."""


async def manifest_of(client: Client, progress: Callable[[str], None] = _ignore) -> Manifest:
    """Return the manifest of the server of an open ``client``. ``progress`` is called with each list that is read."""
    offered = client.server_capabilities
    found = Manifest(FORMAT)
    info = client.server_info
    if info is not None:
        found.server = {"name": info.name, "version": info.version}
    if client.instructions:
        found.server["instructions"] = client.instructions
    progress("tools")
    if offered.has("tools"):
        found.tools = {tool.name: written(tool) for tool in await client.list_tools()}
    progress("resources")
    if offered.has("resources"):
        found.resources = {one.uri: written(one) for one in await client.list_resources()}
        templates = await client.list_resource_templates()
        found.resource_templates = {one.uri_template: written(one) for one in templates}
    progress("prompts")
    if offered.has("prompts"):
        found.prompts = {one.name: written(one) for one in await client.list_prompts()}
    return found


def written(definition: Any) -> dict[str, Any]:
    """Return a component in the form of the lock file."""
    members: dict[str, Any] = msgspec.to_builtins(definition)
    return {name: value for name, value in members.items() if name not in _LEFT_OUT}


def write(manifest: Manifest) -> bytes:
    """Return the content of the file; equal manifests have equal bytes."""
    data = msgspec.json.encode(manifest, order="sorted")
    return msgspec.json.format(data, indent=2) + b"\n"


def read(path: str | os.PathLike[str]) -> Manifest:
    """Read the manifest in a file.

    Raises:
        LockError: the file is not a lock file, or has a newer format.
        OSError: the file cannot be read.
    """
    with Path(path).open("rb") as file:
        data = file.read(LOCK_BYTES + 1)
    try:
        found = msgspec.json.decode(data[:LOCK_BYTES], type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise LockError(f"{path} is not a lock file: {error}") from None
    if found.lock != FORMAT:
        raise LockError(f"{path} was written by another version: write it again with dovetail lock")
    return found


def is_lock(path: str) -> bool:
    """Return whether ``path`` looks like a lock file, rather than a server."""
    if not os.path.isfile(path) or path.endswith(".py"):
        return False
    with open(path, "rb") as file:
        return file.read(1 << 16).lstrip()[:1] == b"{"
