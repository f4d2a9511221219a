"""The skills extension (SEP-2640): ``skills/list``, ``skills/get``, ``resources/directory/read`` and the files.

The ``SKILL.md`` of every skill stands in the list of resources; its other files are read by the URIs that its
entry names. A file that is not what was indexed any more makes its skill be indexed anew before it is served,
so digests and bytes always belong together.
"""

from __future__ import annotations

import asyncio
import logging
import os
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from msgspec import Raw, Struct
from msgspec.structs import replace

from ... import model as m
from ...core.channel import Call, Channel
from ...errors import ProtocolError, RegistrationError
from ...model.meta import SKILLS_EXTENSION
from ...model.skills import DIRECTORY_MIME_TYPE
from ...settings import URI_ECHO
from ..listing import Listing
from .folders import SCHEME, IndexedSkill, SkillFile, find_skills, index_skill, is_text, read_file

if TYPE_CHECKING:
    from ..server import Server

log = logging.getLogger("dovetail.server")

TEMPLATE: Final = SCHEME + "{+path}"


class Skills:
    """The skills of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._skills: dict[str, IndexedSkill] = {}
        """By the URI of their manifest."""
        self._files: dict[str, tuple[str, SkillFile]] = {}
        """By URI: whose file it is, and where."""
        self._uris: dict[str, str] = {}
        """By URI without percent-encoding: the URI with it. Templates hand out what they have decoded."""
        self._folders: dict[str, dict[str, m.Resource]] = {}
        """By URI: what lies directly in it."""
        self._listing = Listing(
            server,
            "skills",
            lambda: ((skill.entry, ()) for skill in self._skills.values()),
            m.ListSkillsResult,
        )
        self._directories: dict[str, Listing] = {}

    def install(self) -> None:
        """Add the methods of the extension and declare it."""
        server = self._server
        server.methods |= {
            "skills/list": self._listing.page,
            "skills/get": self.get,
            "resources/directory/read": self.read_directory,
        }
        server.add_capability(f"extensions.{SKILLS_EXTENSION}", {"directoryRead": True})

    def add(self, folder: str | os.PathLike[str], prefix: str = "") -> list[str]:
        """Index ``folder`` and serve its skills; returns the URIs of their manifests."""
        found = find_skills(Path(folder), prefix)
        for skill in found:
            if skill.entry.uri in self._skills:
                raise RegistrationError(f"the skill {skill.entry.uri} is already registered")
        if TEMPLATE not in self._server.resource_templates:
            self._server.add_resource_template(
                TEMPLATE, self._read_path, name="skill-file", description="A file of a skill."
            )
        for skill in found:
            self._skills[skill.entry.uri] = skill
            self._list_manifest(skill)
        self._rebuild()
        return [skill.entry.uri for skill in found]

    # --- the methods --------------------------------------------------------------------------------------

    async def get(self, call: Call, channel: Channel) -> Struct:
        skill = self._skills.get(call.params.uri)
        if skill is None:
            raise _not_found(call.params.uri)
        server = self._server
        return m.GetSkillResult(skill.entry, ttl_ms=server.ttl_ms, cache_scope=server.cache_scope)

    async def read_directory(self, call: Call, channel: Channel) -> Raw:
        uri = call.params.uri.rstrip("/") if call.params.uri != SCHEME else SCHEME
        children = self._folders.get(uri)
        if children is None:
            raise ProtocolError(
                "invalid_params", "this is no directory", data={"uri": call.params.uri[:URI_ECHO]}
            )
        listing = self._directories.get(uri)
        if listing is None:
            listing = self._directories[uri] = Listing(
                self._server, uri, lambda: ((child, ()) for child in children.values()), m.ReadDirectoryResult
            )
        params = m.PaginatedRequestParams(cursor=call.params.cursor)
        return await listing.page(replace(call, params=params), channel)

    # --- files --------------------------------------------------------------------------------------------

    async def _read_path(self, path: str) -> m.ReadResourceResult:
        uri = self._uris.get(SCHEME + path)
        if uri is None:
            raise _not_found(SCHEME + path)
        return await self.read(uri)

    async def read(self, uri: str) -> m.ReadResourceResult:
        """The file ``uri``, after comparing it with its entry.

        Raises:
            ProtocolError: of kind ``resource_not_found``, also when it is gone since.
        """
        for _ in range(2):
            found = self._files.get(uri)
            if found is None:
                break
            skill = self._skills[found[0]]
            data = await asyncio.to_thread(read_file, skill, found[1])
            if data is not None:
                return m.ReadResourceResult([_contents(found[1], data)])
            await self._index_again(skill)
        raise _not_found(uri)

    async def _index_again(self, skill: IndexedSkill) -> None:
        """Its files changed: serve what is there now, or nothing if that cannot be served."""
        uri = skill.entry.uri
        try:
            self._skills[uri] = await asyncio.to_thread(index_skill, skill.folder, skill.path)
        except (RegistrationError, OSError) as error:
            log.warning("the skill %s cannot be served any more: %s", uri, error)
            self._skills.pop(uri, None)
        self._server.remove_resource(uri)
        if uri in self._skills:
            self._list_manifest(self._skills[uri])
        self._rebuild()

    # --- the index ----------------------------------------------------------------------------------------

    def _list_manifest(self, skill: IndexedSkill) -> None:
        manifest = next(file for file in skill.files if file.uri == skill.entry.uri)

        async def read() -> m.ReadResourceResult:
            return await self.read(manifest.uri)

        self._server.add_resource(
            manifest.uri,
            read,
            name=skill.name,
            description=skill.description,
            mime_type="text/markdown",
            size=manifest.size,
        )

    def _rebuild(self) -> None:
        self._files.clear()
        self._folders.clear()
        self._directories.clear()
        self._listing.changed()
        for uri, skill in self._skills.items():
            for file in skill.files:
                self._files[file.uri] = (uri, file)
                child = m.Resource(file.uri, file.name, mime_type=file.mime_type, size=file.size)
                self._add_child(file.uri, child)
        self._uris = {unquote(uri): uri for uri in self._files}

    def _add_child(self, uri: str, resource: m.Resource) -> None:
        """Note ``resource`` in its folder, and that folder in the one above, up to ``skill://``."""
        while uri != SCHEME:
            above = uri.rpartition("/")[0]
            above = SCHEME if above + "/" == SCHEME else above
            children = self._folders.setdefault(above, {})
            if uri in children:
                return
            children[uri] = resource
            resource = m.Resource(above, unquote(above.rpartition("/")[2]), mime_type=DIRECTORY_MIME_TYPE)
            uri = above


def _contents(file: SkillFile, data: bytes) -> m.ResourceContents:
    if is_text(data):
        return m.ResourceContents(file.uri, mime_type=file.mime_type, text=data.decode())
    return m.ResourceContents(file.uri, mime_type=file.mime_type, blob=b64encode(data).decode("ascii"))


def _not_found(uri: str) -> ProtocolError:
    return ProtocolError("resource_not_found", data={"uri": uri[:URI_ECHO]})
