"""No test may depend on how busy the machine is: two rules that can be read from the code of the tests."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent
CLOCKS = ("time.monotonic() -", "time.perf_counter() -", "time.time() -", "loop.time() -")


def statements(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions inside it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from statements(node)


def broken_rules(source: str) -> Iterator[int]:
    """The lines of test functions that sleep for a time, or that claim that something took less than a time."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.name[:5] != "test_":
            continue
        for node in statements(function):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("asyncio.sleep", "time.sleep"):
                if ast.unparse(node.args[0]) != "0":
                    yield node.lineno
            elif isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
                less = any(isinstance(one, ast.Lt | ast.LtE) for one in node.test.ops)
                if less and ast.unparse(node.test.left).startswith(CLOCKS):
                    yield node.lineno


def test_no_test_sleeps_for_a_result_or_compares_a_wall_clock_with_a_limit() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for line in broken_rules(path.read_text())
    ]
    assert found == [], "wait for an event (tests/support/waiting.py) or use tests/support/stopwatch.py"


def test_both_rules_find_what_breaks_them() -> None:
    source = """
async def test_one():
    await asyncio.sleep(0)
    await asyncio.sleep(0.1)
    async def tool():
        await asyncio.sleep(1)
    assert time.monotonic() - begun < 1
    assert time.monotonic() - begun >= 1
"""
    assert list(broken_rules(source)) == [4, 7]
