"""The sieve: one canonical value as each revision knows it."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from dovetail import model as m
from dovetail.errors import LocalProtocolError
from dovetail.wire.codec import codec_for
from dovetail.wire.edits.schema_edits import with_object_schema
from dovetail.wire.revisions import R1, R2, R3, R4, R5, REVISIONS, Revision
from tests.support.schemas import validate

ICON = m.Icon("https://example.com/a.png")
TOOL = m.Tool(
    "a",
    {"type": "object"},
    title="A",
    description="d",
    icons=[ICON],
    meta={"k": 1},
    output_schema={"type": "array", "items": {"type": "integer"}},
    annotations={"readOnlyHint": True},
    execution=m.ToolExecution("optional"),
)


def listed(revision: Revision) -> dict[str, Any]:
    message = codec_for(revision).encode_result(1, m.ListToolsResult([TOOL]))
    validate(message, revision, method="tools/list")
    return json.loads(message)["result"]["tools"][0]


def called(revision: Revision, result: m.CallToolResult) -> dict[str, Any]:
    message = codec_for(revision).encode_result(1, result)
    validate(message, revision, method="tools/call")
    return json.loads(message)["result"]


@pytest.mark.parametrize(
    ("revision", "members"),
    [
        (R1, {"name", "inputSchema", "description"}),
        (R2, {"name", "inputSchema", "description", "annotations"}),
        (R3, {"name", "inputSchema", "description", "annotations", "title", "_meta", "outputSchema"}),
        (
            R4,
            {
                "name",
                "inputSchema",
                "description",
                "annotations",
                "title",
                "_meta",
                "outputSchema",
                "icons",
                "execution",
            },
        ),
        (
            R5,
            {"name", "inputSchema", "description", "annotations", "title", "_meta", "outputSchema", "icons"},
        ),
    ],
    ids=["R1", "R2", "R3", "R4", "R5"],
)
def test_a_tool_has_the_members_of_its_revision(revision: Revision, members: set[str]) -> None:
    assert set(listed(revision)) == members


def test_nothing_is_changed_in_place() -> None:
    before = msgspec.json.encode(TOOL)
    for revision in REVISIONS:
        listed(revision)
        codec_for(revision).downgrade(TOOL)
    assert msgspec.json.encode(TOOL) == before


def test_a_value_without_edits_is_the_same_object() -> None:
    for value in (
        m.Completion(["a"]),
        m.CompleteResult(m.Completion(["a"])),
        m.CallToolResult([m.TextContent("a")]),
    ):
        for revision in REVISIONS:
            assert codec_for(revision).downgrade(value) is value


def test_before_titles_a_tools_title_is_among_its_annotations() -> None:
    assert listed(R2)["annotations"] == {"title": "A", "readOnlyHint": True}


# --- content -----------------------------------------------------------------------------------------------

BLOCKS: list[m.ContentBlock] = [
    m.TextContent("t", annotations={"lastModified": "2026-01-01T00:00:00Z", "priority": 1}, meta={"k": 1}),
    m.AudioContent("AAAA", "audio/wav", annotations={"audience": ["user"]}),
    m.ResourceLink("file:///a", "a", title="A", size=5),
    m.EmbeddedResource(m.ResourceContents("file:///b", text="x", meta={"k": 1})),
]


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_content_is_valid_everywhere(revision: Revision) -> None:
    called(revision, m.CallToolResult(BLOCKS))
    prompt = m.GetPromptResult([m.PromptMessage("user", block) for block in BLOCKS])
    validate(codec_for(revision).encode_result(1, prompt), revision, method="prompts/get")


def test_audio_becomes_a_resource_on_the_oldest_revision() -> None:
    block = called(R1, m.CallToolResult([BLOCKS[1]]))["content"][0]
    assert block == {
        "type": "resource",
        "resource": {"uri": "embedded:audio", "mimeType": "audio/wav", "blob": "AAAA"},
        "annotations": {"audience": ["user"]},
    }
    assert called(R2, m.CallToolResult([BLOCKS[1]]))["content"][0]["type"] == "audio"


def test_links_become_text_before_2025_06_18() -> None:
    for revision in (R1, R2):
        block = called(revision, m.CallToolResult([BLOCKS[2]]))["content"][0]
        assert block == {"type": "text", "text": "A (file:///a)"}
    assert called(R3, m.CallToolResult([BLOCKS[2]]))["content"][0]["type"] == "resource_link"


def test_metadata_and_late_annotations_stay_away_from_old_blocks() -> None:
    for revision in (R1, R2):
        block = called(revision, m.CallToolResult([BLOCKS[0]]))["content"][0]
        assert block == {"type": "text", "text": "t", "annotations": {"priority": 1}}
    assert "_meta" in called(R3, m.CallToolResult([BLOCKS[0]]))["content"][0]


# --- structured output -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [[1], "x", 5, 1.5, True, None, [], Raw(b" [1]"), (1, 2)])
def test_output_that_is_no_object_is_wrapped_where_objects_are_wanted(value: Any) -> None:
    result = m.CallToolResult([], structured_content=value)
    plain = called(R5, result)["structuredContent"]
    for revision in (R3, R4):
        assert called(revision, result)["structuredContent"] == {"result": plain}
    for revision in (R1, R2):
        assert "structuredContent" not in called(revision, result)


@pytest.mark.parametrize("value", [{"a": 1}, {}, Raw(b' {"a":1}'), m.Completion(["a"])])
def test_output_that_is_an_object_stays_as_it_is(value: Any) -> None:
    result = m.CallToolResult([], structured_content=value)
    assert called(R4, result)["structuredContent"] == called(R5, result)["structuredContent"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object", "properties": {}}, "kept"),
        ({"type": "array"}, "wrapped"),
        ({"type": ["string", "null"]}, "wrapped"),
        ({"enum": ["a", 1]}, "wrapped"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "wrapped"),
        ({"$ref": "#/$defs/L", "$defs": {"L": {"type": "array"}}}, "wrapped"),
        ({"$ref": "#/$defs/O", "$defs": {"O": {"type": "object"}}}, "typed"),
        ({"oneOf": [{"type": "object"}, {"type": "object", "properties": {}}]}, "typed"),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, "dropped"),
        ({"type": ["object", "null"]}, "dropped"),
        ({"enum": [{}, 1]}, "dropped"),
        ({}, "dropped"),
        ({"$ref": "#"}, "dropped"),
        ({"$ref": "https://example.com/x"}, "dropped"),
    ],
    ids=str,
)
def test_the_schema_is_wrapped_exactly_when_every_value_is(schema: dict[str, Any], expected: str) -> None:
    edited = with_object_schema(m.Tool("a", {"type": "object"}, output_schema=schema)).output_schema
    if expected == "dropped":
        assert edited is UNSET
    elif expected == "kept":
        assert edited is schema
    elif expected == "typed":
        assert edited == {**schema, "type": "object"}
    else:
        assert isinstance(edited, dict)
        assert edited["type"] == "object"
        assert edited["required"] == ["result"]


def test_a_schema_nested_without_end_does_not_cost_the_list_of_tools() -> None:
    deep: dict[str, Any] = {"type": "array"}
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    assert with_object_schema(m.Tool("a", {"type": "object"}, output_schema=deep)).output_schema is UNSET


def test_references_inside_a_wrapped_schema_still_find_their_target() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "array",
        "items": {"anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#"}, {"$ref": "#anchor"}]},
        "$defs": {
            "x": {"type": "object", "properties": {"$ref": {"$ref": "#/$defs/x"}}, "default": {"$ref": "#/y"}}
        },
    }
    edited = with_object_schema(m.Tool("a", {"type": "object"}, output_schema=schema)).output_schema
    at = "#/properties/result"
    assert edited == {
        "$schema": schema["$schema"],
        "type": "object",
        "properties": {
            "result": {
                "type": "array",
                "items": {"anyOf": [{"$ref": f"{at}/$defs/x"}, {"$ref": at}, {"$ref": "#anchor"}]},
                "$defs": {
                    "x": {
                        "type": "object",
                        "properties": {"$ref": {"$ref": f"{at}/$defs/x"}},
                        "default": {"$ref": "#/y"},
                    }
                },
            }
        },
        "required": ["result"],
        "x-fastmcp-wrap-result": True,
    }


# --- who is who --------------------------------------------------------------------------------------------

SERVER = {
    "tools": {"listChanged": True},
    "completions": {},
    "tasks": {"list": {}},
    "extensions": {"x/y": {}},
    "acme": {},
}
CLIENT = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {},
    "acme": {},
}
WHO = m.Implementation("n", "1", title="T", description="d", icons=[ICON], website_url="https://example.com")


def greeted(revision: Revision) -> tuple[dict[str, Any], dict[str, Any]]:
    codec = codec_for(revision)
    request = codec.encode_request(
        1, "initialize", m.InitializeRequestParams(revision.name, dict(CLIENT), WHO)
    )
    answer = codec.encode_result(1, m.InitializeResult(revision.name, dict(SERVER), WHO))
    validate(request, revision)
    validate(answer, revision, method="initialize")
    return json.loads(request)["params"], json.loads(answer)["result"]


@pytest.mark.parametrize(
    ("revision", "client", "server", "info"),
    [
        (R1, {"roots", "sampling", "acme"}, {"tools", "extensions", "acme"}, {"name", "version"}),
        (
            R2,
            {"roots", "sampling", "acme"},
            {"tools", "completions", "extensions", "acme"},
            {"name", "version"},
        ),
        (
            R3,
            {"roots", "sampling", "elicitation", "acme"},
            {"tools", "completions", "extensions", "acme"},
            {"name", "version", "title"},
        ),
        (
            R4,
            set(CLIENT),
            set(SERVER),
            {"name", "version", "title", "description", "icons", "websiteUrl"},
        ),
    ],
    ids=["R1", "R2", "R3", "R4"],
)
def test_capabilities_and_names_are_those_of_the_revision(
    revision: Revision, client: set[str], server: set[str], info: set[str]
) -> None:
    params, result = greeted(revision)
    assert set(params["capabilities"]) == client
    assert set(result["capabilities"]) == server
    assert set(params["clientInfo"]) == set(result["serverInfo"]) == info


@pytest.mark.parametrize("revision", [R1, R2, R3, R4, R5], ids=str)
def test_extensions_travel_with_their_settings_on_every_revision(revision: Revision) -> None:
    offered = m.ServerCapabilities(
        extensions={"com.acme/do": {"a": 1}, "io.modelcontextprotocol/ui": {"mimeTypes": ["x/y"]}},
        experimental={"older": {}},
    )
    assert codec_for(revision).downgrade(offered) == offered
    declared = m.ClientCapabilities(extensions=offered["extensions"])
    assert codec_for(revision).downgrade(declared) == declared


def test_members_of_capabilities_go_too() -> None:
    params, _ = greeted(R3)
    assert params["capabilities"]["sampling"] == {}
    assert params["capabilities"]["elicitation"] == {}
    edited = codec_for(R5).downgrade(m.ClientCapabilities(CLIENT))
    assert isinstance(edited, m.ClientCapabilities)
    assert edited["roots"] == {}
    assert "tasks" not in edited
    assert CLIENT["roots"] == {"listChanged": True}


def test_a_client_that_only_opens_urls_cannot_elicit_on_2025_06_18() -> None:
    assert codec_for(R3).downgrade(m.ClientCapabilities({"elicitation": {"url": {}}})) == {}


# --- questions ---------------------------------------------------------------------------------------------


def asked(revision: Revision, params: m.ElicitRequestParams) -> dict[str, Any]:
    message = codec_for(revision).encode_request(1, "elicitation/create", params)
    validate(message, revision)
    return json.loads(message)["params"]


def form(**fields: Any) -> m.ElicitRequestParams:
    return m.ElicitRequestParams.form("q", {"type": "object", "properties": fields})


def test_titled_choices_become_names_on_2025_06_18() -> None:
    params = form(c={"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]})
    field = {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}
    assert asked(R3, params)["requestedSchema"]["properties"]["c"] == field
    assert "oneOf" in asked(R4, params)["requestedSchema"]["properties"]["c"]


def test_defaults_other_than_yes_or_no_are_left_out_on_2025_06_18() -> None:
    params = form(a={"type": "string", "default": "x"}, b={"type": "boolean", "default": True})
    assert asked(R3, params)["requestedSchema"]["properties"] == {
        "a": {"type": "string"},
        "b": {"type": "boolean", "default": True},
    }


def test_a_plain_form_is_sent_as_it_is() -> None:
    params = form(a={"type": "integer"})
    assert codec_for(R3).downgrade(params) is params


@pytest.mark.parametrize(
    "params",
    [
        m.ElicitRequestParams.for_url("q", "https://example.com"),
        form(c={"type": "array", "items": {"type": "string", "enum": ["a"]}}),
    ],
)
def test_input_requests_2025_06_18_cannot_ask_are_refused(params: m.ElicitRequestParams) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        asked(R3, params)
    assert caught.value.kind == "capability_not_supported"


def test_a_url_input_request_gets_a_name_on_2025_11_25() -> None:
    params = m.ElicitRequestParams.for_url("q", "https://example.com")
    assert asked(R4, params)["elicitationId"]
    params.elicitation_id = "mine"
    assert asked(R4, params)["elicitationId"] == "mine"
    assert codec_for(R5).downgrade(params).elicitation_id is UNSET


def sampled(revision: Revision, *messages: m.SamplingMessage, **more: Any) -> list[dict[str, Any]]:
    message = codec_for(revision).encode_request(
        1, "sampling/createMessage", m.CreateMessageRequestParams(list(messages), 10, **more)
    )
    validate(message, revision)
    return json.loads(message)["params"]["messages"]


def test_several_blocks_become_several_messages_before_2025_11_25() -> None:
    blocks = [m.TextContent("a"), m.AudioContent("AAAA", "audio/wav")]
    message = m.SamplingMessage("user", blocks, meta={"k": 1})
    assert [entry["content"]["type"] for entry in sampled(R3, message)] == ["text", "audio"]
    assert [entry["content"] for entry in sampled(R1, message)] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "[audio: audio/wav]"},
    ]
    assert len(sampled(R4, message)) == 1


def test_tools_cannot_be_offered_to_a_model_before_2025_11_25() -> None:
    text = m.SamplingMessage("user", m.TextContent("a"))
    use = m.SamplingMessage("assistant", m.ToolUseContent("1", "a", {}))
    for messages, more in (
        ([text], {"tools": [TOOL]}),
        ([text], {"tool_choice": m.ToolChoice("none")}),
        ([use], {}),
    ):
        with pytest.raises(LocalProtocolError) as caught:
            sampled(R3, *messages, **more)
        assert caught.value.kind == "capability_not_supported"
    assert sampled(R3, text, tools=[])


def test_a_sampling_result_of_several_texts_is_joined() -> None:
    result = m.CreateMessageResult("assistant", [m.TextContent("a"), m.TextContent("b")], "model")
    message = codec_for(R3).encode_result(1, result)
    validate(message, R3, method="sampling/createMessage")
    assert json.loads(message)["result"]["content"] == {"type": "text", "text": "a\nb"}
    single = m.CreateMessageResult("assistant", [m.ImageContent("AAAA", "image/png")], "model")
    assert codec_for(R3).downgrade(single).content == m.ImageContent("AAAA", "image/png")
    with pytest.raises(LocalProtocolError):
        codec_for(R3).downgrade(
            m.CreateMessageResult("assistant", [*single.content, m.TextContent("a")], "model")
        )


def test_results_of_another_era_are_refused() -> None:
    moment = "2026-01-01T00:00:00Z"
    task = m.CreateTaskResult(m.Task("t", "working", moment, moment, None))
    for revision, result in (
        (R4, m.InputRequiredResult(request_state="s")),
        (R4, m.ExtensionCreateTaskResult("t", "working", moment, moment, None)),
        (R5, task),
        (R3, task),
    ):
        with pytest.raises(LocalProtocolError):
            codec_for(revision).encode_result(1, result)
    validate(codec_for(R4).encode_result(1, task), R4, method="tools/call")


def test_members_of_rounds_and_tasks_go_where_they_belong() -> None:
    params = m.CallToolRequestParams("a", request_state="s", input_responses={}, task=m.TaskMetadata())
    assert codec_for(R4).downgrade(params) == m.CallToolRequestParams("a", task=m.TaskMetadata())
    assert codec_for(R3).downgrade(params) == m.CallToolRequestParams("a")
    assert codec_for(R5).downgrade(params).task is UNSET
    assert codec_for(R5).downgrade(params).request_state == "s"


def test_progress_has_no_message_on_the_oldest_revision() -> None:
    params = m.ProgressNotificationParams(1, 0.5, message="half")
    for revision in REVISIONS:
        message = codec_for(revision).encode_notification("notifications/progress", params)
        validate(message, revision)
        assert (b"half" in message) is (revision is not R1)


def test_input_requests_inside_an_input_required_result_are_edited_too() -> None:
    question = m.ElicitRequest(m.ElicitRequestParams.for_url("q", "https://example.com", "id"))
    result = m.InputRequiredResult(input_requests={"a": question})
    message = codec_for(R5).encode_result(1, result)
    validate(message, R5, method="tools/call")
    assert b"elicitationId" not in message
    assert question.params.elicitation_id == "id"


RUNNABLE = m.Tool("t", input_schema={"type": "object"}, execution=m.ToolExecution("optional"))
SAMPLE = m.CreateMessageRequestParams([m.SamplingMessage("user", m.TextContent("hi"))], 9)
FORM = m.ElicitRequestParams.form("task?", {"type": "object", "properties": {"task": {"type": "string"}}})


@pytest.mark.parametrize(
    "question",
    [
        m.ElicitRequest(FORM),
        m.ElicitRequest(msgspec.structs.replace(FORM, task=m.TaskMetadata(5))),
        m.ElicitRequest(msgspec.structs.replace(FORM, meta={"a": 1})),
        m.CreateMessageRequest(msgspec.structs.replace(SAMPLE, task=m.TaskMetadata(5))),
        m.CreateMessageRequest(msgspec.structs.replace(SAMPLE, meta={"a": 1})),
        m.CreateMessageRequest(msgspec.structs.replace(SAMPLE, tools=[RUNNABLE])),
    ],
)
def test_an_input_request_is_written_as_if_it_had_been_edited_before_whatever_is_in_it(question: Any) -> None:
    codec = codec_for(R5)
    written = json.loads(codec.encode_result(1, m.InputRequiredResult(input_requests={"a": question})))
    assert written["result"]["inputRequests"]["a"] == json.loads(
        msgspec.json.encode(codec.downgrade(question))
    )
