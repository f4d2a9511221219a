"""The house stays small: modules, functions and the whole of src have a size they do not outgrow."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "dovetail"
MODULE = 450
FUNCTION = 40
WHOLE = 96_106
CENTRE = 44_071
AROUND = (
    "auth",
    "compat",
    "gateway",
    "inspector",
    "layers",
    "openapi",
    "stores",
    "surface",
    "telemetry",
    "tooling",
    "workers",
)
"""The rooms around the conversation; everything else is the centre, which has a bound of its own."""

MODULES: dict[str, str] = {}
"""Modules with more lines than `MODULE`, and why. The list only gets shorter."""

FUNCTIONS = {
    "core/admit.py:admit": "hot path: every request passes here, and a call is what costs",
    "core/admit.py:_admit_in_session": "hot path: every request of a session passes here",
    "wire/frames.py:decode": "hot path: every message passes here, and a call is what costs",
    "drivers/requests.py:request": "hot path: a coroutine more between caller and socket is two calls a request",
    "client/calling/calls.py:call": "hot path: as above",
    "transports/http/server/app.py:handle": "hot path: every request over HTTP passes here",
}
"""Functions with more lines than `FUNCTION`, and why. The list only gets shorter."""


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), path.read_text()


def functions() -> Iterator[tuple[str, int]]:
    for name, text in modules():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def lines(text: str) -> int:
    return len(text.splitlines())


def test_a_module_has_at_most_450_lines() -> None:
    large = {name: lines(text) for name, text in modules() if lines(text) > MODULE}
    assert {name: size for name, size in large.items() if name not in MODULES} == {}
    assert set(MODULES) - set(large) == set(), "no longer large: take them out of MODULES"


def test_a_function_has_at_most_40_lines() -> None:
    large = {name: size for name, size in functions() if size > FUNCTION}
    assert {name: size for name, size in large.items() if name not in FUNCTIONS} == {}
    assert set(FUNCTIONS) - set(large) == set(), "no longer large: take them out of FUNCTIONS"


def test_the_whole_does_not_grow() -> None:
    assert sum(lines(text) for _, text in modules()) <= WHOLE


def test_the_centre_does_not_grow() -> None:
    assert sum(lines(text) for name, text in modules() if name.split("/")[0] not in AROUND) <= CENTRE


PROTOCOLS = ("core/channel.py", "transports/http/server/exchange.py", "client/fetch.py")


def protocol_members() -> set[str]:
    """All that `Link`, `Channel`, `Service` and their kin name."""
    found: set[str] = set()
    for name in PROTOCOLS:
        for one in ast.walk(ast.parse((SOURCE / name).read_text())):
            if isinstance(one, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in one.bases):
                for part in one.body:
                    if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                        found.add(part.name)
                    elif isinstance(part, ast.AnnAssign):
                        found.add(ast.unparse(part.target))
    return found


def guesses(text: str) -> Iterator[str]:
    """The names that are looked for with getattr or hasattr."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr"):
            yield from (str(one.value) for one in node.args[1:2] if isinstance(one, ast.Constant))


def test_nobody_guesses_what_a_link_a_channel_or_a_service_has() -> None:
    members = protocol_members()
    assert {"send_many", "asking", "event_history", "hung_up"} <= members
    found = [
        (name, guess)
        for name, text in modules()
        if not name.startswith(("compat/", "cli/"))  # which ask objects of others, and what was listed
        for guess in guesses(text)
        if guess in members
    ]
    assert found == []


def test_one_place_runs_calls_and_says_how_they_ended() -> None:
    for word in (".send_result(", "mask(call"):
        assert [name for name, text in modules() if word in text] == ["drivers/run.py"]
