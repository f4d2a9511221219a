"""The erlmcp dialect, as its three documents describe it (2025-11-25).

Outbound it uses its own notification names, pages with ``cursor``, resource contents with a ``type``,
completions with labels, and 91 error codes. If an official member means the same, both are sent. A tool that
raises fails with -32031, as one document shows. A tool result with ``isError`` is sent unchanged, as the
other two show.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from msgspec import UNSET

from ...errors import KINDS
from ...settings import Limits, Timeouts
from ...shapes import Object, is_list, is_object
from ..methods import TASK_NOTIFICATIONS
from .aliases import METHODS, PARAMS, RESULTS, STOP_REASONS, TASK_MANAGEMENT
from .contents import LINK, milliseconds, objects, rename
from .dialect import Dialect, column, pop_extra, restore

MESSAGES = {
    # The documents have one message per code; the details are in ``data``.
    **{name: row.message for name, row in KINDS.items() if row.erlmcp is not None},
    "parse_error": "Parse error",
    "invalid_request": "Invalid Request",
    "method_not_found": "Method not found",
    "invalid_params": "Invalid params",
    "internal_error": "Internal error",
    "not_initialized": "Cannot execute operation before server initialization. Call initialize first.",
    "resource_not_found": "Resource not found",
    "tool_not_found": "Tool not found",
    "prompt_not_found": "Prompt not found",
    "tool_execution_failed": "Tool execution failed",
    "message_too_large": "Message size exceeds maximum allowed",
}

_SNAKE_REASONS = {camel: snake for snake, camel in STOP_REASONS.items()}


# --- outbound edits -----------------------------------------------------------------------------------------


def initialize(result: Object) -> Object:
    """Add erlmcp's members to the server capabilities, which also list client features."""
    offered: Object = dict(result.get("capabilities") or {})
    offered.setdefault("sampling", {})
    offered.setdefault("roots", {})
    if "completions" in offered:
        offered["completions"] = {"supported": True, **offered["completions"]}
    if "tasks" in offered:
        experimental: Object = dict(offered.get("experimental") or {})
        experimental.setdefault("features", [TASK_MANAGEMENT])
        offered["experimental"] = experimental
    result["capabilities"] = offered
    return result


def page(result: Object) -> Object:
    """Write the cursor under both names, and the definitions with their extra members."""
    if "nextCursor" in result:
        result["cursor"] = result["nextCursor"]
    for name in ("resources", "resourceTemplates", "tools", "prompts"):
        for entry in objects(result.get(name)):
            _definition(entry)
    return result


def read(result: Object) -> Object:
    """Add the type of each entry; binary entries get ``data`` as well as ``blob``; links to other resources
    are restored."""
    for entry in objects(result.get("contents")):
        link = pop_extra(entry, LINK)
        if is_object(link):
            entry.update(link, type="resource/link")
            continue
        kind = pop_extra(entry, "type")
        if "blob" in entry:
            entry["data"] = entry["blob"]
        if kind is UNSET:
            kind = _kind_of(entry)
        entry["type"] = kind
    return result


def tool(result: Object) -> Object:
    for block in objects(result.get("content")):
        _block(block)
    return result


def prompt(result: Object) -> Object:
    """Send content that was a bare string as one, with its annotations on the message."""
    for message in objects(result.get("messages")):
        block = message.get("content")
        if is_object(block):
            _block(block)
            if pop_extra(block, "bare") is True:
                message["content"] = block["text"]
                if "annotations" in block:
                    message["annotations"] = block["annotations"]
    return result


def completion(result: Object) -> Object:
    """Write both keys: the specification's, and a list with a label each."""
    offered = cast("Object", result.get("completion") or {})
    values = cast("list[Any]", offered.get("values") or [])
    labels = pop_extra(result, "labels")
    known = labels if is_list(labels) else []
    result["completions"] = [
        {"value": value, "label": label if isinstance(label, str) else value}
        for value, label in zip(values, [*known, *values[len(known) :]], strict=False)
    ]
    result["hasMore"] = offered.get("hasMore", False)
    if "total" in offered:
        result["total"] = offered["total"]
    return result


def sampled(result: Object) -> Object:
    reason = result.get("stopReason")
    if isinstance(reason, str):
        result["stopReason"] = _SNAKE_REASONS.get(reason, reason)
    return result


def opened(params: Object) -> Object:
    """Restore erlmcp's own members."""
    for name in ("metadata", "modelPreferences"):
        restore(params, name)
    return params


def message(params: Object) -> Object:
    """Convert a log message back to the chat message it was made from."""
    role = pop_extra(params, "role")
    if role is UNSET:
        return params
    return {"role": role, "content": params.get("data")}


def _definition(entry: Object) -> None:
    for name in ("deprecated", "version", "experimental", "inputSchema", "metadata"):
        restore(entry, name)
    annotations = entry.get("annotations")
    if is_object(annotations):
        moment = milliseconds(annotations.get("lastModified"))
        if moment is not None:
            entry["lastModified"] = moment


def _kind_of(entry: Object) -> str:
    if "text" in entry:
        return "text"
    media = str(entry.get("mimeType", "")).partition("/")[0]
    return media if media in ("image", "audio") else "blob"


def _block(block: Object) -> None:
    """Restore content that erlmcp sent in its own form."""
    restore(block, "mimeType")
    link = pop_extra(block, LINK)
    if link is not UNSET:
        block["resource_link"] = link
        if is_object(link):
            rename(link, "mimeType", "mime_type")
    if pop_extra(block, "type") == "document":
        inner = cast("Object", block.pop("resource"))
        block.update(type="document", **{name: inner[name] for name in ("text", "mimeType") if name in inner})
        if "blob" in inner:
            block["data"] = inner["blob"]


# --- errors -------------------------------------------------------------------------------------------------


def details(text: str, data: Any) -> Any:
    """Put the details into ``details``, with erlmcp's wording; the message is constant."""
    if data is not UNSET and not is_object(data):
        return data
    members: Object = {"details": text, **(data if is_object(data) else {})}
    if isinstance(members["details"], str):
        members["details"] = _MISSING.sub(r"Missing required parameter: \1", members["details"])
    return members


def reason(text: str, data: Any) -> Any:
    if data is UNSET:
        return {"reason": text}
    return {"reason": text, **data} if is_object(data) else data


def tool_id(text: str, data: Any) -> Any:
    """Add ``toolId`` (one document uses ``tool``), and the reason if there is more than the name."""
    if not (is_object(data) and "tool" in data):
        return (
            data
            if text in (MESSAGES["tool_not_found"], KINDS["tool_not_found"].message)
            else reason(text, data)
        )
    return {**data, "toolId": data["tool"]}


def reasons() -> dict[str, Callable[[str, Any], Any]]:
    """For every kind: the reason in ``data``, if it adds something to the constant message."""

    def told(kind: str) -> Callable[[str, Any], Any]:
        constant = (MESSAGES[kind], KINDS[kind].message)
        return lambda text, data: data if text in constant else reason(text, data)

    return {kind: told(kind) for kind in MESSAGES}


_MISSING = re.compile(r"Object missing required field `(\w+)`")
_BOTH_WAYS = ("max_message_bytes", "max_response_bytes")

ERLMCP = Dialect(
    name="erlmcp",
    inbound_methods=METHODS,
    outbound_methods={
        f"notifications/{name}": name
        for name in (
            "resources/updated",
            *(f"{kind}/list_changed" for kind in ("resources", "tools", "prompts")),
        )
    },
    field_in=PARAMS,
    result_in=RESULTS,
    field_out={
        "InitializeResult": initialize,
        **{
            f"List{kind}Result": page
            for kind in ("Tools", "Resources", "ResourceTemplates", "Prompts", "Tasks")
        },
        "ReadResourceResult": read,
        "CallToolResult": tool,
        "GetPromptResult": prompt,
        "CompleteResult": completion,
        "CreateMessageResult": sampled,
        "notifications/resources/updated": opened,
        "prompts/get": opened,
        "notifications/message": message,
    },
    errors=column(lambda row: row.erlmcp),
    messages=MESSAGES,
    error_data={
        **reasons(),
        "invalid_params": details,
        "tool_execution_failed": reason,
        "tool_not_found": tool_id,
    },
    methods=frozenset(("shutdown", "tasks/create")),
    older=TASK_NOTIFICATIONS,  # "Task Status, sent when: task status changes", of every task that `tasks/create` made
    limits=Limits(max_message_bytes=16 << 20),
    timeouts=Timeouts(connect=30.0, idle=None, total=5.0),
    config_keys={
        "tcp_message_size_limit": ("tcp", _BOTH_WAYS),
        "http_body_size_limit": ("http", _BOTH_WAYS),
        "ws_message_size_limit": ("http", ("max_websocket_message_bytes",)),
        "sse_event_size_limit": ("http", ("max_event_bytes",)),
        "stdio_message_size_limit": ("stdio", _BOTH_WAYS),
    },
    limits_both_ways=True,
    batches_on_legacy=True,
    null_error_id=True,
    tool_failure_as_error=True,
    intersect_capabilities=True,
    refuse_page_size=True,
    subscription_failures=True,
    initialized_first=True,
    long_description_is_error=True,
    system_role=True,
)
