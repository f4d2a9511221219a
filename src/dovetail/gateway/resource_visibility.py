"""Visibility of subscribed resources: checked before an update is sent, because it may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from ..core.channel import Call
from ..core.rights import visible
from ..core.subscription_hub import Notifier, Subscriber
from ..errors import ProtocolError
from ..model import ClientCapabilities
from ..server.server import Server
from ..wire.revisions import newest


class SubscriptionVisibility:
    """The visibility filter of subscriptions, for servers with mounted servers or views."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._asking: set[asyncio.Task[None]] = set()

    def __call__(self, interested: Collection[Subscriber], uri: str, tell: Notifier) -> None:
        task = asyncio.get_running_loop().create_task(self._tell(interested, uri, tell))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _tell(self, interested: Collection[Subscriber], uri: str, tell: Notifier) -> None:
        tell([one for one in interested if await sees(self._server, uri, self._call(one))])

    def _call(self, one: Subscriber) -> Call:
        """Return a request of a subscriber, with what determines its visibility."""
        if one.call is not None:
            return one.call
        session = one.session
        revision = newest(modern=True) if session is None else session.revision
        return Call(
            id=0,
            method="resources/subscribe",
            params=None,
            revision=revision,
            codec=self._server.dispatcher.admission.codecs[revision.name]
            if session is None
            else session.codec,
            capabilities=ClientCapabilities() if session is None else session.capabilities,
            session=session,
            principal=one.principal,
        )


async def sees(server: Server, uri: str, call: Call) -> bool:
    """Return whether the caller can see ``uri``, given under its listed name."""
    if server.registry.transforms is not None:
        try:
            uri = await server.registry.transforms.address(uri, call)
        except ProtocolError:
            return False
    rights = server.dispatcher.pipeline.rights_to(uri)
    if rights and not visible(rights, call.principal):
        return False
    if server.registry.find_resource(uri) is not None:
        return True
    return server.registry.composition is None or await server.registry.composition.sees(uri, call)
