"""The documentation lists the public servers that the tests compare."""

from __future__ import annotations

import re

from .install import ROOT, SERVERS


def test_the_documentation_lists_the_public_servers_with_their_versions() -> None:
    section = (ROOT / "docs" / "compat.md").read_text().partition("## Servers that are compared")[2]
    rows = re.findall(r"^\| ([\w.-]+) \| ([\d.]+) \| (?:SDK|FastMCP) [\d.]+ \|$", section, re.MULTILINE)
    assert rows == [(entry["package"], entry["version"]) for entry in SERVERS.values()]
    assert len(rows) >= 25
