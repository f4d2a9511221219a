"""Extension methods of mounted servers and proxies, served by the parent server.

They keep their names without a prefix. If several servers declare a method, that of the parent wins, then
that of the first mounted server; the others are logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import Raw

from ..core.channel import Notice
from ..errors import RegistrationError
from ..model.capabilities import Capabilities
from ..model.meta import APPS_EXTENSION, IDEMPOTENCY_EXTENSION, SKILLS_EXTENSION, TASKS_EXTENSION
from ..server.registry.custom_methods import check_name, extension_of
from ..server.server import Server
from ..wire.methods import NOT_REMOVED, CustomParams, Method, Reader
from .collisions import Collisions
from .providers import ComponentProvider, Mount, ServerProvider

_OURS: Final = frozenset({APPS_EXTENSION, IDEMPOTENCY_EXTENSION, SKILLS_EXTENSION, TASKS_EXTENSION})
"""Extensions that the parent server implements for all mounted servers."""


class ExtensionMethods:
    """The extension methods of the servers mounted in one server."""

    def __init__(self, server: Server, collisions: Collisions) -> None:
        self._server, self._collisions = server, collisions
        self._adopted: dict[str, tuple[Mount, Method]] = {}

    def adopt(self, mounts: Iterable[Mount]) -> None:
        """Register new extension methods and capabilities. A capability stays once it was offered."""
        server = self._server
        offers, found, before = (
            server.dispatcher.admission.methods,
            dict[str, tuple[Mount, Method]](),
            self._adopted,
        )
        own = {
            name for name, row in offers.custom.items() if name not in before or before[name][1] is not row
        }
        for mount in mounts:
            for path, settings in _capabilities(mount.part):
                if _declared(server.dispatcher.capabilities, path) is None:
                    server.dispatcher.add_capability(path, settings)
            for name, row in mount.part.added.items():
                if name in found and found[name][1] is row:
                    continue  # the same server, mounted twice
                if name in own or name in found:
                    other = f"server {server.name!r}" if name in own else found[name][0].part.label
                    text = (
                        f"the method {name!r} of {mount.part.label} is left out: {other} already declares it"
                    )
                    self._collisions.report(text)
                else:
                    found[name] = mount, row
        if found == before:
            return
        self._adopted = found
        for name in before.keys() - own:
            del offers.custom[name]
            server.dispatcher.methods.pop(name, None)
        for name, (mount, row) in found.items():
            offers.custom[name] = row
            if row.kind == "request":
                server.dispatcher.methods[name] = mount.part.respond
        server.dispatcher.admission.set_capabilities(server.dispatcher.capabilities)

    def receive_notification(self, notice: Notice) -> None:
        """Forward a notification to the server that declares it."""
        found = self._adopted.get(notice.method)
        if found is not None and isinstance(found[0].part, ServerProvider):
            found[0].part.server.dispatcher.receive_notification(notice)


def forwarded_methods(named: Mapping[str, str | None] | Iterable[str]) -> dict[str, Method]:
    """Return the extension methods that a proxy forwards, by name, each optionally with its capability.

    Raises:
        RegistrationError: a name is not valid, or belongs to the protocol.
    """
    if isinstance(named, str):
        raise RegistrationError(f"expected a list of methods, not the string {named!r}")
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
    """Return all members of a result except its type, which the downstream revision may not know."""
    members = _decode_members(raw)
    members.pop("resultType", None)
    return members


_decode_members: Callable[[bytes | Raw], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode
_MEMBERS: Final = Reader(_members)


def _capabilities(part: ComponentProvider) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the extension capabilities of a server; for an upstream, those of forwarded methods."""
    declared = part.capabilities
    paths = {row.capability for row in part.added.values() if row.capability is not None}
    if isinstance(part, ServerProvider):
        paths |= {f"extensions.{name}" for name in (declared.extensions or {}).keys() - _OURS}
        paths |= {f"experimental.{name}" for name in declared.experimental or ()}
    for path in sorted(paths):
        if (settings := _declared(declared, path)) is not None:
            yield path, settings


def _declared(capabilities: Capabilities, path: str) -> Mapping[str, Any] | None:
    """Return the settings of the capability ``path``, or None if it is not declared."""
    head, _, name = path.partition(".")
    if head == "extensions":
        return capabilities.extension(name)
    return Capabilities(capabilities.view(head) or {}).view(name) if name else capabilities.view(head)
