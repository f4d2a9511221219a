"""Subscriptions: legacy sessions and modern listen streams in one registry.

A legacy session is notified of every list change and of the resources it subscribed to. A listen stream gets
exactly the notifications that its filter requested and the server granted. Each one names the listen request
in ``_meta``, with its id in the original JSON type. `SubscriptionHub` selects the subscribers and calls their
``notify``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from .. import model as m
from ..errors import DovetailError, ProtocolError, Refusal
from ..model.meta import SUBSCRIPTION_ID, TASKS_EXTENSION
from ..settings import Limits
from ..wire.frames import RequestId
from ..wire.shared_params import ParamsFor, SharedParams
from .channel import Call, Session
from .limits import SharedLimit, busy
from .metadata import require
from .principal import Principal, key_of
from .rights import Rights, visible

MAX_PROCESSES: Final = 1000
"""Processes whose newest change is known."""
MAX_RESOURCE_DEPTH: Final = 64
"""Number of parent levels of a resource that are searched for subscribers."""

ListKind = Literal["tools", "prompts", "resources"]
Notify = Callable[[str, Struct | None], None]
Notifier = Callable[["Collection[Subscriber]"], int]

LIST_KINDS: Final[tuple[ListKind, ...]] = ("tools", "prompts", "resources")
UPDATED: Final = "notifications/resources/updated"
REFRESHED: Final = frozenset({UPDATED, *(f"notifications/{kind}/list_changed" for kind in LIST_KINDS)})
"""Notifications that `SubscriptionHub.refresh` sends. They replace any of the same type that were lost."""
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_TASKS: Final = f"extensions.{TASKS_EXTENSION}"


class Subscriber(Struct, eq=False, kw_only=True):
    """One session or listen stream. Keep it for `SubscriptionHub.discard`."""

    notify: Notify
    id: RequestId | None = None
    """Id of the listen request; None for a legacy session."""
    session: Session | None = None
    filter: m.SubscriptionFilter = field(default_factory=m.SubscriptionFilter)
    """The granted part of the requested filter."""
    uris: set[str] = set()
    tasks: frozenset[str] = frozenset()
    delivered: Mapping[str, int] | None = None
    """By process, the newest change that another process delivered before the stream of this session moved here."""
    principal: Principal | None = None
    """The principal that subscribed, with its scopes at that time."""
    call: Call | None = None
    """The listen request."""

    @property
    def active(self) -> bool:
        """Whether it may be notified: not before ``initialized``, and not while the session is paused or
        closing."""
        return self.session is None or (self.session.phase == "ready" and not self.session.notified_remotely)


class PublishedChange(Struct, frozen=True, omit_defaults=True):
    """A change that subscribers may be notified of, in a form that other processes can decode."""

    list: ListKind | None = None
    """The list that changed."""
    session: str | None = None
    """Only for the legacy session with this id."""
    principal: str | None = None
    """Only for the listen streams of this principal."""
    caller: str | None = None
    """Only for the sessions and listen streams of this principal."""
    uri: str | None = None
    """The resource that changed; ``meta`` is sent with the notification."""
    meta: dict[str, Any] | None = None
    task: m.DetailedTask | None = None
    """The task, in its current state."""
    origin: tuple[str, int] | None = None
    """The process that published the change, and its number there; None with a single process."""

    def applies_to(self, subscriber: Subscriber) -> bool:
        """Whether the change applies to this subscriber."""
        if self.caller is not None:
            return key_of(subscriber.principal) == self.caller
        if self.session is not None:
            return subscriber.session is not None and subscriber.session.id == self.session
        if self.principal is not None:
            return subscriber.session is None and key_of(subscriber.principal) == self.principal
        return True


class SubscriptionHub:
    """Registry of the subscribers of one server.

    The cost of publishing grows with the number of *notified* subscribers.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = Limits() if limits is None else limits
        self.subscribed_bytes = SharedLimit(self._limits.max_subscribed_uri_bytes)
        """Bytes of the URIs of all subscribers. A server sets its shared limit here."""
        # Dicts serve as ordered sets: subscribers are notified in the order of subscription.
        self._lists: dict[str, dict[Subscriber, None]] = {kind: {} for kind in LIST_KINDS}
        self._uris: dict[str, dict[Subscriber, None]] = {}
        self._tasks: dict[str, dict[Subscriber, None]] = {}
        self.sessions = self.uri_count = 0
        """Number of sessions, and number of URIs with a subscriber."""
        self.publish_remote: Callable[[PublishedChange], PublishedChange] | None = None
        """Sends a change to the other processes and returns it with its origin; None with a single process."""
        self._newest: dict[str, int] = {}
        """The newest change of each process that was published here."""
        self._moved: set[Subscriber] = set()
        """The sessions with ``delivered``."""
        self.on_publish: Callable[[PublishedChange], None] | None = None
        """Called with every change published in this process."""
        self.notify_missed: Callable[[Subscriber, Collection[str] | None], None] | None = None
        """Notifies a session of recent changes it may have missed: of all URIs, or of these."""
        self.on_change: list[Callable[[PublishedChange], None]] = []
        """Callbacks for all published changes: servers in which this one is mounted."""
        self.on_uri_unused: Callable[[str], None] | None = None
        """Called with a URI that has no subscriber left."""
        self.on_session_end: Callable[[Session], None] | None = None
        """Called with a legacy session that has ended."""
        self.visibility_filter: Callable[[Collection[Subscriber], str, Notifier], None] | None = None
        """Filters the subscribers of a URI by visibility; None if all of them may see it."""
        self.on_resource_updated: list[Callable[[str], None]] = []
        """Called with every resource URI that changed, in this or in another process."""
        self.client_uri: Callable[[str], str] | None = None
        """Converts a URI of the server to the one that clients use; None if they are equal."""
        self.rights: Callable[[str], Rights] = lambda uri: ()
        """The conditions for reading a URI. Subscribers that do not meet them are not notified."""

    # --- subscribers --------------------------------------------------------------------------------------

    def add(self, filter: m.SubscriptionFilter, notify: Notify, id: RequestId) -> Subscriber:
        """Register a listen stream with a *granted* filter (see `grant`).

        Register it directly after sending its `acknowledgement`, so that no change is published before.
        """
        subscriber = Subscriber(notify=notify, id=id, filter=filter, tasks=frozenset(filter.task_ids or ()))
        for kind in LIST_KINDS:
            if getattr(filter, f"{kind}_list_changed") is True:
                self._lists[kind][subscriber] = None
        for uri in filter.resource_subscriptions or ():
            self._watch(subscriber, uri)
        for task in subscriber.tasks:
            self._tasks.setdefault(task, {})[subscriber] = None
        return subscriber

    def add_session(self, session: Session, notify: Notify) -> Subscriber:
        """Register a legacy session for all list changes and for its resource subscriptions."""
        subscriber = Subscriber(notify=notify, session=session)
        self.sessions += 1
        for kind in LIST_KINDS:
            self._lists[kind][subscriber] = None
        for uri in session.subscriptions or ():
            self._watch(subscriber, uri)
        return subscriber

    def discard(self, subscriber: Subscriber) -> None:
        """Remove a subscriber. Removing it twice is allowed."""
        self.sessions -= subscriber.session is not None and subscriber in self._lists["tools"]
        for table in self._lists.values():
            table.pop(subscriber, None)
        for uri in tuple(subscriber.uris):
            self._unwatch(subscriber, uri)
        for task in subscriber.tasks:
            _drop(self._tasks, task, subscriber)
        self._moved.discard(subscriber)
        if self.on_session_end is not None and subscriber.session is not None:
            self.on_session_end(subscriber.session)

    def subscribe(self, subscriber: Subscriber, uri: str) -> None:
        """Handle ``resources/subscribe`` of a legacy session. Subscribing twice has no further effect.

        Raises:
            Refusal: the session has `Limits.max_subscriptions` already, or all sessions together have
                `Limits.max_subscribed_uri_bytes`.
            ProtocolError: the URI is longer than `Limits.max_uri_length`.
        """
        if len(uri) > self._limits.max_uri_length:
            raise ProtocolError("uri_too_long", f"the URI exceeds {self._limits.max_uri_length} characters")
        if uri not in subscriber.uris and len(subscriber.uris) >= self._limits.max_subscriptions:
            raise Refusal(1004, message="too many resource subscriptions")
        if not self._watch(subscriber, uri):
            raise busy("resource subscriptions")
        if subscriber.session is not None:
            subscriber.session.subscriptions = subscriber.uris

    def resubscribe(self, subscriber: Subscriber, uris: Collection[str]) -> None:
        """Replace the subscriptions of a session."""
        for uri in subscriber.uris.difference(uris):
            self._unwatch(subscriber, uri)
        added = [uri for uri in uris if uri not in subscriber.uris and self._watch(subscriber, uri)]
        if subscriber.session is not None:
            subscriber.session.subscriptions = subscriber.uris or None
        if added and self.notify_missed is not None:
            self.notify_missed(subscriber, added)  # another process received the subscription some time ago

    def unsubscribe(self, subscriber: Subscriber, uri: str) -> None:
        """Handle ``resources/unsubscribe``; unknown URIs are ignored."""
        self._unwatch(subscriber, uri)

    # --- publishing ---------------------------------------------------------------------------------------

    def publish_resource_updated(self, uri: str, meta: Mapping[str, Any] | None = None) -> int:
        """Publish that a resource changed: to subscribers of it and of its parents."""
        return self.publish(PublishedChange(uri=uri, meta=None if meta is None else dict(meta)))

    def publish_task(self, task: m.DetailedTask) -> int:
        """Publish the state of a task to the listen streams that listed it."""
        return self.publish(PublishedChange(task=task))

    def publish(self, news: PublishedChange) -> int:
        """Notify all subscribers, other processes and servers.

        Returns the number of notified subscribers of this process.
        """
        if self.publish_remote is not None:
            news = self.publish_remote(news)
        told = (
            news
            if self.client_uri is None or news.uri is None
            else replace(news, uri=self.client_uri(news.uri))
        )
        for follow in self.on_change:
            follow(told)
        return self.notify_local(news)

    def delivered_to(self, subscriber: Subscriber) -> dict[str, int]:
        """By process, the newest change that a session was notified of."""
        newest = dict(self._newest)
        for process, number in (subscriber.delivered or {}).items():
            newest[process] = max(number, newest.get(process, 0))
        return newest

    def notify_local(self, news: PublishedChange, only: Subscriber | None = None) -> int:
        """Notify the subscribers of this process only, or one of them. Returns their number."""
        if only is None:
            if self.on_publish is not None:
                self.on_publish(news)
            if news.origin is not None:
                process, number = news.origin
                self._newest.pop(process, None)
                self._newest[process] = number
                if len(self._newest) > MAX_PROCESSES:
                    del self._newest[next(iter(self._newest))]
        if news.list is not None:
            method = f"notifications/{news.list}/list_changed"
            interested = {one: None for one in self._lists[news.list] if news.applies_to(one)}
            interested = self._addressed(news, interested, only)
            return _notify(interested, method, lambda meta: m.NotificationParams(meta=meta))
        if news.task is not None:
            task = news.task
            interested = self._tasks.get(task.task_id, {})
            return _notify(interested, "notifications/tasks", lambda meta: _with(task, meta))
        return 0 if news.uri is None else self._notify_updated(news, news.uri, news.meta or {}, only)

    def _notify_updated(
        self, news: PublishedChange, uri: str, more: dict[str, Any], only: Subscriber | None
    ) -> int:
        rights = self.rights(uri)
        uri = uri if self.client_uri is None else self.client_uri(uri)
        for told in self.on_resource_updated if only is None else ():
            told(uri)
        interested: dict[Subscriber, None] = {}
        for address in parents(uri):
            interested |= self._uris.get(address, {})
        if news.caller is not None or news.session is not None:
            interested = {one: None for one in interested if news.applies_to(one)}
        if rights:
            interested = {one: None for one in interested if visible(rights, one.principal)}
        interested = self._addressed(news, interested, only)

        def params(own: dict[str, Any] | UnsetType) -> Struct:
            whole = {**more, **(own or {})}
            return m.ResourceUpdatedNotificationParams(uri, meta=whole or UNSET)

        tell = partial(_notify, method=UPDATED, params=params)
        if self.visibility_filter is None or not interested:
            return tell(interested)
        self.visibility_filter(interested, uri, tell)
        return len(interested)

    def _addressed(
        self, news: PublishedChange, interested: dict[Subscriber, None], only: Subscriber | None
    ) -> dict[Subscriber, None]:
        """Return ``only``, or the interested subscribers that another process has not notified already."""
        if only is not None:
            return {only: None} if only in interested else {}
        if not self._moved or news.origin is None:
            return interested
        process, number = news.origin
        return {
            one: None for one in interested if one.delivered is None or one.delivered.get(process, 0) < number
        }

    def publish_to(self, subscriber: Subscriber, task: m.DetailedTask) -> None:
        """Send the state of a task to one listen stream that listed it, as `publish_task` would."""
        _notify({subscriber: None}, "notifications/tasks", lambda meta: _with(task, meta))

    def refresh(
        self, subscriber: Subscriber, *, lately: bool = False, delivered: Mapping[str, int] | None = None
    ) -> None:
        """Notify one session that all it is subscribed to may have changed; or, if known, only of recent
        changes that are not ``delivered``."""
        subscriber.delivered = delivered
        (self._moved.discard if delivered is None else self._moved.add)(subscriber)
        if lately:
            if self.notify_missed is not None:
                self.notify_missed(subscriber, None)
            return
        one = {subscriber: None}
        for kind in LIST_KINDS:
            _notify(one, f"notifications/{kind}/list_changed", lambda meta: m.NotificationParams(meta=meta))
        for uri in sorted(subscriber.uris):
            _notify(one, UPDATED, lambda meta, uri=uri: m.ResourceUpdatedNotificationParams(uri, meta=meta))

    def refresh_all(self) -> None:
        """Notify all subscribers of this process that everything may have changed."""
        for kind in LIST_KINDS:
            self.notify_local(PublishedChange(list=kind))
        for uri in tuple(self._uris):
            self.notify_local(PublishedChange(uri=uri))

    def _watch(self, subscriber: Subscriber, uri: str) -> bool:
        """Subscribe to one more URI, unless the shared limit is reached.

        A listen stream then gets a smaller filter.
        """
        if uri not in subscriber.uris and not self.subscribed_bytes.acquire(len(uri)):
            return False
        self.uri_count += uri not in subscriber.uris
        subscriber.uris.add(uri)
        self._uris.setdefault(uri, {})[subscriber] = None
        return True

    def _unwatch(self, subscriber: Subscriber, uri: str) -> None:
        if uri in subscriber.uris:
            self.subscribed_bytes.release(len(uri))
            self.uri_count -= 1
        subscriber.uris.discard(uri)
        _drop(self._uris, uri, subscriber)
        if self.on_uri_unused is not None and uri not in self._uris:
            self.on_uri_unused(uri)


def grant(
    wish: m.SubscriptionFilter,
    offered: m.ServerCapabilities,
    declared: m.ClientCapabilities,
    limits: Limits | None = None,
) -> m.SubscriptionFilter:
    """Return the part of a filter that the server grants: what it has, within the limits on URIs.

    Raises:
        ProtocolError: tasks are listed, but the request does not declare the tasks extension.
    """
    limits = Limits() if limits is None else limits
    most, longest = limits.max_subscriptions, limits.max_uri_length
    tasks = wish.task_ids
    if tasks is not UNSET:
        require("taskIds", _TASKS, declared)
    uris = wish.resource_subscriptions
    return m.SubscriptionFilter(
        tools_list_changed=_granted(wish.tools_list_changed, offered, "tools.listChanged"),
        prompts_list_changed=_granted(wish.prompts_list_changed, offered, "prompts.listChanged"),
        resources_list_changed=_granted(wish.resources_list_changed, offered, "resources.listChanged"),
        resource_subscriptions=_first(uris, most, longest) if offered.has("resources.subscribe") else UNSET,
        task_ids=_first(tasks, most, longest) if offered.has(_TASKS) else UNSET,
    )


def acknowledgement(
    id: RequestId, honoured: m.SubscriptionFilter
) -> m.SubscriptionsAcknowledgedNotificationParams:
    """Build the first notification of a listen stream."""
    return m.SubscriptionsAcknowledgedNotificationParams(honoured, meta={SUBSCRIPTION_ID: id})


def completion(id: RequestId) -> m.SubscriptionsListenResult:
    """Build the result of a listen stream that the server ends."""
    return m.SubscriptionsListenResult(meta={SUBSCRIPTION_ID: id})


def _granted(wish: bool | UnsetType, offered: m.ServerCapabilities, path: str) -> bool | UnsetType:
    return True if wish is True and offered.has(path) else UNSET


def _first(names: list[str] | UnsetType, most: int, longest: int) -> list[str] | UnsetType:
    if names is UNSET:
        return UNSET
    return [name for name in dict.fromkeys(names) if len(name) <= longest][:most]


def parents(uri: str) -> Iterator[str]:
    """Yield the URI and its parents: ``a://b/c/d`` is below ``a://b/c/``, ``a://b/c`` and so on."""
    yield uri
    scheme = uri.find("://")
    start = 0 if scheme < 0 else scheme + 3
    end = len(uri)
    for _ in range(MAX_RESOURCE_DEPTH):
        end = uri.rfind("/", start, end)
        if end < 0:
            return
        if end + 1 < len(uri):
            yield uri[: end + 1]
        if end > start:
            yield uri[:end]


def _drop(table: dict[str, dict[Subscriber, None]], key: str, subscriber: Subscriber) -> None:
    entry = table.get(key)
    if entry is not None:
        entry.pop(subscriber, None)
        if not entry:
            del table[key]


def _with(task: m.DetailedTask, meta: dict[str, Any] | UnsetType) -> m.DetailedTask:
    return replace(task, meta={**(task.meta or {}), **(meta or {})} or UNSET)


def _notify(
    interested: Collection[Subscriber], method: str, params: Callable[[dict[str, Any] | UnsetType], Struct]
) -> int:
    shared = SharedParams(params)
    to_sessions = ParamsFor(shared)
    told = 0
    for subscriber in tuple(interested):
        if subscriber.session is None:
            own = ParamsFor(shared, subscriber.id)
        elif subscriber.active:
            own = to_sessions
        else:
            continue
        try:
            subscriber.notify(method, own)
        except DovetailError:
            continue  # one failed stream must not affect the other subscribers
        told += 1
    return told
