"""Mirrored headers: read, compared with the body, written."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from dovetail.errors import RegistrationError, RemoteProtocolError
from dovetail.wire import headers
from dovetail.wire.frames import Frame, decode
from dovetail.wire.headers import (
    argument_headers,
    check,
    check_arguments,
    decode_value,
    encode_value,
    header_map,
    read,
    routing_headers,
)

R5 = "2026-07-28"


def asgi(pairs: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs.items()]


def request(method: str, params: dict[str, Any]) -> Frame:
    params = {"_meta": {"io.modelcontextprotocol/protocolVersion": R5}, **params}
    return decode(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())


def mismatch(pairs: dict[str, str], frame: Frame) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        check(read(asgi(pairs)), frame)
    assert caught.value.kind == "header_mismatch"
    return caught.value.message


def test_reading_takes_the_routing_headers_and_nothing_else() -> None:
    found = read(
        [
            (b"host", b"x"),
            (b"mcp-protocol-version", b" 2026-07-28\t"),
            (b"mcp-method", b"tools/call"),
            (b"mcp-name", b"echo"),
            (b"mcp-param-Region", b"eu"),
            (b"mcp-session-id", b"s"),
        ]
    )
    assert (found.version, found.method, found.name) == (R5, "tools/call", "echo")
    assert found.params == {"region": "eu"}
    assert found.duplicated == frozenset()


@pytest.mark.parametrize("name", [b"mcp-method", b"mcp-name", b"mcp-protocol-version", b"mcp-param-a"])
def test_a_routing_header_that_comes_twice_is_a_mismatch_even_with_equal_values(name: bytes) -> None:
    found = read([*asgi(routing_headers(R5, "ping")), (name, b"x"), (name, b"x")])
    assert name.decode() in found.duplicated
    with pytest.raises(RemoteProtocolError, match="more than once"):
        check(found, request("ping", {}))
    with pytest.raises(RemoteProtocolError, match="more than once"):
        check_arguments(found, {}, {})


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "echo"}, "echo"),
        ("prompts/get", {"name": "größe"}, "größe"),
        ("resources/read", {"uri": "file:///a b"}, "file:///a b"),
        ("tasks/get", {"taskId": "t1"}, "t1"),
        ("tools/list", {}, None),
        ("tools/call", {"name": ""}, ""),
    ],
)
def test_headers_a_client_makes_agree_with_its_body(
    method: str, params: dict[str, Any], name: str | None
) -> None:
    check(read(asgi(routing_headers(R5, method, name))), request(method, params))


def test_missing_and_different_headers_are_named() -> None:
    frame = request("tools/call", {"name": "echo"})
    good = routing_headers(R5, "tools/call", "echo")
    for name in good:
        without = {key: value for key, value in good.items() if key != name}
        assert mismatch(without, frame) == f"the header {name} is missing"
        assert f"the header {name} differs" in mismatch({**good, name: "other"}, frame)


def test_a_mismatch_names_both_sides() -> None:
    version = "io.modelcontextprotocol/protocolVersion"
    frame = request("tools/call", {"name": "echo", "_meta": {version: "2099-01-01"}})
    good = routing_headers("2099-01-01", "tools/call", "echo")
    for name, meant in (
        ("MCP-Protocol-Version", "2099-01-01"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "echo"),
    ):
        assert mismatch({**good, name: "2025-11-25"}, frame).endswith(f": '2025-11-25', not '{meant}'")


def test_two_version_headers_are_both_named_and_cut_off() -> None:
    twice = read([(b"mcp-protocol-version", R5.encode()), (b"mcp-protocol-version", b"2025-06-18")])
    with pytest.raises(RemoteProtocolError, match=f"more than once: {R5}, 2025-06-18"):
        check(twice, request("ping", {}))
    long = read([(b"mcp-protocol-version", b"x" * 5000)] * 3)
    with pytest.raises(RemoteProtocolError) as caught:
        check(long, request("ping", {}))
    assert len(caught.value.message) < 400


def test_values_are_compared_in_their_case() -> None:
    assert "Mcp-Method" in mismatch(routing_headers(R5, "TOOLS/LIST"), request("tools/list", {}))


def test_a_name_of_the_wrong_type_is_left_to_the_params() -> None:
    check(read(asgi(routing_headers(R5, "tools/call"))), request("tools/call", {"name": 5}))


# --- values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("", ""),
        ("echo", "echo"),
        ("a b\tc", "a b\tc"),
        (" a", "=?base64?IGE=?="),
        ("a\t", "=?base64?YQk=?="),
        ("ü", "=?base64?w7w=?="),
        ("a\nb", "=?base64?YQpi?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ("=?base64?open", "=?base64?open"),
    ],
)
def test_values_are_plain_where_a_header_allows_it(value: str, written: str) -> None:
    assert encode_value(value) == written
    assert decode_value(written) == value


@pytest.mark.parametrize(
    "value", ["=?base64?YQ?=", "=?base64?Y!==?=", "=?base64?/w==?=", "=?base64? YQ==?=", "ü", "a\0"]
)
def test_a_value_that_is_malformed_is_a_mismatch(value: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_value(value)
    assert caught.value.kind == "header_mismatch"


def test_the_sentinel_counts_in_lower_case_only() -> None:
    assert decode_value("=?BASE64?YQ==?=") == "=?BASE64?YQ==?="


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=30))
def test_any_text_survives_a_header(value: str) -> None:
    written = encode_value(value)
    assert written.isascii()
    assert written == written.strip()
    assert "\n" not in written
    assert decode_value(written) == value


# --- arguments ---------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "plain": {"type": "string"},
        "where": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
    },
}
MAP = header_map(SCHEMA)


def test_the_map_of_a_schema_has_the_path_of_each_annotated_property() -> None:
    assert MAP == {("region",): "Region", ("count",): "Count", ("dry",): "Dry", ("where", "zone"): "Zone"}
    assert header_map({"type": "object"}) == {}


ARGUMENTS = {"region": "eu west", "count": 42, "dry": False, "plain": "x", "where": {"zone": "ü"}}


def test_headers_made_from_arguments_agree_with_them() -> None:
    made = argument_headers(ARGUMENTS, MAP)
    assert made == {
        "Mcp-Param-Region": "eu west",
        "Mcp-Param-Count": "42",
        "Mcp-Param-Dry": "false",
        "Mcp-Param-Zone": "=?base64?w7w=?=",
    }
    raw = msgspec.Raw(json.dumps(ARGUMENTS).encode())
    assert argument_headers(raw, MAP) == made
    check_arguments(read(asgi(made)), raw, MAP)
    check_arguments(read(asgi({**made, "Mcp-Param-Other": "x"})), ARGUMENTS, MAP)


def test_absent_and_null_arguments_have_no_header() -> None:
    assert argument_headers({"region": None}, MAP) == {}
    check_arguments(read([]), {"region": None, "where": 5}, MAP)
    check_arguments(read([]), UNSET, MAP)


@pytest.mark.parametrize(
    ("header", "value", "same"),
    [
        ("42", 42, True),
        ("42.0", 42, True),
        ("42", 42.0, True),
        ("042", 42, True),
        ("42.5", 42, False),
        ("4e1", 40, False),
        ("-0", 0, True),
        ("x", 42, False),
        ("9" * 400, 42, False),
        ("9007199254740993", 9007199254740992, False),
        ("true", True, True),
        ("True", True, False),
        ("1", True, False),
        ("false", False, True),
        ("eu", "eu", True),
        ("EU", "eu", False),
        ("", "", True),
    ],
)
def test_arguments_are_compared_by_their_type(header: str, value: Any, same: bool) -> None:
    found = read([(b"mcp-param-x", header.encode())])
    if same:
        check_arguments(found, {"x": value}, {("x",): "X"})
    else:
        with pytest.raises(RemoteProtocolError) as caught:
            check_arguments(found, {"x": value}, {("x",): "X"})
        assert caught.value.kind == "header_mismatch"
        assert header not in caught.value.message or len(header) < 3


@pytest.mark.parametrize(
    ("pairs", "arguments"),
    [({}, {"x": "a"}), ({"Mcp-Param-X": "a"}, {}), ({"Mcp-Param-X": "a"}, {"x": None})],
)
def test_header_and_argument_come_together_or_not_at_all(
    pairs: dict[str, str], arguments: dict[str, Any]
) -> None:
    with pytest.raises(RemoteProtocolError):
        check_arguments(read(asgi(pairs)), arguments, {("x",): "X"})


def prop(**more: Any) -> dict[str, Any]:
    return {"type": "string", "x-mcp-header": "X", **more}


BAD_SCHEMAS: dict[str, dict[str, Any]] = {
    "empty name": {"properties": {"a": prop(**{"x-mcp-header": ""})}},
    "space in name": {"properties": {"a": prop(**{"x-mcp-header": "a b"})}},
    "colon in name": {"properties": {"a": prop(**{"x-mcp-header": "a:b"})}},
    "newline in name": {"properties": {"a": prop(**{"x-mcp-header": "a\n"})}},
    "name is no text": {"properties": {"a": prop(**{"x-mcp-header": 5})}},
    "twice": {"properties": {"a": prop(), "b": prop(**{"x-mcp-header": "x"})}},
    "number": {"properties": {"a": prop(type="number")}},
    "object": {"properties": {"a": prop(type="object")}},
    "several types": {"properties": {"a": prop(type=["string", "null"])}},
    "no type": {"properties": {"a": {"x-mcp-header": "X"}}},
    "root": {"x-mcp-header": "X"},
    "in items": {"properties": {"a": {"type": "array", "items": prop()}}},
    "in oneOf": {"properties": {"a": {"oneOf": [prop()]}}},
    "in allOf at the root": {"allOf": [{"properties": {"a": prop()}}]},
    "in then": {"then": {"properties": {"a": prop()}}},
    "in $defs": {"$defs": {"a": prop()}},
    "in additionalProperties": {"additionalProperties": prop()},
    "in patternProperties": {"patternProperties": {"a": prop()}},
}


@pytest.mark.parametrize("schema", BAD_SCHEMAS.values(), ids=BAD_SCHEMAS)
def test_an_annotation_against_the_rules_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(RegistrationError):
        header_map(schema)


def test_values_and_names_that_look_like_annotations_are_none() -> None:
    schema = {
        "properties": {
            "x-mcp-header": {"type": "string"},
            "b": {"default": {"x-mcp-header": "X"}, "const": [prop()]},
        },
        "$defs": {"x-mcp-header": {"type": "string"}},
    }
    assert header_map(schema) == {}


def test_a_schema_nested_without_end_is_refused_and_not_followed() -> None:
    deep: dict[str, Any] = {}
    nested: dict[str, Any] = {}
    for _ in range(200):
        deep = {"properties": {"a": deep}}
        nested = {"not": nested}
    for schema in (deep, nested):
        with pytest.raises(RegistrationError):
            header_map(schema)


def test_integers_beyond_what_all_readers_hold_are_not_written() -> None:
    assert argument_headers({"count": headers.LARGEST_INTEGER + 1}, MAP) == {}
