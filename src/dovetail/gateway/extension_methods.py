"""Methods that authors of mounted servers added to the protocol, answered by the server they are mounted in.

They keep their names, by which clients know them: no prefix stands before them. What a server was given itself comes
first, then the first that is mounted; a later one of the same name is left out, and said so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import Raw

from ..core.channel import Notice
from ..errors import RegistrationError
from ..model.capabilities import Capabilities
from ..model.meta import APPS_EXTENSION, IDEMPOTENCY_EXTENSION, SKILLS_EXTENSION, TASKS_EXTENSION
from ..server.registry.custom_methods import check_name, extension_of
from ..wire.methods import NOT_REMOVED, CustomParams, Method, Reader
from .collisions import Collisions
from .providers import Mount, Part, ServerPart

if TYPE_CHECKING:
    from ..server.server import Server

_OURS: Final = frozenset({APPS_EXTENSION, IDEMPOTENCY_EXTENSION, SKILLS_EXTENSION, TASKS_EXTENSION})
"""Extensions that a server offers by what it does itself, whatever is mounted in it."""


class OwnMethods:
    """Those of what is mounted in one server."""

    def __init__(self, server: Server, collisions: Collisions) -> None:
        self._server, self._collisions = server, collisions
        self._adopted: dict[str, tuple[Mount, Method]] = {}

    def adopt(self, mounts: Iterable[Mount]) -> None:
        """Answer and offer what there is of them now. A capability that was offered once stays."""
        server = self._server
        offers, found, before = server.admission.methods, dict[str, tuple[Mount, Method]](), self._adopted
        own = {
            name for name, row in offers.custom.items() if name not in before or before[name][1] is not row
        }
        for mount in mounts:
            for path, settings in _capabilities(mount.part):
                if _declared(server.capabilities, path) is None:
                    server.add_capability(path, settings)
            for name, row in mount.part.added.items():
                if name in found and found[name][1] is row:
                    continue  # the same server, mounted twice
                if name in own or name in found:
                    other = f"server {server.name!r}" if name in own else found[name][0].part.label
                    text = f"the method {name!r} of {mount.part.label} is left out: {other} has it already"
                    self._collisions.report(text)
                else:
                    found[name] = mount, row
        if found == before:
            return
        self._adopted = found
        for name in before.keys() - own:
            del offers.custom[name]
            server.methods.pop(name, None)
        for name, (mount, row) in found.items():
            offers.custom[name] = row
            if row.kind == "request":
                server.methods[name] = mount.part.respond
        server.admission.set_capabilities(server.capabilities)

    def receive_notification(self, notice: Notice) -> None:
        """Hand a notification to the server whose author wants to hear of it."""
        found = self._adopted.get(notice.method)
        if found is not None and isinstance(found[0].part, ServerPart):
            found[0].part.server.receive_notification(notice)


def forwarded_methods(named: Mapping[str, str | None] | Iterable[str]) -> dict[str, Method]:
    """Methods of a server behind that are passed on, by name: alone, or each with the capability it belongs to.

    Raises:
        RegistrationError: a name belongs to the protocol, or is none.
    """
    if isinstance(named, str):
        raise RegistrationError(f"a list of methods is wanted, not the text {named!r}")
    pairs: Mapping[str, str | None] = {}
    if isinstance(named, Mapping):
        pairs = cast("Mapping[str, str | None]", named)
    given: dict[str, str | None] = {name: pairs.get(name) for name in named}
    found: dict[str, Method] = {}
    for name, capability in given.items():
        check_name(name)
        found[name] = Method(
            name=name,
            kind="request",
            sender="client",
            since=1,
            until=NOT_REMOVED,
            params=Reader(CustomParams.split),
            result=_MEMBERS,
            capability=capability,
            extension=extension_of(capability),
            may_request_input=True,
        )
    return found


def _members(raw: bytes | Raw) -> dict[str, Any]:
    """All members of a result but its type, which the revision in front may not know."""
    members = _decode_members(raw)
    members.pop("resultType", None)
    return members


_decode_members: Callable[[bytes | Raw], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode
_MEMBERS: Final = Reader(_members)


def _capabilities(part: Part) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What an author declared beside the protocol; of a server behind, what goes with methods that are passed on."""
    declared = part.capabilities
    paths = {row.capability for row in part.added.values() if row.capability is not None}
    if isinstance(part, ServerPart):
        paths |= {f"extensions.{name}" for name in (declared.extensions or {}).keys() - _OURS}
        paths |= {f"experimental.{name}" for name in declared.experimental or ()}
    for path in sorted(paths):
        if (settings := _declared(declared, path)) is not None:
            yield path, settings


def _declared(capabilities: Capabilities, path: str) -> Mapping[str, Any] | None:
    """The settings of what `Server.add_capability` calls ``path``; None where it is not declared."""
    head, _, name = path.partition(".")
    if head == "extensions":
        return capabilities.extension(name)
    return Capabilities(capabilities.view(head) or {}).view(name) if name else capabilities.view(head)
