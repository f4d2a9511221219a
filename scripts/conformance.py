"""Run the official conformance suite against the fixture server and the fixture client, and score it.

usage: conformance.py [server|client] [REVISION…] [--only REGEX] [--bridge [REVISION]] [--write FILE]

A scenario passes when it ran, none of its checks failed or warned, at least one succeeded, and (for clients)
the process ended with 0. One whose checks were all skipped was not exercised: the suite always skips
``tasks-status-notifications``; any other one counts as a failure here. Scenarios below ``auth/`` are outside
the client's score until authorization is there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NODE_MODULES = ROOT / ".peers/node/node_modules"
SUITE = NODE_MODULES / "@modelcontextprotocol/conformance"
REVISIONS = {
    "server": ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "extensions"],
    "client": ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "extensions"],
}
ALWAYS_SKIPPED = {"tasks-status-notifications"}
SECONDS = 90
STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")


@dataclass
class Score:
    """What one leg (server or client, on one revision) achieved."""

    leg: str
    revision: str
    scenarios: int = 0
    passed: int = 0
    idle: int = 0
    checks: int = 0
    checks_passed: int = 0
    trouble: list[str] = field(default_factory=list)

    def line(self) -> str:
        idle = f", {self.idle} always skipped by the suite" if self.idle else ""
        return (
            f"{self.leg} {self.revision}: scenarios {self.passed}/{self.scenarios - self.idle}{idle}, "
            f"checks {self.checks_passed}/{self.checks}"
        )


def node() -> str:
    """The machine's Node if the suite runs on it (22 or newer), else the one from npm."""
    try:
        version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
        if int(version.lstrip("v").split(".")[0]) >= 22:
            return "node"
    except (OSError, ValueError, subprocess.CalledProcessError):
        pass
    return str(NODE_MODULES / "node/bin/node")


def suite(*arguments: str, timeout: float = SECONDS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node(), str(SUITE / "dist/index.js"), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=ROOT,
        check=False,
    )


def scenarios(leg: str, revision: str) -> list[str]:
    if revision == "extensions":
        listing = suite("list", f"--{leg}").stdout
        return re.findall(r"^  - (.*) \[extension\]$", listing, re.MULTILINE)
    listing = suite("list", f"--{leg}", "--spec-version", revision).stdout
    return re.findall(r"^  - (\S+)", listing, re.MULTILINE)


def run_alone(leg: str, revision: str, name: str, target: str, out: Path) -> int:
    arguments = [leg, "--scenario", name, "-o", str(out)]
    arguments += ["--url", target] if leg == "server" else ["--command", target, "--timeout", "30000"]
    if revision != "extensions":
        arguments += ["--spec-version", revision]
    try:
        return suite(*arguments).returncode
    except subprocess.TimeoutExpired:
        return 124


def read_checks(out: Path, leg: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for path in out.rglob("checks.json"):
        name = STAMP.sub("", str(path.parent.relative_to(out)))
        found[name.removeprefix("server-") if leg == "server" else name] = json.loads(path.read_text())
    return found


def run_leg(leg: str, revision: str, target: str, only: str) -> Score:
    names = [name for name in scenarios(leg, revision) if re.search(only, name)]
    score = Score(leg, revision, scenarios=len(names))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        codes: dict[str, int] = {}
        if leg == "server" and revision != "extensions" and only == ".":
            suite(
                "server",
                "--url",
                target,
                "--suite",
                "all",
                "--spec-version",
                revision,
                "-o",
                folder,
                timeout=600,
            )
        else:
            # One client at a time: several would disturb the scenarios that measure waits.
            with ThreadPoolExecutor(1) as pool:
                codes = dict(
                    zip(
                        names,
                        pool.map(lambda name: run_alone(leg, revision, name, target, out), names),
                        strict=True,
                    )
                )
        found = read_checks(out, leg)
    for name in names:
        judge(score, name, found.get(name), codes.get(name, 0))
    return score


def judge(score: Score, name: str, checks: list[dict[str, Any]] | None, code: int) -> None:
    if checks is None:
        score.trouble.append(f"{name}: no result (exit code {code})")
        return
    bad = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    good = [check for check in checks if check["status"] == "SUCCESS"]
    score.checks += len(bad) + len(good)
    score.checks_passed += len(good)
    for check in bad:
        text = " ".join(str(check.get("errorMessage") or check.get("description") or "").split())
        score.trouble.append(f"{name}: {check['status']} {check['id']}: {text[:300]}")
    exercised = any(not check["id"].startswith("wire-schema") for check in good)
    if bad:
        return
    if code and score.leg == "client":
        score.trouble.append(f"{name}: the client ended with exit code {code}")
    elif exercised:
        score.passed += 1
    elif name in ALWAYS_SKIPPED:
        score.idle += 1
    else:
        score.trouble.append(f"{name}: not exercised")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve(port: int, *what: str) -> subprocess.Popen[bytes]:
    command = [str(ROOT / ".venv/bin/dovetail"), *what, "--http", "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"the fixture server ended with exit code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            time.sleep(0.05)
    process.kill()
    sys.exit("the fixture server did not start")


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()


@contextmanager
def bridge(target: str, wanted: str | None, revision: str) -> Generator[str]:
    """The URL at which ``target`` is reached: its own, or that of a bridge which speaks ``wanted`` with it."""
    if wanted is None:
        yield target
        return
    if wanted == "same":
        wanted = "auto" if revision == "extensions" else revision
    port = free_port()
    process = serve(port, "bridge", target, "--revision", wanted)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        end(process)


def write(path: Path, scores: list[Score]) -> None:
    version = json.loads((SUITE / "package.json").read_text())["version"]
    rows = [
        {"leg": s.leg, "revision": s.revision, "passed": s.passed, "of": s.scenarios - s.idle,
         "checks_passed": s.checks_passed, "checks": s.checks}
        for s in scores
    ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"date": time.strftime("%Y-%m-%d"), "suite": version, "rows": rows}, indent=2) + "\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("leg", nargs="?", choices=["server", "client"])
    parser.add_argument("revisions", nargs="*")
    parser.add_argument("--only", default=".")
    parser.add_argument("--url", help="a server that is already running")
    parser.add_argument(
        "--bridge",
        nargs="?",
        const="auto",
        metavar="REVISION",
        help="through `dovetail bridge`, which speaks this behind; `same` is what is spoken in front",
    )
    parser.add_argument("--write", type=Path, help="write the scores as JSON")
    options = parser.parse_args()
    scores: list[Score] = []
    for leg in [options.leg] if options.leg else ["server", "client"]:
        processes: list[subprocess.Popen[bytes]] = []
        target = f"{ROOT}/.venv/bin/python {ROOT}/examples/conformance/client.py"
        if leg == "server":
            target = options.url
            if target is None:
                port = free_port()
                target = f"http://127.0.0.1:{port}/mcp"
                processes.append(serve(port, "run", "examples/conformance/server.py"))
        try:
            for revision in options.revisions or REVISIONS[leg]:
                with bridge(target, options.bridge if leg == "server" else None, revision) as reached:
                    score = run_leg(leg, revision, reached, options.only)
                scores.append(score)
                print(score.line(), flush=True)
                for line in score.trouble:
                    print("  " + line, flush=True)
        finally:
            for process in processes:
                end(process)
    if options.write:
        write(options.write, scores)
    failed = sum(s.scenarios - s.idle - s.passed for s in scores)
    print(f"{sum(s.passed for s in scores)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    sys.exit(main())
