"""The skills extension (SEP-2640): ``skills/list``, ``skills/get``, ``resources/directory/read`` and the files.

The ``SKILL.md`` of every skill is in the list of resources. Its other files are read by the URIs in its entry. If a
file differs from the index, its skill is indexed again before the file is served, so digests and bytes always match.
"""

from __future__ import annotations

import asyncio
import logging
import os
from base64 import b64encode
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from types import MappingProxyType
from typing import Final, Unpack
from urllib.parse import unquote

from msgspec import Raw, Struct
from msgspec.structs import replace

from ... import model as m
from ...core.channel import Call, Channel
from ...core.rights import Right, Rights, hidden, visible
from ...errors import URI_ECHO, ProtocolError, RegistrationError, StateError
from ...model.meta import SKILLS_EXTENSION
from ...model.skills import DIRECTORY_MIME_TYPE
from ...server.list_pages import Listing
from ...server.registry.component_options import ResourceOptions, RightOptions
from ...server.resource_readers import is_text
from ...server.server import Server
from ..extension import Extension
from .in_code import Skill
from .skill_folders import SCHEME, IndexedSkill, SkillFile, find_skills, index_skill, read_file

log = logging.getLogger("dovetail.server")

TEMPLATE: Final = SCHEME + "{+path}"


class Skills(Extension):
    """Serves skills: ``Server(extensions=[Skills("folder", Skill(name=…, description=…, files={…}))])``.

    A folder is a skill, or contains skills: each is a folder with a ``SKILL.md``. Files are read when a client requests
    them. ``prefix`` precedes the paths: with ``prefix="acme"`` a server has ``skill://acme/review/SKILL.md``.
    ``scopes``, ``auth`` and ``tags`` work as for every other component: a skill that a client may not use is hidden
    from it.

    Raises:
        RegistrationError: a skill cannot be served; the message says why.
        DovetailError: PyYAML is not installed (extra ``skills``).
    """

    id = SKILLS_EXTENSION
    settings = MappingProxyType({"directoryRead": True})

    def __init__(
        self, *sources: str | os.PathLike[str] | Skill, prefix: str = "", **rights: Unpack[RightOptions]
    ) -> None:
        """Set the skills.

        Args:
            sources: Folders with a ``SKILL.md``, folders of such folders, and `Skill` objects.
            prefix: The first segment of the skill URIs.
            rights: ``scopes``, ``auth`` and ``tags``, as for tools.
        """
        super().__init__(
            methods={
                "skills/list": self.page,
                "skills/get": self.get,
                "resources/directory/read": self.read_directory,
            }
        )
        self._registered: Server | None = None
        self._skills: dict[str, IndexedSkill] = {}
        """By the URI of their manifest."""
        self._files: dict[str, tuple[str, SkillFile]] = {}
        """By URI: the skill of a file, and the file."""
        self._uris: dict[str, str] = {}
        """By decoded URI: the percent-encoded URI. Templates return decoded values."""
        self._folders: dict[str, dict[str, m.Resource]] = {}
        """By URI of a folder: its direct children."""
        self._directories: dict[str, Listing] = {}
        self._options: dict[str, RightOptions] = {}
        """By the URI of a manifest: the access rights of the skill, if it has any."""
        self._owners: defaultdict[str, set[str]] = defaultdict(set)
        """By URI of a file or folder: the skills that it belongs to or contains."""

        self.add(*sources, prefix=prefix, **rights)

    @property
    def _server(self) -> Server:
        if self._registered is None:
            raise StateError("these skills are not registered: use Server(extensions=[…])")
        return self._registered

    def attach(self, server: Server) -> None:
        """Serve the skills with ``server``."""
        if self._registered is not None:
            raise RegistrationError(
                f"these skills belong to the server {self._registered.name!r}: make another Skills(…)"
            )
        self._registered = server
        self._listing = Listing(
            server.dispatcher,
            "skills",
            lambda: ((skill.entry, self._seen((uri,))) for uri, skill in self._skills.items()),
            m.ListSkillsResult,
        )
        for skill in self._skills.values():
            self._list_manifest(skill)
        self._add_templates()
        self._rebuild()

    def add(
        self, *sources: str | os.PathLike[str] | Skill, prefix: str = "", **rights: Unpack[RightOptions]
    ) -> list[str]:
        """Serve further skills, with separate access rights. Return the URIs of their ``SKILL.md``."""
        found: dict[str, IndexedSkill] = {}
        for source in sources:
            indexed = (
                [source.index(prefix)] if isinstance(source, Skill) else find_skills(Path(source), prefix)
            )
            for skill in indexed:
                if skill.entry.uri in self._skills or skill.entry.uri in found:
                    raise RegistrationError(f"the skill {skill.entry.uri} is already registered")
                found[skill.entry.uri] = skill
        for uri, skill in found.items():
            self._skills[uri] = skill
            if rights:
                self._options[uri] = rights
            if self._registered is not None:
                self._list_manifest(skill)
        if self._registered is not None:
            self._add_templates()
            self._rebuild()
        return list(found)

    def _add_templates(self) -> None:
        """Register a template for all files, preceded by those of restricted skills, the most specific first."""
        server = self._server
        own = {f"{uri.rpartition('/')[0]}/{{+path}}": options for uri, options in self._options.items()}
        for template in [one for one in (*own, TEMPLATE) if one in server.registry.templates]:
            server.remove_resource(template)
        for template in (*sorted(own, key=len, reverse=True), TEMPLATE):
            reader, rights = self._reader(template.removesuffix("{+path}")), own.get(template, {})
            options: ResourceOptions = {"name": "skill-file", "description": "A file of a skill.", **rights}
            server.add_resource(template, reader, **options)
            server.registry.templates.entries[template].has = self._has

    def _has(self, uri: str) -> bool:
        return unquote(uri) in self._uris

    def _rights(self, uri: str) -> Rights:
        """The access rights of the skill with the manifest ``uri``."""
        pipeline = self._server.dispatcher.pipeline
        return pipeline.rights_to(uri) if uri in self._options or pipeline.admits is not None else ()

    def _seen(self, uris: Collection[str]) -> Rights:
        """The access rights of a folder with several skills: a caller needs those of one of them."""
        everybody = self._server.dispatcher.pipeline.admits is None
        if everybody and (not self._options or any(uri not in self._options for uri in uris)):
            return ()
        return (Right(allows=lambda principal: any(visible(self._rights(uri), principal) for uri in uris)),)

    # --- the methods --------------------------------------------------------------------------------------

    async def page(self, call: Call, channel: Channel) -> Raw:
        return await self._listing.page(call, channel)

    async def get(self, call: Call, channel: Channel) -> Struct:
        uri = call.params.uri
        skill = self._skills.get(uri)
        if skill is None or hidden(self._rights(uri), call.principal):
            raise _not_found(uri)
        server = self._server
        scope = "private" if self._rights(uri) else server.dispatcher.settings.cache_scope
        return m.GetSkillResult(skill.entry, ttl_ms=server.dispatcher.settings.ttl_ms, cache_scope=scope)

    async def read_directory(self, call: Call, channel: Channel) -> Raw:
        uri = call.params.uri.rstrip("/") if call.params.uri != SCHEME else SCHEME
        children = self._folders.get(uri)
        owners = self._owners.get(uri, set())
        rights = self._rights(*owners) if len(owners) == 1 else self._seen(owners)
        if children is None or hidden(rights, call.principal):
            raise ProtocolError(
                "invalid_params", "the URI is not a directory", data={"uri": call.params.uri[:URI_ECHO]}
            )
        listing = self._directories.get(uri)
        if listing is None:
            listing = self._directories[uri] = Listing(
                self._server.dispatcher,
                uri,
                lambda: ((child, self._seen(self._owners[uri])) for uri, child in children.items()),
                m.ReadDirectoryResult,
            )
        params = m.PaginatedRequestParams(cursor=call.params.cursor)
        return await listing.page(replace(call, params=params), channel)

    # --- files --------------------------------------------------------------------------------------------

    def _reader(self, folder: str) -> Callable[[str], Awaitable[m.ReadResourceResult]]:
        async def read(path: str) -> m.ReadResourceResult:
            uri = self._uris.get(unquote(folder) + path)
            if uri is None or (folder == SCHEME and self._files[uri][0] in self._options):
                raise _not_found(folder + path)
            return await self.read(uri)

        return read

    async def read(self, uri: str) -> m.ReadResourceResult:
        """Read the file ``uri`` and compare it with its entry.

        Raises:
            ProtocolError: of kind ``resource_not_found``, also if the file was deleted after indexing.
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
        """The files have changed: index them again, or remove the skill if it is no longer valid."""
        uri = skill.entry.uri
        try:
            assert skill.folder is not None  # a skill defined in code never changes
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
            **self._options.get(manifest.uri, {}),
        )

    def _rebuild(self) -> None:
        self._files.clear()
        self._folders.clear()
        self._directories.clear()
        self._owners.clear()
        self._listing.changed()
        for uri, skill in self._skills.items():
            for file in skill.files:
                self._files[file.uri] = (uri, file)
                child = m.Resource(file.uri, file.name, mime_type=file.mime_type, size=file.size)
                self._add_child(file.uri, child)
                parts = file.uri.removeprefix(SCHEME).split("/")
                for end in range(len(parts) + 1):
                    self._owners[SCHEME + "/".join(parts[:end])].add(uri)
        self._uris = {unquote(uri): uri for uri in self._files}

    def _add_child(self, uri: str, resource: m.Resource) -> None:
        """Add ``resource`` to its folder, and each folder to its parent, up to ``skill://``."""
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
