"""The tests keep to their own rules: none sleeps for a result, none fails because the machine has much to do, none
reaches into private parts."""

import ast
import functools
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import HANG

TESTS = Path(__file__).resolve().parent

SLEEPS = {
    ("support/waiting.py", "until"): "polls a condition with a bound",
    ("support/waiting.py", "wait_until"): "polls a condition with a bound",
    ("support/waiting.py", "reached"): "polls an address with a bound",
    ("support/waiting.py", "found"): "it asks until it is told",
    ("stores/test_redis.py", "later"): "Redis has a clock of its own: time has to pass",
    ("support/everything.py", "stuck"): "a tool that blocks its thread for as long as it is told to",
    ("support/everything.py", "frozen"): "a tool that blocks the event loop for as long as it is told to",
    ("model/test_support.py", "blocking"): "blocking the loop is the fault the test is about",
    ("server/test_asking.py", "request"): "a user who takes longer to answer than the tool may take",
    ("client/test_calls.py", "thinking"): "a user who takes longer to answer than the connection may be idle",
    (
        "client/test_http_clients.py",
        "stream",
    ): "a stream that is silent for longer than the library would wait",
    ("client/test_http.py", "stream"): "a stream that says something each time before the limit is reached",
    (
        "client/test_modern.py",
        "hesitate",
    ): "rounds that take so long that time ends them and not their number",
    ("http/test_hangups.py", "nap"): "a call that goes on for longer than the test",
    (
        "http/test_hangups.py",
        "test_calls_that_run_for_nobody_are_bounded",
    ): "a client that waits for a while before it leaves",
}
"""Where time itself is what the test is about: file, function, why."""

SHORT = {
    ("support/webfaces.py", "_post"): "whoever comes later waits for so long at most, and then goes on",
    ("drivers/test_run.py", "tool"): "it must run out",
    ("http/test_fetch_breaks.py", "test_a_timeout_of_the_application_stays_its_own"): "it must run out",
    ("http/test_websocket.py", "test_a_quiet_client_of_2026_07_28_is_asked_nothing"): "nothing must come",
    ("http/test_legacy_calls.py", "test_hanging_up_does_not_cancel_and_delete_does"): "it must not end",
    ("gateway/test_proxy.py", "test_a_question_behind_that_nobody_answers_ends_with_its_lease"): "a pause",
    (
        "http/test_shared_sessions.py",
        "test_of_two_general_streams_in_two_processes_the_one_that_is_left_goes_on",
    ): "a pause between two tries",
    ("server/test_once.py", "test_who_comes_while_it_is_under_way_waits_for_it"): "they must not end",
    (
        "server/test_once.py",
        "test_a_connection_that_is_lost_does_not_stop_a_call_that_will_be_asked_for_again",
    ): "it must not end",
    (
        "server/test_steps.py",
        "test_a_step_that_was_cut_short_is_run_again_only_where_that_does_no_harm",
    ): "a pause between two tries",
}
"""Waits whose end is what the test is about, or a pause: file, function, why. All others may be as long as a hang."""

CLOCKS = ("time.monotonic", "time.perf_counter", "time.time", "clock", "loop.time")
"""Those that go on while others have the cores; `time.process_time` and `Stopwatch` stand still then."""

TIMED = {
    (
        "client/test_limits.py",
        "test_a_server_that_the_probe_left_deaf_is_reached_within_8_seconds",
    ): "a child is started, killed and started again; only `make test-slow` runs it",
}
"""Where a clock on the wall is compared with a limit all the same: file, function, why."""

PRIVATE = {
    ("cli/test_run.py", "_transport"): "asyncio offers no other way to close one pipe of a child",
    ("http/test_fetch_breaks.py", "_free"): "two callers in one turn of the loop cannot be had from outside",
    ("http/test_fetch_breaks.py", "_open"): "as above: it finds the connection whose answer is held up",
    ("compat/miniatures/patched.py", "_mcp_server"): "servers of others use this name of their library",
    ("compat/miniatures/patched.py", "_tool_manager"): "as above",
    ("compat/miniatures/patched.py", "_tools"): "as above",
}
"""What has no other way: file, name, why."""

GIVES_UP = (
    "subprocess.run", "communicate", "urlopen", "Connection", "create_connection", "Barrier", "AsyncClient", ".wait",
)  # fmt: skip
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}  # public in spite of their names


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE and name != "_"


def spelt(name: ast.expr) -> str:
    """A name with dots, much sooner than `ast.unparse` has it; whatever else stands before them is left out."""
    if isinstance(name, ast.Attribute):
        return f"{spelt(name.value)}.{name.attr}"
    return name.id if isinstance(name, ast.Name) else ""


def sleeps(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The function around each call of ``sleep`` with anything but 0, and its line."""
    for function, node in calls(tree):
        if isinstance(node, ast.Call) and spelt(node.func) in ("asyncio.sleep", "time.sleep", "sleep"):
            nothing = node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
            yield from () if nothing else ((function, node.lineno),)


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Each node of a tree with the function around it."""
    waiting = deque([("", tree)])
    while waiting:
        function, outer = waiting.popleft()
        for node in ast.iter_child_nodes(outer):
            inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
            yield function, node
            waiting.append((inner, node))


def limits(call: ast.Call) -> Iterator[ast.expr]:
    """The seconds after which a call gives up waiting."""
    name = spelt(call.func)
    if name.endswith("asyncio.timeout"):
        yield from call.args[:1]
    elif name.endswith("wait_for"):
        yield from call.args[1:2]
    elif name.endswith((".wait", ".join")) and len(call.args) == 1:
        yield from call.args
    if name.endswith(GIVES_UP):
        yield from (one.value for one in call.keywords if one.arg == "timeout")


def short_waits(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The function around each wait that is given up sooner than a busy machine may need, and its line."""
    for function, node in calls(tree):
        for limit in limits(node) if isinstance(node, ast.Call) else ():
            if (
                isinstance(limit, ast.Constant)
                and isinstance(limit.value, int | float)
                and limit.value < HANG
            ):
                yield function, node.lineno


def timed(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The function around each claim that something took less than so long by a clock on the wall, and its line."""
    for function, node in calls(tree):
        if isinstance(node, ast.Assert) and isinstance(claim := node.test, ast.Compare):
            below = any(isinstance(one, ast.Lt | ast.LtE) for one in claim.ops)
            passed = ast.unparse(claim.left) if below and isinstance(claim.left, ast.BinOp) else ""
            if any(f"{one}() -" in passed for one in CLOCKS):
                yield function, node.lineno


def private_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each private name of something that is not ``self``, also where it stands in a string, and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dovetail"):
            yield from ((one.name, node.lineno) for one in node.names if is_private(one.name))
        elif isinstance(node, ast.Call) and spelt(node.func).endswith(("setattr", "getattr", "hasattr")):
            names = [one.value for one in node.args[:2] if isinstance(one, ast.Constant)]
            last = [str(name).rpartition(".")[2] for name in names]
            yield from ((name, node.lineno) for name in last if name.isidentifier() and is_private(name))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            yield from ((name, node.lineno) for name, _ in _names_in_code(node.value))


def _names_in_code(text: str) -> Iterator[tuple[str, int]]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    yield from private_names(tree)


@pytest.fixture(autouse=True, scope="module")
def _read_once() -> Iterator[None]:
    yield
    read.cache_clear()  # a million objects


@functools.cache
def read() -> list[tuple[str, ast.Module]]:
    return [
        (path.relative_to(TESTS).as_posix(), ast.parse(path.read_text()))
        for path in sorted(TESTS.rglob("*.py"))
        if path != Path(__file__)
    ]


def test_no_test_sleeps_for_a_result() -> None:
    found = [(file, name, line) for file, tree in read() for name, line in sleeps(tree)]
    assert [one for one in found if one[:2] not in SLEEPS] == [], "wait for it: see tests/support/waiting.py"
    assert set(SLEEPS) - {one[:2] for one in found} == set(), "these sleep no more: take them out of SLEEPS"


def test_no_wait_is_given_up_because_the_machine_is_busy() -> None:
    found = [(file, name, line) for file, tree in read() for name, line in short_waits(tree)]
    assert [one for one in found if one[:2] not in SHORT] == [], "give it HANG: see tests/support/waiting.py"
    assert set(SHORT) - {one[:2] for one in found} == set(), "no longer short: take them out of SHORT"


def test_no_test_judges_us_by_a_clock_that_goes_on_while_others_have_the_cores() -> None:
    found = [(file, name, line) for file, tree in read() for name, line in timed(tree)]
    assert [one for one in found if one[:2] not in TIMED] == [], "see tests/support/stopwatch.py"
    assert set(TIMED) - {one[:2] for one in found} == set(), "no longer timed: take them out of TIMED"


def test_no_test_reaches_into_private_parts() -> None:
    found = [(file, name, line) for file, tree in read() for name, line in private_names(tree)]
    assert [one for one in found if one[:2] not in PRIVATE] == [], (
        "test what it does: see tests/support/held.py"
    )
    assert set(PRIVATE) - {one[:2] for one in found} == set(), "no longer used: take them out of PRIVATE"


def test_what_is_looked_for_is_found() -> None:
    code = (
        "async def test():\n"
        "    await asyncio.sleep(0)\n    await asyncio.sleep(0.1)\n    time.sleep(PAUSE)\n"
        "    self._own\n    other._x.y\n    t._replace(a=1)\n    monkeypatch.setattr('dovetail.a._b', 1)\n"
        "    getattr(one, '_c')\n    run('import os\\nclient._d')\n"
        "from dovetail.core import _e\n"
    )
    tree = ast.parse(code)
    assert sorted(sleeps(tree)) == [("test", 3), ("test", 4)]
    waits = ast.parse(
        "async def test():\n"
        "    async with asyncio.timeout(5):\n        await asyncio.wait_for(done(), HANG)\n"
        "    thread.join(0.5)\n    subprocess.run(words, timeout=20)\n    client.call('x', timeout=1)\n"
        "    assert time.monotonic() - begun < 1\n    assert time.process_time() - begun < 1\n"
        "    assert time.monotonic() - begun >= 1\n    assert watch.read() < 1\n"
    )
    assert sorted(short_waits(waits)) == [("test", 2), ("test", 4), ("test", 5)]
    assert list(timed(waits)) == [("test", 7)]
    assert sorted(name for name, _ in private_names(tree)) == ["_b", "_c", "_d", "_e", "_x"]
