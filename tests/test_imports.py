"""The direction of imports: the left knows nothing of the right, and nothing runs in a circle."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "dovetail"

# From left to right. A module may import what stands on its own rank or further left; `dovetail` itself, the
# public face, only re-exports and may import everything.
RANKS: tuple[frozenset[str], ...] = (
    frozenset(
        {
            "command_parser",
            "error_causes",
            "errors",
            "extras",
            "imported_packages",
            "kinds",
            "lazy_pattern",
            "safe_yaml",
            "settings",
            "shapes",
        }
        | {"version"}
    ),
    frozenset({"json_schema"}),
    frozenset({"model"}),
    frozenset({"wire"}),
    frozenset({"core"}),
    frozenset({"server", "client", "drivers"}),
    frozenset({"transports", "middleware", "auth", "stores", "telemetry", "extensions", "cluster"}),
    frozenset({"gateway", "openapi", "manifest", "refusals", "sync"}),
    frozenset({"compat", "integrations"}),
    frozenset({"testing", "cli", "inspector"}),
)
RANK = {part: rank for rank, parts in enumerate(RANKS) for part in parts}

# The protocol of the stores, and how what is kept is written, are neighbours of the core; what implements it stands
# further right.
NEIGHBOURS = dict.fromkeys(
    (
        f"dovetail.stores.{name}"
        for name in ("base", "store_limits", "send_queue", "quotas", "versioned_records")
    ),
    RANK["core"],
)
# Every server has its health; it needs nothing but threads and the loop.
NEIGHBOURS |= dict.fromkeys(
    (
        f"dovetail.middleware.{name}"
        for name in ("middleware_limits", "event_loop_monitor", "health", "memory_usage")
    ),
    RANK["drivers"],
)

# These meet in core.channel and nowhere else.
STRANGERS = (frozenset({"server", "transports"}), frozenset({"server", "client"}))

# Upward arrows that are meant: importer → what it may import although it stands to the right. All of them are
# lazy, inside a function, so that `import dovetail` stays small.
MEANT: dict[str, frozenset[str]] = {
    "dovetail.server.input_requests.client_requests": frozenset({"cluster"}),  # steps that are run once
    "dovetail.server.store_choice": frozenset({"stores"}),  # the store that a URL names
    "dovetail.server.composition": frozenset({"gateway"}),  # the types of mounted components
    "dovetail.server.registry.registry": frozenset({"gateway"}),  # the type of the views
    # Server(auth=…); a client that breaks a rule; Server.metrics; stores; Server.mount, from_openapi
    "dovetail.server.server": frozenset(
        {"auth", "middleware", "telemetry", "cluster", "extensions", "gateway", "openapi", "integrations"}
    ),
    "dovetail.server.dispatcher": frozenset({"telemetry"}),  # the type of the metrics
    # contract="mcp.lock"; as above; Client(extensions=…)
    "dovetail.client.client_config": frozenset({"manifest", "telemetry", "extensions"}),
    "dovetail.server.resource_readers": frozenset({"transports"}),  # UrlResource fetches over HTTP
    "dovetail.server.serving": frozenset({"transports"}),  # Server.run and Server.asgi
    "dovetail.client.connecting.connectors": frozenset({"transports"}),  # Client's choice of a transport
    "dovetail.client.connecting.targets": frozenset({"gateway"}),  # Client({"mcpServers": …})
    "dovetail.client.auth": frozenset({"auth"}),  # auth="oauth"
    "dovetail.client.samplers.sampler_base": frozenset({"transports"}),  # the HTTP client of the transport
}

# Programs on top of the library use its public face, as anybody's would.
USERS = RANKS[-1]


def modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def part_of(module: str) -> str | None:
    """The package of a module, "core" for "dovetail.core.admit"; None for the public face."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def rank_of(module: str) -> int:
    return NEIGHBOURS.get(module, RANK[part_of(module) or ""])


def imports_of(module: str, *, lazy: bool) -> Iterator[str]:
    """The modules of ours that ``module`` imports; ``lazy`` includes imports inside functions.

    Imports under ``if TYPE_CHECKING`` are arrows too, but make no circle when the program runs.
    """
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    source = path.read_text()
    tree = ast.parse(source)
    if lazy and "import_module" in source:
        yield from named_at_run_time(tree)
    for node in statements(tree, lazy):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = node.module or ""
            if node.level:
                ancestors = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*ancestors, *filter(None, [node.module])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            target = name if name in MODULES else name.rpartition(".")[0]
            if target in MODULES and target != module:
                yield target


def named_at_run_time(tree: ast.AST) -> Iterator[str]:
    """Modules of ours named in a string, where `importlib.import_module` is used."""
    for node in ast.walk(tree):
        name = node.value if isinstance(node, ast.Constant) else None
        if isinstance(name, str) and name != PACKAGE and name in MODULES:
            yield name


def statements(tree: ast.AST, lazy: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif lazy or not (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        ):
            yield from statements(node, lazy)


def test_imports_point_in_one_direction() -> None:
    unknown = {part_of(module) for module in MODULES} - {None} - set(RANK)
    assert not unknown, f"give these packages a rank in tests/test_imports.py: {unknown}"
    assert [problem for module in MODULES for problem in wrong_imports(module)] == []
    assert [problem for module in MEANT for problem in wrong_exceptions(module)] == []
    assert_no_import_cycle()


def wrong_imports(module: str) -> Iterator[str]:
    part = part_of(module)
    if part is None:
        return
    for target in imports_of(module, lazy=True):
        other = part_of(target)
        if other is None:
            if part not in USERS:
                yield f"{module} imports the public package"
        elif other not in MEANT.get(module, frozenset()):
            if rank_of(target) > rank_of(module):
                yield f"{module} imports {target}, which has a higher rank"
            if {part, other} in STRANGERS:
                yield f"{module} imports {target}: these packages must not know each other"


def wrong_exceptions(module: str) -> Iterator[str]:
    if module not in MODULES:
        yield f"{module} does not exist: remove its exception"
        return
    meant = MEANT[module]
    late = set(imports_of(module, lazy=True)) - set(NEIGHBOURS)
    if not meant & {part_of(target) for target in late}:
        yield f"{module} no longer needs its exception"
    early = set(imports_of(module, lazy=False)) - set(NEIGHBOURS)
    if meant & {part_of(target) for target in early}:
        yield f"{module} must import {', '.join(meant)} inside a function"


def assert_no_import_cycle() -> None:
    graph = {module: set(imports_of(module, lazy=False)) for module in MODULES if part_of(module) is not None}
    done: set[str] = set()

    def circle(module: str, above: tuple[str, ...]) -> list[str] | None:
        if module in above:
            return [*above[above.index(module) :], module]
        if module in done:
            return None
        for target in sorted(graph.get(module, ())):
            # A package that a separate module imports from has begun to load already.
            if not module.startswith(f"{target}."):
                found = circle(target, (*above, module))
                if found:
                    return found
        done.add(module)
        return None

    for module in sorted(graph):
        found = circle(module, ())
        assert found is None, " → ".join(found or [])


def test_the_reading_of_imports_sees_every_form(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "sample.py"
    source.write_text(
        "from ..errors import ProtocolError\n"
        "from . import phases\n"
        "import dovetail.settings\n"
        "import json\n"
        "def later():\n"
        "    from dovetail.server import context\n"
        "    importlib.import_module('dovetail.wire.frames')\n"
    )
    monkeypatch.setitem(MODULES, "dovetail.core.sample", source)
    now = {"dovetail.errors", "dovetail.core.phases", "dovetail.settings"}
    assert set(imports_of("dovetail.core.sample", lazy=False)) == now
    later = {"dovetail.server.context", "dovetail.wire.frames"}
    assert set(imports_of("dovetail.core.sample", lazy=True)) == now | later


def test_the_core_knows_no_io_and_no_clock() -> None:
    allowed = {
        "__future__",
        "collections",
        "contextlib",
        "datetime",
        "functools",
        "hashlib",
        "itertools",
        "msgspec",
        "types",
        "typing",
        "weakref",
    }
    for module, path in MODULES.items():
        if part_of(module) == "core":
            for node in statements(ast.parse(path.read_text()), lazy=True):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                if isinstance(node, ast.Import) or not node.level:
                    roots = {name.split(".")[0] for name in names}
                    assert roots <= allowed, f"{module} imports {roots - allowed}"


@pytest.mark.parametrize("name", ["Server", "Client"])
def test_few_modules_know_a_facade_by_its_type_alone(name: str) -> None:
    """An import under ``TYPE_CHECKING`` hides a knot. What stands to the right of a facade imports it openly."""
    knots = [
        module
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for found in statements(node, lazy=True)
        if isinstance(found, ast.ImportFrom)
        and name in {alias.name for alias in found.names}
        and (found.module or "").split(".")[-1] in ("", "dovetail", name.lower())
    ]
    assert len(knots) <= 10, knots
