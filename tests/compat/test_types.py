"""`mcp.types` below our prefix: models that compare, dump, validate and copy as those of SDK 1.x."""

from typing import Any, Literal

import pytest
from pydantic import AnyUrl, ValidationError

from dovetail.compat.mcp import types
from dovetail.compat.mcp.shared.exceptions import McpError, UrlElicitationRequiredError


def test_models_compare_by_what_they_say() -> None:
    assert types.TextContent(type="text", text="a") == types.TextContent(type="text", text="a")
    assert types.TextContent(type="text", text="a") != types.TextContent(type="text", text="b")


def test_a_dump_by_alias_without_what_is_none_is_what_goes_over_the_wire() -> None:
    tool = types.Tool(name="add", inputSchema={"type": "object"}, _meta={"a": 1})
    assert tool.model_dump(by_alias=True, exclude_none=True) == {
        "name": "add",
        "inputSchema": {"type": "object"},
        "_meta": {"a": 1},
    }
    assert tool.meta == {"a": 1}
    assert "title" in tool.model_dump()


def test_unknown_members_survive() -> None:
    tool = types.Tool.model_validate({"name": "add", "inputSchema": {}, "vendor": {"x": 1}})
    assert tool.model_dump(exclude_none=True)["vendor"] == {"x": 1}


def test_wrong_members_are_refused() -> None:
    with pytest.raises(ValidationError):
        types.TextContent.model_validate({"type": "image", "text": "a"})
    with pytest.raises(ValidationError):
        types.Tool.model_validate({"name": "add"})


def test_a_copy_may_differ_in_a_member() -> None:
    tool = types.Tool(name="add", inputSchema={})
    assert tool.model_copy(update={"name": "sum"}).name == "sum"
    assert tool.name == "add"


def test_addresses_are_urls_and_become_text_in_json() -> None:
    resource = types.Resource.model_validate({"name": "notes", "uri": "file:///notes.txt"})
    assert isinstance(resource.uri, AnyUrl)
    assert resource.model_dump(mode="json", exclude_none=True)["uri"] == "file:///notes.txt"


def test_a_union_of_messages_finds_the_one_that_is_meant() -> None:
    request = types.ClientRequest.model_validate({"method": "tools/call", "params": {"name": "add"}})
    assert isinstance(request.root, types.CallToolRequest)
    assert request.root.params == types.CallToolRequestParams(name="add")
    message = types.JSONRPCMessage.model_validate_json('{"jsonrpc": "2.0", "id": 1, "result": {}}')
    assert isinstance(message.root, types.JSONRPCResponse)


def test_a_method_of_ones_own_is_a_request_with_two_parameters() -> None:
    class Params(types.RequestParams):
        depth: int

    request = types.Request[Params, str](method="acme/dig", params=Params(depth=3))
    assert request.model_dump(exclude_none=True) == {"method": "acme/dig", "params": {"depth": 3}}


def test_a_list_of_ones_own_is_a_paginated_request_with_one_parameter() -> None:
    kind: Any = types.PaginatedRequest
    listing: Any = kind[Literal["acme/list"]]
    assert types.Request in listing.__mro__
    params = types.PaginatedRequestParams(cursor="2")
    assert listing(method="acme/list", params=params).params.cursor == "2"
    with pytest.raises(ValidationError):
        listing(method="acme/other")


def test_a_name_that_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = types.Nothing  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]


def test_an_error_carries_its_data_and_speaks_its_message() -> None:
    error = McpError(types.ErrorData(code=types.INVALID_PARAMS, message="no such city"))
    assert str(error) == "no such city"
    assert error.error.code == -32602


def test_pages_that_must_be_visited_come_back_out_of_an_error() -> None:
    page = types.ElicitRequestURLParams(message="log in", url="https://id.example/", elicitationId="1")
    error = UrlElicitationRequiredError([page])
    again = UrlElicitationRequiredError.from_error(error.error)
    assert again.elicitations == [page]
    with pytest.raises(ValueError, match="-32042"):
        UrlElicitationRequiredError.from_error(types.ErrorData(code=-32603, message="other"))
