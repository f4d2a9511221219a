"""Which era a message belongs to: the body decides first, the version header second."""

import json
from typing import Any

import pytest
from msgspec import UNSET, Raw

from dovetail.core.metadata import is_modern
from dovetail.wire.revisions import REVISIONS

KEY = "io.modelcontextprotocol/protocolVersion"
LEGACY = [revision.name for revision in REVISIONS if not revision.modern]
MODERN = [revision.name for revision in REVISIONS if revision.modern]


def params(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


@pytest.mark.parametrize("version", [None, *LEGACY, *MODERN, "2031-01-01", "rubbish"])
def test_modern_metadata_in_the_body_decides_whatever_the_header_says(version: str | None) -> None:
    assert is_modern(params({"_meta": {KEY: "2026-07-28"}}), version)
    assert is_modern(
        params({"_meta": {KEY: 5}}), version
    )  # wrong, and refused by the checks for modern requests


def test_however_the_key_is_escaped() -> None:
    for spelling in (KEY, KEY.replace("/", "\\/"), "\\u0069" + KEY[1:], KEY.replace("c", "\\u0063")):
        assert is_modern(Raw(b'{"_meta":{"%b":"x"}}' % spelling.encode()))


@pytest.mark.parametrize("body", [UNSET, params({}), params({"_meta": {}}), params([]), params({"x": KEY})])
def test_without_it_a_header_that_names_no_legacy_revision_decides(body: Any) -> None:
    assert not is_modern(body)
    assert not any(is_modern(body, version) for version in LEGACY)
    assert all(is_modern(body, version) for version in [*MODERN, "2031-01-01", ""])


def test_the_idempotency_key_is_read_from_metadata_only_and_despite_unreadable_numbers() -> None:
    assert not is_modern(params({"arguments": {"_meta": {KEY: "2026-07-28"}}}))
    assert is_modern(Raw(b'{"_meta":{"%b":"2026-07-28","x":1e999}}' % KEY.encode()))
