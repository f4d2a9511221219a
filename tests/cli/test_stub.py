"""``dovetail stub``: the module type-checks, works on every revision, and contains nothing that a server could run."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dovetail import Client
from dovetail.wire.revisions import REVISIONS
from tests.support.aio import run

SERVER = '''
from dataclasses import dataclass
from typing import Literal
from dovetail import Server, ToolError

server = Server("shop")

@dataclass
class Item:
    """An item."""
    name: str
    price: float
    parent: "Item | None" = None

@server.tool
def find(query: str, limit: int = 3, kind: Literal["a", "b"] | None = None) -> list[Item]:
    """Find items."""
    return [Item(query, limit / 2, Item(kind or "none", 0.5))]

@server.tool
def count() -> int:
    return 3

@server.tool
def rename(item: Item, name: str) -> Item:
    if not name:
        raise ToolError("a name is needed")
    return Item(name, item.price)

server.add_tool(
    name="raw", handler=lambda arguments: repr(arguments),
    input_schema={"type": "object", "properties": {"class": {"type": "string"}, "a b": {"type": "integer"},
                  "list": {"type": "array"}}, "required": ["class"]},
)

@server.prompt
def greet(name: str, style: str = "plain") -> str:
    return f"{name} {style}"
'''
HOSTILE = r"""
from dovetail import Server

text = chr(34) * 3 + "\nimport os; os._exit(4)\n" + chr(34) * 3 + chr(92)
server = Server("x" + text)
names = ["__init__", "class", "call", "client", "list", "1st", "a.b", "A", "a"]
keys = [*names, text, chr(92), "é", "self", "timeout", ""]
schema = {"type": "object", "description": text, "properties": {key: {"enum": [key, text]} for key in keys}}
schema["properties"]["deep"] = {"type": "object", "title": text, "properties": dict(schema["properties"])}
for name in names:
    options = {"name": name, "description": text, "input_schema": schema, "output_schema": schema}
    server.add_tool(**options, handler=lambda arguments: arguments)
"""


def words(*more: str) -> list[str]:
    return [sys.executable, "-m", "dovetail.cli.main", "stub", *more]


def stub(folder: Path, source: str, *more: str) -> subprocess.CompletedProcess[str]:
    server = folder / "server.py"
    server.write_text(source)
    return subprocess.run(
        words(str(server), "-o", str(folder / "shop_client.py"), *more),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def modules(tmp_path: Path) -> tuple[Any, Any]:
    """The server and its generated client."""
    done = stub(tmp_path, SERVER)
    assert done.returncode == 0, done.stderr
    return load(tmp_path / "server.py", "stub_server"), load(tmp_path / "shop_client.py", "stub_client")


@pytest.mark.parametrize("revision", [one.name for one in REVISIONS])
def test_the_typed_client_calls_tools_and_prompts(revision: str, modules: tuple[Any, Any]) -> None:
    server, generated = modules

    @run
    async def scenario() -> None:
        async with Client(server.server, revision=revision) as client:
            shop = generated.ShopClient(client)
            (item,) = await shop.find("x", limit=4, kind="b")
            assert type(item) is generated.Item
            assert (item.name, item.price, item.parent.name) == ("x", 2.0, "b")
            assert (await shop.find("x"))[0].price == 1.5
            assert await shop.count() == 3
            assert await shop.call("count", {}) == 3
            assert (await shop.rename(item, "y")).name == "y"
            assert (await shop.raw("c", a_b=1, list_=[2])).text == "{'class': 'c', 'a b': 1, 'list': [2]}"
            assert (await shop.greet_prompt("ann")).messages[0].content.text == "ann plain"
            with pytest.raises(Exception, match="a name is needed"):
                await shop.rename(item, "")

    scenario()


def test_the_module_passes_a_strict_type_check(tmp_path: Path) -> None:
    assert stub(tmp_path, SERVER).returncode == 0
    (tmp_path / "use.py").write_text(
        "import shop_client\n\nasync def use(shop: shop_client.ShopClient) -> None:\n"
        "    number: int = await shop.count()\n    name: str = (await shop.find('x'))[0].name\n"
        "    also: int = await shop.call('count', {})\n    print(number, name, also)\n"
    )
    (tmp_path / "server.py").unlink()
    config = '{"typeCheckingMode": "strict", "pythonVersion": "3.11", "reportMissingImports": false}'
    (tmp_path / "pyrightconfig.json").write_text(config)
    done = subprocess.run(
        [str(Path(sys.executable).with_name("pyright")), "--pythonpath", sys.executable, "-p", str(tmp_path)],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert "0 errors" in done.stdout, done.stdout


def test_the_check_reports_a_module_that_is_out_of_date(tmp_path: Path) -> None:
    assert stub(tmp_path, SERVER, "--check").returncode == 1
    assert stub(tmp_path, SERVER).returncode == 0
    assert stub(tmp_path, SERVER, "--check").returncode == 0
    changed = SERVER.replace("limit: int = 3", "limit: float = 3")
    done = stub(tmp_path, changed, "--check")
    assert done.returncode == 1
    assert "out of date" in done.stdout
    assert stub(tmp_path, SERVER, "--check").returncode == 0  # nothing was written


def test_names_and_texts_of_a_hostile_server_stay_data(tmp_path: Path) -> None:
    done = stub(tmp_path, HOSTILE)
    assert done.returncode == 0, done.stderr
    source = (tmp_path / "shop_client.py").read_text()
    tree = ast.parse(source)
    imported = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not any("os" in line.split() for line in imported)
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert "os._exit" not in calls
    load(tmp_path / "shop_client.py", "hostile_client")
