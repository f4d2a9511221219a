"""Real public servers on their original library and on ours: what they list and answer, compared.

    python scripts/compat_proof.py [NAME …] [--home FOLDER] [--write FILE]

Each server of ``tests/compat/real/servers.json`` is installed from the package registry, with its original library,
into an environment of its own. It is recorded on the original over stdio, and over HTTP where it can serve that
(``http`` in its entry; the others know stdio only, so what they say there is compared with both of ours). Then ours
serves the same installation, over stdio and HTTP, on three revisions. Names, schemas, texts and the class of every
error have to be the same. In an entry ``{folder}`` is a folder, empty before each recording, ``{port}`` a free port.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import msgspec

from dovetail import Client, DovetailError, ProtocolError
from dovetail.settings import Timeouts

ROOT = Path(__file__).resolve().parents[1]
SERVERS = ROOT / "tests" / "compat" / "real" / "servers.json"
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
LIMIT = 60.0
UNKNOWN = "no_such_tool_anywhere"
ORIGINALS = ("mcp<=1.30.0", "fastmcp<=3.4.10")
"""The newest of their libraries; a server brings the one it is written for, some an older one."""
OURS = ("msgspec==0.22.0", "granian==2.8.7", "httptools==0.9.0", "pydantic==2.14.3", "jsonschema==4.26.0")

Recording = dict[str, Any]


def installed(home: Path, name: str, entry: dict[str, Any]) -> Path:
    """The Python of the server's environment, made where it is not there."""
    folder = home / name
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        venv.create(folder, with_pip=True)
        bounds = folder / "originals.txt"
        bounds.write_text("\n".join(entry.get("originals", ORIGINALS)) + "\n")
        wanted = (f"{entry['package']}=={entry['version']}", *OURS)
        command = (python, "-m", "pip", "install", "-q", "--constraint", bounds, *wanted)
        line = [str(word) for word in command]
        done = subprocess.run(line, timeout=1800, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DovetailError(f"it cannot be installed: {done.stderr.strip()[-1500:]}")
        (folder / "done").touch()
    return python


def filled(value: Any, **words: str) -> Any:
    """``value`` with what stands in braces in its texts put in."""
    if isinstance(value, dict):
        return {name: filled(one, **words) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, **words) for one in value]
    for word, text in words.items():
        value = value.replace(f"{{{word}}}", text) if isinstance(value, str) else value
    return value


def original(python: Path, entry: dict[str, Any]) -> list[str]:
    if "script" in entry:
        return [str(python.parent / entry["script"]), *entry.get("arguments", [])]
    return [str(python), "-m", entry["module"], *entry.get("arguments", [])]


def ours(python: Path, entry: dict[str, Any], *ways: str) -> list[str]:
    name = entry.get("script") or entry["module"]
    line = [
        str(python),
        "-m",
        "dovetail.cli.main",
        "run",
        "--compat",
        "-m",
        name,
        *ways,
        "--log-level",
        "warning",
    ]
    return [*line, "--", *entry.get("arguments", [])]


async def record(target: Any, revision: str, entry: dict[str, Any], env: dict[str, str]) -> Recording:
    """What a server lists and answers."""
    await asyncio.to_thread(_emptied, Path(env["PROOF_FOLDER"]))
    options: dict[str, Any] = {"env": env, "on_stderr": lambda data: None} if isinstance(target, list) else {}
    client = Client(
        target,
        revision=revision,
        validate="off",
        probe_timeout=LIMIT,
        **options,
        timeouts=Timeouts(connect=LIMIT),
    )
    async with asyncio.timeout(2 * LIMIT), client:
        told = client.server_capabilities
        found: Recording = {}
        for kind, method in (
            ("tools", client.list_tools),
            ("resources", client.list_resources),
            ("resources", client.list_resource_templates),
            ("prompts", client.list_prompts),
        ):
            try:
                found[method.__name__] = [_shown(item) for item in (await method() if told.has(kind) else [])]
            except ProtocolError as error:
                found[method.__name__] = error.code
        wanted = [tool for tool in found["list_tools"] if tool["inputSchema"].get("required")]
        calls = [(tool["name"], {}) for tool in wanted[: entry.get("most", 8)]]
        calls += [(UNKNOWN, {}), *((name, arguments) for name, arguments in entry.get("calls", []))]
        for name, arguments in calls if told.has("tools") else []:
            found[f"call {name} {json.dumps(arguments)}"] = await _called(client, name, arguments)
        return found


def _emptied(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _shown(item: Any) -> dict[str, Any]:
    """A definition without what only newer libraries know to say."""
    wire = msgspec.to_builtins(item)
    for name in ("_meta", "execution"):
        wire.pop(name, None)
    return wire


async def _called(client: Client, name: str, arguments: dict[str, Any]) -> Any:
    try:
        result = await client.call_tool(name, arguments, check=False, timeout=LIMIT)
    except ProtocolError as error:
        return {"error": error.code, "message": error.message}
    return {"isError": result.is_error, "content": msgspec.to_builtins(result.content), "data": result.data}


def differences(name: str, theirs: Recording, mine: Recording) -> list[str]:
    """Where two recordings are not the same, in words."""
    found: list[str] = []
    for key, value in theirs.items():
        other = mine.get(key)
        if value != other:
            found.append(f"{name}: {key}: {_first(value, other)}")
    return found


def _first(theirs: Any, mine: Any, path: str = "") -> str:
    if isinstance(theirs, list) and isinstance(mine, list):
        if len(theirs) != len(mine):
            return f"{path}: {len(theirs)} here, {len(mine)} with ours"
        pairs = [
            (f"{path}[{place}]", one, other)
            for place, (one, other) in enumerate(zip(theirs, mine, strict=True))
        ]
    elif isinstance(theirs, dict) and isinstance(mine, dict):
        names = sorted({*theirs, *mine})
        pairs = [(f"{path}.{name}", theirs.get(name), mine.get(name)) for name in names]
    else:
        return f"{path}: {str(theirs)[:300]!r}, with ours {str(mine)[:300]!r}"
    return next((_first(one, other, where) for where, one, other in pairs if one != other), path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def over_http(
    line: list[str],
    port: int,
    revisions: tuple[str, ...],
    entry: dict[str, Any],
    env: dict[str, str],
    path: str = "/mcp",
) -> dict[str, Recording]:
    """What a server says over HTTP, one process for all revisions."""
    child = await asyncio.create_subprocess_exec(
        *line, env=env, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(LIMIT):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    if child.returncode is not None:
                        raise DovetailError(f"it ended with exit status {child.returncode}") from None
                    await asyncio.sleep(0.1)
        url = f"http://127.0.0.1:{port}{path}"
        return {revision: await record(url, revision, entry, env) for revision in revisions}
    finally:
        if child.returncode is None:
            child.terminate()
            await child.wait()


async def prove(name: str, entry: dict[str, Any], home: Path) -> list[str]:
    """The differences between the original and ours for one server."""
    python = await asyncio.to_thread(installed, home, name, entry)
    folder = Path(tempfile.gettempdir()) / f"dovetail-proof-{name}"
    entry = filled(entry, folder=str(folder))
    env = {**os.environ, **entry.get("environment", {}), "HOME": str(home), "PYTHONHASHSEED": "0"}
    env |= {"PYTHONPATH": str(ROOT / "src"), "PROOF_FOLDER": str(folder)}
    # The originals do not know the newest revision, which has to show the same as the one before.
    theirs = {one: await record(original(python, entry), one, entry, env) for one in REVISIONS[:2]}
    theirs[REVISIONS[2]] = theirs[REVISIONS[1]]
    found: list[str] = []
    for revision in REVISIONS:
        mine = await record(ours(python, entry), revision, entry, env)
        found += differences(f"{name} stdio {revision}", theirs[revision], mine)
    if "http" in entry:
        port = free_port()
        served = filled({**entry, **entry["http"]}, port=str(port))
        path = served.get("path", "/mcp")
        there = {**env, **served.get("environment", {})}
        theirs = await over_http(original(python, served), port, REVISIONS[:2], entry, there, path)
        theirs[REVISIONS[2]] = theirs[REVISIONS[1]]
    port = free_port()
    line = ours(python, entry, "--http", "--port", str(port))
    for revision, mine in (await over_http(line, port, REVISIONS, entry, env)).items():
        found += differences(f"{name} http {revision}", theirs[revision], mine)
    shutil.rmtree(folder, ignore_errors=True)
    return found


async def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="only these servers")
    parser.add_argument(
        "--home", type=Path, default=ROOT / ".peers" / "compat", help="where they are installed"
    )
    parser.add_argument("--write", type=Path, help="where the outcome is written")
    options = parser.parse_args()
    servers: dict[str, Any] = json.loads(SERVERS.read_text())
    outcome: dict[str, Any] = {}
    for name in options.names or servers:
        try:
            found = await prove(name, servers[name], options.home)
        except (DovetailError, OSError, TimeoutError, subprocess.SubprocessError) as error:
            found = [f"{name}: {type(error).__name__}: {error}"]
        outcome[name] = {"same": not found, "differences": found}
        print(f"{'same' if not found else 'DIFFERENT':10}{name}", flush=True)
        for line in found[:6]:
            print(f"    {line[:700]}")
    same = sum(one["same"] for one in outcome.values())
    print(f"{same} of {len(outcome)} servers list and answer the same ({100 * same // len(outcome)} %)")
    if options.write is not None:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(json.dumps(outcome, indent=2) + "\n")
    return 0 if same == len(outcome) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
