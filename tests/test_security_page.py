"""SECURITY.md sentence by sentence: whoever breaks one of its promises breaks a test that is named here."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "SECURITY.md"

PROMISES: dict[str, tuple[str, ...]] = {
    "What Dovetail promises by default: servers bind to loopback": (
        "http/test_serving.py::test_beyond_loopback_needs_a_word",
        "http/test_guards.py::test_a_foreign_host_or_page_gets_403_everywhere",
        "http/test_guards.py::test_probes_come_under_any_name_but_from_no_page_of_another_site",
        "transports/test_tcp.py::test_an_address_others_can_reach_has_to_be_wanted",
        "server/test_failures.py::test_an_unexpected_exception_is_masked_and_logged_in_full",
        "wire/test_seal.py::test_servers_that_share_keys_open_none_of_each_others_tokens",
        "wire/test_seal.py::test_a_token_opens_for_what_it_is_bound_to_alone",
        "server/test_register.py::test_a_cursor_is_good_for_whom_it_was_made_and_for_that_list_alone",
        "client/test_output_checks.py::test_a_remote_reference_is_refused_and_never_fetched",
        "client/test_hostile_servers.py::test_nothing_is_fetched_because_a_list_names_it",
        "client/test_negotiating_http.py::test_a_redirect_to_another_origin_is_refused",
    ),
    "Which HTTP host runs the server matters: granian, the default, refuses trailers": (
        "http/test_heads.py::test_a_trailer_does_not_name_the_caller",
        "http/test_bad_input.py::test_a_head_that_grows_without_an_end_is_431",
        "http/test_bad_input.py::test_a_head_that_never_ends_is_cut_off",
    ),
    "uvicorn does neither: where we start it, heads are bounded": (
        "http/test_bad_input.py::test_the_next_head_of_a_connection_has_to_end_too",
    ),
    "Its fast parser adds them to the headers": (
        "http/test_heads.py::test_a_trailer_is_no_header_of_the_request",
    ),
    "`Upgrade` that is no WebSocket is 400": (
        "http/test_heads.py::test_another_protocol_is_not_upgraded_to",
    ),
    '`server="asyncio"` bounds heads as granian does': (
        "http/test_bad_input.py::test_a_head_that_grows_without_an_end_is_431",
        "http/test_bad_input.py::test_a_head_that_never_ends_is_cut_off",
        "http/test_http1.py::test_trailers_without_an_end_are_refused",
        "http/test_heads.py::test_a_trailer_does_not_name_the_caller",
    ),
    "`make attack` shows what was tried": ("attacks/test_attacks.py::test_what_is_tried_holds",),
    "What a client starts ends with it.": (
        "transports/test_child.py::test_no_guard_is_left_when_all_is_over",
    ),
    "A server on stdio leads a process group of its own": (
        "transports/test_child.py::test_grandchildren_are_ended_with_the_child",
        "transports/test_child.py::test_children_and_grandchildren_die_with_a_client_that_is_killed",
    ),
    "On Linux so is everything the server started in other sessions": (
        "transports/test_child.py::test_whoever_left_the_group_is_ended_with_the_child",
    ),
    "What a server sends to a client is bounded too": (
        "client/test_hostile_servers.py::test_a_body_that_grows_beyond_measure_when_it_is_unpacked_is_refused",
        "client/test_hostile_servers.py::test_checking_a_result_does_not_stop_the_loop",
        "client/test_hostile_servers.py::test_a_packed_event_stream_of_next_to_nothing_does_not_stop_the_loop",
    ),
    "Headers are refused if they could end their line": (
        "client/test_http_clients.py::test_a_header_that_would_be_two_is_refused_without_being_quoted",
        "client/test_websocket.py::test_headers_that_cannot_be_sent_are_refused_before_anything_is",
        "client/test_websocket.py::test_no_secret_reaches_a_log",
    ),
    "On a server nobody can take what belongs to all": (
        "server/test_tasks_extension.py::test_one_principal_cannot_take_the_place_of_all_others",
        "server/test_tasks_extension.py::test_one_session_without_a_principal_cannot_take_all_places",
        "server/test_running.py::test_a_call_over_the_limit_waits_its_turn_and_is_refused_when_the_queue_is_full",
        "server/test_functions.py::test_hints_for_unknown_arguments_are_computed_for_the_first_few_only",
    ),
    "Callers of 2026-07-28 without a principal cannot be told apart": (),
    "A skill is read from its own folder alone": (
        "server/test_skills.py::test_a_folder_swapped_for_a_link_is_not_followed",
        "server/test_skills.py::test_a_file_swapped_for_a_link_out_of_the_folder_is_not_followed",
    ),
    "Write access to a store is the right to change": (
        "workers/test_unreadable.py::test_a_session_that_cannot_be_read_is_not_there",
        "test_security_page.py::test_nothing_that_lies_in_a_store_is_unpickled",
    ),
    "The exception is `dovetail worker` on Redis": (),
    "We send nothing but ids of tasks through it": (
        "workers/test_worker.py::test_nothing_but_ids_goes_through_the_queue",
    ),
    "Give workers a Redis that only your own processes reach": (
        "test_security_page.py::test_nothing_that_lies_in_a_store_is_unpickled",
    ),
    "A proxy or gateway passes no token on": (
        "gateway/test_apart.py::test_no_token_goes_through_and_of_headers_those_that_are_named",
        "gateway/test_exchange.py::test_everybody_is_called_for_with_a_token_of_their_own",
    ),
    "There is one connection behind for each principal": (
        "gateway/test_apart.py::test_everybody_has_a_connection_behind_of_their_own",
        "gateway/test_apart.py::test_one_connection_too_many_is_refused_and_nobody_loses_a_call",
        "gateway/test_apart.py::test_one_principal_cannot_take_all_connections",
    ),
    "A question that could be for several clients": (
        "gateway/test_apart.py::test_a_question_that_could_be_for_several_is_for_nobody",
    ),
    "What went wrong behind is logged": (
        "gateway/test_apart.py::test_what_goes_wrong_behind_is_logged_and_not_told_in_front",
    ),
    "The commands in a gateway's file are run once somebody has said so": (
        "gateway/test_gateway.py::test_a_command_nobody_agreed_to_is_not_run",
    ),
    "Those behind are believed as far as any server is": (),
    "Who calls is found out at a bounded cost": (
        "auth/test_jwt.py::test_a_header_is_as_deep_as_it_likes_and_breaks_nothing",
        "auth/test_jwt.py::test_a_key_that_is_none_leaves_the_others_of_its_set_good",
        "auth/test_jwt.py::test_tokens_of_another_issuer_make_nobody_look_for_keys",
        "auth/test_jwt.py::test_unknown_keys_make_us_look_only_so_often",
        "auth/test_jwt.py::test_a_server_that_does_not_answer_any_more_holds_up_nobody_whose_key_is_known",
    ),
    "A proof of possession is good once": (
        "auth/test_proofs.py::test_a_proof_is_good_once_also_in_a_race_with_a_store",
    ),
    "`dovetail dev` and `dovetail inspect` answer the page": (
        "inspector/test_safety.py::test_questions_without_the_token_are_refused",
        "inspector/test_safety.py::test_other_origins_and_hosts_are_refused_even_with_the_token",
        "attacks/test_attacks.py::test_what_is_tried_holds",
    ),
    "What a server sends there, with its heads": (
        "inspector/test_memory.py::test_a_flood_of_a_server_is_kept_in_part",
        "inspector/test_memory.py::test_heads_count_as_much_as_what_they_came_with",
        "inspector/test_safety.py::test_text_cannot_become_markup_in_the_page",
    ),
    "The command line shows what a server sends": (
        "cli/test_call.py::test_nothing_a_server_sends_steers_the_terminal",
        "cli/test_call.py::test_a_server_cannot_steer_the_terminal",
    ),
    "What holds per transport, beside the bounds of each peer:": (),
    "TCP, Unix sockets, WebSocket: a peer that does not begin": (
        "transports/test_strangers.py::test_what_begins_as_another_protocol_is_hung_up_on_and_runs_nothing",
        "transports/test_strangers.py::test_a_peer_that_began_well_may_be_wrong_a_few_times",
        "http/test_websocket.py::test_a_client_that_begins_with_rubbish_is_hung_up_on",
    ),
    "One WebSocket frame holds as many messages as a batch.": (
        "http/test_websocket.py::test_one_frame_holds_as_many_messages_as_a_batch_and_no_more",
    ),
    "TLS on TCP: a client has ten seconds for its handshake": (
        "transports/test_tcp.py::test_a_handshake_that_stops_is_given_up",
    ),
    "All transports: `initialize` is at most 256 KiB": (
        "transports/test_strangers.py::test_an_introduction_of_megabytes_is_refused_and_a_smaller_one_may_follow",
        "transports/test_strangers.py::test_only_the_names_of_a_long_description_are_kept",
    ),
    "Large messages, large answers, addresses and requests under way have totals": (
        "core/test_endpoint.py::test_all_peers_together_have_only_so_many_requests_under_way",
        "http/test_budgets.py::test_bodies_that_do_not_end_are_counted_and_given_back",
        "http/test_budgets.py::test_a_large_message_counts_for_as_long_as_its_call_runs",
        "http/test_budgets.py::test_a_large_message_on_tcp_counts_too",
        "http/test_budgets.py::test_addresses_have_a_total_and_unsubscribing_gives_them_back",
        "http/test_hangups.py::test_large_answers_that_nobody_reads_have_a_total",
    ),
    "An array that asks for more than is left": (
        "core/test_endpoint.py::test_an_array_that_all_peers_together_have_no_room_for_is_refused_as_a_whole",
        "http/test_budgets.py::test_arrays_of_all_sessions_have_only_so_many_calls_under_way",
    ),
    "Calls that were cancelled count until their handlers have ended": (
        "drivers/test_duplex.py::test_cancelled_calls_that_do_not_end_count_as_under_way",
        "http/test_legacy_calls.py::test_cancelled_calls_that_do_not_end_count_as_under_way",
        "http/test_hangups.py::test_cancelled_calls_that_do_not_end_count_as_under_way",
        "http/test_stubborn_calls.py::test_they_have_one_total_however_their_clients_have_left",
    ),
    "Lines on TCP that do not end count too": (
        "http/test_budgets.py::test_lines_that_do_not_end_are_counted_and_given_back",
    ),
    "WebSocket messages that do not end, on both hosts": (
        "http/test_unfinished.py::test_the_newest_over_the_total_is_told_and_hung_up_on",
        "http/test_unfinished.py::test_a_message_that_takes_longer_than_a_body_may_is_given_up",
    ),
    "Their host keeps them, so we learn of them from the kernel": (
        "http/test_kernel.py::test_what_was_read_of_a_connection_is_known_by_its_listener_too",
    ),
    "Elsewhere, over Unix sockets, where a sandbox refuses netlink": (
        "http/test_kernel.py::test_where_netlink_is_refused_the_tables_are_read",
    ),
    "uvicorn takes frames apart in Python": ("attacks/test_attacks.py::test_what_is_tried_holds",),
    "All transports: a hundred lines of one peer": (
        "transports/test_reading.py::test_lines_that_come_together_leave_room_for_others",
    ),
    "Arrays of calls, the long strings of large answers": (
        "drivers/test_pacing.py::test_a_long_array_over_http_leaves_turns_to_others",
        "drivers/test_pacing.py::test_a_long_array_over_tcp_leaves_turns_to_others",
        "drivers/test_pacing.py::test_arrays_that_have_had_their_time_leave_most_of_it_to_others",
        "drivers/test_pacing.py::test_much_work_of_many_has_one_turn_in_each_turn_of_the_loop",
        "drivers/test_pacing.py::test_a_large_answer_leaves_turns_to_others",
        "drivers/test_pacing.py::test_the_large_answer_to_an_array_leaves_turns_to_others",
    ),
    "A large answer is counted": (
        "drivers/test_pacing.py::test_a_call_is_refused_whose_answer_has_no_room_beside_one_that_is_being_written",
    ),
    "What a handler does without waiting is its own affair": (),
    "What that leaves to a quiet client while every flood": (
        "attacks/test_attacks.py::test_what_is_tried_holds",
    ),
    "Seen in the median of three rounds, on a virtual machine": (),
    "Handlers that make mebibytes in one go, and reading large bodies": (),
    "HTTP on Linux, on both hosts: a hang-up is noticed within 20 s": (
        "http/test_hangups.py::test_a_hang_up_behind_a_further_request_is_noticed",
        "http/test_unread.py::test_an_answer_that_is_not_taken_is_given_up_after_the_write_timeout",
        "http/test_unread.py::test_pings_whose_pongs_are_not_taken_end_a_websocket",
    ),
    "Other systems do not tell us": (),
    "A legacy HTTP session that its client has ended stays ended": (
        "http/test_workers.py::test_every_worker_hears_of_the_end_of_a_session",
        "http/test_workers.py::test_what_is_known_of_ended_sessions_is_given_up_when_they_expire",
        "http/test_shared_sessions.py::test_a_session_that_was_ended_is_unknown_everywhere",
    ),
    "Legacy calls whose clients have left": (
        "http/test_hangups.py::test_calls_that_run_for_nobody_are_bounded",
    ),
}
"""How each sentence begins, and the tests that notice when it is not true; none where nothing is promised."""


def sentences() -> list[str]:
    _, _, page = PAGE.read_text().partition("\nSupported: the newest minor release.\n")
    parts = re.split(r"\n\s*\n|\n(?=- )", page)
    whole = [re.sub(r"\s+", " ", part.strip().removeprefix("- ")) for part in parts]
    return [one for part in whole for one in re.split(r"(?<=\.) (?=[A-Z`]|uvicorn)", part) if one]


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text())
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in found)


def test_every_sentence_is_named_and_no_other() -> None:
    beginnings = list(PROMISES)
    found = [[key for key in beginnings if one.startswith(key)] for one in sentences()]
    assert [one for one, keys in zip(sentences(), found, strict=True) if len(keys) != 1] == []
    assert [key for keys in found for key in keys] == beginnings


def test_every_test_that_is_named_exists() -> None:
    named = {tuple(one.split("::")) for tests in PROMISES.values() for one in tests}
    assert {(path, name) for path, name in named if name not in names_in(path)} == set()


def test_nothing_that_lies_in_a_store_is_unpickled() -> None:
    source = ROOT / "src" / "dovetail"
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
        if {name.name, getattr(node, "module", None)} & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    }
    # Between a server and the processes of its own handlers, through their pipes.
    assert found == {"drivers/processes.py", "drivers/worker.py"}
