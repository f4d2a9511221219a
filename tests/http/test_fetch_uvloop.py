"""The same behaviour on the other event loop: some tests of this folder, run by uvloop."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.http import (
    test_fetch_answers,
    test_fetch_breaks,
    test_fetch_hostile,
    test_fetch_pool,
    test_fetch_requests,
    test_fetch_tls,
)
from tests.support.waiting import HANG

uvloop = pytest.importorskip("uvloop")

CHOICE = (
    test_fetch_answers.test_an_answer_cut_anywhere_comes_out_whole_and_the_connection_is_used_again,
    test_fetch_answers.test_an_unsolicited_response_closes_the_connection,
    test_fetch_answers.test_hints_before_the_answer_are_passed_over,
    test_fetch_breaks.test_a_connection_that_the_server_has_closed_is_not_used_again,
    test_fetch_breaks.test_a_post_into_a_connection_that_closes_just_then_is_not_repeated,
    test_fetch_breaks.test_an_answer_is_read_while_the_request_is_still_being_sent_and_its_connection_ends,
    test_fetch_breaks.test_a_large_request_arrives_whole_and_its_connection_is_used_again,
    test_fetch_hostile.test_many_small_chunks_take_no_more_memory_than_large_ones,
    test_fetch_pool.test_many_requests_at_once_have_a_connection_each_and_their_own_answer,
    test_fetch_pool.test_leaving_the_session_closes_everything,
    test_fetch_pool.test_leaving_the_session_ends_attempts_to_connect,
    test_fetch_requests.test_a_request_arrives_as_it_was_meant,
    test_fetch_tls.test_plain_http_where_a_secure_connection_was_wanted_is_an_error_of_tls,
    test_fetch_tls.test_a_port_without_a_listener_refuses_the_connection,
)


@pytest.mark.parametrize("test", CHOICE, ids=lambda test: test.__name__.removeprefix("test_"))
def test_on_uvloop(test: Callable[[], Any]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(HANG):
            await test.__wrapped__()  # type: ignore[attr-defined]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(limited())
