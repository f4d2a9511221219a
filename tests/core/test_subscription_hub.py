"""The subscribers that are notified of a change."""

import json
from typing import Any

import pytest
from msgspec import UNSET, Struct

from dovetail.core.channel import Session
from dovetail.core.subscription_hub import (
    ACKNOWLEDGED,
    PublishedChange,
    Subscriber,
    SubscriptionHub,
    acknowledgement,
    completion,
    grant,
)
from dovetail.core.task_machine import TaskMachine
from dovetail.core.task_views import detailed_task
from dovetail.errors import LocalProtocolError, ProtocolError, Refusal
from dovetail.model import ClientCapabilities, ServerCapabilities, SubscriptionFilter
from dovetail.model.meta import SUBSCRIPTION_ID, TASKS_EXTENSION
from dovetail.settings import Limits
from dovetail.wire.codec import codec_for
from dovetail.wire.revisions import BY_NAME, R5
from tests.core.messages import session
from tests.support.held import held
from tests.support.schemas import validate

WITH_TASKS = {"extensions": {TASKS_EXTENSION: {}}}
ALL = SubscriptionFilter(True, True, True, ["a://b"], ["t1"])


class Ear:
    """Takes notifications as a driver would, and checks each on the wire."""

    def __init__(self, revision: str = "2026-07-28") -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self._revision = revision

    def __call__(self, method: str, params: Struct | None) -> None:
        data = codec_for(BY_NAME[self._revision]).encode_notification(method, params)
        validate(data, self._revision, kind="notification")
        message = json.loads(data)
        self.heard.append((message["method"], message.get("params", {})))


def listen(hub: SubscriptionHub, wish: SubscriptionFilter, id: int | str = 1) -> tuple[Ear, Subscriber]:
    ear = Ear()
    return ear, hub.add(wish, ear, id)


def join(hub: SubscriptionHub, version: str = "2025-11-25", **more: Any) -> tuple[Ear, Subscriber, Session]:
    ear, lived = Ear(version), session(version, **more)
    return ear, hub.add_session(lived, ear), lived


@pytest.mark.parametrize("id", [1, "1", "listen-7"])
def test_a_listen_stream_gets_what_it_subscribed_to_with_its_own_id(id: int | str) -> None:
    hub = SubscriptionHub()
    ear, _ = listen(hub, SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["a://b"]), id)
    assert hub.publish(PublishedChange(list="tools")) == 1
    assert hub.publish(PublishedChange(list="prompts")) == 0
    assert hub.publish_resource_updated("a://b") == 1
    assert hub.publish_resource_updated("a://c") == 0
    assert ear.heard == [
        ("notifications/tools/list_changed", {"_meta": {SUBSCRIPTION_ID: id}}),
        ("notifications/resources/updated", {"uri": "a://b", "_meta": {SUBSCRIPTION_ID: id}}),
    ]


def test_each_of_several_streams_gets_its_own_copy_in_order_of_arrival() -> None:
    hub = SubscriptionHub()
    told: list[str] = []
    for name in ("first", "second", "third"):
        hub.add(
            SubscriptionFilter(tools_list_changed=True), lambda _m, _p, name=name: told.append(name), name
        )
    assert hub.publish(PublishedChange(list="tools")) == 3
    assert told == ["first", "second", "third"]


def test_a_legacy_session_gets_every_list_change_and_its_subscriptions_without_an_id() -> None:
    hub = SubscriptionHub()
    ear, subscriber, lived = join(hub, "2024-11-05")
    for kind in ("tools", "prompts", "resources"):
        hub.publish(PublishedChange(list=kind))
    hub.publish_resource_updated("a://b")
    hub.subscribe(subscriber, "a://b")
    hub.publish_resource_updated("a://b")
    assert lived.subscriptions == {"a://b"}
    hub.unsubscribe(subscriber, "a://b")
    hub.unsubscribe(subscriber, "a://never")
    hub.publish_resource_updated("a://b")
    assert [method.rsplit("/", 2)[-2:] for method, _ in ear.heard] == [
        ["tools", "list_changed"],
        ["prompts", "list_changed"],
        ["resources", "list_changed"],
        ["resources", "updated"],
    ]
    assert all("_meta" not in params for _, params in ear.heard)


@pytest.mark.parametrize("phase", ["negotiating", "paused", "draining", "closed"])
def test_a_session_that_is_not_ready_gets_no_notifications(phase: str) -> None:
    hub = SubscriptionHub()
    ear, _, lived = join(hub, phase=phase)
    assert hub.publish(PublishedChange(list="tools")) == 0
    lived.phase = "ready"
    assert hub.publish(PublishedChange(list="tools")) == 1
    assert len(ear.heard) == 1


@pytest.mark.parametrize(
    ("subscribed", "updated", "told"),
    [
        ("file:///a", "file:///a/b/c", True),
        ("file:///a/", "file:///a/b/c", True),
        ("file:///a/b/c", "file:///a", False),
        ("file:///a", "file:///ab", False),
        ("file:///", "file:///a", True),
        ("a://host", "a://host/x", True),
        ("a://ho", "a://host/x", False),
        ("a:", "a://host/x", False),
        ("urn:x", "urn:x", True),
    ],
)
def test_a_subscription_covers_what_lies_below_it(subscribed: str, updated: str, told: bool) -> None:
    hub = SubscriptionHub()
    ear, _ = listen(hub, SubscriptionFilter(resource_subscriptions=[subscribed]))
    assert hub.publish_resource_updated(updated) == int(told)
    assert [params["uri"] for _, params in ear.heard] == [updated] * told


def test_a_subscriber_of_a_resource_and_its_folder_is_notified_once() -> None:
    hub = SubscriptionHub()
    listen(hub, SubscriptionFilter(resource_subscriptions=["a://b/c", "a://b", "a://b/"]))
    assert hub.publish_resource_updated("a://b/c") == 1


def test_an_address_of_a_thousand_folders_is_looked_up_in_bounded_time() -> None:
    hub = SubscriptionHub()
    listen(hub, SubscriptionFilter(resource_subscriptions=["a://b"]))
    assert hub.publish_resource_updated("a://b" + "/x" * 1000) == 0


def test_metadata_of_an_update_is_merged_with_the_subscription_id() -> None:
    hub = SubscriptionHub()
    ear, _ = listen(hub, SubscriptionFilter(resource_subscriptions=["a://b"]), 4)
    hub.publish_resource_updated("a://b", {"com.example/etag": "x"})
    assert ear.heard[0][1]["_meta"] == {"com.example/etag": "x", SUBSCRIPTION_ID: 4}


def test_a_disconnected_client_gets_nothing_and_leaves_no_state() -> None:
    hub = SubscriptionHub()
    sizes: list[int] = []
    for number in range(50):
        ear, subscriber = listen(hub, ALL)
        legacy_ear, legacy, _ = join(hub)
        hub.subscribe(legacy, f"a://b/{number}")
        for gone in (subscriber, subscriber, legacy):
            hub.discard(gone)
        assert (
            hub.publish(PublishedChange(list="tools")) + hub.publish_resource_updated(f"a://b/{number}") == 0
        )
        assert ear.heard == legacy_ear.heard == []
        sizes.append(held(hub))
    assert max(sizes) < sizes[0] + 1000  # a table may keep a few empty slots


def test_one_stream_that_fails_does_not_block_notifications_of_the_others() -> None:
    hub = SubscriptionHub()

    def broken(method: str, params: Struct | None) -> None:
        raise LocalProtocolError("method_not_found")

    hub.add(SubscriptionFilter(tools_list_changed=True), broken, 1)
    ear, _ = listen(hub, SubscriptionFilter(tools_list_changed=True), 2)
    assert hub.publish(PublishedChange(list="tools")) == 1
    assert len(ear.heard) == 1


def test_a_client_that_disconnects_during_a_notification_affects_no_other() -> None:
    hub = SubscriptionHub()
    told: list[int] = []

    def leave(method: str, params: Struct | None) -> None:
        told.append(1)
        hub.discard(first)

    first = hub.add(SubscriptionFilter(tools_list_changed=True), leave, 1)
    hub.add(SubscriptionFilter(tools_list_changed=True), lambda _m, _p: told.append(2), 2)
    assert hub.publish(PublishedChange(list="tools")) == 2
    assert hub.publish(PublishedChange(list="tools")) == 1
    assert told == [1, 2, 2]


def test_a_session_holds_no_more_subscriptions_than_the_limit() -> None:
    hub = SubscriptionHub(Limits(max_subscriptions=2))
    _, subscriber, _ = join(hub)
    for uri in ("a:1", "a:2", "a:2"):
        hub.subscribe(subscriber, uri)
    with pytest.raises(Refusal):
        hub.subscribe(subscriber, "a:3")


def test_a_session_taken_up_again_keeps_its_subscriptions() -> None:
    hub = SubscriptionHub()
    lived = session()
    lived.subscriptions = {"a://b"}
    ear = Ear("2025-11-25")
    hub.add_session(lived, ear)
    assert hub.publish_resource_updated("a://b") == 1


def test_a_task_notifies_the_streams_that_listed_it() -> None:
    hub = SubscriptionHub()
    heard: list[Any] = []
    hub.add(SubscriptionFilter(task_ids=["t1"]), lambda method, params: heard.append((method, params)), 9)
    task = TaskMachine(id="t1", design="extension", created=0.0, updated=0.0)
    assert hub.publish_task(detailed_task(task)) == 1
    task.id = "t2"
    assert hub.publish_task(detailed_task(task)) == 0
    ((method, told),) = heard
    params = told.params
    assert (method, params.task_id, params.meta) == ("notifications/tasks", "t1", {SUBSCRIPTION_ID: 9})


# --- granted filters ----------------------------------------------------------------------------------------


def test_only_what_the_server_has_is_honoured() -> None:
    offered = ServerCapabilities(tools={"listChanged": True}, prompts={}, resources={"subscribe": True})
    honoured = grant(ALL, offered, ClientCapabilities(WITH_TASKS))
    assert honoured == SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["a://b"])
    wish = SubscriptionFilter(tools_list_changed=False)
    assert grant(wish, offered, ClientCapabilities()) == SubscriptionFilter()


def test_addresses_are_honoured_once_each_and_up_to_the_limit() -> None:
    wish = SubscriptionFilter(resource_subscriptions=["a:1", "a:1", "a:2", "a:3"])
    offered = ServerCapabilities(resources={"subscribe": True})
    honoured = grant(wish, offered, ClientCapabilities(), Limits(max_subscriptions=2))
    assert honoured.resource_subscriptions == ["a:1", "a:2"]


def test_naming_tasks_needs_the_extension_declared_on_this_request() -> None:
    with pytest.raises(ProtocolError) as refused:
        grant(SubscriptionFilter(task_ids=[]), ServerCapabilities(WITH_TASKS), ClientCapabilities())
    data = codec_for(R5).encode_error(1, refused.value)
    validate(data, "2026-07-28", kind="error")
    assert json.loads(data)["error"]["code"] == -32021
    honoured = grant(ALL, ServerCapabilities(WITH_TASKS), ClientCapabilities(WITH_TASKS))
    assert honoured.task_ids == ["t1"]


@pytest.mark.parametrize("id", [0, 7, "7"])
def test_the_first_and_the_last_message_name_the_subscription_in_the_type_of_its_id(id: int | str) -> None:
    honoured = SubscriptionFilter(tools_list_changed=True)
    first = codec_for(R5).encode_notification(ACKNOWLEDGED, acknowledgement(id, honoured))
    last = codec_for(R5).encode_result(id, completion(id))
    validate(first, "2026-07-28", kind="notification")
    validate(last, "2026-07-28", method="subscriptions/listen", kind="result")
    assert json.loads(first)["params"] == {
        "notifications": {"toolsListChanged": True},
        "_meta": {SUBSCRIPTION_ID: id},
    }
    assert json.loads(last)["result"]["_meta"][SUBSCRIPTION_ID] == id
    assert type(json.loads(last)["result"]["_meta"][SUBSCRIPTION_ID]) is type(id)
    assert honoured.resource_subscriptions is UNSET


def test_an_address_too_long_to_keep_is_refused_or_left_out() -> None:
    limits = Limits(max_uri_length=20)
    hub = SubscriptionHub(limits)
    subscriber = hub.add(SubscriptionFilter(), lambda method, params: None, 1)
    with pytest.raises(ProtocolError) as caught:
        hub.subscribe(subscriber, "x://" + "a" * 20)
    assert caught.value.kind == "uri_too_long"
    wish = SubscriptionFilter(resource_subscriptions=["x://short", "x://" + "a" * 20])
    offered = ServerCapabilities({"resources": {"subscribe": True}})
    assert grant(wish, offered, ClientCapabilities(), limits).resource_subscriptions == ["x://short"]
