"""Check messages against the official schema of their revision.

The structure of the schemas is kept in ``tests/schemas`` (``scripts/schemas.py`` writes it), so that every message
is checked wherever the tests run. ``$DOVETAIL_SCHEMAS`` names another folder to read instead. Known defects of
the files are fixed in memory (`schema_patches`).
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs
import msgspec

from .schema_patches import EXTENSION_RESULTS, patched

FOLDER = Path(os.environ.get("DOVETAIL_SCHEMAS") or Path(__file__).resolve().parents[1] / "schemas")
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

Kind = Literal["request", "notification", "result", "error"]

# Errors whose data a definition of their own describes.
ERRORS = {
    ("2025-11-25", -32042): "URLElicitationRequiredError",
    ("2026-07-28", -32020): "HeaderMismatchError",
    ("2026-07-28", -32021): "MissingRequiredClientCapabilityError",
    ("2026-07-28", -32022): "UnsupportedProtocolVersionError",
}

# One definition in 2026-07-28, for there is only one notification a client may send.
UNIONS = ("ClientNotification",)

TASKABLE = ("tools/call", "sampling/createMessage", "elicitation/create")


@cache
def schema(revision: str) -> dict[str, Any]:
    """Return the schema of ``revision`` with its known defects fixed."""
    return patched(revision, json.loads((FOLDER / f"{revision}.json").read_bytes()))


def _root(revision: str) -> str:
    return "$defs" if "$defs" in schema(revision) else "definitions"


def definitions(revision: str) -> dict[str, Any]:
    return schema(revision)[_root(revision)]


def _refuse(uri: str) -> Any:
    raise AssertionError(f"a schema wants to fetch {uri}")


@cache
def _validator(revision: str, name: str) -> Any:
    root = _root(revision)
    document = {root: definitions(revision), "$ref": f"#/{root}/{name}"}
    kind = jsonschema_rs.Draft202012Validator if root == "$defs" else jsonschema_rs.Draft7Validator
    return kind(document, retriever=_refuse)


def validate_definition(value: Any, revision: str, name: str) -> None:
    """Check ``value`` (plain data or JSON bytes) against one definition, such as ``CallToolResult``."""
    value = _plain(value)
    if name not in definitions(revision):
        raise AssertionError(f"{revision} has no definition {name}")
    faults = [_readable(error) for error in _validator(revision, name).iter_errors(value)]
    if faults:
        raise AssertionError(
            f"not a {name} of {revision}:\n  "
            + "\n  ".join(faults)
            + f"\nin {json.dumps(value, ensure_ascii=False)[:2000]}"
        )


def _readable(error: Any) -> str:
    path = "/".join(str(step) for step in error.instance_path)
    return f"at /{path}: {str(error.message)[:300]}"


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview | msgspec.Raw):
        return json.loads(bytes(value))
    if isinstance(value, msgspec.Struct):
        return json.loads(msgspec.json.encode(value))
    return value


@cache
def _methods(revision: str, ending: str) -> dict[str, str]:
    """Map the methods of a revision to the definitions of their requests or notifications."""
    found: dict[str, str] = {}
    framed = _root(revision) == "$defs"
    for name, definition in definitions(revision).items():
        properties = definition.get("properties", {})
        method = name not in UNIONS and properties.get("method", {}).get("const")
        # Since 2025-11-25 a definition that lacks the frame is embedded in another and never sent alone.
        if name.endswith(ending) and method and ("jsonrpc" in properties or not framed):
            found[method] = name
    return found


@cache
def _official_methods() -> frozenset[str]:
    return frozenset(
        method
        for revision in REVISIONS
        for ending in ("Request", "Notification")
        for method in _methods(revision, ending)
    )


def kind_of(message: dict[str, Any]) -> Kind:
    """Tell what a message is by the members it has."""
    if "error" in message:
        return "error"
    if "result" in message:
        return "result"
    return "request" if "id" in message else "notification"


def validate(message: Any, revision: Any, *, method: str | None = None, kind: Kind | None = None) -> None:
    """Check one JSON-RPC message, or a batch, as ``revision`` defines it.

    ``message`` is bytes or plain data; ``revision`` its name or anything with a ``name``. Give ``method``,
    the one that was asked, to have a result checked against its own definition. ``kind`` demands a kind.

    Raises:
        AssertionError: saying what is wrong and where.
    """
    revision = str(getattr(revision, "name", revision))
    message = _plain(message)
    if isinstance(message, list):
        assert revision == "2025-03-26", f"{revision} has no batches"
        assert message, "an empty batch"
        for entry in message:
            validate(entry, revision, kind=kind)
        return
    assert isinstance(message, dict), f"a message is an object, not {message!r}"
    found = kind_of(message)
    assert kind in (None, found), f"expected a {kind}, got a {found}: {message!r}"
    _CHECKS[found](message, revision, method)


def _check_call(message: dict[str, Any], revision: str, method: str | None, ending: str) -> None:
    name = message.get("method")
    assert method in (None, name), f"expected {method}, got {name}"
    validate_definition(message, revision, f"JSONRPC{ending}")
    definition = _methods(revision, ending).get(str(name))
    if definition is not None:
        validate_definition(message, revision, definition)
        return
    extension = (revision, name) in EXTENSION_RESULTS or name not in _official_methods()
    assert extension, f"{revision} has no {ending.lower()} {name}"
    if revision == "2026-07-28" and ending == "Request":
        validate_definition(message.get("params"), revision, "RequestParams")


def _check_request(message: dict[str, Any], revision: str, method: str | None) -> None:
    _check_call(message, revision, method, "Request")


def _check_notification(message: dict[str, Any], revision: str, method: str | None) -> None:
    _check_call(message, revision, method, "Notification")


def _check_result(message: dict[str, Any], revision: str, method: str | None) -> None:
    frame = "JSONRPCResultResponse" if _root(revision) == "$defs" else "JSONRPCResponse"
    validate_definition(message, revision, frame)
    if method is not None:
        validate_result(message["result"], revision, method)


def result_definition(revision: str, method: str, result: dict[str, Any]) -> str:
    """Name the definition that ``result`` must follow as an answer to ``method``."""
    kind = result.get("resultType")
    if kind == "input_required" and method in ("tools/call", "prompts/get", "resources/read"):
        return "InputRequiredResult"
    if kind == "task" and method == "tools/call":
        return "ExtensionCreateTaskResult"
    if revision == "2025-11-25" and method in TASKABLE and "task" in result:
        return "CreateTaskResult"
    if (revision, method) in EXTENSION_RESULTS:
        return EXTENSION_RESULTS[revision, method]
    request = _methods(revision, "Request").get(method)
    if request is None:
        assert method not in _official_methods(), f"{revision} has no request {method}"
        return "Result"
    name = request.removesuffix("Request") + "Result"
    return name if name in definitions(revision) else "EmptyResult"


def validate_result(result: Any, revision: Any, method: str) -> None:
    """Check the member ``result`` of an answer to ``method``."""
    revision = str(getattr(revision, "name", revision))
    result = _plain(result)
    validate_definition(result, revision, result_definition(revision, method, result))


def _check_error(message: dict[str, Any], revision: str, method: str | None) -> None:
    frame = "JSONRPCErrorResponse" if _root(revision) == "$defs" else "JSONRPCError"
    validate_definition(message, revision, ERRORS.get((revision, message["error"].get("code")), frame))


_CHECKS = {
    "request": _check_request,
    "notification": _check_notification,
    "result": _check_result,
    "error": _check_error,
}
