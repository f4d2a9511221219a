"""The methods of the protocol: the handshake, discovery, lists, log level, completion, subscriptions.

Each takes a call and its channel and returns the result. `Dispatcher.find_handler` looks them up; extensions add
further methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from .. import model as m
from ..core import phases
from ..core.channel import Call, Channel
from ..core.rights import Rights, hidden, visible
from ..core.subscription_hub import ACKNOWLEDGED, Subscriber, acknowledgement, completion, grant
from ..errors import NAME_ECHO, URI_ECHO, ProtocolError, Refusal
from ..wire.dialects.dialect import VENDOR
from .composition import ListName
from .list_pages import Listing
from .registry.completions import completion_of
from .registry.component_tables import Changed, Registered, RegisteredResource
from .registry.uri_checks import uri_fault
from .signatures.returns import writable

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

BUSY_SECONDS: Final = 5.0
"""``retry_after`` of a request that was refused because other clients use the whole capacity, in seconds."""

Handler = Callable[[Call, Channel], Awaitable[Struct | Raw]]


_LISTS: Final[Mapping[ListName, tuple[str, Callable[[list[Any]], m.PaginatedResult]]]] = {
    "tools": ("tools/list", m.ListToolsResult),
    "resources": ("resources/list", m.ListResourcesResult),
    "templates": ("resources/templates/list", m.ListResourceTemplatesResult),
    "prompts": ("prompts/list", m.ListPromptsResult),
}
"""By the name of the table: the list method, and its result type."""


class ProtocolMethods:
    """The protocol methods that every server has."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._lists = {
            name: Listing(dispatcher, name, partial(self._listed, name), result)
            for name, (_, result) in _LISTS.items()
        }

    def _listed(self, name: ListName) -> Iterable[tuple[Any, Rights]]:
        return self._dispatcher.pipeline.listed(name)

    def methods(self) -> dict[str, Handler]:
        return {
            "initialize": self.initialize,
            "server/discover": self.discover,
            "ping": self.ping,
            "shutdown": self.shutdown,
            "logging/setLevel": self.set_level,
            **{method: partial(self._page, name) for name, (method, _) in _LISTS.items()},
            "completion/complete": self.complete,
            "resources/subscribe": self.subscribe,
            "resources/unsubscribe": self.unsubscribe,
            "subscriptions/listen": self.listen,
        }

    def changed(self, kind: Changed) -> None:
        """Discard the cached pages of a list that has changed."""
        for name in ("resources", "templates") if kind == "resources" else (kind,):
            self._lists[name].changed()

    # The handshake and discovery

    async def initialize(self, call: Call, channel: Channel) -> m.InitializeResult:
        dispatcher = self._dispatcher
        if dispatcher.registry.composition is not None:
            await dispatcher.registry.composition.prepare_client(call)
        capabilities = dispatcher.admission.methods.advertised(call.codec)
        return phases.handshake(
            call,
            capabilities,
            dispatcher.info,
            UNSET if dispatcher.instructions is None else dispatcher.instructions,
            narrow=call.codec.dialect.intersect_capabilities,
        )

    async def discover(self, call: Call, channel: Channel) -> m.DiscoverResult:
        dispatcher = self._dispatcher
        if dispatcher.registry.composition is not None:
            await dispatcher.registry.composition.prepare_client(call)
        return m.DiscoverResult(
            supported_versions=list(dispatcher.admission.supported),
            capabilities=dispatcher.admission.methods.advertised(call.codec),
            instructions=UNSET if dispatcher.instructions is None else dispatcher.instructions,
            ttl_ms=dispatcher.settings.ttl_ms,
            cache_scope=dispatcher.settings.cache_scope,
        )

    async def ping(self, call: Call, channel: Channel) -> m.Result:
        return m.Result()

    async def shutdown(self, call: Call, channel: Channel) -> m.Result:
        """End this session: refuse new requests and let running ones finish. Then the driver closes it."""
        session = call.session
        if session is not None and "drain" in phases.TRANSITIONS[session.phase]:
            phases.advance(session, "drain")
        return await _saved(call)

    async def set_level(self, call: Call, channel: Channel) -> m.Result:
        if call.session is not None:
            call.session.log_level = call.params.level
        result = await _saved(call)
        if self._dispatcher.registry.composition is not None:
            await self._dispatcher.registry.composition.set_level(call, channel)
        return result

    async def _page(self, name: ListName, call: Call, channel: Channel) -> Raw:
        """One page of a list: registered and mounted components, as the views show them."""
        transforms, composition = self._dispatcher.registry.transforms, self._dispatcher.registry.composition
        if transforms is not None and transforms.lists(name):
            return await transforms.page(name, call, channel)
        if composition is not None:
            return await composition.page(name, call, channel)
        return await self._lists[name].page(call, channel)

    # Completion

    async def complete(self, call: Call, channel: Channel) -> Struct | Raw:
        dispatcher = self._dispatcher
        params = call.params
        ref, argument = params.ref, params.argument
        key = ref.uri if isinstance(ref, m.ResourceTemplateReference) else ref.name
        entry = self._referred(ref, key)
        admits, of_entry = dispatcher.pipeline.admits, dispatcher.pipeline.of_entry
        named = self._named(key)
        for kind, one in named:
            if (one.rights and hidden(one.rights, call.principal)) or (
                admits is not None and not admits(of_entry(kind, one))
            ):
                raise _nothing_to_complete(key)
        if not named and isinstance(ref, m.ResourceTemplateReference):
            rights = dispatcher.pipeline.rights_to(key)
            if rights and hidden(rights, call.principal):
                raise _nothing_to_complete(key)
        completer = dispatcher.registry.completions.get((key, argument.name))
        if completer is None:
            if entry is None:
                found = (
                    None
                    if dispatcher.registry.composition is None
                    else await dispatcher.registry.composition.respond(call, channel)
                )
                if found is None:
                    raise _nothing_to_complete(key)
                return found
            if not entry.has_argument(argument.name):
                shown = argument.name[:NAME_ECHO]
                text = f"{key[:NAME_ECHO]!r} has no argument {shown!r}"
                raise ProtocolError("invalid_completion_argument", text, data={"argument": shown})
            return m.CompleteResult(completion_of(None))
        settled = UNSET if params.context is UNSET else params.context.arguments
        given = cast("Mapping[str, Any]", {} if settled is UNSET else settled)
        try:
            context = dispatcher.context(call, channel) if completer.context is not None else None
            keywords = completer.keywords(argument.value, given, context)
            found = completion_of(await dispatcher.runner.call(completer.function, **keywords))
            if entry is not None and any(right.by_address for right in entry.rights):
                found = self._readable_values(found, entry, argument.name, given, call)
            if found.labels is UNSET:
                return m.CompleteResult(writable(found, key))
            meta = {VENDOR + "labels": found.labels}
            return m.CompleteResult(writable(replace(found, labels=UNSET), key), meta=meta)
        except BaseException as error:  # noqa: BLE001  the boundary decides
            dispatcher.failures.raise_other(error, f"completion of {key!r}", call, kind="completion_failed")

    def _readable_values(
        self, found: m.Completion, entry: Registered, name: str, given: Mapping[str, Any], call: Call
    ) -> m.Completion:
        """The values that lead to a resource which the caller may read, or to an address that is not complete yet."""
        template = entry.function.template if isinstance(entry, RegisteredResource) else None
        if template is None:
            return found
        known = {key: value for key, value in given.items() if isinstance(value, str)}
        kept: list[int] = []
        for place, value in enumerate(found.values):
            uri = template.expand({**known, name: value})
            if uri is None or visible(self._dispatcher.pipeline.rights_to(uri), call.principal):
                kept.append(place)
        if len(kept) == len(found.values):
            return found
        labels = found.labels if found.labels is UNSET else [found.labels[place] for place in kept]
        values = [found.values[place] for place in kept]
        return replace(found, values=values, labels=labels, total=UNSET, has_more=UNSET)

    def _referred(self, ref: Any, key: str) -> Registered | None:
        """The component of a completion reference; its access rights apply."""
        register = self._dispatcher.registry
        if isinstance(ref, m.ResourceTemplateReference):
            found = register.find_resource(key)
            return register.templates.entries.get(key) or (None if found is None else found[0])
        if isinstance(ref, m.ToolReference):
            return register.tools.entries.get(key)
        return register.prompts.entries.get(key)

    def _named(self, key: str) -> list[tuple[ListName, Registered]]:
        """All components with this name: the completer is found by name alone, whatever type the client's reference
        has.
        """
        table = self._dispatcher.registry.table
        return [(kind, table(kind).entries[key]) for kind in _LISTS if key in table(kind).entries]

    # Subscriptions

    async def subscribe(self, call: Call, channel: Channel) -> m.Result:
        dispatcher, uri = self._dispatcher, call.params.uri
        subscriber = self._subscriber(call)
        try:
            await self.watch(uri, call)
            if subscriber is not None:
                subscriber.principal = call.principal
                dispatcher.subscriptions.hub.subscribe(subscriber, uri)
        except (ProtocolError, Refusal) as error:
            missing = error.kind == "resource_not_found" or isinstance(error, Refusal)
            if missing and _names_failed_subscriptions(call):
                text = error.message
                raise ProtocolError("subscription_failed", text, data={"uri": uri[:URI_ECHO]}) from None
            raise
        return await _saved(call)

    async def watch(self, uri: str, call: Call) -> None:
        """Subscribe a client to ``uri``.

        Raises:
            ProtocolError: it is not a valid URI, or the client cannot see it.
        """
        dispatcher = self._dispatcher
        if dispatcher.registry.transforms is not None:
            uri = await dispatcher.registry.transforms.address(uri, call)
        rights = dispatcher.pipeline.rights_to(uri)
        if rights and hidden(rights, call.principal):
            raise ProtocolError("resource_not_found", data={"uri": uri[:URI_ECHO]})
        if dispatcher.registry.find_resource(uri) is None:
            if fault := uri_fault(uri, dispatcher.limits.max_uri_length):
                raise ProtocolError(fault.kind, fault.reason, data={"uri": uri[:URI_ECHO]})
            if dispatcher.registry.composition is not None:
                await dispatcher.registry.composition.watch(uri, call)
            elif _names_failed_subscriptions(call):
                raise ProtocolError("resource_not_found", data={"uri": uri[:URI_ECHO]})

    async def _may_hear(self, uri: str, call: Call) -> bool:
        transforms = self._dispatcher.registry.transforms
        rights = self._dispatcher.pipeline.rights_to(uri if transforms is None else transforms.known_as(uri))
        if rights and not visible(rights, call.principal):
            return False
        if (
            self._dispatcher.registry.composition is not None
            or self._dispatcher.registry.transforms is not None
        ):
            try:
                await self.watch(uri, call)
            except ProtocolError:
                return False
        return True

    async def unsubscribe(self, call: Call, channel: Channel) -> m.Result:
        subscriber = self._subscriber(call)
        if subscriber is not None:
            self._dispatcher.subscriptions.hub.unsubscribe(subscriber, call.params.uri)
        return await _saved(call)

    @staticmethod
    def _subscriber(call: Call) -> Subscriber | None:
        """The subscriber of a call; None for a legacy call without a session, which could not be notified later."""
        return None if call.session is None else call.session.subscriber

    async def listen(self, call: Call, channel: Channel) -> m.SubscriptionsListenResult:
        """Acknowledge the subscription, then forward notifications until the client disconnects or the server stops."""
        dispatcher = self._dispatcher
        if (
            dispatcher.subscriptions.listening >= dispatcher.limits.max_streams
        ):  # the HTTP server has checked its own limit before
            raise Refusal(1060, message="too many streams are open", retry_after=BUSY_SECONDS)
        honoured = grant(
            call.params.notifications, dispatcher.capabilities, call.capabilities, dispatcher.limits
        )
        missed: list[Callable[[Subscriber], None]] = []
        for narrow in dispatcher.subscriptions.listen_filters:
            honoured, send = await narrow(call, honoured)
            missed.append(send)
        uris = honoured.resource_subscriptions
        if uris is not UNSET:
            seen = [uri for uri in uris if await self._may_hear(uri, call)]
            honoured = replace(honoured, resource_subscriptions=seen)
        channel.notify(ACKNOWLEDGED, acknowledgement(call.id, honoured))
        subscriber = dispatcher.subscriptions.hub.add(honoured, channel.notify, call.id)
        subscriber.principal, subscriber.call = call.principal, call
        for send in missed:
            send(subscriber)
        try:
            await dispatcher.subscriptions.listen_until_stopped()
        except asyncio.CancelledError:
            # The driver closes a connection by cancelling the remaining requests. A listen request then ends normally.
            if call.cancelled:
                raise
        finally:
            dispatcher.subscriptions.hub.discard(subscriber)
        return completion(call.id)


async def _saved(call: Call) -> m.Result:
    """The response to a change of the session, after the session is stored."""
    if call.session is not None and call.session.save is not None:
        await call.session.save()
    return m.Result()


def _nothing_to_complete(key: str) -> ProtocolError:
    return ProtocolError("completion_not_found", f"nothing to complete for {key[:NAME_ECHO]!r}")


def _names_failed_subscriptions(call: Call) -> bool:
    return call.codec.dialect.subscription_failures and not call.revision.modern
