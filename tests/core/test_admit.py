"""The admission ladder, rung by rung, and the routing between the two eras."""

import json
from typing import Any

import pytest

from dovetail.core.admit import Admission
from dovetail.core.channel import Call, Notice, Rejection, Session, Violation
from dovetail.core.method_registry import MethodRegistry
from dovetail.core.principal import Principal
from dovetail.errors import CapabilityError, DovetailError, ProtocolError, RemoteProtocolError
from dovetail.model import ServerCapabilities
from dovetail.model.meta import TASKS_EXTENSION
from dovetail.wire.dialects import ERLMCP, MCP_CLIENT, MINIMCP, OFFICIAL, Dialect
from dovetail.wire.headers import RoutingHeaders
from dovetail.wire.revisions import BY_NAME, R4, R5, REVISIONS
from tests.core.messages import (
    CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    META,
    SERVER,
    VERSION,
    client_admission,
    frame,
    headers,
    initialize,
    modern,
    notification,
    read,
    request,
    server_admission,
    session,
)

TASKS = {CAPABILITIES: {"extensions": {TASKS_EXTENSION: {}}}}


REGION = {"deploy": {("region",): "Region"}}


def admit(data: bytes, lived: Any = None, admission: Admission | None = None, **more: Any) -> Any:
    return (admission or server_admission(param_headers=REGION)).admit(frame(data), lived, **more)


# --- a modern request that passes ---------------------------------------------------------------------------


def test_a_modern_call_carries_everything_its_request_said() -> None:
    declared = {CAPABILITIES: {"sampling": {"tools": {}}}, CLIENT_INFO: {"name": "peer", "version": "1"}}
    call = admit(
        modern("tools/call", {"name": "add", "arguments": {"a": 1}}, "x", **declared, progressToken=3),
        principal=Principal("ann"),
        scope={"transport": "http"},
    )
    assert isinstance(call, Call)
    assert (call.id, call.method, call.revision, call.session) == ("x", "tools/call", R5, None)
    assert (call.params.name, json.loads(bytes(call.params.arguments))) == ("add", {"a": 1})
    assert call.capabilities.has("sampling.tools")
    assert call.client_info == {"name": "peer", "version": "1"}
    assert (call.meta["progressToken"], call.principal, call.scope) == (3, "ann", {"transport": "http"})


def test_client_info_is_not_required() -> None:
    assert admit(modern("tools/list")).client_info is None


def test_a_modern_request_is_served_on_the_connection_of_a_legacy_session() -> None:
    call = admit(modern("tools/list"), session("2025-06-18"))
    assert (call.revision, call.session) == (R5, None)


# --- rung 3: the metadata -----------------------------------------------------------------------------------

BAD_META: list[tuple[Any, list[str]]] = [
    ({VERSION: "2026-07-28"}, [CAPABILITIES]),
    ({VERSION: 5, CAPABILITIES: {}}, [VERSION]),
    ({VERSION: "2026-07-28", CAPABILITIES: []}, [CAPABILITIES]),
    ({VERSION: None, CAPABILITIES: None}, [VERSION, CAPABILITIES]),
]


@pytest.mark.parametrize(("meta", "missing"), BAD_META)
def test_rung_3_names_the_metadata_that_is_missing(meta: Any, missing: list[str]) -> None:
    rejected = admit(request("tools/list", {"_meta": meta}, 7))
    error = read(rejected)
    assert (error["code"], error["id"], rejected.status) == (-32602, 7, 400)
    assert error["data"]["missing"] == missing
    assert all(name in error["message"] for name in missing)


@pytest.mark.parametrize("name", ["progressToken", "com.example/weight", CAPABILITIES])
@pytest.mark.parametrize("over_http", [False, True])
@pytest.mark.parametrize("lived", [False, True])
def test_check_3_names_the_metadata_with_an_out_of_range_number(
    name: str, over_http: bool, lived: bool
) -> None:
    value = {"a": 7777} if name == CAPABILITIES else 7777
    message = modern("tools/call", {"name": "add"}, **{name: value}).replace(b"7777", b"1e999")
    more = {"headers": headers("tools/call", "add")} if over_http else {}
    rejected = admit(message, session() if lived and not over_http else None, **more)
    error = read(rejected)
    assert (error["code"], rejected.status) == (-32602, 400)
    assert error["message"] == f"params._meta.{name} has a number that is out of range"


def test_in_a_session_the_params_with_such_a_number_are_refused() -> None:
    message = request("tools/call", {"name": "add", "_meta": {"x": 7777}}).replace(b"7777", b"1e999")
    error = read(admit(message, session()), R4.name)
    assert (error["code"], error["data"]["kind"]) == (-32602, "invalid_params")
    assert error["message"] == "Invalid params: Number out of range - at `$._meta[...]`"


@pytest.mark.parametrize("params", [None, {}, {"_meta": {}}, {"_meta": 3}, {"_meta": {CAPABILITIES: {}}}])
def test_rung_3_over_http_with_a_modern_header_names_both_keys(params: Any) -> None:
    rejected = admit(request("tools/list", params), headers=headers("tools/list"))
    error = read(rejected)
    assert (error["code"], rejected.status) == (-32602, 400)
    assert VERSION in error["data"]["missing"]


@pytest.mark.parametrize(
    ("meta", "word"),
    [
        ({LOG_LEVEL: "loud"}, "logLevel"),
        ({LOG_LEVEL: 7}, "logLevel"),
        ({"progressToken": 1.5}, "progressToken"),
        ({"progressToken": True}, "progressToken"),
        ({"progressToken": None}, "progressToken"),
        ({"progressToken": 1 << 70}, "progressToken"),
        ({"progressToken": "x" * 1025}, "progressToken"),
        ({CLIENT_INFO: "me"}, "clientInfo"),
    ],
)
def test_optional_metadata_of_the_wrong_type_is_invalid_params(meta: dict[str, Any], word: str) -> None:
    error = read(admit(modern("tools/list", **meta)))
    assert error["code"] == -32602
    assert word in error["message"]


# --- rungs 4 and 7: the headers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        headers("tools/call", "add", None),
        headers("tools/call", "add", "2099-01-01"),
        headers("TOOLS/CALL", "add"),
        headers("tools/call"),
        headers("tools/call", "ADD"),
        headers("tools/call", "=?base64?YWRk?"),
        headers("tools/call", "=?base64?YW?="),
        RoutingHeaders(version="2026-07-28", name="add"),
        RoutingHeaders(
            version="2026-07-28", method="tools/call", name="add", duplicated=frozenset({"mcp-name"})
        ),
    ],
)
def test_rung_4_refuses_headers_that_differ_from_the_body(sent: RoutingHeaders) -> None:
    rejected = admit(modern("tools/call", {"name": "add"}), headers=sent)
    assert (read(rejected)["code"], rejected.status) == (-32020, 400)


@pytest.mark.parametrize("name", ["add", "=?base64?YWRk?="])
def test_headers_that_agree_pass_plain_or_encoded(name: str) -> None:
    assert isinstance(admit(modern("tools/call", {"name": "add"}), headers=headers("tools/call", name)), Call)


def test_a_name_that_looks_encoded_must_be_encoded() -> None:
    name = "=?base64?YWRk?="
    rejected = admit(modern("tools/call", {"name": name}), headers=headers("tools/call", name))
    assert read(rejected)["code"] == -32020


@pytest.mark.parametrize(
    "params",
    [
        {"name": "deploy", "arguments": {"region": "eu"}, "requestState": 5},
        {"name": "deploy", "arguments": {"region": "eu"}, "_meta": META | {LOG_LEVEL: "loud"}},
    ],
)
def test_headers_that_differ_from_the_arguments_win_over_params_of_another_shape(params: Any) -> None:
    given = headers("tools/call", "deploy")
    given.params = {"region": "us"}
    rejected = admit(request("tools/call", {"_meta": META} | params), headers=given)
    assert (read(rejected)["code"], rejected.status) == (-32020, 400)


@pytest.mark.parametrize(
    ("sent", "passes"), [({"region": "eu"}, True), ({"region": "us"}, False), ({}, False)]
)
def test_rung_7_compares_annotated_arguments_with_their_headers(sent: dict[str, str], passes: bool) -> None:
    given = headers("tools/call", "deploy")
    given.params = sent
    admitted = admit(modern("tools/call", {"name": "deploy", "arguments": {"region": "eu"}}), headers=given)
    if passes:
        assert isinstance(admitted, Call)
    else:
        assert (read(admitted)["code"], admitted.status) == (-32020, 400)


# --- rungs 5, 6, 8, 9 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v999.0.0", "2025-11-25", ""])
def test_rung_5_says_which_versions_are_supported_modern_first(version: str) -> None:
    rejected = admit(modern("tools/list", **{VERSION: version}))
    error = read(rejected)
    assert (error["code"], rejected.status) == (-32022, 400)
    assert error["data"]["supported"] == [r.name for r in reversed(REVISIONS)]
    assert error["data"]["requested"] == version


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("no/such", "method_not_found"),
        ("initialize", "method_not_found"),
        ("ping", "method_not_found"),
        ("logging/setLevel", "method_not_found"),
        ("resources/subscribe", "method_not_found"),
        ("sampling/createMessage", "method_not_found"),
        ("tasks/result", "method_not_found"),
        ("notifications/cancelled", "method_not_found"),
        ("prompts/list", "capability_not_supported"),
    ],
)
def test_rung_6_refuses_what_does_not_exist_or_is_not_offered(method: str, kind: str) -> None:
    rejected = admit(modern(method))
    error = read(rejected)
    assert (error["code"], rejected.status, error["data"]["kind"]) == (-32601, 404, kind)


def test_an_endless_method_name_is_not_echoed_in_full() -> None:
    assert len(read(admit(modern("x" * 100_000)))["message"]) < 300


@pytest.mark.parametrize("params", [{}, {"name": 5}, {"name": "add", "arguments": None, "inputResponses": 3}])
def test_rung_8_refuses_params_of_another_shape(params: dict[str, Any]) -> None:
    rejected = admit(modern("tools/call", params))
    assert (read(rejected)["code"], rejected.status) == (-32602, 200)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel"])
def test_rung_9_wants_the_tasks_extension_declared_on_the_request_itself(method: str) -> None:
    rejected = admit(modern(method, {"taskId": "t"}))
    error = read(rejected)
    assert (error["code"], rejected.status) == (-32021, 400)
    assert error["data"]["requiredCapabilities"] == {"extensions": {TASKS_EXTENSION: {}}}
    assert isinstance(admit(modern(method, {"taskId": "t"}, **TASKS)), Call)


LADDER: list[tuple[int, dict[str, Any], dict[str, Any]]] = [
    # The code expected, what is wrong with the request, what is wrong with its headers. Each row has every
    # fault of the rows below it.
    (-32602, {"_meta": {VERSION: "v9"}}, {"version": "2026-07-28"}),
    (-32020, {"_meta": META | {VERSION: "v9"}}, {"version": "2026-07-28"}),
    (-32022, {"_meta": META | {VERSION: "v9"}}, {"version": "v9"}),
]


@pytest.mark.parametrize(("code", "params", "wrong"), LADDER)
def test_the_first_rung_that_fails_is_the_answer(code: int, params: Any, wrong: dict[str, Any]) -> None:
    sent = RoutingHeaders(method="no/such", **wrong)
    assert read(admit(request("no/such", params), headers=sent))["code"] == code


def test_an_unknown_method_wins_over_bad_params_and_bad_params_over_a_missing_capability() -> None:
    assert read(admit(modern("prompts/get", {"name": 1})))["code"] == -32601
    assert read(admit(modern("tasks/get", {"taskId": 1})))["code"] == -32602


def test_the_fast_path_and_the_ladder_admit_the_same_call() -> None:
    admission = server_admission()
    message = frame(modern("tools/call", {"name": "add", "arguments": {}}, **{CLIENT_INFO: {"name": "n"}}))
    plain, encoded = headers("tools/call", "add"), headers("tools/call", "=?base64?YWRk?=")
    fast = admission.admit(message, None, headers=plain, principal=Principal("p"), scope={"a": 1})
    slow = admission.admit(message, None, headers=encoded, principal=Principal("p"), scope={"a": 1})
    assert isinstance(fast, Call)
    assert isinstance(slow, Call)
    for name in Call.__struct_fields__:
        one, other = getattr(fast, name), getattr(slow, name)
        assert name == "params" or one == other, name


# --- streams without a session ------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [None, {}, {"_meta": {}}, {"_meta": {"progressToken": 1}}])
def test_a_request_before_any_handshake_gets_both_ways_to_start(params: Any) -> None:
    rejected = admit(request("tools/list", params, "a"))
    error = read(rejected, "2025-11-25")
    assert (error["code"], error["id"], rejected.status) == (-32602, "a", 400)
    assert all(word in error["message"] for word in ("initialize", VERSION, CAPABILITIES))
    assert error["data"]["supported"][0] == "2026-07-28"
    assert error["data"]["kind"] == "not_initialized"


def test_erlmcp_has_a_code_of_its_own_for_requests_before_initialize() -> None:
    error = read(admit(request("tools/list"), admission=server_admission(ERLMCP)), None)
    assert error["code"] == -32005


def test_ping_needs_no_handshake() -> None:
    call = admit(request("ping"))
    assert (call.method, call.revision, call.session) == ("ping", R4, None)


@pytest.mark.parametrize("version", [r.name for r in REVISIONS if not r.modern])
def test_initialize_is_a_call_with_the_session_it_starts(version: str) -> None:
    call = admit(initialize(version, {"roots": {}}), principal=Principal("ann"))
    assert isinstance(call, Call)
    assert call.revision is call.session.revision is call.codec.revision is BY_NAME[version]
    assert (call.session.phase, call.session.principal) == ("negotiating", "ann")
    assert call.session.client_info == {"name": "peer", "version": "0"}
    assert call.capabilities.has("roots")


@pytest.mark.parametrize(
    "params", [None, {}, {"protocolVersion": 1, "capabilities": {}, "clientInfo": {}}, []]
)
def test_a_malformed_initialize_is_invalid_params(params: Any) -> None:
    assert read(admit(request("initialize", params)), "2025-11-25")["code"] == -32602


def test_initialize_with_modern_metadata_names_a_method_that_was_removed() -> None:
    assert read(admit(modern("initialize")))["code"] == -32601
    assert read(admit(modern("initialize"), session()))["code"] == -32601


def test_a_modern_only_server_reports_its_versions_to_a_legacy_client_in_text_and_data() -> None:
    admission = server_admission(revisions=(R5,))
    for sent in (None, RoutingHeaders(version="2025-11-25")):
        rejected = admit(initialize("2025-11-25"), admission=admission, headers=sent)
        error = read(rejected)
        assert (error["code"], rejected.status) == (-32022, 400)
        assert error["data"] == {
            "supported": ["2026-07-28"],
            "requested": "2025-11-25",
            "kind": "unsupported_protocol_version",
        }
        assert "2026-07-28" in error["message"]
    assert read(admit(request("ping"), admission=admission))["code"] == -32602
    assert read(admit(request("ping"), admission=admission, headers=RoutingHeaders()))["code"] == -32020


def test_a_legacy_only_server_reports_its_versions_to_a_modern_client() -> None:
    error = read(admit(modern("tools/list"), admission=server_admission(revisions=REVISIONS[:4])))
    assert error["code"] == -32022
    assert error["data"]["supported"] == ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


# --- inside a session ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [r.name for r in REVISIONS if not r.modern])
def test_a_session_admits_the_methods_of_its_revision(version: str) -> None:
    lived = session(version, roots={})
    call = admit(request("tools/call", {"name": "add"}), lived)
    assert (call.revision.name, call.session, call.capabilities) == (version, lived, {"roots": {}})
    for method in ("server/discover", "subscriptions/listen", "no/such"):
        rejected = admit(request(method), lived)
        assert (read(rejected, version)["code"], rejected.status) == (-32601, 200)


def test_completion_needs_no_capability_on_2024_11_05_and_one_later() -> None:
    params = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}
    assert isinstance(admit(request("completion/complete", params), session("2024-11-05")), Call)
    rejected = admit(request("completion/complete", params), session("2025-03-26"))
    assert read(rejected, "2025-03-26")["data"]["kind"] == "capability_not_supported"


def test_a_server_that_cannot_sample_says_so_in_the_dialect_whose_clients_ask_for_it() -> None:
    admission = server_admission(MCP_CLIENT)
    lived = admit(initialize("2024-11-05"), admission=admission).session
    params = {"messages": [], "maxTokens": 1}
    error = read(admit(request("sampling/createMessage", params), lived, admission=admission), "2024-11-05")
    assert (error["code"], error["data"]["kind"]) == (-32006, "sampling_not_supported")


@pytest.mark.parametrize("token", ["x" * 1025, [], 1.5])
def test_bad_metadata_before_any_handshake_is_invalid_params(token: Any) -> None:
    meta = {"_meta": {"progressToken": token}}
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    for message in (request("ping", meta), request("initialize", start | meta)):
        error = read(admit(message), "2025-11-25")
        assert error["code"] == -32602
        assert "progressToken" in error["message"]


def test_a_second_initialize_is_refused() -> None:
    rejected = admit(initialize("2025-06-18"), session("2025-06-18"))
    assert read(rejected, "2025-06-18")["code"] == -32600


def test_bad_params_and_bad_metadata_in_a_session_are_invalid_params() -> None:
    for params in (
        {"name": 1},
        {"name": "a", "_meta": {"progressToken": []}},
        {"name": "a", "_meta": {"progressToken": "x" * 1025}},
        {"name": "a", "_meta": 1},
    ):
        rejected = admit(request("tools/call", params), session())
        assert (read(rejected, "2025-11-25")["code"], rejected.status) == (-32602, 200)


@pytest.mark.parametrize("phase", ["paused", "draining"])
def test_a_paused_or_ending_session_refuses_work_but_answers_pings(phase: str) -> None:
    lived = session(phase=phase)
    assert read(admit(request("tools/list"), lived), "2025-11-25")["code"] == 1008
    assert isinstance(admit(request("ping"), lived), Call)


def test_requests_between_initialize_and_initialized_are_served_unless_strict() -> None:
    lived = session(phase="negotiating")
    assert isinstance(admit(request("tools/list"), lived), Call)
    rejected = admit(request("tools/list"), lived, server_admission(strict=True))
    assert read(rejected, "2025-11-25")["data"]["kind"] == "not_initialized"


@pytest.mark.parametrize(("version", "code"), [("2025-06-18", -32600), ("2026-07-28", -32602), ("x", -32602)])
def test_a_version_header_that_is_not_the_negotiated_one_is_refused(version: str, code: int) -> None:
    rejected = admit(request("tools/list"), session("2025-11-25"), headers=RoutingHeaders(version=version))
    assert (read(rejected, None)["code"], rejected.status) == (code, 400)


@pytest.mark.parametrize("version", [None, "2025-11-25"])
def test_the_negotiated_version_header_or_none_passes(version: str | None) -> None:
    given = RoutingHeaders(version=version)
    assert isinstance(admit(request("tools/list"), session("2025-11-25"), headers=given), Call)


# --- what a client admits -----------------------------------------------------------------------------------

SAMPLING = {"messages": [], "maxTokens": 5}
ELICIT_URL = {"mode": "url", "message": "m", "url": "https://example.com", "elicitationId": "e"}


def test_a_client_serves_what_it_declared_and_nothing_else() -> None:
    client = client_admission(sampling={}, elicitation={})
    lived = session("2025-11-25", sampling={}, elicitation={})
    assert isinstance(admit(request("ping"), lived, client), Call)
    assert isinstance(admit(request("sampling/createMessage", SAMPLING), lived, client), Call)
    assert read(admit(request("roots/list"), lived, client), "2025-11-25")["code"] == -32601
    assert read(admit(request("tools/list"), lived, client), "2025-11-25")["code"] == -32601


@pytest.mark.parametrize(
    ("method", "params"),
    [("elicitation/create", ELICIT_URL), ("sampling/createMessage", SAMPLING | {"tools": []})],
)
def test_a_part_of_a_capability_the_client_left_out_is_invalid_params(method: str, params: Any) -> None:
    narrow, wide = (
        {"sampling": {}, "elicitation": {}},
        {"sampling": {"tools": {}}, "elicitation": {"url": {}}},
    )
    for declared, code in ((narrow, -32602), (wide, None)):
        admitted = admit(request(method, params), session(**declared), client_admission(**declared))
        assert isinstance(admitted, Call) if code is None else read(admitted, "2025-11-25")["code"] == code


def test_a_modern_client_has_no_answer_for_a_servers_request() -> None:
    lived = session("2026-07-28")
    for method in ("ping", "sampling/createMessage", "roots/list"):
        assert isinstance(admit(request(method), lived, client_admission(sampling={})), Violation)


def test_a_client_that_is_still_negotiating_answers_pings_only() -> None:
    client = client_admission(sampling={})
    assert isinstance(admit(request("ping"), None, client), Call)
    assert isinstance(admit(request("sampling/createMessage", SAMPLING), None, client), Rejection)


# --- notifications, aliases, extensions, dialects -----------------------------------------------------------


def test_initialized_makes_a_session_ready_once() -> None:
    lived = session(phase="negotiating")
    assert isinstance(admit(notification("notifications/initialized"), lived), Notice)
    assert lived.phase == "ready"
    assert isinstance(admit(notification("notifications/initialized"), lived), Violation)
    assert isinstance(admit(notification("notifications/initialized"), None), Violation)


@pytest.mark.parametrize("params", [None, {}, {"requestId": 1.5}, {"requestId": None}, [], "x"])
def test_a_malformed_notification_is_dropped(params: Any) -> None:
    dropped = admit(notification("notifications/cancelled", params), session())
    assert isinstance(dropped, Violation)
    assert dropped.kind == "malformed_notification"


def test_unknown_notifications_are_dropped_whatever_the_era() -> None:
    for lived in (None, session("2024-11-05"), session("2025-11-25")):
        for method in ("notifications/no/such", "x", "tools/call", "notifications/tools/list_changed"):
            dropped = admit(notification(method, {}), lived)
            assert isinstance(dropped, Violation)
            assert dropped.kind == "invalid_notification_type"


def test_an_alias_is_understood_unless_strict() -> None:
    lived = session(phase="negotiating")
    notice = admit(notification("initialized"), lived)
    assert isinstance(notice, Notice)
    assert (notice.method, lived.phase) == ("notifications/initialized", "ready")
    assert isinstance(admit(notification("initialized"), session(), server_admission(strict=True)), Violation)


def test_other_projects_methods_exist_in_their_dialect_alone() -> None:
    admission = server_admission()
    assert isinstance(admit(request("shutdown"), session(), admission), Rejection)
    assert isinstance(admit(notification("shutdown"), session(), admission), Violation)

    def theirs() -> Session:
        made = session()
        made.codec = admission.codec_for(made.revision, "erlmcp")
        return made

    assert isinstance(admit(request("shutdown"), theirs(), admission), Call)
    lived = theirs()
    assert isinstance(admit(notification("shutdown"), lived, admission), Notice)
    assert lived.phase == "draining"
    assert isinstance(admit(notification("shutdown"), lived, admission), Violation)
    assert isinstance(admit(modern("shutdown"), None, admission), Rejection)
    for name in ERLMCP.methods:
        assert name in MethodRegistry("server", REVISIONS, ERLMCP).known["2026-07-28"]


def test_only_the_elixir_profile_lets_a_client_send_sampling() -> None:
    assert "sampling/createMessage" in MethodRegistry("client", REVISIONS, MCP_CLIENT).sendable["2024-11-05"]
    assert (
        "sampling/createMessage" not in MethodRegistry("client", REVISIONS, OFFICIAL).sendable["2024-11-05"]
    )


def test_an_offer_that_changes_changes_what_exists() -> None:
    admission = Admission("server", server_info=SERVER)
    assert isinstance(admit(modern("tools/list"), None, admission), Rejection)
    admission.set_capabilities(ServerCapabilities(tools={}))
    assert isinstance(admit(modern("tools/list"), None, admission), Call)
    admission.set_capabilities(ServerCapabilities())
    assert isinstance(admit(modern("tools/list"), None, admission), Rejection)


def test_minimcp_answers_bad_params_with_its_own_http_status() -> None:
    admission = server_admission(MINIMCP)
    lived = admit(initialize("2025-06-18"), None, admission).session
    rejected = admit(request("tools/call", {"name": 1}), lived, admission)
    assert rejected.status == MINIMCP.http_status[-32602]
    missing = admit(request("tools/list", {"_meta": {VERSION: "2026-07-28"}}), None, admission)
    assert missing.status == 400


def test_undecodable_messages_get_the_error_of_the_sessions_dialect() -> None:
    error = RemoteProtocolError("parse_error")
    admission = server_admission()
    assert read(admission.refuse(error))["id"] == "absent"
    assert read(admission.refuse(error, None, session("2025-06-18")), "2025-06-18")["id"] is None
    assert read(admission.refuse(error, 4, session("2025-06-18")), "2025-06-18")["id"] == 4
    assert admission.refuse(error).status == 400


@pytest.mark.parametrize("dialect", [ERLMCP, MINIMCP])
def test_before_any_handshake_a_dialect_has_its_own_error_for_unreadable_messages(dialect: Dialect) -> None:
    rejected = server_admission(dialect).refuse(RemoteProtocolError("parse_error", "line 1 is odd"))
    error = read(rejected, None)
    assert (error["id"], error["message"], rejected.status) == (None, "Parse error", 400)
    modern_only = server_admission(dialect, [R5]).refuse(RemoteProtocolError("parse_error"))
    assert read(modern_only)["id"] == "absent"


def test_a_peer_that_names_a_dialect_shares_its_codec_with_others_that_do() -> None:
    admission = server_admission()
    assert admission.codec_for(R4, "erlmcp") is admission.codec_for(R4, "erlmcp")
    assert admission.codec_for(R4, "erlmcp").dialect is ERLMCP
    assert admission.codec_for(R4, "klingon") is admission.codecs["2025-11-25"]


@pytest.mark.parametrize(
    ("error", "modern_status", "legacy_status", "minimcp_status"),
    [
        (CapabilityError("sampling"), 400, 200, 404),
        (ProtocolError("resource_not_found"), 200, 200, 404),
        (ProtocolError("internal_error"), 200, 200, 500),
        (ProtocolError("method_not_found"), 404, 200, 404),
        (RemoteProtocolError("parse_error"), 400, 400, 400),
    ],
)
def test_the_http_status_follows_the_code_that_goes_out(
    error: DovetailError, modern_status: int, legacy_status: int, minimcp_status: int
) -> None:
    official, minimcp = server_admission(), server_admission(MINIMCP)
    assert official.status_of(error, official.codecs["2026-07-28"]) == modern_status
    assert official.status_of(error, official.codecs["2025-11-25"]) == legacy_status
    assert minimcp.status_of(error, minimcp.codecs["2025-11-25"]) == minimcp_status
