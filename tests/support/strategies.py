"""Strategies for the params and the result of every official method, revision by revision."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from hypothesis import strategies as st
from msgspec import Struct

from dovetail import model as m

from .values import (
    Maker,
    Strategy,
    answers,
    call_tool_params,
    call_tool_result,
    cancelled_params,
    complete_params,
    complete_result,
    create_message_params,
    create_message_result,
    discover_result,
    elicit_params,
    elicit_result,
    get_prompt_params,
    get_prompt_result,
    initialize_params,
    initialize_result,
    levels,
    list_roots_result,
    lists,
    log_params,
    maybe,
    meta,
    progress_params,
    prompt,
    resource,
    resource_contents,
    resource_template,
    subscription_filter,
    task,
    tool,
    uris,
    words,
)


class Row(NamedTuple):
    """A strategy and the revisions, first and last, that know it."""

    since: int
    until: int
    make: Maker

    def of(self, r: int) -> Strategy:
        """Return the strategy for one revision, built once: building costs more than drawing."""
        return _built(self.make, r)


@cache
def _built(make: Maker, r: int) -> Strategy:
    return make(r)


def _plain_params(kind: type[Struct], *members: Strategy) -> Maker:
    return lambda r: st.builds(kind, *members, meta=meta(r))


def _page(kind: type[Struct], item: Maker) -> Maker:
    return lambda r: st.builds(kind, lists(item(r)), next_cursor=maybe(words), meta=meta(r))


_paged: Maker = lambda r: st.builds(m.PaginatedRequestParams, cursor=maybe(words), meta=meta(r))  # noqa: E731
_nothing = _plain_params(m.RequestParams)
_empty = _plain_params(m.Result)

PARAMS: Mapping[str, Row] = {
    "initialize": Row(1, 4, initialize_params),
    "server/discover": Row(5, 5, _nothing),
    "ping": Row(1, 4, _nothing),
    "tools/list": Row(1, 5, _paged),
    "tools/call": Row(1, 5, call_tool_params),
    "resources/list": Row(1, 5, _paged),
    "resources/templates/list": Row(1, 5, _paged),
    "resources/read": Row(
        1, 5, lambda r: st.builds(m.ReadResourceRequestParams, uris, meta=meta(r), **answers(r))
    ),
    "resources/subscribe": Row(1, 4, _plain_params(m.SubscribeRequestParams, uris)),
    "resources/unsubscribe": Row(1, 4, _plain_params(m.UnsubscribeRequestParams, uris)),
    "subscriptions/listen": Row(
        5, 5, lambda r: st.builds(m.SubscriptionsListenRequestParams, subscription_filter(r), meta=meta(r))
    ),
    "prompts/list": Row(1, 5, _paged),
    "prompts/get": Row(1, 5, get_prompt_params),
    "completion/complete": Row(1, 5, complete_params),
    "logging/setLevel": Row(1, 4, _plain_params(m.SetLevelRequestParams, levels)),
    "sampling/createMessage": Row(1, 4, create_message_params),
    "roots/list": Row(1, 4, _nothing),
    "elicitation/create": Row(3, 4, elicit_params),
    "tasks/get": Row(4, 4, _plain_params(m.GetTaskRequestParams, words)),
    "tasks/result": Row(4, 4, _plain_params(m.GetTaskPayloadRequestParams, words)),
    "tasks/list": Row(4, 4, _paged),
    "tasks/cancel": Row(4, 4, _plain_params(m.CancelTaskRequestParams, words)),
}

RESULTS: Mapping[str, Row] = {
    "initialize": Row(1, 4, initialize_result),
    "server/discover": Row(5, 5, discover_result),
    "ping": Row(1, 4, _empty),
    "tools/list": Row(1, 5, _page(m.ListToolsResult, tool)),
    "tools/call": Row(1, 5, call_tool_result),
    "resources/list": Row(1, 5, _page(m.ListResourcesResult, resource)),
    "resources/templates/list": Row(1, 5, _page(m.ListResourceTemplatesResult, resource_template)),
    "resources/read": Row(
        1, 5, lambda r: st.builds(m.ReadResourceResult, lists(resource_contents(r)), meta=meta(r))
    ),
    "resources/subscribe": Row(1, 4, _empty),
    "resources/unsubscribe": Row(1, 4, _empty),
    "prompts/list": Row(1, 5, _page(m.ListPromptsResult, prompt)),
    "prompts/get": Row(1, 5, get_prompt_result),
    "completion/complete": Row(1, 5, complete_result),
    "logging/setLevel": Row(1, 4, _empty),
    "sampling/createMessage": Row(1, 4, create_message_result),
    "roots/list": Row(1, 4, list_roots_result),
    "elicitation/create": Row(3, 4, elicit_result),
    "tasks/get": Row(4, 4, lambda r: task(r, m.GetTaskResult, meta(r))),
    "tasks/list": Row(4, 4, _page(m.ListTasksResult, task)),
    "tasks/cancel": Row(4, 4, lambda r: task(r, m.CancelTaskResult, meta(r))),
}

_changed = _plain_params(m.NotificationParams)

NOTIFICATIONS: Mapping[str, Row] = {
    "notifications/initialized": Row(1, 4, _changed),
    "notifications/cancelled": Row(1, 5, cancelled_params),
    "notifications/progress": Row(1, 5, progress_params),
    "notifications/message": Row(1, 5, log_params),
    "notifications/tools/list_changed": Row(1, 5, _changed),
    "notifications/prompts/list_changed": Row(1, 5, _changed),
    "notifications/resources/list_changed": Row(1, 5, _changed),
    "notifications/resources/updated": Row(1, 5, _plain_params(m.ResourceUpdatedNotificationParams, uris)),
    "notifications/roots/list_changed": Row(1, 4, _changed),
    "notifications/elicitation/complete": Row(
        4, 4, _plain_params(m.ElicitationCompleteNotificationParams, words)
    ),
    "notifications/tasks/status": Row(4, 4, lambda r: task(r, m.TaskStatusNotificationParams, meta(r))),
    "notifications/subscriptions/acknowledged": Row(
        5,
        5,
        lambda r: st.builds(
            m.SubscriptionsAcknowledgedNotificationParams, subscription_filter(r), meta=meta(r)
        ),
    ),
}


def rows(table: Mapping[str, Row]) -> list[tuple[str, int]]:
    """List every method of ``table`` with every revision that knows it."""
    return [(name, r) for name, row in table.items() for r in range(row.since, row.until + 1)]
