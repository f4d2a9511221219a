"""Names, absence, openness: what all definitions promise."""

from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from msgspec import UNSET, Raw, Struct

from dovetail import model
from dovetail.model import ElicitRequestParams
from tests.support.schema_patches import EXTENSIONS
from tests.support.schemas import REVISIONS, definitions

# Definitions that are no types of ours: JSON-RPC frames and what is only a union or a part of them.
FRAMES = ("JSONRPC", "JSON", "Client", "Server")
NOT_OURS = {
    "Request",
    "Notification",
    "PaginatedRequest",
    "ResultType",  # a string
    "MetaObject",  # open dicts
    "RequestMetaObject",
    "NotificationMetaObject",
    "ResultMetaObject",
    "SubscriptionsListenResultMetaObject",
    "BaseMetadata",  # members that others inherit
    "Icons",
    "Annotated",
    "TaskAugmentedRequestParams",
    "PrimitiveSchemaDefinition",  # forms and their fields travel as plain dicts
    "StringSchema",
    "NumberSchema",
    "BooleanSchema",
    "EnumSchema",
    "SingleSelectEnumSchema",
    "UntitledSingleSelectEnumSchema",
    "TitledSingleSelectEnumSchema",
    "MultiSelectEnumSchema",
    "UntitledMultiSelectEnumSchema",
    "TitledMultiSelectEnumSchema",
    "LegacyTitledEnumSchema",
}
DICTS = {"Annotations", "ToolAnnotations", "ClientCapabilities", "ServerCapabilities"}


def is_frame(name: str, definition: dict[str, Any]) -> bool:
    framed = "jsonrpc" in definition.get("properties", {})
    is_error = "Error" in name and name != "Error"
    named_method = "const" in definition.get("properties", {}).get("method", {})
    return framed or is_error or named_method or (name.startswith(FRAMES) and name not in DICTS)


def ours(revision: str) -> dict[str, Any]:
    return {
        name: definition
        for name, definition in definitions(revision).items()
        if name not in NOT_OURS and name not in EXTENSIONS and not is_frame(name, definition)
    }


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_official_definition_has_a_type_of_its_name(revision: str) -> None:
    assert [name for name in ours(revision) if not hasattr(model, name)] == []


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_official_member_has_a_field(revision: str) -> None:
    missing: list[str] = []
    for name, definition in ours(revision).items():
        kind = getattr(model, name, None)
        if not (isinstance(kind, type) and issubclass(kind, Struct)):
            continue
        tag = kind.__struct_config__.tag_field
        known = {*kind.__struct_encode_fields__, tag}
        missing += [f"{name}.{member}" for member in definition.get("properties", {}) if member not in known]
    assert missing == []


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_we_require_is_required_by_every_revision(revision: str) -> None:
    """A member we insist on but a revision does not would make us refuse valid messages."""
    excessive: list[str] = []
    for name, definition in ours(revision).items():
        kind = getattr(model, name, None)
        if isinstance(kind, type) and issubclass(kind, Struct) and "properties" in definition:
            wanted = {field.encode_name for field in msgspec.structs.fields(kind) if field.required}
            excessive += [f"{name}.{member}" for member in wanted - set(definition.get("required", []))]
    assert excessive == []


def test_the_exported_names_are_pinned() -> None:
    assert len(model.__all__) == len(set(model.__all__))
    assert [name for name in model.__all__ if not hasattr(model, name)] == []
    structs = {
        name
        for name in dir(model)
        if isinstance(getattr(model, name), type) and issubclass(getattr(model, name), Struct)
    }
    assert structs <= set(model.__all__)


def decode(data: bytes, kind: Any) -> Any:
    return msgspec.json.decode(data, type=kind)


OPEN_DICTS = [
    (b'{"type":"text","text":"a","_meta":{"x.y/z":[1,null]}}', model.TextContent),
    (b'{"type":"text","text":"a","annotations":{"priority":1,"shade":{"of":"grey"}}}', model.TextContent),
    (b'{"name":"a","inputSchema":{"type":"object"},"annotations":{"costHint":0.5}}', model.Tool),
    (b'{"protocolVersion":"v","capabilities":{"new":{"a":null}},"clientInfo":{"name":"a","version":"1"}}',
     model.InitializeRequestParams),
    (b'{"supportedVersions":[],"capabilities":{"tools":{"new":1},"x":{}}}', model.DiscoverResult),
    (b'{"_meta":{"traceparent":"00-1","io.modelcontextprotocol/logLevel":"x"}}', model.RequestParams),
]  # fmt: skip


@pytest.mark.parametrize(("data", "kind"), OPEN_DICTS)
def test_unknown_keys_in_open_dicts_survive(data: bytes, kind: Any) -> None:
    assert decode(msgspec.json.encode(decode(data, kind)), Any) == decode(data, Any)


def test_every_keyword_of_a_tool_schema_survives_in_order() -> None:
    schema = (
        b'{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"a":{"$anchor":"b"}},'
        b'"properties":{"x":{"$ref":"#/$defs/a","x-mcp-header":"X"}},"if":{"required":["x"]},"then":false,'
        b'"additionalProperties":false,"default":null}'
    )
    tool = decode(b'{"name":"t","inputSchema":' + schema + b',"outputSchema":' + schema + b"}", model.Tool)
    assert msgspec.json.encode(tool.input_schema) == schema
    assert msgspec.json.encode(tool.output_schema) == schema


def test_null_and_absent_structured_content_are_different() -> None:
    absent = model.CallToolResult([])
    null = model.CallToolResult([], structured_content=None)
    assert msgspec.json.encode(absent) == b'{"content":[]}'
    assert msgspec.json.encode(null) == b'{"content":[],"structuredContent":null}'
    assert decode(b'{"content":[]}', model.CallToolResult).structured_content is UNSET
    assert decode(b'{"content":[],"structuredContent":null}', model.CallToolResult).structured_content is None


def test_false_that_was_said_is_not_absence() -> None:
    data = b'{"content":[],"isError":false}'
    assert msgspec.json.encode(decode(data, model.CallToolResult)) == data


def test_null_is_refused_where_the_specification_has_no_null() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.description"):
        decode(b'{"name":"a","description":null}', model.Prompt)


def test_a_ttl_of_null_is_a_value() -> None:
    task = model.Task("1", "working", "2025-11-25T00:00:00Z", "2025-11-25T00:00:00Z", None)
    assert decode(msgspec.json.encode(task), Any)["ttl"] is None


def test_integers_stay_integers_where_numbers_are_allowed() -> None:
    data = b'{"progressToken":"t","progress":50,"total":100.5}'
    assert msgspec.json.encode(decode(data, model.ProgressNotificationParams)) == data


OPEN_STRINGS = [
    (b'{"role":"assistant","content":{"type":"text","text":""},"model":"m","stopReason":"tired"}',
     model.CreateMessageResult),
    (b'{"role":"system","content":{"type":"text","text":""}}', model.PromptMessage),
    (b'{"resultType":"unheard_of"}', model.Result),
]  # fmt: skip


@pytest.mark.parametrize(("data", "kind"), OPEN_STRINGS)
def test_open_enumerations_accept_new_values(data: bytes, kind: Any) -> None:
    assert msgspec.json.encode(decode(data, kind)) == data


CLOSED = [
    (b'{"level":"loud"}', model.SetLevelRequestParams),
    (b'{"action":"maybe"}', model.ElicitResult),
    (b'{"tools":[],"cacheScope":"everyone"}', model.ListToolsResult),
    (b'{"type":"hologram"}', model.ContentBlock),
    (b'{"message":"?","mode":"telepathy"}', model.ElicitRequestParams),
    (b'{"content":[{"type":"tool_use","id":"1","name":"n","input":{}}]}', model.CallToolResult),
]


@pytest.mark.parametrize(("data", "kind"), CLOSED)
def test_closed_enumerations_refuse_other_values(data: bytes, kind: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(data, kind)


def test_arguments_and_answers_stay_raw() -> None:
    data = b'{"name":"t","arguments":{"big": 1e400 , "x":[1 ]},"inputResponses":{"k":null}}'
    params = decode(data, model.CallToolRequestParams)
    assert bytes(params.arguments) == b'{"big": 1e400 , "x":[1 ]}'
    assert isinstance(params.input_responses["k"], Raw)
    assert msgspec.json.encode(params) == data


def test_results_that_are_no_answer_say_so_by_themselves() -> None:
    question = model.InputRequiredResult(request_state="s")
    assert msgspec.json.encode(question) == b'{"resultType":"input_required","requestState":"s"}'
    created = model.ExtensionCreateTaskResult("1", "working", "now", "now", 1000)
    assert decode(msgspec.json.encode(created), Any)["resultType"] == "task"
    detailed = model.DetailedTask("1", "working", "now", "now", None)
    assert "resultType" not in decode(msgspec.json.encode(detailed), Any)


def test_an_input_request_needs_the_capability_of_its_mode() -> None:
    assert ElicitRequestParams.form("?", {"type": "object", "properties": {}}).mode is UNSET
    assert ElicitRequestParams.for_url("?", "https://example.com").url == "https://example.com"
    with pytest.raises(ValueError, match="requestedSchema"):
        ElicitRequestParams("?")
    with pytest.raises(msgspec.ValidationError, match="requires `url`"):
        decode(b'{"message":"?","mode":"url"}', model.ElicitRequestParams)


def test_the_structs_of_a_tool_call_run_no_python_code_when_built() -> None:
    for kind in (model.TextContent, model.CallToolResult, model.CallToolRequestParams):
        assert not hasattr(kind, "__post_init__")


def test_only_structs_without_containers_escape_the_garbage_collector() -> None:
    plain = {str, int, float, bool, type(None), msgspec.UnsetType}
    for name in model.__all__:
        kind = getattr(model, name)
        if isinstance(kind, type) and issubclass(kind, Struct) and not kind.__struct_config__.gc:
            for field in msgspec.structs.fields(kind):
                kinds = getattr(field.type, "__args__", (field.type,))
                words = {kind for kind in kinds if get_origin(kind) is Literal}
                assert set(kinds) - words <= plain, f"{name}.{field.name}"


@pytest.mark.parametrize(
    "kind",
    dict.fromkeys(get_args(model.ContentBlock | model.SamplingMessageContentBlock)),
    ids=lambda kind: kind.__name__,
)
def test_a_block_says_its_type_as_the_wire_does(kind: Any) -> None:
    assert kind.type == kind.__struct_config__.tag
