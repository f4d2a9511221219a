"""Who wants to hear of what: legacy sessions and modern listen streams in one register.

A legacy session hears of every list that changes and of the resources it subscribed to. A listen stream hears
of exactly what its filter asked for and the server honours, and every notification names the listen request
in ``_meta``, in the very JSON type of its id. `Hub` decides; the ``notify`` callables it was given do the
sending, with `ParamsFor` each of them, which are written once for all.
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

DEEPEST_RESOURCE: Final = 64
"""Levels above a resource whose subscribers are looked for."""

ListKind = Literal["tools", "prompts", "resources"]
Notify = Callable[[str, Struct | None], None]
Tell = Callable[["Collection[Subscriber]"], int]

LIST_KINDS: Final[tuple[ListKind, ...]] = ("tools", "prompts", "resources")
UPDATED: Final = "notifications/resources/updated"
REFRESHED: Final = frozenset({UPDATED, *(f"notifications/{kind}/list_changed" for kind in LIST_KINDS)})
"""What `Hub.refresh` tells: who has lost one of these hears as much from that."""
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_TASKS: Final = f"extensions.{TASKS_EXTENSION}"


class Subscriber(Struct, eq=False, kw_only=True):
    """One session or listen stream. Keep it to `Hub.discard` it."""

    notify: Notify
    id: RequestId | None = None
    """The id of the listen request; None for a legacy session."""
    session: Session | None = None
    filter: m.SubscriptionFilter = field(default_factory=m.SubscriptionFilter)
    """What is honoured of what was asked."""
    uris: set[str] = set()
    tasks: frozenset[str] = frozenset()
    principal: Principal | None = None
    """Who subscribed, with the rights of that moment."""
    call: Call | None = None
    """The listen request."""

    @property
    def listens(self) -> bool:
        """A session hears nothing before ``initialized`` and nothing once it is paused or ending."""
        return self.session is None or (self.session.phase == "ready" and not self.session.elsewhere)


class News(Struct, frozen=True, omit_defaults=True):
    """Something subscribers may want to hear of, in a form that other processes understand."""

    list: ListKind | None = None
    """The list that changed."""
    session: str | None = None
    """It changed for the legacy session of this id alone."""
    principal: str | None = None
    """It changed for the listen streams of this principal alone."""
    caller: str | None = None
    """It changed for this principal alone, in sessions and listen streams alike."""
    uri: str | None = None
    """The resource that changed, and what is said with it."""
    meta: dict[str, Any] | None = None
    task: m.DetailedTask | None = None
    """The task, in the state it is in now."""

    def concerns(self, subscriber: Subscriber) -> bool:
        """Whether it changed for this subscriber."""
        if self.caller is not None:
            return key_of(subscriber.principal) == self.caller
        if self.session is not None:
            return subscriber.session is not None and subscriber.session.id == self.session
        if self.principal is not None:
            return subscriber.session is None and key_of(subscriber.principal) == self.principal
        return True


class Hub:
    """The register of one server. Publishing costs what the number of *interested* subscribers costs."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = Limits() if limits is None else limits
        self.subscribed_bytes = SharedLimit(self._limits.max_subscribed_uri_bytes)
        """Bytes of the URIs of all subscribers; a server puts its shared limit here."""
        # Dicts as ordered sets: those who came first are told first.
        self._lists: dict[str, dict[Subscriber, None]] = {kind: {} for kind in LIST_KINDS}
        self._uris: dict[str, dict[Subscriber, None]] = {}
        self._tasks: dict[str, dict[Subscriber, None]] = {}
        self.sessions = self.watched = 0
        """How many sessions there are, and how many addresses somebody has subscribed to."""
        self.spread: Callable[[News], None] | None = None
        """Tells the subscribers of other processes; None where there are none."""
        self.heard: Callable[[News], None] | None = None
        """Told of all that is told here."""
        self.again: Callable[[Subscriber, Collection[str] | None], None] | None = None
        """Tells a session what it may have missed lately: all of it, or of these addresses."""
        self.followers: list[Callable[[News], None]] = []
        """Told of everything that is published: servers this one is mounted in."""
        self.abandoned: Callable[[str], None] | None = None
        """Told of an address that nobody is subscribed to any more."""
        self.ended: Callable[[Session], None] | None = None
        """Told of a legacy session that is over."""
        self.sight: Callable[[Collection[Subscriber], str, Tell], None] | None = None
        """Has those told who still see an address; None where nobody loses sight of one."""
        self.updated: list[Callable[[str], None]] = []
        """Told of every resource that has changed, here or in another process."""
        self.named: Callable[[str], str] | None = None
        """What clients call an address; None where it is what the server calls it."""
        self.rights: Callable[[str], Rights] = lambda uri: ()
        """Who may read an address: others hear nothing of it."""

    # --- coming and going ---------------------------------------------------------------------------------

    def add(self, filter: m.SubscriptionFilter, notify: Notify, id: RequestId) -> Subscriber:
        """Register a listen stream for an *honoured* filter (see `honour`).

        Send its `acknowledgement` before anything is published: register right after it.
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
        """Register a legacy session: it hears of every list, and of what it subscribes to."""
        subscriber = Subscriber(notify=notify, session=session)
        self.sessions += 1
        for kind in LIST_KINDS:
            self._lists[kind][subscriber] = None
        for uri in session.subscriptions or ():
            self._watch(subscriber, uri)
        return subscriber

    def discard(self, subscriber: Subscriber) -> None:
        """Forget a subscriber; forgetting it twice is fine."""
        self.sessions -= subscriber.session is not None and subscriber in self._lists["tools"]
        for table in self._lists.values():
            table.pop(subscriber, None)
        for uri in tuple(subscriber.uris):
            self._unwatch(subscriber, uri)
        for task in subscriber.tasks:
            _drop(self._tasks, task, subscriber)
        if self.ended is not None and subscriber.session is not None:
            self.ended(subscriber.session)

    def subscribe(self, subscriber: Subscriber, uri: str) -> None:
        """``resources/subscribe`` of a legacy session; subscribing twice is once.

        Raises:
            Refusal: the session holds `Limits.max_subscriptions` already, or all sessions together hold
                `Limits.max_subscribed_uri_bytes`.
            ProtocolError: the address is longer than `Limits.max_uri_length`.
        """
        if len(uri) > self._limits.max_uri_length:
            raise ProtocolError(
                "uri_too_long", f"the address exceeds {self._limits.max_uri_length} characters"
            )
        if uri not in subscriber.uris and len(subscriber.uris) >= self._limits.max_subscriptions:
            raise Refusal(1004, message="too many resource subscriptions")
        if not self._watch(subscriber, uri):
            raise busy("resource subscriptions")
        if subscriber.session is not None:
            subscriber.session.subscriptions = subscriber.uris

    def resubscribe(self, subscriber: Subscriber, uris: Collection[str]) -> None:
        """Have a session subscribe to exactly these."""
        for uri in subscriber.uris.difference(uris):
            self._unwatch(subscriber, uri)
        added = [uri for uri in uris if uri not in subscriber.uris and self._watch(subscriber, uri)]
        if subscriber.session is not None:
            subscriber.session.subscriptions = subscriber.uris or None
        if added and self.again is not None:
            self.again(subscriber, added)  # it was subscribed to in another process, some time ago

    def unsubscribe(self, subscriber: Subscriber, uri: str) -> None:
        """``resources/unsubscribe``; unknown addresses are ignored."""
        self._unwatch(subscriber, uri)

    # --- publishing ---------------------------------------------------------------------------------------

    def publish_resource_updated(self, uri: str, meta: Mapping[str, Any] | None = None) -> int:
        """Tell that a resource changed: to those who subscribed to it or to what it lies in."""
        return self.publish(News(uri=uri, meta=None if meta is None else dict(meta)))

    def publish_task(self, task: m.DetailedTask) -> int:
        """Tell the state of a task to the listen streams that named it."""
        return self.publish(News(task=task))

    def publish(self, news: News) -> int:
        """Tell everybody who wants to hear of it, other processes and servers too; return how many were told here."""
        if self.spread is not None:
            self.spread(news)
        told = news if self.named is None or news.uri is None else replace(news, uri=self.named(news.uri))
        for follow in self.followers:
            follow(told)
        return self.tell(news)

    def tell(self, news: News, only: Subscriber | None = None) -> int:
        """Tell the subscribers of this process alone, or one of them; return how many were told."""
        if self.heard is not None and only is None:
            self.heard(news)
        if news.list is not None:
            method = f"notifications/{news.list}/list_changed"
            interested = {one: None for one in self._lists[news.list] if news.concerns(one)}
            if only is not None:
                interested = {only: None} if only in interested else {}
            return _tell(interested, method, lambda meta: m.NotificationParams(meta=meta))
        if news.task is not None:
            task = news.task
            interested = self._tasks.get(task.task_id, {})
            return _tell(interested, "notifications/tasks", lambda meta: _with(task, meta))
        return 0 if news.uri is None else self._tell_updated(news, news.uri, news.meta or {}, only)

    def _tell_updated(self, news: News, uri: str, more: dict[str, Any], only: Subscriber | None) -> int:
        rights = self.rights(uri)
        uri = uri if self.named is None else self.named(uri)
        for told in self.updated if only is None else ():
            told(uri)
        interested: dict[Subscriber, None] = {}
        for address in above(uri):
            interested |= self._uris.get(address, {})
        if news.caller is not None or news.session is not None:
            interested = {one: None for one in interested if news.concerns(one)}
        if rights:
            interested = {one: None for one in interested if visible(rights, one.principal)}
        if only is not None:
            interested = {only: None} if only in interested else {}

        def params(own: dict[str, Any] | UnsetType) -> Struct:
            whole = {**more, **(own or {})}
            return m.ResourceUpdatedNotificationParams(uri, meta=whole or UNSET)

        tell = partial(_tell, method=UPDATED, params=params)
        if self.sight is None or not interested:
            return tell(interested)
        self.sight(interested, uri, tell)
        return len(interested)

    def publish_to(self, subscriber: Subscriber, task: m.DetailedTask) -> None:
        """Tell one listen stream the state of a task it named, as `publish_task` would have."""
        _tell({subscriber: None}, "notifications/tasks", lambda meta: _with(task, meta))

    def refresh(self, subscriber: Subscriber, *, lately: bool = False) -> None:
        """Tell one session that everything it listens to may have changed; or, where that is known, what has lately."""
        if lately:
            if self.again is not None:
                self.again(subscriber, None)
            return
        one = {subscriber: None}
        for kind in LIST_KINDS:
            _tell(one, f"notifications/{kind}/list_changed", lambda meta: m.NotificationParams(meta=meta))
        for uri in sorted(subscriber.uris):
            _tell(one, UPDATED, lambda meta, uri=uri: m.ResourceUpdatedNotificationParams(uri, meta=meta))

    def refresh_all(self) -> None:
        """Tell everybody here that everything they listen to may have changed."""
        for kind in LIST_KINDS:
            self.tell(News(list=kind))
        for uri in tuple(self._uris):
            self.tell(News(uri=uri))

    def _watch(self, subscriber: Subscriber, uri: str) -> bool:
        """Whether there is room for one more address; a listen stream whose wish finds none hears less."""
        if uri not in subscriber.uris and not self.subscribed_bytes.acquire(len(uri)):
            return False
        self.watched += uri not in subscriber.uris
        subscriber.uris.add(uri)
        self._uris.setdefault(uri, {})[subscriber] = None
        return True

    def _unwatch(self, subscriber: Subscriber, uri: str) -> None:
        if uri in subscriber.uris:
            self.subscribed_bytes.release(len(uri))
            self.watched -= 1
        subscriber.uris.discard(uri)
        _drop(self._uris, uri, subscriber)
        if self.abandoned is not None and uri not in self._uris:
            self.abandoned(uri)


def honour(
    wish: m.SubscriptionFilter,
    offered: m.ServerCapabilities,
    declared: m.ClientCapabilities,
    limits: Limits | None = None,
) -> m.SubscriptionFilter:
    """The part of a filter that the server can keep: what it has, within the limits on addresses.

    Raises:
        ProtocolError: tasks are named, but the client did not declare the tasks extension on this request.
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
    """The first message of a listen stream."""
    return m.SubscriptionsAcknowledgedNotificationParams(honoured, meta={SUBSCRIPTION_ID: id})


def completion(id: RequestId) -> m.SubscriptionsListenResult:
    """The last message of a listen stream that the server ends on purpose."""
    return m.SubscriptionsListenResult(meta={SUBSCRIPTION_ID: id})


def _granted(wish: bool | UnsetType, offered: m.ServerCapabilities, path: str) -> bool | UnsetType:
    return True if wish is True and offered.has(path) else UNSET


def _first(names: list[str] | UnsetType, most: int, longest: int) -> list[str] | UnsetType:
    if names is UNSET:
        return UNSET
    return [name for name in dict.fromkeys(names) if len(name) <= longest][:most]


def above(uri: str) -> Iterator[str]:
    """The address and everything it lies in: ``a://b/c/d`` lies in ``a://b/c/``, ``a://b/c`` and so on."""
    yield uri
    scheme = uri.find("://")
    start = 0 if scheme < 0 else scheme + 3
    end = len(uri)
    for _ in range(DEEPEST_RESOURCE):
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


def _tell(
    interested: Collection[Subscriber], method: str, params: Callable[[dict[str, Any] | UnsetType], Struct]
) -> int:
    shared = SharedParams(params)
    to_sessions = ParamsFor(shared)
    told = 0
    for subscriber in tuple(interested):
        if subscriber.session is None:
            own = ParamsFor(shared, subscriber.id)
        elif subscriber.listens:
            own = to_sessions
        else:
            continue
        try:
            subscriber.notify(method, own)
        except DovetailError:
            continue  # one stream that cannot be told must not keep the news from the others
        told += 1
    return told
