"""What one `tools/call` of a client costs on the pipes of a child process, from `call_tool` to its result.

Counted in calls of our own Python functions, going on after a wait included, and in tasks.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

import dovetail
from dovetail import Client
from tests.support.aio import run

CALLS = 36
OURS = str(Path(dovetail.__file__).parent)

SERVER = """
import json, sys
CALLED = {"content": [{"type": "text", "text": "5"}], "resultType": "complete"}
DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0,
              "cacheScope": "private", "resultType": "complete"}
INITIALIZED = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
               "serverInfo": {"name": "n", "version": "1"}}
RESULTS = {"server/discover": DISCOVERED, "initialize": INITIALIZED, "tools/call": CALLED}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": RESULTS[asked["method"]]}
        print(json.dumps(answer, separators=(",", ":")), flush=True)
"""


@pytest.mark.parametrize("revision", ["modern", "legacy"])
@run
async def test_a_call_on_pipes_stays_within_its_budget(revision: str) -> None:
    calls: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and (code.co_filename.startswith(OURS) or code.co_name == "create_task"):
            calls.append(f"{code.co_filename.removeprefix(OURS)}:{code.co_qualname}")

    async with Client([sys.executable, "-c", SERVER], revision=revision) as client:
        for _ in range(5):  # what is made once is made
            await client.call_tool("add", {"a": 2, "b": 3})
        sys.setprofile(profile)
        try:
            await client.call_tool("add", {"a": 2, "b": 3})
        finally:
            sys.setprofile(None)
    assert len(calls) <= CALLS, "\n".join(calls)
    assert not [call for call in calls if call.endswith("create_task")]
