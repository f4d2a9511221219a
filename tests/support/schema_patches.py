"""What the official schema files get wrong or leave to the text, fixed in memory.

Each patch takes the definitions of one revision and edits them. The extensions have no schema file; the
definitions here follow their texts.
"""

from collections.abc import Callable
from typing import Any

Definitions = dict[str, Any]


def _json_value(definitions: Definitions) -> None:
    # The file allows neither floats nor null, the TypeScript source allows both.
    definitions["JSONValue"] = {
        "anyOf": [
            {"type": ["string", "number", "boolean", "null"]},
            {"type": "array", "items": {"$ref": "#/$defs/JSONValue"}},
            {"$ref": "#/$defs/JSONObject"},
        ]
    }


def _elicited_numbers(definitions: Definitions) -> None:
    # ``integer`` in the file, ``number`` in the TypeScript source.
    definitions["ElicitResult"]["properties"]["content"] = {
        "type": "object",
        "additionalProperties": {
            "anyOf": [
                {"type": ["string", "number", "boolean"]},
                {"type": "array", "items": {"type": "string"}},
            ]
        },
    }


def _elicited_numbers_without_lists(definitions: Definitions) -> None:
    definitions["ElicitResult"]["properties"]["content"] = {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    }


def _cancelled_names_a_request(definitions: Definitions) -> None:
    # Optional in 2025-11-25 alone; a cancellation of nothing means nothing.
    definitions["CancelledNotificationParams"]["required"] = ["requestId"]


def _null_error_id(definitions: Definitions) -> None:
    # Until 2025-06-18 the schema cannot express an error for an unreadable request; JSON-RPC's form is null.
    definitions["JSONRPCError"]["properties"]["id"] = {"type": ["string", "integer", "null"]}


def _input_required_asks_something(definitions: Definitions) -> None:
    definition = definitions["InputRequiredResult"]
    definition["properties"]["resultType"] = {"const": "input_required"}
    definition["anyOf"] = [{"required": ["inputRequests"]}, {"required": ["requestState"]}]


def _complete_results_say_so(definitions: Definitions) -> None:
    # The text: a result of a method's own type is ``complete``.
    for name, definition in definitions.items():
        if name.endswith("Result") and name not in ("Result", "InputRequiredResult"):
            properties = definition.get("properties", {})
            if "resultType" in properties:
                properties["resultType"] = {"const": "complete"}


def _closed(required: list[str], properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, **more}


_TASK = {
    "_meta": {"$ref": "#/$defs/ResultMetaObject"},
    "taskId": {"type": "string"},
    "status": {"enum": ["working", "input_required", "completed", "failed", "cancelled"]},
    "statusMessage": {"type": "string"},
    "createdAt": {"type": "string"},
    "lastUpdatedAt": {"type": "string"},
    "ttlMs": {"type": ["integer", "null"]},
    "pollIntervalMs": {"type": "integer"},
    # Names of 2025-11-25 that the extension must never send.
    "ttl": False,
    "pollInterval": False,
    "requestState": False,
}
_TASK_REQUIRED = ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"]
_CACHEABLE = {
    "_meta": {"$ref": "#/$defs/ResultMetaObject"},
    "resultType": {"const": "complete"},
    "ttlMs": {"type": "integer", "minimum": 0},
    "cacheScope": {"enum": ["public", "private"]},
}
_SKILL = _closed(
    ["uri", "frontmatter", "resources"],
    {
        "uri": {"type": "string", "pattern": "/SKILL\\.md$"},
        "frontmatter": _closed(
            ["name", "description"], {"name": {"type": "string"}, "description": {"type": "string"}}
        ),
        "resources": {
            "anyOf": [
                {"const": "dynamic"},
                {
                    "type": "array",
                    "items": _closed(
                        ["uri", "digest", "size"],
                        {
                            "uri": {"type": "string"},
                            "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
                            "size": {"type": "integer", "minimum": 0},
                        },
                    ),
                },
            ]
        },
    },
)

EXTENSIONS: Definitions = {
    "ExtensionCreateTaskResult": _closed(
        [*_TASK_REQUIRED, "resultType"], {**_TASK, "resultType": {"const": "task"}}
    ),
    "ExtensionGetTaskResult": _closed(
        [*_TASK_REQUIRED, "resultType"],
        {
            **_TASK,
            "resultType": {"const": "complete"},
            "inputRequests": {"$ref": "#/$defs/InputRequests"},
            "result": {"type": "object"},
            "error": {"$ref": "#/$defs/Error"},
        },
        allOf=[
            {
                "if": {"properties": {"status": {"const": status}}},
                "then": {"required": [member]},
                "else": {"properties": {member: False}},
            }
            for status, member in (
                ("input_required", "inputRequests"),
                ("completed", "result"),
                ("failed", "error"),
            )
        ],
    ),
    "ListSkillsResult": _closed(
        ["skills", "resultType", "ttlMs", "cacheScope"],
        {**_CACHEABLE, "skills": {"type": "array", "items": _SKILL}, "nextCursor": {"type": "string"}},
    ),
    "GetSkillResult": _closed(
        ["skill", "resultType", "ttlMs", "cacheScope"], {**_CACHEABLE, "skill": _SKILL, "nextCursor": False}
    ),
    "ReadDirectoryResult": _closed(
        ["resources", "resultType"],
        {
            **_CACHEABLE,
            "resources": {"type": "array", "items": {"$ref": "#/$defs/Resource"}},
            "nextCursor": {"type": "string"},
        },
    ),
}

EXTENSION_RESULTS: dict[tuple[str, str], str] = {
    ("2026-07-28", "tasks/get"): "ExtensionGetTaskResult",
    ("2026-07-28", "tasks/update"): "EmptyResult",
    ("2026-07-28", "tasks/cancel"): "EmptyResult",
    ("2026-07-28", "skills/list"): "ListSkillsResult",
    ("2026-07-28", "skills/get"): "GetSkillResult",
    ("2026-07-28", "resources/directory/read"): "ReadDirectoryResult",
}

PATCHES: dict[str, tuple[Callable[[Definitions], None], ...]] = {
    "2024-11-05": (_null_error_id,),
    "2025-03-26": (_null_error_id,),
    "2025-06-18": (_null_error_id, _elicited_numbers_without_lists),
    "2025-11-25": (_elicited_numbers, _cancelled_names_a_request),
    "2026-07-28": (
        _json_value,
        _elicited_numbers,
        _input_required_asks_something,
        _complete_results_say_so,
        lambda definitions: definitions.update(EXTENSIONS),
    ),
}


def patched(revision: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Fix ``schema`` in place and return it."""
    for patch in PATCHES[revision]:
        patch(schema["$defs"] if "$defs" in schema else schema["definitions"])
    return schema
