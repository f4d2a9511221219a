"""Metadata of a protected resource: what it says and where it lies."""

import json

import pytest

from dovetail.auth.core.resource import canonical, describe, is_url, metadata_url, read


def test_the_document_names_the_resource_and_whom_it_trusts() -> None:
    said = json.loads(describe("https://a/mcp", ["https://id"], ["x", "offline_access"], "shop"))
    assert said == {
        "resource": "https://a/mcp",
        "authorization_servers": ["https://id"],
        "scopes_supported": ["x"],
        "bearer_methods_supported": ["header"],
        "resource_name": "shop",
    }
    assert "authorization_servers" not in json.loads(describe("https://a", [], [], "shop"))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("HTTPS://Shop.Example/MCP#x", "https://shop.example/MCP"),
        ("https://a/", "https://a"),
        ("https://a/b/", "https://a/b/"),
        ("http://127.0.0.1:8000/mcp?x=1", "http://127.0.0.1:8000/mcp?x=1"),
    ],
)
def test_a_resource_has_one_spelling(url: str, name: str) -> None:
    assert canonical(url) == name


@pytest.mark.parametrize(
    "wrong", ["", "mcp", "/mcp", "ftp://a", "javascript:alert(1)", "https://", "http:///x"]
)
def test_what_cannot_be_fetched_is_no_resource(wrong: str) -> None:
    assert not is_url(wrong)
    with pytest.raises(ValueError, match="absolute"):
        canonical(wrong)


def test_the_well_known_part_stands_between_host_and_path() -> None:
    root = "https://a/.well-known/oauth-protected-resource"
    assert metadata_url("https://a/mcp") == f"{root}/mcp"
    assert metadata_url("https://a/") == metadata_url("https://a") == root


@pytest.mark.parametrize(
    "document", [b"", b"{", b"[]", b"{}", b'{"resource": 1}', b'{"resource":"a","authorization_servers":"x"}']
)
def test_a_document_that_cannot_be_read_says_so(document: bytes) -> None:
    with pytest.raises(ValueError, match="protected resource metadata"):
        read(document)


def test_members_we_do_not_know_are_passed_over() -> None:
    assert read(b'{"resource":"https://a","x":{"y":1}}').resource == "https://a"
