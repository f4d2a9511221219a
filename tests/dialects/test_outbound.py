"""What the dialects send: their own words on the legacy revisions, the specification's on 2026-07-28."""

import json
from typing import Any

import pytest

from dovetail import model as m
from dovetail.wire.codec import Codec, codec_for
from dovetail.wire.dialects import DIALECTS, ERLMCP, MCP_CLIENT, MINIMCP, OFFICIAL, VENDOR, Dialect
from dovetail.wire.methods import METHODS
from dovetail.wire.revisions import R1, R4, R5, REVISIONS, Revision
from tests.support.schemas import validate

UPDATED = m.ResourceUpdatedNotificationParams(
    "weather://city", meta={VENDOR + "metadata": {"temperature": 72}}
)


def result_of(codec: Codec, result: Any) -> Any:
    return json.loads(codec.encode_result(1, result))["result"]


def test_erlmcp_notifications_lose_their_prefix_and_show_their_metadata() -> None:
    sent = json.loads(codec_for(R4, ERLMCP).encode_notification("notifications/resources/updated", UPDATED))
    assert sent == {
        "jsonrpc": "2.0",
        "method": "resources/updated",
        "params": {"uri": "weather://city", "metadata": {"temperature": 72}},
    }


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_no_dialect_changes_a_notification_on_2026_07_28(dialect: Dialect) -> None:
    sent = codec_for(R5, dialect).encode_notification("notifications/resources/updated", UPDATED)
    assert json.loads(sent)["method"] == "notifications/resources/updated"
    assert sent == codec_for(R5).encode_notification("notifications/resources/updated", UPDATED)
    validate(sent, R5)


@pytest.mark.parametrize("method", ["progress", "message", "initialized", "cancelled", "tasks/status"])
def test_erlmcp_keeps_the_prefix_its_documents_keep(method: str) -> None:
    assert "notifications/" + method not in ERLMCP.outbound_methods


def test_an_erlmcp_page_has_its_cursor_under_both_names_and_extras_in_the_open() -> None:
    page = m.ListToolsResult(
        [
            m.Tool(
                "sql_query",
                {"type": "object"},
                meta={VENDOR + "deprecated": False, VENDOR + "version": "1.0.0", "other": 1},
            )
        ],
        next_cursor="next",
    )
    assert result_of(codec_for(R4, ERLMCP), page) == {
        "tools": [
            {
                "name": "sql_query",
                "inputSchema": {"type": "object"},
                "deprecated": False,
                "version": "1.0.0",
                "_meta": {"other": 1},
            }
        ],
        "nextCursor": "next",
        "cursor": "next",
    }


def test_an_erlmcp_resource_has_its_time_in_milliseconds() -> None:
    page = m.ListResourcesResult(
        [
            m.Resource(
                "doc://readme",
                "README",
                annotations={"lastModified": "2022-01-01T00:00:00Z"},
                meta={VENDOR + "metadata": {}},
            )
        ]
    )
    (entry,) = result_of(codec_for(R4, ERLMCP), page)["resources"]
    assert (entry["lastModified"], entry["metadata"]) == (1640995200000, {})


@pytest.mark.parametrize(
    ("contents", "kind"),
    [
        (m.ResourceContents("a:b", text="x"), "text"),
        (m.ResourceContents("a:b", mime_type="image/png", blob="AAAA"), "image"),
        (m.ResourceContents("a:b", mime_type="audio/wav", blob="AAAA"), "audio"),
        (m.ResourceContents("a:b", blob="AAAA"), "blob"),
    ],
)
def test_erlmcp_contents_have_their_type_in_addition_to_the_official_members(
    contents: m.ResourceContents, kind: str
) -> None:
    (entry,) = result_of(codec_for(R4, ERLMCP), m.ReadResourceResult([contents]))["contents"]
    assert entry["type"] == kind
    assert entry["uri"] == "a:b"
    assert entry.get("data") == entry.get("blob")


def test_an_erlmcp_completion_is_said_in_both_ways() -> None:
    result = m.CompleteResult(
        m.Completion(["users", "tables"], total=2, has_more=False), meta={VENDOR + "labels": ["the users"]}
    )
    assert result_of(codec_for(R4, ERLMCP), result) == {
        "completion": {"values": ["users", "tables"], "total": 2, "hasMore": False},
        "completions": [
            {"value": "users", "label": "the users"},
            {"value": "tables", "label": "tables"},
        ],
        "total": 2,
        "hasMore": False,
    }


def test_an_erlmcp_completion_always_says_whether_there_is_more() -> None:
    assert result_of(codec_for(R4, ERLMCP), m.CompleteResult(m.Completion(["users"])))["hasMore"] is False


def test_an_erlmcp_server_lists_what_its_documents_list() -> None:
    result = m.InitializeResult(
        "2025-11-25",
        m.ServerCapabilities({"tools": {}, "completions": {}, "tasks": {}}),
        m.Implementation("erlmcp-server", "2.2.0"),
    )
    offered = result_of(codec_for(R4, ERLMCP), result)["capabilities"]
    assert offered["sampling"] == offered["roots"] == {}
    assert offered["completions"] == {"supported": True}
    assert offered["experimental"] == {"features": ["task_management"]}
    assert "sampling" not in result_of(codec_for(R4), result)["capabilities"]


def test_erlmcp_sampling_results_use_its_stop_reasons() -> None:
    result = m.CreateMessageResult("assistant", m.TextContent("hi"), "m", "endTurn")
    assert result_of(codec_for(R4, ERLMCP), result)["stopReason"] == "end_turn"
    assert result_of(codec_for(R4), result)["stopReason"] == "endTurn"


@pytest.mark.parametrize("dialect", [MINIMCP, MCP_CLIENT], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_the_other_dialects_write_results_as_the_specification_does(
    dialect: Dialect, revision: Revision
) -> None:
    result = m.CallToolResult([m.TextContent("a")], is_error=True)
    sent = codec_for(revision, dialect).encode_result(1, result)
    assert sent == codec_for(revision).encode_result(1, result)
    validate(sent, revision, method="tools/call")


def test_what_erlmcp_says_comes_back_as_it_was_said() -> None:
    said = {
        "content": [
            {"type": "text", "text": "[]", "mimeType": "application/json"},
            {
                "type": "text",
                "text": "file",
                "resource_link": {"uri": "s3://b/f", "name": "D", "mime_type": "a/b"},
            },
            {"type": "document", "data": "JVBE", "mimeType": "application/pdf"},
        ],
        "isError": False,
    }
    codec = codec_for(R4, ERLMCP)
    result = codec.decode_result(METHODS["tools/call"], json.dumps(said).encode())
    assert result_of(codec, result) == said


def test_flags_are_those_of_the_documents() -> None:
    assert OFFICIAL.errors == {}
    assert ERLMCP.batches_on_legacy
    assert ERLMCP.null_error_id
    assert MINIMCP.null_error_id
    assert MINIMCP.argument_errors == "error"
    assert MCP_CLIENT.versions == (R1.name,)
    assert MCP_CLIENT.client_capabilities == {"roots": {"listChanged": True}}
    assert ERLMCP.timeouts is not None
    assert (ERLMCP.timeouts.connect, ERLMCP.timeouts.total) == (30.0, 5.0)
    assert ERLMCP.limits is not None
    assert ERLMCP.limits.max_message_bytes == 16_777_216
    assert ERLMCP.methods == {"shutdown", "tasks/create"}
