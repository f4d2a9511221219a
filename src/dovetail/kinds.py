"""The table of error kinds: the message, codes and HTTP status of each, on every revision and in every dialect.

This is the only module with error codes. `dovetail.errors` defines the exceptions and re-exports these names;
`dovetail.error_causes` has the cause and the fix of each kind.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

__all__ = [
    "HEADER_MISMATCH", "INTERNAL_ERROR", "INVALID_PARAMS", "INVALID_REQUEST", "KINDS", "LATER",
    "MESSAGE_REFUSALS", "METHOD_NOT_FOUND",
    "MISSING_REQUIRED_CLIENT_CAPABILITY", "PARSE_ERROR", "REFUSALS", "REFUSAL_CODES", "RESERVED_REFUSALS",
    "RESOURCE_NOT_FOUND", "UNSUPPORTED_PROTOCOL_VERSION", "URL_ELICITATION_REQUIRED", "USER_REJECTED", "Delivery",
    "Kind", "delivery", "http_status", "kind_of_code", "refusal_kind",
]  # fmt: skip

Delivery = Literal["error", "tool_result", "registration", "local", "drop", "http", "task"]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
URL_ELICITATION_REQUIRED: Final = -32042
HEADER_MISMATCH: Final = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022
USER_REJECTED: Final = -1
LATER: Final = frozenset({429, 503})
"""HTTP statuses after which a client may send the request again; ``Retry-After`` says when."""


class Kind(Struct, frozen=True):
    """One row of the table."""

    name: str
    message: str
    """The text of the error, unless it is raised with a more exact one."""
    legacy: int = INTERNAL_ERROR
    """The official code on 2024-11-05 … 2025-11-25."""
    modern: int = INTERNAL_ERROR
    """The official code on 2026-07-28."""
    status: int = 200
    """The HTTP status of a response that is only this error: to a modern request, to a malformed request of any
    revision, or to a client that is not authenticated. `core.admit.Admission.status_of` has the cases with 200."""
    erlmcp: int | None = None
    """The code in the dialect of erlmcp."""
    elixir: int | None = None
    """The code in the dialect of the Elixir client (mcp_client)."""
    refusal: int | None = None
    """The refusal number, for kinds that the official protocol has no code for."""
    delivery: Delivery = "error"
    """How a server reports it: as an error, a tool result, an HTTP status, or not at all."""


# Columns: name, message, legacy, modern, status, erlmcp, elixir, refusal, delivery.
# fmt: off
_P, _E, _R, _M = INVALID_PARAMS, INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND
_ROWS: Final = (
    # JSON-RPC
    Kind("parse_error", "Parse error", PARSE_ERROR, PARSE_ERROR, 400, PARSE_ERROR, PARSE_ERROR),
    Kind("invalid_request", "Invalid request", _R, _R, 400, _R, _R),
    Kind("method_not_found", "Method not found", _M, _M, 404, _M, _M),
    Kind("invalid_params", "Invalid params", _P, _P, 200, _P, _P),
    Kind("internal_error", "Internal error", _E, _E, 200, _E, _E),
    # 2026-07-28
    Kind("header_mismatch", "Header mismatch", _R, HEADER_MISMATCH, 400),
    Kind("missing_required_client_capability", "Missing required client capability", _M,
         MISSING_REQUIRED_CLIENT_CAPABILITY, 400),
    Kind("unsupported_protocol_version", "Unsupported protocol version", _P,
         UNSUPPORTED_PROTOCOL_VERSION, 400),
    Kind("invalid_request_state", "invalid or expired requestState", _P, _P),
    # Core (erlmcp -32001 … -32010)
    Kind("resource_not_found", "Resource not found", RESOURCE_NOT_FOUND, _P, 200, -32001, -32001),
    Kind("tool_not_found", "Tool not found", _P, _P, 200, -32002, -32003),
    Kind("prompt_not_found", "Prompt not found", _P, _P, 200, -32003, -32005),
    Kind("capability_not_supported", "Capability not supported", _M, _M, 404, -32004, -32007),
    Kind("not_initialized", "Server not initialized", _P, _P, 400, -32005),
    Kind("subscription_failed", "Subscription failed", _E, _E, 200, -32006),
    Kind("validation_failed", "Validation failed", _P, _P, 200, -32007),
    Kind("transport_error", "Transport error", _E, _E, 200, -32008, None, None, "local"),
    Kind("request_timeout", "Request timeout", _E, _E, 200, -32009, None, None, "local"),
    # Content and messages (-32011 … -32020)
    Kind("tool_description_too_long", "Tool description exceeds max", _E, _E, 200, -32011, None, None,
         "registration"),
    Kind("message_too_large", "Message size exceeds maximum", _R, _R, 413, -32012),
    Kind("invalid_content_type", "Invalid content type", _P, _P, 200, -32013),
    Kind("content_too_large", "Content too large", _P, _P, 200, -32014),
    Kind("invalid_encoding", "Invalid encoding", PARSE_ERROR, PARSE_ERROR, 400, -32015),
    Kind("binary_too_large", "Binary data too large", _P, _P, 200, -32016),
    Kind("text_too_long", "Text too long", _P, _P, 200, -32017),
    Kind("invalid_mime_type", "Invalid MIME type", _P, _P, 200, -32018),
    Kind("unsupported_media_type", "Unsupported media type", _R, _R, 415, -32019),
    Kind("not_acceptable", "Media type not acceptable", _R, _R, 406, -32020),
    # Resources and templates (-32021 … -32030)
    Kind("resource_template_not_found", "Resource template not found", RESOURCE_NOT_FOUND, _P, 200, -32021),
    Kind("invalid_uri", "Invalid URI", _P, _P, 200, -32022),
    Kind("uri_syntax_error", "URI syntax error", _P, _P, 200, -32023),
    Kind("uri_too_long", "URI too long", _P, _P, 200, -32024),
    Kind("resource_access_denied", "Resource access denied", 1005, 1005, 403, -32025, None, 1005),
    Kind("resource_already_exists", "Resource already exists", _E, _E, 200, -32026, None, None,
         "registration"),
    Kind("resource_locked", "Resource locked", _E, _E, 200, -32027),
    Kind("resource_version_mismatch", "Resource version mismatch", _P, _P, 200, -32028),
    Kind("template_render_failed", "Template render failed", _E, _E, 200, -32029),
    Kind("invalid_uri_template", "Invalid URI template", _E, _E, 200, -32030, None, None, "registration"),
    # Tools (-32031 … -32040)
    Kind("tool_execution_failed", "Tool execution failed", _E, _E, 200, -32031, -32004, None, "tool_result"),
    Kind("tool_timeout", "Tool execution timeout", _E, _E, 200, -32032, None, None, "tool_result"),
    Kind("tool_cancelled", "Tool execution cancelled", _E, _E, 200, -32033, None, None, "drop"),
    Kind("invalid_tool_arguments", "Invalid tool arguments", _P, _P, 200, -32034, None, None,
         "tool_result"),
    Kind("tool_disabled", "Tool is disabled", _P, _P, 200, -32035),
    Kind("tool_result_too_large", "Tool result too large", _E, _E, 200, -32036, None, None, "tool_result"),
    Kind("tool_not_allowed", "Tool not allowed", 1005, 1005, 403, -32037, None, 1005),
    Kind("too_many_tools", "Maximum concurrent tools exceeded", 1004, 1004, 503, -32038, None, 1004),
    Kind("tool_dependency_failed", "Tool dependency failed", 1009, 1009, 503, -32039, None, 1009,
         "tool_result"),
    Kind("tool_schema_invalid", "Tool schema invalid", _E, _E, 200, -32040, None, None, "registration"),
    # Prompts and sampling (-32041 … -32050; -32041 is not assigned)
    Kind("url_elicitation_required", "URL elicitation required", URL_ELICITATION_REQUIRED, _E, 200, -32042),
    Kind("prompt_argument_missing", "Prompt argument missing", _P, _P, 200, -32043),
    Kind("prompt_render_failed", "Prompt render failed", _E, _E, 200, -32044),
    Kind("invalid_prompt_arguments", "Invalid prompt arguments", _P, _P, 200, -32045),
    Kind("sampling_failed", "Sampling failed", _E, _E, 200, -32046),
    Kind("sampling_timeout", "Sampling timeout", _E, _E, 200, -32047),
    Kind("invalid_model_preferences", "Invalid model preferences", _P, _P, 200, -32048),
    Kind("model_not_available", "Model not available", _E, _E, 200, -32049),
    Kind("sampling_rate_limited", "Sampling rate limited", 1003, 1003, 429, -32050, None, 1003),
    # Authentication and authorization (-32051 … -32060): an HTTP status, or refusal 1005 on other transports
    Kind("authentication_failed", "Authentication failed", 1005, 1005, 401, -32051, None, 1005, "http"),
    Kind("authorization_failed", "Authorization failed", 1005, 1005, 403, -32052, None, 1005, "http"),
    Kind("invalid_credentials", "Invalid credentials", 1005, 1005, 401, -32053, None, 1005, "http"),
    Kind("token_expired", "Token expired", 1005, 1005, 401, -32054, None, 1005, "http"),
    Kind("insufficient_permissions", "Insufficient permissions", 1005, 1005, 403, -32055, None, 1005, "http"),
    Kind("access_denied", "Access denied", 1005, 1005, 403, -32056, None, 1005, "http"),
    Kind("session_expired", "Session expired", _R, _R, 404, -32057, None, None, "http"),
    Kind("session_not_found", "Session not found", _R, _R, 404, -32058, None, None, "http"),
    Kind("invalid_token", "Invalid token", 1005, 1005, 401, -32059, None, 1005, "http"),
    Kind("unauthorized_operation", "Unauthorized operation", 1005, 1005, 403, -32060, None, 1005, "http"),
    # Pages (-32071 … -32076)
    Kind("invalid_cursor", "Invalid cursor", _P, _P, 200, -32071),
    Kind("cursor_expired", "Cursor expired", _P, _P, 200, -32072),
    Kind("pagination_not_supported", "Pagination not supported", _P, _P, 200, -32073),
    Kind("page_size_too_large", "Page size too large", _P, _P, 200, -32074, None, None, "drop"),
    Kind("invalid_page_size", "Invalid page size", _P, _P, 200, -32075, None, None, "drop"),
    Kind("invalid_offset", "Invalid offset", _P, _P, 200, -32076),
    # Tasks (-32081 … -32090)
    Kind("task_not_found", "Task not found", _P, _P, 200, -32081),
    Kind("task_already_exists", "Task already exists", _P, _P, 200, -32082),
    Kind("task_failed", "Task failed", _E, _E, 200, -32083, None, None, "task"),
    Kind("task_cancelled", "Task cancelled", _E, _E, 200, -32084, None, None, "task"),
    Kind("task_timeout", "Task timeout", _E, _E, 200, -32085, None, None, "task"),
    Kind("task_state_invalid", "Task state invalid", _P, _P, 200, -32086),
    Kind("too_many_tasks", "Maximum concurrent tasks exceeded", 1004, 1004, 503, -32087, None, 1004),
    Kind("task_dependency_failed", "Task dependency failed", _E, _E, 200, -32088, None, None, "task"),
    Kind("task_result_not_ready", "Task result not ready", _E, _E, 200, -32089, None, None, "task"),
    Kind("task_already_completed", "Task already completed", _P, _P, 200, -32090),
    # Progress and notifications (-32091 … -32097)
    Kind("invalid_progress_token", "Invalid progress token", _E, _E, 200, -32091, None, None, "drop"),
    Kind("progress_token_expired", "Progress token expired", _E, _E, 200, -32092, None, None, "drop"),
    Kind("progress_update_failed", "Progress update failed", _E, _E, 200, -32093, None, None, "local"),
    Kind("notification_failed", "Notification failed", _E, _E, 200, -32094, None, None, "local"),
    Kind("notification_queue_full", "Notification queue full", _E, _E, 200, -32095, None, None, "local"),
    Kind("invalid_notification_type", "Invalid notification type", _E, _E, 200, -32096, None, None, "drop"),
    Kind("notification_not_delivered", "Notification not delivered", _E, _E, 200, -32097, None, None,
         "local"),
    # Completion (-32110 … -32113)
    Kind("completion_not_found", "Completion not found", _P, _P, 200, -32110),
    Kind("invalid_completion_ref", "Invalid completion reference", _P, _P, 200, -32111),
    Kind("invalid_completion_argument", "Invalid completion argument", _P, _P, 200, -32112),
    Kind("completion_failed", "Completion failed", _E, _E, 200, -32113),
    # Of the Elixir client
    Kind("resource_not_readable", "Resource not readable", _E, _E, 200, None, -32002),
    Kind("sampling_not_supported", "Sampling not supported", _M, _M, 404, None, -32006),
    Kind("unknown_error", "Unknown error"),
    # Refusals: the last row with a number defines the meaning of that number
    Kind("content_policy", "Content violates policy", 1001, 1001, 403, None, None, 1001),
    Kind("safety", "Violates safety guidelines", 1002, 1002, 403, None, None, 1002),
    Kind("rate_limited", "Rate limit exceeded", 1003, 1003, 429, -32010, None, 1003),
    Kind("resource_constraints", "Resource constraints", 1004, 1004, 503, None, None, 1004),
    Kind("permission_denied", "Permission denied", 1005, 1005, 403, None, None, 1005),
    Kind("invalid_input", "Invalid input", 1006, 1006, 400, None, None, 1006),
    Kind("unsupported_operation", "Unsupported operation", 1007, 1007, 400, None, None, 1007),
    Kind("circuit_open", "Circuit breaker is open", 1008, 1008, 503, 1086, None, 1008),
    Kind("temporarily_unavailable", "Temporarily unavailable", 1008, 1008, 503, None, None, 1008),
    Kind("dependency_failed", "Dependency failed", 1009, 1009, 503, None, None, 1009),
    Kind("custom", "Custom refusal reason", 1010, 1010, 400, None, None, 1010),
    Kind("quota_exceeded", "Quota exceeded", 1056, 1056, 429, None, None, 1056),
    Kind("too_many_connections", "Too many connections", 1060, 1060, 503, None, None, 1060),
    Kind("peer_too_slow", "The peer is too slow", 1069, 1069, 503, None, None, 1069),
    Kind("overloaded", "The server is overloaded", 1078, 1078, 503, None, None, 1078),
    Kind("storage_full", "The storage is full", 1079, 1079, 503, None, None, 1079),
    Kind("unhealthy", "The server is not healthy", 1087, 1087, 503, None, None, 1087),
    Kind("memory_exhausted", "The server is out of memory", 1089, 1089, 503, None, None, 1089),
    # Of Dovetail
    Kind("call_interrupted", "The call was interrupted; it may or may not have been executed", _E, _E),
    Kind("handle_not_found", "Unknown or expired handle", _P, _P, 200, None, None, None, "tool_result"),
    Kind("user_rejected", "User rejected the request", USER_REJECTED, _E),
    Kind("contract_broken", "The server does not match the lock file", delivery="local"),
    Kind("connection_closed", "Connection closed", delivery="local"),
    Kind("session_lost", "Session lost", delivery="local"),
    Kind("state", "The operation is not possible in this state", delivery="local"),
    Kind("server_requests_not_supported", "The transport of this call cannot send requests to the client",
         delivery="local"),
    Kind("registration", "The component cannot be registered", delivery="registration"),
    Kind("missing_extra", "An optional package is not installed", delivery="local"),
    Kind("target", "The server cannot be loaded", delivery="local"),
    Kind("configuration", "The configuration is not valid", delivery="local"),
    Kind("installation", "The client cannot be configured", delivery="local"),
    Kind("compat", "The program cannot be served by Dovetail", delivery="local"),
    Kind("too_many_rounds", "The call asks for input too often", delivery="local"),
    Kind("command_failed", "The command failed", delivery="local"),
)
# fmt: on

KINDS: Final[dict[str, Kind]] = {row.name: row for row in _ROWS}

REFUSALS: Final[dict[int, str]] = {row.refusal: row.name for row in _ROWS if row.refusal is not None}
REFUSAL_CODES: Final = range(1001, 1090)
MESSAGE_REFUSALS: Final = {
    "parse_error": 1066, "invalid_request": 1066, "message_too_large": 1068, "invalid_encoding": 1070,
}  # fmt: skip
"""Refusals of malformed messages. JSON-RPC and erlmcp have their own codes for these, so the refusal number is sent as
``error.data.refusalCode``, on every revision and in every dialect."""
RESERVED_REFUSALS: Final[tuple[tuple[range, str], ...]] = (
    (range(1011, 1021), "refused_authentication"),
    (range(1021, 1036), "refused_parameters"),
    (range(1036, 1046), "refused_address"),
    (range(1046, 1056), "refused_entity"),
    (range(1056, 1066), "refused_quota"),
    (range(1066, 1076), "refused_message"),
    (range(1076, 1086), "refused_server_state"),
    (range(1086, 1090), "refused_health"),
)
"""Numbers without a documented meaning, in the groups of erlmcp's header file."""


def refusal_kind(code: int) -> str:
    """Return the kind of the refusal ``code``; reserved numbers share the kind of their group."""
    name = REFUSALS.get(code)
    if name is None:
        name = next((group for numbers, group in RESERVED_REFUSALS if code in numbers), "custom")
    return name


def http_status(kind: str) -> int:
    """Return the HTTP status of ``kind``, for a response that has not started.

    It applies to modern requests, and on every revision to malformed messages and rejected principals. The response
    to a well-formed legacy request has status 200 for all kinds, refusals of a handler included; see
    `core.admit.Admission.status_of`.
    """
    row = KINDS.get(kind)
    return 200 if row is None else row.status


def delivery(kind: str) -> Delivery:
    """Return how a server reports ``kind``."""
    row = KINDS.get(kind)
    return "error" if row is None else row.delivery


def _numbers(column: str) -> dict[int, str]:
    return {getattr(row, column): row.name for row in _ROWS if getattr(row, column) is not None}


_STANDARD: Final = {row.modern: row.name for row in _ROWS[:5]}
_LEGACY: Final = {
    **_STANDARD,
    RESOURCE_NOT_FOUND: "resource_not_found",
    URL_ELICITATION_REQUIRED: "url_elicitation_required",
    USER_REJECTED: "user_rejected",
}
_MODERN: Final = {
    **_STANDARD,
    RESOURCE_NOT_FOUND: "resource_not_found",  # never sent, but clients accept it
    HEADER_MISMATCH: "header_mismatch",
    MISSING_REQUIRED_CLIENT_CAPABILITY: "missing_required_client_capability",
    UNSUPPORTED_PROTOCOL_VERSION: "unsupported_protocol_version",
}
_PROFILES: Final[dict[str, dict[int, str]]] = {
    "official": _LEGACY,
    "erlmcp": _numbers("erlmcp"),
    "mcp_client": _numbers("elixir"),
    "minimcp": {**_LEGACY, -32000: "connection_closed"},
}


def kind_of_code(code: int, *, modern: bool = True, dialect: str = "official") -> str:
    """Return the kind of ``code`` on modern or legacy revisions, in ``dialect``.

    A code without a meaning is ``unknown_error``: -32000 … -32019 have no official meaning, and the codes of a
    dialect apply to legacy revisions only.
    """
    if code in REFUSAL_CODES:
        return refusal_kind(code)
    table = _MODERN if modern else _PROFILES.get(dialect, _LEGACY)
    return table.get(code, "unknown_error")
