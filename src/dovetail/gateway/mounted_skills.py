"""Skills of mounted servers (SEP-2640), with URIs that follow the rule for resources.

``skill://review/SKILL.md`` of a server mounted as ``team`` becomes ``skill://team/review/SKILL.md``, and
``skill://team`` is a directory. Skill files are read as resources.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from .. import model as m
from ..core.channel import Call, Channel
from ..errors import URI_ECHO, DovetailError, ProtocolError
from ..model.meta import SKILLS_EXTENSION
from ..model.skills import DIRECTORY_MIME_TYPE
from ..server.list_pages import Listing
from ..server.server import Server
from ..wire.methods import METHODS
from .providers import LoopError, Mount

if TYPE_CHECKING:
    from ..extensions.skills import Skills
    from .mounting import Mounts

SKILL_PAGES: Final = 100
"""Pages of skills, or of a directory, that are read from one upstream."""


log = logging.getLogger("dovetail.gateway")

_ROOT: Final = "skill://"
_LIST, _GET, _DIRECTORY = "skills/list", "skills/get", "resources/directory/read"
Ask = Callable[[Call, Channel], Awaitable[Any]]


def offer_skills(server: Server, mounts: Mounts, settings: Mapping[str, Any]) -> None:
    """Serve the skills of mounted servers."""
    before, own = server.dispatcher.capabilities.extension(SKILLS_EXTENSION), own_skills(server)
    if _LIST not in server.dispatcher.methods or (
        own is not None and server.dispatcher.methods[_LIST] == own.page
    ):
        merged = MergedSkills(server, mounts)
        server.dispatcher.answer({_LIST: merged.page, _GET: merged.get, _DIRECTORY: merged.read_directory})
    if before is None or (settings.get("directoryRead") and not before.get("directoryRead")):
        server.dispatcher.add_capability(f"extensions.{SKILLS_EXTENSION}", {**(before or {}), **settings})


def own_skills(server: Server) -> Skills | None:
    """Return the skills of the server itself."""
    return cast("Skills | None", server.extensions.get(SKILLS_EXTENSION))


class MergedSkills:
    """The three skill methods, for a server and its mounted servers."""

    def __init__(self, server: Server, mounts: Mounts) -> None:
        self._server, self._mounts = server, mounts

    async def page(self, call: Call, channel: Channel) -> Raw:
        """Return a page of all skills. Of two with one URI the first wins."""
        found: dict[str, m.SkillEntry] = {}
        for skills in await asyncio.gather(*self._asked(call, channel)):
            for skill in skills:
                if found.setdefault(skill.uri, skill) is not skill:
                    log.warning("duplicate skill ignored uri=%s", skill.uri[:URI_ECHO])
        listing = Listing(
            self._server.dispatcher,
            "skills",
            lambda: ((one, ()) for one in found.values()),
            m.ListSkillsResult,
            private=True,
        )
        return await listing.page(call, channel)

    def _asked(self, call: Call, channel: Channel) -> list[Awaitable[list[m.SkillEntry]]]:
        asked: list[Awaitable[list[m.SkillEntry]]] = []
        if (own := own_skills(self._server)) is not None:
            asked.append(self._pages(call, channel, own.page))
        return asked + [self._skills_of(mount, call, channel) for mount in self._offering()]

    async def _skills_of(self, mount: Mount, call: Call, channel: Channel) -> list[m.SkillEntry]:
        """Return the renamed skills of a mounted server, or nothing if it fails."""
        try:
            skills = await self._pages(call, channel, mount.part.respond)
        except LoopError:
            raise
        except DovetailError as error:
            log.warning("server left out of the skill list server=%s: %s", mount.part.label, error.message)
            return []
        return [_renamed(mount, skill) for skill in skills]

    async def get(self, call: Call, channel: Channel) -> Struct:
        """Return one skill."""
        own, uri = own_skills(self._server), call.params.uri
        if own is not None:
            try:
                return await own.get(call, channel)
            except ProtocolError as error:
                if error.kind != "resource_not_found":
                    raise
        for mount, inner in self._owners(uri):
            try:
                found = await _answer(call, channel, mount.part.respond, replace(call.params, uri=inner))
            except ProtocolError as error:
                if error.kind != "resource_not_found":
                    raise
                continue
            return replace(found, skill=_renamed(mount, found.skill))
        raise ProtocolError("resource_not_found", data={"uri": uri[:URI_ECHO]})

    async def read_directory(self, call: Call, channel: Channel) -> Raw:
        """Return the entries of a directory. The root also contains the prefixes."""
        uri = call.params.uri.rstrip("/") if call.params.uri != _ROOT else _ROOT
        found: dict[str, m.Resource] = {}
        known = False
        if (own := own_skills(self._server)) is not None:
            known = await self._enter(found, None, own.read_directory, call, channel, uri)
        for mount, inner in self._owners(f"{uri}/" if uri != _ROOT else uri):
            inner = inner.rstrip("/") if inner != _ROOT else inner
            known |= await self._enter(found, mount, mount.part.respond, call, channel, inner)
        if uri == _ROOT:
            for mount in self._offering():
                if prefix := mount.naming.prefix:
                    known, place = True, f"{_ROOT}{prefix}"
                    found.setdefault(place, m.Resource(place, prefix, mime_type=DIRECTORY_MIME_TYPE))
        if not known:
            data = {"uri": call.params.uri[:URI_ECHO]}
            raise ProtocolError("invalid_params", "the URI is not a directory", data=data)
        listing = Listing(
            self._server.dispatcher,
            uri,
            lambda: ((one, ()) for one in found.values()),
            m.ReadDirectoryResult,
            private=True,
        )
        params = m.PaginatedRequestParams(cursor=call.params.cursor)
        return await listing.page(replace(call, params=params), channel)

    async def _enter(
        self,
        found: dict[str, m.Resource],
        mount: Mount | None,
        ask: Ask,
        call: Call,
        channel: Channel,
        uri: str,
    ) -> bool:
        """Add the directory entries of one server. Return False if it has no such directory."""
        try:
            children = await self._pages(call, channel, ask, partial(replace, call.params, uri=uri))
        except LoopError:
            raise
        except DovetailError as error:
            if error.kind != "invalid_params" and mount is not None:
                log.warning("server left out of a directory server=%s: %s", mount.part.label, error.message)
            return False
        for child in children:
            named = child if mount is None else mount.naming.definition("resources", child)
            found.setdefault(named.uri, named)
        return True

    def _offering(self) -> list[Mount]:
        mounts = self._mounts.mounts
        return [each for each in mounts if each.part.capabilities.extension(SKILLS_EXTENSION) is not None]

    def _owners(self, uri: str) -> list[tuple[Mount, str]]:
        offering = self._offering()
        return [(mount, inner) for mount, inner in self._mounts.owners_of_uri(uri) if mount in offering]

    async def _pages(
        self, call: Call, channel: Channel, ask: Ask, params: Callable[..., Struct] = m.PaginatedRequestParams
    ) -> list[Any]:
        """Return all pages of a list of one server."""
        found: list[Any] = []
        cursor: Any = UNSET
        for _ in range(SKILL_PAGES):
            page = await _answer(call, channel, ask, params(cursor=cursor))
            found += page.skills if call.method == _LIST else page.resources
            cursor = page.next_cursor
            if cursor is UNSET:
                break
        return found


async def _answer(call: Call, channel: Channel, ask: Ask, params: Struct) -> Any:
    result = await ask(call.with_params(params), channel)
    return call.codec.decode_result(METHODS[call.method], result) if isinstance(result, Raw) else result


def _renamed(mount: Mount, skill: m.SkillEntry) -> m.SkillEntry:
    if not mount.naming.prefix:
        return skill
    uri, files = mount.naming.uri, skill.resources
    named = files if isinstance(files, str) else [replace(one, uri=uri(one.uri)) for one in files]
    return replace(skill, uri=uri(skill.uri), resources=named)
