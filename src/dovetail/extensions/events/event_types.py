"""`EventType`: one kind of event that a server offers, with its types, its filter and who may subscribe."""

from __future__ import annotations

import inspect
import logging
import os
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast, get_args

import msgspec
from msgspec import UNSET, Raw, Struct

from ...core.principal import Principal
from ...core.rights import Rights, denied, needed, visible
from ...errors import ProtocolError, RegistrationError, StateError
from ...server.registry.component_options import check, read_rights
from ...server.signatures.annotation_schemas import Schemas
from ...server.signatures.plain_types import encode
from .event_model import DeliveryMode, EventDefinition, event_not_found, forbidden, iso

if TYPE_CHECKING:
    from .event_feeds import EventFeed
    from .event_log import RecordedEvent

log = logging.getLogger("dovetail.server")

MAX_ARGUMENT_BYTES: Final = 16 << 10
"""Bytes of the arguments of one subscription, as JSON."""
MAX_SOURCE_EVENTS: Final = 1000
"""Events that a source may return at once."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_EVENT_ID: Final = re.compile(r"[!-~]{1,256}")
"""Allowed ids: they are sent in the header ``webhook-id``."""
_encode_sorted = msgspec.json.Encoder(order="sorted").encode

Match = Callable[[Any, Any, Principal | None], bool]
Transform = Callable[[Any, Any, Principal | None], Any]
Source = Callable[[Any, str | None, Principal | None], Awaitable["EventBatch"]]
Hook = Callable[[Any, Principal | None], Any]


class Event(Struct, frozen=True, kw_only=True):
    """One event of a source. ``id`` is the id that the upstream system gave it."""

    data: Any
    id: str
    timestamp: float
    """The Unix time at which it happened."""


class EventBatch(Struct, frozen=True, kw_only=True):
    """What a source returns: the events after a cursor, oldest first, and the cursor after the last of them."""

    cursor: str | None
    events: Sequence[Event] = ()
    truncated: bool = False
    """Whether events were skipped, because the cursor is too old."""
    has_more: bool = False


class EventTypeOptions(TypedDict, total=False):
    """The options of `Events.add`."""

    description: str | None
    """What the event means, for the model."""
    payload: Any
    """The type of ``data``: a Struct, dataclass, TypedDict or model; by default a dict."""
    arguments: Any
    """The type of the arguments of a subscription; by default none are taken."""
    match: Match | None
    """``(data, arguments, principal)``: whether a subscription gets an event. By default all do."""
    transform: Transform | None
    """``(data, arguments, principal)``: the data that a subscription gets instead of ``data``."""
    source: Source | None
    """``(arguments, cursor, principal)``: reads the events from an upstream system, as an `EventBatch`."""
    poll_interval: float
    """Seconds between two reads of the source, and between two polls of a client."""
    on_subscribe: Hook | None
    """``(arguments, principal)``: called before the first event is delivered for these arguments."""
    on_unsubscribe: Hook | None
    """``(arguments, principal)``: called when the last subscription with these arguments has ended."""
    delivery: Collection[DeliveryMode] | None
    """The delivery modes; by default all that the server has."""
    meta: Mapping[str, Any] | None
    """``_meta`` of the definition."""
    scopes: Collection[str]
    """Scopes that a subscriber needs."""
    auth: Callable[[Principal | None], bool] | None
    """A function of the principal that returns whether it may subscribe. It is asked again before each delivery."""


class EventSubscriber(Struct, frozen=True, eq=False):
    """Who gets events of a type, and with which arguments."""

    type: EventType
    arguments: Any
    """As the declared type."""
    canonical: bytes
    """As JSON with sorted members."""
    principal: Principal | None

    @property
    def key(self) -> tuple[str, str, bytes]:
        """What upstream resources are set up for."""
        return (self.type.name, "" if self.principal is None else self.principal.key, self.canonical)


class EventType:
    """One kind of event. `Events.add` makes it; `emit` reports an occurrence.

    Raises:
        RegistrationError: an option is not valid.
    """

    def __init__(self, name: str, options: EventTypeOptions, offered: Collection[DeliveryMode]) -> None:
        check(cast("Any", options), EventTypeOptions, f"the event type {name!r}")
        if not _NAME.fullmatch(name):
            raise RegistrationError(
                f"the name of an event type has 1 to 128 letters, digits, dots, slashes and hyphens, not {name!r}"
            )
        delivery = options.get("delivery")
        wanted = [mode for mode in get_args(DeliveryMode) if delivery is None or mode in delivery]
        unknown = set(delivery or ()) - set(get_args(DeliveryMode))
        modes: list[DeliveryMode] = [mode for mode in wanted if mode in offered]
        if unknown or not modes:
            raise RegistrationError(
                f"delivery of the event type {name!r} is some of {', '.join(sorted(offered))}, not {delivery!r}"
            )
        payload, arguments = options.get("payload"), options.get("arguments")
        self.name = name
        self.rights: Rights = read_rights(cast("Any", options), f"event type {name!r}")
        self.match = options.get("match")
        self.transform = options.get("transform")
        self.source = options.get("source")
        self.poll_interval = options.get("poll_interval", 5.0)
        self.on_subscribe = options.get("on_subscribe")
        self.on_unsubscribe = options.get("on_unsubscribe")
        for word in ("match", "transform"):
            if inspect.iscoroutinefunction(options.get(word)):
                raise RegistrationError(f"{word} of the event type {name!r} is a plain function, not async")
        if self.source is not None and not inspect.iscoroutinefunction(self.source):
            raise RegistrationError(f"source of the event type {name!r} is an async function")
        if self.poll_interval <= 0:
            raise RegistrationError(f"poll_interval of the event type {name!r} is more than 0 seconds")
        input_schema, self._read_arguments = _typed(
            arguments, {"type": "object", "additionalProperties": False}
        )
        payload_schema, self._read_payload = _typed(payload, {"type": "object"})
        self._takes_arguments = arguments is not None
        self.definition = EventDefinition(
            name=name,
            delivery=modes,
            description=options.get("description") or UNSET,
            input_schema=input_schema,
            payload_schema=payload_schema,
            meta=dict(options.get("meta") or {}) or UNSET,
        )
        self._feed: EventFeed | None = None
        self._max_bytes = 0

    def __repr__(self) -> str:
        return f"EventType({self.name!r}, delivery={self.definition.delivery!r})"

    def connect(self, feed: EventFeed, max_bytes: int) -> None:
        """Read events from ``feed``."""
        self._feed, self._max_bytes = feed, max_bytes

    @property
    def feed(self) -> EventFeed:
        if self._feed is None:
            raise StateError(
                f"{self!r} belongs to no server: register its Events with Server(extensions=[…])"
            )
        return self._feed

    async def emit(self, data: Any, *, id: str | None = None, timestamp: float | None = None) -> str:
        """Report an occurrence to all subscribers, and return its id.

        ``id`` is the id of the upstream system, so that clients detect duplicates; by default a new one.

        Raises:
            StateError: the type has a source, or belongs to no server.
            ValueError: the data does not fit ``payload`` or is too large, or ``timestamp`` is not in seconds.
            StoreFull: the store is full.
        """
        if self.source is not None:
            raise StateError(f"the events of {self.name!r} come from its source: it cannot be emitted")
        feed = self.feed
        written = self.write(data)
        if timestamp is not None:
            _check_time(timestamp)
        id = f"evt_{os.urandom(12).hex()}" if id is None else checked_id(id)
        await feed.record(id, timestamp, written)
        return id

    def write(self, data: Any) -> Raw:
        """Encode the data of an event. Raises ValueError: it does not fit, or is too large."""
        written = encode(data)
        if len(written) > self._max_bytes:
            raise ValueError(
                f"the data of an event {self.name!r} has {len(written)} bytes; at most {self._max_bytes} are allowed"
            )
        try:
            self._read_payload(written)
        except msgspec.ValidationError as error:
            raise ValueError(f"the data of the event {self.name!r} does not fit its type: {error}") from None
        return Raw(written)

    # --- subscribers ----------------------------------------------------------------------------------------

    def subscriber(self, arguments: Mapping[str, Any], principal: Principal | None) -> EventSubscriber:
        """Check the arguments of a subscription.

        Raises:
            ProtocolError: they do not fit the input schema, or the principal may not subscribe.
        """
        canonical = _encode_sorted(arguments)
        if len(canonical) > MAX_ARGUMENT_BYTES:
            raise ProtocolError("invalid_params", f"the arguments exceed {MAX_ARGUMENT_BYTES} bytes")
        if arguments and not self._takes_arguments:
            raise ProtocolError("invalid_params", f"the event type {self.name!r} takes no arguments")
        try:
            read = self._read_arguments(canonical)
        except msgspec.ValidationError as error:
            text = f"the arguments do not fit the event type {self.name!r}: {error}"
            raise ProtocolError("invalid_params", text) from None
        found = EventSubscriber(self, read, canonical, principal)
        self.admit(principal)
        return found

    def admit(self, principal: Principal | None) -> None:
        """Check that ``principal`` may get the events.

        Raises:
            ProtocolError: it may not. A type that ``auth`` hides does not exist for it.
        """
        if not self.rights or visible(self.rights, principal):
            return
        if denied(self.rights, principal):
            raise event_not_found(self.name)
        raise forbidden(f"missing scope; required: {' '.join(sorted(needed(self.rights)))}")

    def allows(self, principal: Principal | None) -> bool:
        """Whether ``principal`` may still get the events. An exception of the author's function denies it."""
        return not self.rights or visible(self.rights, principal)

    def shaped(self, event: RecordedEvent, subscriber: EventSubscriber) -> Raw | None:
        """Return the data that a subscriber gets; None if the event is not for it.

        A filter that fails lets nothing through.
        """
        if self.match is None and self.transform is None:
            return event.data
        try:
            data = self._read_payload(event.data)
            if self.match is not None and not self.match(data, subscriber.arguments, subscriber.principal):
                return None
            if self.transform is None:
                return event.data
            return self.write(self.transform(data, subscriber.arguments, subscriber.principal))
        except Exception:
            log.exception("the filter of the event type %s failed; event=%s", self.name, event.id)
            return None


def checked_id(id: str) -> str:
    """Return the id of an event. Raises ValueError: it cannot travel in a header."""
    if not _EVENT_ID.fullmatch(id):
        raise ValueError(f"the id of an event has 1 to 256 visible ASCII characters, not {id!r}")
    return id


def _check_time(timestamp: float) -> None:
    """Check the time of an event: one that cannot be written would fail every reader of the log."""
    try:
        iso(timestamp)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"the timestamp of an event is a Unix time in seconds, not {timestamp!r}") from None


def _typed(annotation: Any, default: dict[str, Any]) -> tuple[dict[str, Any], Callable[[bytes | Raw], Any]]:
    """The schema of an annotation, and what reads it."""
    schemas = Schemas()
    if annotation is None:
        return default, schemas.decoder(dict[str, Any])
    node = schemas.prepare(annotation)
    schema = schemas.document(node.schema)
    if schema.get("type") != "object":
        raise RegistrationError(f"{annotation!r} is no object: use a Struct, dataclass, TypedDict or model")
    return schema, schemas.decoder(annotation)
