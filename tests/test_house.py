"""The house stays small: modules, functions and the whole of src have a size they do not outgrow."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "dovetail"
MODULE = 450
FUNCTION = 40
WHOLE = 97_439
CENTRE = 44_967
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
    for node in ast.walk(ast.parse(text if re.search(r"(get|has)attr\(", text) else "")):
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


LIBRARIES = ("argparse", "asyncio", "granian", "h11", "httptools", "ssl", "uvicorn", "uvloop", "websockets")
NO_OTHER_WAY = {("tooling/settings.py", "argparse._AppendAction"), ("cli/run.py", "argparse._ArgumentGroup")}


def private_parts(text: str) -> Iterator[str]:
    """Private names of those libraries, and private modules of any."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            if ast.unparse(node.value).split(".")[0] in LIBRARIES:
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module != "__future__":
            named = [*(node.module or "").split("."), *(one.name for one in node.names)]
            yield from (part for part in named if part.startswith("_"))


def test_nobody_reaches_into_the_private_parts_of_a_host_or_a_loop() -> None:
    found = {(name, part) for name, text in modules() for part in private_parts(text)}
    assert found == NO_OTHER_WAY
    assert list(private_parts("self._a, asyncio._b, uvicorn.server._c")) == [
        "asyncio._b",
        "uvicorn.server._c",
    ]
    assert list(private_parts("from granian._d import x\nfrom uvicorn import _e\nfrom . import _f")) == [
        "_d",
        "_e",
    ]


def test_one_place_runs_calls_and_says_how_they_ended() -> None:
    for word in (".send_result(", "mask(call"):
        assert [name for name, text in modules() if word in text] == ["drivers/run.py"]


NUMBERS: dict[str, str] = {
    "cli/costs.py": "characters of a token, as a rule of thumb",
    "cli/output.py": "how wide a bar is drawn",
    "auth/proxy/vault.py": "AES-GCM",
    "drivers/exchange.py": "a status of HTTP",
    "gateway/patterns.py": "what a step costs",
    "gateway/ranking.py": "weights of BM25",
    "json_schema/weight.py": "what a step costs",
    "kinds.py": "codes of JSON-RPC",
    "layers/vitals.py": "what the kernel says where there is no limit",
    "server/listing.py": "the form of cursors",
    "stores/redis.py": "the form of what is kept",
    "stores/sqlite.py": "the form of what is kept",
    "surface/lock.py": "the form of a lock file",
    "tooling/migrate/imports.py": "how wide others write their lines",
    "transports/http/client/inflating.py": "gzip",
    "transports/http/host/granian_host.py": "what hyper wants for a head",
    "transports/http/server/asgi.py": "codes of WebSocket",
    "transports/http/server/event_log.py": "the number of the general stream",
    "transports/http/server/exchange.py": "digits that need no second look",
    "transports/http/server/guards.py": "bits",
    "transports/http/server/kernel.py": "netlink",
    "transports/http/server/websockets.py": "codes of WebSocket",
    "wire/headers.py": "the largest integer of JSON that all languages have",
    "wire/methods.py": "later than every revision",
    "wire/seal.py": "the form of tokens",
}
"""Modules with numbers that are no bounds, and what they are."""


def numbers(text: str) -> Iterator[str]:
    """The names of a module that stand for a number."""
    arithmetic = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            parts = list(ast.walk(node.value))
            kinds = {type(part.value) for part in parts if isinstance(part, ast.Constant)}
            if (
                kinds & {int, float}
                and kinds <= {int, float}
                and all(isinstance(one, arithmetic) for one in parts)
            ):
                yield ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def test_a_bound_stands_in_the_settings_or_among_the_bounds_of_its_room() -> None:
    found = {
        name: list(numbers(text))
        for name, text in modules()
        if not name.startswith(("settings/", "compat/"))
        and not name.endswith(("bounds.py", "auth/settings.py"))
    }
    found = {name: names for name, names in found.items() if names}
    assert {name: names for name, names in found.items() if name not in NUMBERS} == {}
    assert set(NUMBERS) - set(found) == set(), "no longer there: take them out of NUMBERS"
    assert list(numbers("A: Final = 1 << 20\nB = -0.5\nC = 'x'\nD = f(2)\nE: int\nF = 3, 4\n")) == ["A", "B"]
