"""The tools of the other tests fail when they should."""

import asyncio
import time

import pytest

from tests.support.aio import run, run_limited
from tests.support.schemas import validate, validate_definition, validate_result


@run
async def test_an_async_test_runs() -> None:
    await asyncio.sleep(0)


def test_a_task_left_pending_fails_the_test() -> None:
    async def careless() -> None:
        asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="forgotten")

    with pytest.raises(AssertionError, match="left tasks pending"):
        run_limited(careless())


def test_a_task_that_is_ending_anyway_is_no_fault() -> None:
    async def tidy() -> None:
        task = asyncio.get_running_loop().create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        task.cancel()

    run_limited(tidy())


def test_a_test_that_hangs_is_ended() -> None:
    async def hanging() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run_limited(hanging(), limit=0.01)


def test_a_test_that_blocks_the_loop_is_ended() -> None:
    outlived = False

    async def blocking() -> None:
        nonlocal outlived
        time.sleep(20)  # noqa: ASYNC251
        outlived = True

    with pytest.raises(TimeoutError):
        run_limited(blocking(), limit=-0.9)
    assert not outlived


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "_meta": META}}

VALID = [
    (CALL, "2026-07-28", None),
    (CALL, "2024-11-05", "tools/call"),
    ([CALL], "2025-03-26", None),
    (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}', "2025-06-18", None),
    (b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}', "2026-07-28", None),
    ({"jsonrpc": "2.0", "id": 1, "method": "tasks/update", "params": {"_meta": META}}, "2026-07-28", None),
    (b'{"jsonrpc":"2.0","id":1,"result":{"completion":{"values":[]}}}', "2025-03-26", "completion/complete"),
    (b'{"jsonrpc":"2.0","id":1,"result":{"taskId":"1"}}', "2025-11-25", "tasks/create"),
    (b'{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"a":0.5}}}', "2025-06-18",
     "elicitation/create"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "revision", "method"), VALID)
def test_valid_messages_pass(message: object, revision: str, method: str | None) -> None:
    validate(message, revision, method=method)


INVALID = [
    ([CALL], "2025-11-25", None, "no batches"),
    ([], "2025-03-26", None, "empty batch"),
    ({**CALL, "params": {"name": "t"}}, "2026-07-28", None, "_meta"),
    ({**CALL, "id": None}, "2025-11-25", None, "id"),
    ({**CALL, "method": "ping"}, "2026-07-28", None, "has no request ping"),
    ({**CALL, "method": "roots/list"}, "2026-07-28", None, "has no request roots/list"),
    (CALL, "2025-11-25", "tools/list", "expected tools/list"),
    (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}', "2025-11-25", None, "/id"),
    (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m"}}', "2026-07-28", None, "data"),
    (b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}', "2026-07-28", "tools/call", "resultType"),
    (b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"done"}}', "2026-07-28", "tools/call",
     "resultType"),
    (b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}', "2026-07-28", "tools/call",
     "anyOf"),
    (b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":""}}', "2026-07-28",
     "tools/list", "tools"),
    (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}', "2025-11-25", None, "requestId"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "revision", "method", "said"), INVALID)
def test_invalid_messages_fail_and_say_why(
    message: object, revision: str, method: str | None, said: str
) -> None:
    with pytest.raises(AssertionError, match=said):
        validate(message, revision, method=method)


def test_a_message_of_another_kind_fails() -> None:
    with pytest.raises(AssertionError, match="expected a result, got a request"):
        validate(CALL, "2025-11-25", kind="result")


def test_names_of_the_older_tasks_fail_in_the_extension() -> None:
    task = {
        "resultType": "complete",
        "taskId": "1",
        "status": "working",
        "createdAt": "",
        "lastUpdatedAt": "",
    }
    validate_result({**task, "ttlMs": None}, "2026-07-28", "tasks/get")
    with pytest.raises(AssertionError):
        validate_result({**task, "ttlMs": 1, "ttl": 1}, "2026-07-28", "tasks/get")
    with pytest.raises(AssertionError, match="result"):
        validate_result({**task, "ttlMs": 1, "status": "completed"}, "2026-07-28", "tasks/get")


def test_an_unknown_definition_is_named() -> None:
    with pytest.raises(AssertionError, match="no definition Nonsense"):
        validate_definition({}, "2025-11-25", "Nonsense")
