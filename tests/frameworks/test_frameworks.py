"""Agent frameworks with our tools, and with their own clients of our server. Each has a separate environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.interop import hosts
from bench.processes import free_port

from dovetail.integrations import FRAMEWORKS
from dovetail.integrations.foreign_tools import PACKAGES
from tests.support.process import CLI
from tests.support.waiting import HANG

pytestmark = pytest.mark.framework

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
SHOP = [sys.executable, str(Path(__file__).resolve().parent / "shop.py")]
EXAMPLES = ROOT / "examples" / "frameworks"


def run(framework: str, program: Path, *arguments: str) -> str:
    """Run a program in the environment of a framework; what it printed."""
    name = framework.replace("_", "-")
    python = ROOT / ".peers" / f"framework-{name}" / "bin" / "python"
    if not python.exists():
        pytest.fail(f".peers/framework-{name} is missing: run scripts/framework_envs.sh {name}")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    switches = {
        "CREWAI_DISABLE_TELEMETRY": "true",
        "OTEL_SDK_DISABLED": "true",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }
    done = subprocess.run(
        [str(python), str(program), *arguments],
        cwd=ROOT,
        env={**kept, **switches, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * HANG,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_port()
    with hosts.running([*SHOP, "http", str(port)], port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def quickstart() -> Iterator[str]:
    port = free_port()
    file = str(ROOT / "examples" / "quickstart.py")
    with hosts.running([*CLI, "run", file, "--http", "--port", str(port)], port):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_tools_of_a_client_work_in_the_framework(framework: str) -> None:
    assert "ok" in run(framework, PROGRAMS / "scenario.py", framework, "integration", *SHOP)


@pytest.mark.parametrize("framework", sorted(PACKAGES.values()))
def test_tools_of_the_framework_work_in_a_server(framework: str) -> None:
    assert "ok" in run(framework, PROGRAMS / "scenario.py", framework, "reverse")


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_client_of_the_framework_uses_the_server(framework: str, transport: str, address: str) -> None:
    path = {"http": "/mcp", "sse": "/sse"}.get(transport)
    target = [*SHOP, "stdio"] if path is None else [address + path]
    assert "ok" in run(framework, PROGRAMS / "scenario.py", framework, "theirs", transport, *target)


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("framework", ["autogen", "crewai", "langchain", "semantic_kernel", "smolagents"])
def test_a_client_of_the_sdk_1_speaks_the_newest_revision_after_compat_install(
    framework: str, transport: str, address: str
) -> None:
    target = [*SHOP, "stdio"] if transport == "stdio" else [address + "/mcp"]
    assert "ok" in run(framework, PROGRAMS / "scenario.py", framework, "compat", transport, *target)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_example_runs_without_a_model(framework: str) -> None:
    assert "5" in run(framework, EXAMPLES / f"{framework}_agent.py")


def programs_of_the_page() -> list[tuple[str, str]]:
    """The Python blocks of docs/frameworks.md, each with the framework that its first line names."""
    page = (ROOT / "docs" / "frameworks.md").read_text()
    return re.findall(r"^```python\n# (\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("framework", "source"), programs_of_the_page())
def test_the_programs_of_the_page_run(framework: str, source: str, tmp_path: Path, quickstart: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(source.replace("http://127.0.0.1:8000", quickstart))
    assert run(framework, program).strip()


def test_the_page_has_a_program_for_every_framework() -> None:
    assert {framework for framework, _ in programs_of_the_page()} == set(FRAMEWORKS)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_page_names_the_version_that_is_tested(framework: str) -> None:
    page = (ROOT / "docs" / "frameworks.md").read_text()
    (row,) = [line for line in page.splitlines() if f"| `{framework}` |" in line]
    pinned = (ROOT / "requirements" / "frameworks" / f"{framework.replace('_', '-')}.txt").read_text()
    versions = re.findall(r"\d+\.\d+\.\d+", row)
    assert versions
    assert [version for version in versions if f"=={version} " not in pinned] == []
