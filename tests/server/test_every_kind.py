"""Every row of the table of kinds has its cause: something of ours raises it, or peers do and we understand them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail import Context, ProtocolError, Refusal, RegistrationError, Server
from dovetail.kinds import KINDS, REFUSALS, kind_of_code
from dovetail.server.registry.registry import LONGEST_DESCRIPTION
from dovetail.settings import Limits
from tests.server.works import DECLARED
from tests.support.aio import run
from tests.support.peer import Peer

TESTS = Path(__file__).parent.parent

PROMPT = {"type": "ref/prompt", "name": "greet"}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "method_not_found": ("no/such", {}),
    "invalid_params": ("tools/call", {}),
    "internal_error": ("resources/read", {"uri": "x://broken"}),
    "invalid_request_state": ("tools/call", {"name": "asks", "arguments": {}, "requestState": "x"}),
    "tool_not_found": ("tools/call", {"name": "none"}),
    "prompt_not_found": ("prompts/get", {"name": "none"}),
    "resource_not_found": ("resources/read", {"uri": "x://none"}),
    "resource_template_not_found": ("resources/read", {"uri": "y://{name}"}),
    "invalid_uri": ("resources/read", {"uri": "none"}),
    "uri_syntax_error": ("resources/read", {"uri": "x://%zz"}),
    "uri_too_long": ("resources/read", {"uri": "x://" + "a" * 9000}),
    "resource_access_denied": ("resources/read", {"uri": "x://denied"}),
    "resource_locked": ("resources/read", {"uri": "x://locked"}),
    "resource_not_readable": ("resources/read", {"uri": "x://unreadable"}),
    "template_render_failed": ("resources/read", {"uri": "x://any/thing"}),
    "request_timeout": ("resources/read", {"uri": "x://slow"}),
    "tool_execution_failed": ("tools/call", {"name": "fails"}),
    "tool_timeout": ("tools/call", {"name": "slow"}),
    "invalid_tool_arguments": ("tools/call", {"name": "fails", "arguments": {"a": 1}}),
    "prompt_argument_missing": ("prompts/get", {"name": "greet"}),
    "invalid_prompt_arguments": ("prompts/get", {"name": "greet", "arguments": {"age": "old"}}),
    "prompt_render_failed": ("prompts/get", {"name": "greet", "arguments": {"age": "1"}}),
    "invalid_cursor": ("tools/list", {"cursor": "x"}),
    "task_not_found": ("tasks/get", {"taskId": "none"}),
    "completion_not_found": (
        "completion/complete", {"ref": {"type": "ref/prompt", "name": "no"}, "argument": {"name": "a", "value": ""}},
    ),
    "completion_failed": ("completion/complete", {"ref": PROMPT, "argument": {"name": "age", "value": ""}}),
    "invalid_completion_ref": ("completion/complete", {"ref": {"type": "x"}, "argument": {"name": "a", "value": ""}}),
    "invalid_completion_argument": ("completion/complete", {"ref": PROMPT, "argument": 1}),
}  # fmt: skip
"""What a client sends to get it."""

AUTHORS = [
    "resource_version_mismatch", "tool_disabled", "tool_not_allowed", "tool_dependency_failed", "content_policy",
    "safety", "rate_limited", "resource_constraints", "permission_denied", "invalid_input", "unsupported_operation",
    "temporarily_unavailable", "dependency_failed", "custom", "unauthorized_operation", "circuit_open",
    "quota_exceeded", "too_many_connections", "peer_too_slow", "overloaded", "storage_full", "unhealthy",
    "memory_exhausted",
]  # fmt: skip
"""What handlers and middleware raise by name or number."""

UNNAMED: dict[str, Callable[[Server], object]] = {
    "registration": lambda server: server.add_tool(print_it, name="fails"),
    "tool_description_too_long": lambda server: server.add_tool(
        print_it, description="x" * (LONGEST_DESCRIPTION + 1)
    ),
    "resource_already_exists": lambda server: server.add_resource("x://slow", print_it),
    "invalid_uri_template": lambda server: server.add_resource("x://{a}{b}", print_it),
    "tool_schema_invalid": lambda server: server.add_tool(
        name="raw", handler=lambda given: given, input_schema={"type": "object", "$ref": "#/nowhere"}
    ),
    "invalid_mime_type": lambda server: server.add_resource("x://new", print_it, mime_type="text"),
}
"""What cannot be registered (with erlmcp, which minds the length of a description)."""

SHOWN_BY_NAME = (
    "parse_error",
    "invalid_request",
    "header_mismatch",
    "missing_required_client_capability",
    "unsupported_protocol_version",
    "capability_not_supported",
    "sampling_not_supported",
    "not_initialized",
    "subscription_failed",
    "validation_failed",
    "transport_error",
    "message_too_large",
    "invalid_content_type",
    "content_too_large",
    "invalid_encoding",
    "binary_too_large",
    "text_too_long",
    "tool_result_too_large",
    "too_many_tools",
    "url_elicitation_required",
    "sampling_failed",
    "sampling_timeout",
    "invalid_model_preferences",
    "model_not_available",
    "sampling_rate_limited",
    "authentication_failed",
    "insufficient_permissions",
    "invalid_token",
    "session_expired",
    "session_not_found",
    "cursor_expired",
    "task_failed",
    "task_dependency_failed",
    "task_cancelled",
    "task_timeout",
    "task_state_invalid",
    "too_many_tasks",
    "task_result_not_ready",
    "task_already_completed",
    "invalid_progress_token",
    "progress_token_expired",
    "progress_update_failed",
    "notification_failed",
    "notification_queue_full",
    "invalid_notification_type",
    "user_rejected",
    "state",
    "call_interrupted",
    "handle_not_found",
    "contract_broken",
    "missing_extra",
    "target",
    "configuration",
    "installation",
    "command_failed",
)
"""Kinds whose test is in another file and quotes the kind."""

SHOWN_BY_EVIDENCE = {
    "notification_not_delivered": "notification not delivered",
    "unsupported_media_type": "status == 415",
    "not_acceptable": "status == 406",
    "access_denied": "status == 403",
    "authorization_failed": "raises(AuthError",
    "page_size_too_large": "-32074",
    "invalid_page_size": "-32075",
    "task_already_exists": "-32082",
    "tool_cancelled": "-32033",
    "invalid_credentials": "-32053",
    "token_expired": "-32054",
    "pagination_not_supported": "-32073",
    "invalid_offset": "-32076",
    "session_lost": "SessionLost",
    "server_requests_not_supported": "cannot send requests to the client",
    "too_many_rounds": "more than 3 rounds",
    "compat": "raises(CompatError",
}
"""Kinds whose test is in another file: the status, the code or the class it checks."""

RECEIVED = {
    "unknown_error": "the meaning of a number that has none",
    "connection_closed": "sent by MiniMCP's peers; Dovetail's is `transport_error`",
}
"""Kinds that only peers send, and why Dovetail does not. Clients understand them."""


def print_it() -> None: ...


def build(**options: Any) -> Server:
    server = Server("kinds", limits=Limits(max_tasks=4), **options)

    def raising(error: Exception) -> Callable[[], str]:
        def read() -> str:
            raise error

        return read

    for name, error in {
        "denied": PermissionError(), "locked": BlockingIOError(), "unreadable": OSError(), "broken": KeyError(),
    }.items():  # fmt: skip
        server.add_resource(f"x://{name}", raising(error), name=name)

    @server.resource("x://slow", timeout=0.01)
    async def slow_resource() -> str:
        await asyncio.Event().wait()
        return ""

    @server.resource("x://{a}/{b}")
    def template(a: str, b: str) -> str:
        raise KeyError(a)

    @server.tool(task="optional")
    def works() -> str:
        """Work."""
        return ""

    @server.tool
    def fails() -> str:
        """Fail."""
        raise KeyError("masked")

    @server.tool(timeout=0.01)
    async def slow() -> str:
        """Take long."""
        await asyncio.Event().wait()
        return ""

    @server.tool
    async def asks(ctx: Context) -> str:
        """Ask."""
        return (await ctx.elicit("which?", ["a"])).action

    @server.tool
    def refuses(kind: str) -> str:
        """Fail by name."""
        number = next((code for code, name in REFUSALS.items() if name == kind), None)
        raise ProtocolError(kind) if number is None else Refusal(number)

    @server.prompt
    def greet(age: int) -> str:
        raise KeyError(age)

    @server.completion(ref="greet", argument="age")
    def ages(value: str) -> list[str]:
        raise KeyError(value)

    return server


async def kind_of(method: str, **params: Any) -> str:
    """Return the kind in the response: of its error, or in the metadata of its result."""
    reply = await Peer(build(), capabilities=DECLARED).send(method, **params)
    if "error" in reply:
        return reply["error"]["data"]["kind"]
    return reply["result"]["_meta"]["dovetail/kind"]


def test_every_kind_is_accounted_for_once() -> None:
    tables = [ASKED, AUTHORS, UNNAMED, SHOWN_BY_NAME, SHOWN_BY_EVIDENCE, RECEIVED]
    names = [name for table in tables for name in table]
    assert sorted(names) == sorted(KINDS)


@pytest.mark.parametrize("kind", ASKED)
@run
async def test_what_a_client_sends_to_get_it(kind: str) -> None:
    method, params = ASKED[kind]
    assert await kind_of(method, **params) == kind


@pytest.mark.parametrize("kind", AUTHORS)
@run
async def test_what_a_handler_raises_keeps_its_name(kind: str) -> None:
    assert await kind_of("tools/call", name="refuses", arguments={"kind": kind}) == kind


@pytest.mark.parametrize("kind", UNNAMED)
def test_what_cannot_be_registered_says_why(kind: str) -> None:
    server = build(dialect="erlmcp")
    with pytest.raises(RegistrationError) as caught:
        UNNAMED[kind](server)
    assert caught.value.kind == kind


@pytest.mark.parametrize("kind", [*SHOWN_BY_NAME, *SHOWN_BY_EVIDENCE])
def test_another_file_tests_the_kind(kind: str) -> None:
    evidence = SHOWN_BY_EVIDENCE.get(kind, f'"{kind}"')
    here = Path(__file__)
    assert any(evidence in file.read_text() for file in TESTS.rglob("test_*.py") if file != here)


@pytest.mark.parametrize("kind", RECEIVED)
def test_what_only_peers_say_is_understood(kind: str) -> None:
    row = KINDS[kind]
    for dialect, code in (("erlmcp", row.erlmcp), ("mcp_client", row.elixir)):
        if code is not None:
            assert kind_of_code(code, modern=False, dialect=dialect) == kind
    assert row.erlmcp or row.elixir or kind in ("unknown_error", "connection_closed")
