"""Aliases: unambiguous alternative spellings that are accepted in every dialect.

Accepting an alias never changes what is sent. The tables are keyed by method. Each edit converts one spelling
of erlmcp, the Elixir client or MiniMCP to the official one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from ...model import ModelPreferences, ServerCapabilities
from ...shapes import Object, is_list, is_object
from .contents import block, blocks, contents, definition, iso_time, linked_contents, objects, rename
from .dialect import Alias, extra

METHODS: dict[str, str] = {
    "initialized": "notifications/initialized",
    "progress": "notifications/progress",
    "resources/updated": "notifications/resources/updated",
    "resources/list_changed": "notifications/resources/list_changed",
    "tools/list_changed": "notifications/tools/list_changed",
    "prompts/list_changed": "notifications/prompts/list_changed",
    "roots/list_changed": "notifications/roots/list_changed",
}

REFERENCES = {"tool": "ref/tool", "prompt": "ref/prompt", "resource": "ref/resource"}
CONTEXTS = {"this_request": "none", "this_server": "thisServer", "all_servers": "allServers"}
STOP_REASONS = {
    "end_turn": "endTurn",
    "max_tokens": "maxTokens",
    "stop_sequence": "stopSequence",
    "tool_use": "toolUse",
}
STATUSES = {"pending": "working", "processing": "working"}
PRIORITIES = ("costPriority", "speedPriority", "intelligencePriority")
TASK_MANAGEMENT = "task_management"
"""Name of the experimental feature that announces tasks."""
UNKNOWN_TIME = "1970-01-01T00:00:00Z"


# --- params -------------------------------------------------------------------------------------------------


def progress_token(params: Object) -> None:
    """Move ``params.progressToken`` to ``_meta``, unless it is there already."""
    if "progressToken" in params:
        token = params.pop("progressToken")
        meta = params.setdefault("_meta", {})
        if is_object(meta):
            meta.setdefault("progressToken", token)


def prompt_preferences(params: Object) -> None:
    """Keep the model preferences in ``prompts/get`` for the handler."""
    preferences = params.pop("modelPreferences", None)
    if is_object(preferences):
        check_temperature(preferences)
        priorities(preferences)
        try:
            msgspec.convert(preferences, ModelPreferences)
        except msgspec.ValidationError as error:
            raise msgspec.ValidationError(f"{error} - at `$.modelPreferences`") from None
        extra(params, "modelPreferences", preferences)


def completion_params(params: Object) -> None:
    rename(params, "reference", "ref")
    reference = params.get("ref")
    if is_object(reference):
        kind = reference.get("type")
        if isinstance(kind, str):
            reference["type"] = REFERENCES.get(kind, kind)
        if reference.get("type") == "ref/resource":
            rename(reference, "name", "uri")
    argument = params.get("argument")
    if isinstance(argument, str):
        params["argument"] = {"name": argument, "value": ""}


def check_temperature(preferences: Object) -> None:
    """Check the range of document 000: 0.0 to 2.0. Raises: msgspec.ValidationError."""
    value = preferences.get("temperature")
    if value is not None and (not isinstance(value, int | float) or not 0 <= value <= 2):
        raise msgspec.ValidationError(
            "Expected a number from 0.0 to 2.0 - at `$.modelPreferences.temperature`"
        )


def priorities(preferences: Object) -> None:
    """Convert priorities given as words to numbers; unknown words become 0.5 with a hint."""
    for name in PRIORITIES:
        word = preferences.get(name)
        if isinstance(word, str):
            preferences[name] = 0.5
            if word != "balanced":
                hints = preferences.setdefault("hints", [])
                if is_list(hints):
                    hints.append({"name": word})


def sampling_params(params: Object) -> None:
    preferences = params.get("modelPreferences")
    if is_object(preferences):
        check_temperature(preferences)
        for name in ("temperature", "maxTokens", "stopSequences"):
            if name in preferences:
                params.setdefault(name, preferences.pop(name))
        priorities(preferences)
    if "includedContext" in params:
        context = params.pop("includedContext")
        if isinstance(context, str):
            params.setdefault("includeContext", CONTEXTS.get(context, context))
    for message in objects(params.get("messages")):
        blocks(message, "content")


def chat_message(params: Object) -> None:
    """Convert a chat message to a log message: level info, the content as its data."""
    if "level" not in params and "content" in params:
        params["level"] = "info"
        params["data"] = params.pop("content")
        if "role" in params:
            extra(params, "role", params.pop("role"))


def update_metadata(params: Object) -> None:
    if "metadata" in params:
        extra(params, "metadata", params.pop("metadata"))


# --- results ------------------------------------------------------------------------------------------------


def page(result: Object) -> None:
    rename(result, "cursor", "nextCursor")
    for name in ("resources", "resourceTemplates", "tools", "prompts"):
        for entry in objects(result.get(name)):
            definition(entry)
            rename(entry, "uri_template", "uriTemplate")
            if name == "tools":
                rename(entry, "input_schema", "inputSchema")
                if entry.get("inputSchema") is None:
                    entry["inputSchema"] = {"type": "object"}
            elif name == "prompts":
                for schema in ("input_schema", "inputSchema"):
                    if schema in entry:
                        extra(entry, "inputSchema", entry.pop(schema))


def read_result(result: Object) -> None:
    for entry in objects(result.get("contents")):
        if linked_contents(entry):
            continue
        kind = entry.pop("type", None)
        contents(entry)
        if isinstance(kind, str) and kind not in ("text", "blob"):
            extra(entry, "type", kind)


def tool_result(result: Object) -> None:
    blocks(result, "content")


def prompt_result(result: Object) -> None:
    """Convert a bare string to a text block. Annotations of the message move to its content."""
    for message in objects(result.get("messages")):
        bare = isinstance(message.get("content"), str)
        content = message["content"] = block(message.get("content"))
        if is_object(content):
            if "annotations" in message:
                content.setdefault("annotations", message.pop("annotations"))
            if bare:
                extra(content, "bare", True)


def completion_result(result: Object) -> None:
    """Convert ``{completions: [{value, label}], hasMore, total}``; the labels are preserved in ``_meta``."""
    if "completions" not in result:
        return
    offered = result.pop("completions")
    labels = [entry.get("label") for entry in objects(offered)]
    if any(labels):
        extra(result, "labels", labels)
    if "completion" in result:
        return
    values = [entry.get("value") for entry in objects(offered)]
    if is_list(offered) and not values:
        values = [value for value in offered if isinstance(value, str)]
    completion: Object = {"values": values}
    for name in ("total", "hasMore"):
        if name in result:
            completion[name] = result.pop(name)
    result["completion"] = completion


def sampling_result(result: Object) -> None:
    result.setdefault("role", "assistant")
    reason = result.get("stopReason")
    if isinstance(reason, str):
        result["stopReason"] = STOP_REASONS.get(reason, reason)
    blocks(result, "content")


def task(members: Object) -> None:
    """Convert an erlmcp task to the form of 2025-11-25."""
    status = members.get("status")
    if isinstance(status, str):
        members["status"] = STATUSES.get(status, status)
    rename(members, "updatedAt", "lastUpdatedAt")
    created, expires = members.get("createdAt"), members.pop("expiresAt", None)
    lasting = expires - created if isinstance(created, int) and isinstance(expires, int) else None
    members.setdefault("ttl", lasting)
    for name in ("createdAt", "lastUpdatedAt"):
        moment = members.setdefault(name, UNKNOWN_TIME)
        members[name] = iso_time(moment) or moment
    rename(members, "timeoutMs", "timeout")
    for name in ("action", "result", "error", "metadata", "progress", "total", "timeout"):
        if name in members:
            extra(members, name, members.pop(name))


def task_result(result: Object) -> None:
    """Flatten ``{task: {…}}``."""
    inner = result.get("task")
    if is_object(inner):
        del result["task"]
        for name, value in inner.items():
            result.setdefault(name, value)
    task(result)


def cancel_result(result: Object) -> None:
    """``{}`` means that the task was cancelled; the client knows its id."""
    task_result(result)
    result.setdefault("taskId", "")
    result.setdefault("status", "cancelled")


def task_page(result: Object) -> None:
    rename(result, "cursor", "nextCursor")
    for entry in objects(result.get("tasks")):
        task(entry)


def task_payload(result: Object) -> None:
    """Unwrap ``{result: {…}}``. A value that is not a tool result becomes the data of one."""
    if "result" not in result or "content" in result:
        return
    data: Any = result.pop("result")
    payload: Object = data if is_object(data) else {}
    if "content" not in payload:
        text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
        payload = {"content": [{"type": "text", "text": text}], "structuredContent": data}
    for name, value in payload.items():
        result.setdefault(name, value)


def initialized(result: Object) -> None:
    """If ``experimental.features`` lists ``task_management``, the server has tasks, created by
    ``tasks/create``."""
    offered: Any = result.get("capabilities")
    if not is_object(offered):
        return
    capabilities = ServerCapabilities(offered)
    features: Any = (capabilities.experimental or {}).get("features")
    if is_list(features) and TASK_MANAGEMENT in features:
        offered["tasks"] = {"list": {}, "cancel": {}, **(capabilities.tasks or {}), "create": {}}


# --- tables -------------------------------------------------------------------------------------------------


class _Outermost(Struct, rename="camel"):
    progress_token: Any = UNSET


_read_outermost = msgspec.json.Decoder(_Outermost).decode


def _token_is_outermost(raw: bytes) -> bool:
    """Officially the token is in ``_meta``, where rewriting the params would change nothing."""
    return _read_outermost(raw).progress_token is not UNSET


_TOKEN = Alias(progress_token, (b'"progressToken"',), probe=_token_is_outermost)


def _at(edit: Callable[[Object], None], *names: str) -> tuple[Alias, ...]:
    """Aliases that run if any of these names occurs."""
    return tuple(Alias(edit, (f'"{name}"'.encode(),)) for name in names)


def _blocks(edit: Callable[[Object], None], *names: str) -> tuple[Alias, ...]:
    """The same for content, which includes texts with a media type and texts that are links."""
    return (Alias(edit, (b'"mimeType"', b'"text"')), Alias(edit, (b'"resource_link":',)), *_at(edit, *names))


_PAGE = (
    *_at(
        page, "cursor", "mime_type", "metadata", "lastModified", "deprecated", "experimental", "input_schema"
    ),
    # Modern results contain the server info, and with it a version, on every page.
    Alias(page, (b'"version"',), unless=b'"io.modelcontextprotocol/serverInfo"'),
)

PARAMS: dict[str, tuple[Alias, ...]] = {
    "tools/call": (_TOKEN,),
    "resources/read": (_TOKEN,),
    "prompts/get": (_TOKEN, *_at(prompt_preferences, "modelPreferences")),
    "completion/complete": (Alias(completion_params), _TOKEN),
    "sampling/createMessage": _at(sampling_params, "modelPreferences", "includedContext"),
    "notifications/message": (Alias(chat_message),),
    "notifications/resources/updated": _at(update_metadata, "metadata"),
    "notifications/tasks/status": (Alias(task),),
}

RESULTS: dict[str, tuple[Alias, ...]] = {
    "initialize": _at(initialized, TASK_MANAGEMENT),
    "tools/call": _blocks(tool_result, "mime_type"),
    "tools/list": _PAGE,
    "resources/list": _PAGE,
    "resources/templates/list": _PAGE,
    "prompts/list": _PAGE,
    "prompts/get": _blocks(prompt_result, "annotations"),
    "resources/read": _at(read_result, "data", "type", "mime_type"),
    "completion/complete": _at(completion_result, "completions"),
    "sampling/createMessage": _at(sampling_result, *STOP_REASONS),
    "tasks/get": (Alias(task_result),),
    "tasks/cancel": (Alias(cancel_result),),
    "tasks/list": _at(task_page, "cursor"),
    "tasks/result": _at(task_payload, "result"),
}
