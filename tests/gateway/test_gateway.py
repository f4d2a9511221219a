"""All servers of a file as one: reading the file, the clients of it, what is down, and what changes."""

import asyncio
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Clients, DovetailError, Server
from dovetail.gateway import ConfigError, Gateway
from dovetail.gateway.gateway_config import read
from dovetail.gateway.trust import trust
from tests.gateway.behind import listed
from tests.support.aio import run
from tests.support.waiting import found, until

SERVER = """
import os
from dovetail import Server
server = Server("{name}")

@server.tool
def who() -> str:
    return "{name} " + os.environ.get("GREETING", "")

@server.tool
def other() -> str:
    return "other"
"""


def files(folder: Path, *names: str, **members: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        path = folder / f"{name}.py"
        path.write_text(SERVER.format(name=name))
        args = ["-m", "dovetail.cli.main", "run", str(path)]
        found[name] = {"command": sys.executable, "args": args, "env": {"GREETING": "hello"}, **members}
    return {"mcpServers": found}


@run
async def test_every_server_has_its_prefix(tmp_path: Path) -> None:
    async with Clients(files(tmp_path, "a", "b")) as clients:
        names = {tool.name for tool in await clients.list_tools()}
        assert names == {"a_who", "a_other", "b_who", "b_other"}
        assert (await clients.call_tool("a_who")).text == "a hello"
        assert (await clients.call_tool("b_who")).text == "b hello"
        assert clients.failed == {}


@run
async def test_a_single_server_keeps_its_names(tmp_path: Path) -> None:
    async with Client(files(tmp_path, "a")) as client:
        assert (await client.call_tool("who")).text == "a hello"


@run
async def test_one_that_fails_does_not_stop_the_rest(tmp_path: Path) -> None:
    config = files(tmp_path, "a")
    config["mcpServers"]["broken"] = {"command": str(tmp_path / "nothing")}
    async with Clients(config) as clients:
        assert {tool.name for tool in await clients.list_tools()} == {"a_who", "a_other"}
        assert list(clients.failed) == ["broken"]


@run
async def test_what_a_file_shapes_is_shaped_in_lists_and_calls(tmp_path: Path) -> None:
    config = files(tmp_path, "a", tools=["who"], rename={"who": "me"}, prefix="x")
    async with Clients(config) as clients:
        assert [tool.name for tool in await clients.list_tools()] == ["x_me"]
        assert (await clients.call_tool("x_me")).text == "a hello"
        for name in ("x_who", "x_other"):
            with pytest.raises(Exception, match=name):
                await clients.call_tool(name)


@run
async def test_a_file_shapes_arguments(tmp_path: Path) -> None:
    shaped = {
        "rename_arguments": {"add": {"a": "first"}},
        "default": {"add": {"b": 2}},
        "preset_arguments": {"add": {"c": 3}},
    }
    entry = {**files(tmp_path, "a")["mcpServers"]["a"], **shaped, "hide": {"add": ["d"]}}
    (tmp_path / "a.py").write_text(
        "from dovetail import Server\nserver = Server('a')\n@server.tool\n"
        "def add(a: int, b: int, c: int, d: int = 4) -> list[int]:\n    return [a, b, c, d]\n"
    )
    async with Clients({"mcpServers": {"a": {**entry, "describe": {"add": "said"}}}}) as clients:
        (tool,) = await clients.list_tools()
        assert (set(tool.input_schema["properties"]), tool.description) == ({"first", "b"}, "said")
        assert (await clients.call_tool("add", {"first": 1})).data == [1, 2, 3, 4]


@run
async def test_a_changed_file_changes_what_is_served_without_a_new_connection(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    whole = files(tmp_path, "a", "b")
    path.write_text(json.dumps({"mcpServers": {"a": {**whole["mcpServers"]["a"], "prefix": "a"}}}))
    told: list[str] = []
    async with Clients(path, on_list_changed=told.append) as clients:
        assert {tool.name for tool in await clients.list_tools()} == {"a_who", "a_other"}
        path.write_text(json.dumps({"mcpServers": {"b": {**whole["mcpServers"]["b"], "prefix": "b"}}}))
        await clients.gateway.reload()
        await until(lambda: "tools" in told)
        assert {tool.name for tool in await clients.list_tools()} == {"b_who", "b_other"}
        path.write_text("{ no JSON")
        await clients.gateway.reload()
        assert (await clients.call_tool("b_who")).text == "b hello"


@run
async def test_a_server_that_a_changed_file_names_and_that_is_down_is_not_called_well(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    whole = files(tmp_path, "one")
    path.write_text(json.dumps(whole))
    gateway = Gateway(path, reload=False)
    async with Client(gateway):
        whole["mcpServers"]["two"] = {"url": "http://127.0.0.1:1/mcp"}
        path.write_text(json.dumps(whole))
        await gateway.reload()
        await until(lambda: "ms" in gateway.health.describe()["upstream:two"])  # it has been checked
        assert not gateway.health.describe()["upstream:two"]["ok"]


@run
async def test_a_gateway_that_is_its_own_server_ends(tmp_path: Path) -> None:
    """The file names the very gateway that reads it: the chain of processes is bounded, and nothing is left."""
    inner = Server("inner", "1")
    inner.add_tool(lambda: "x", name="x", description="d")
    gateway = Gateway({"mcpServers": {}})
    with pytest.raises(Exception, match="itself"):
        gateway.mount(gateway, prefix="again")


def test_forms_of_other_programs_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEY", "k")
    monkeypatch.delenv("NONE", raising=False)
    entries = read(
        {
            "servers": {
                "one": {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Key": "${KEY}"}},
                "two": {"httpUrl": "https://example.com/two", "timeout": 3},
                "three": {"serverUrl": "https://example.com/${NONE:-three}"},
                "four words": {
                    "command": "npx",
                    "args": ["-y", "x"],
                    "env": {"N": 1, "B": True},
                    "cwd": "/tmp",
                },
                "off": {"command": "x", "disabled": True},
            }
        }
    )
    found = {entry.name: entry for entry in entries}
    assert found["one"].headers == {"X-Key": "k"}
    assert found["two"].timeout == 3
    assert found["three"].url == "https://example.com/three"
    assert found["four words"].command == ("npx", "-y", "x")
    assert found["four words"].env == {"N": "1", "B": "true"}
    assert found["four words"].prefix == "four_words"
    assert "off" not in found
    path = tmp_path / "mcp.toml"
    path.write_text('[servers.one]\ncommand = "x"\nprefix = ""\n')
    assert read(path)[0].prefix == ""


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "mcpServers"),
        ({"mcpServers": []}, "mcpServers"),
        ({"mcpServers": {"a": 1}}, "'a' must be an object"),
        ({"mcpServers": {"a": {}}}, "'a' needs either"),
        ({"mcpServers": {"a": {"comand": "x"}}}, "did you mean 'command' by 'comand'"),
        ({"mcpServers": {"a": {"command": "x", "url": "http://x/"}}}, "either"),
        ({"mcpServers": {"a": {"command": "x", "args": [1]}}}, "args"),
        ({"mcpServers": {"a": {"url": "file:///etc/passwd"}}}, "is not a valid server URL"),
        ({"mcpServers": {"a": {"url": "http://x/", "type": "pigeon"}}}, "pigeon"),
        ({"mcpServers": {"a": {"command": "${NOT_SET_ANYWHERE}"}}}, "NOT_SET_ANYWHERE"),
        ({"mcpServers": {"a": {"command": "x", "revision": "1999"}}}, "1999"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(config: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read(config)


def test_a_file_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "nothing.json")
    path = tmp_path / "mcp.json"
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"mcp\.json cannot be read"):
        read(path)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"command": "${NOT_SET_ANYWHERE}"}, "NOT_SET_ANYWHERE"),
        ({"comand": "x"}, "did you mean 'command'"),
        ({"command": "x", "prefix": "a"}, "prefix 'a'"),
        ({"command": "x", "middleware": ["Braker"]}, "unknown middleware 'Braker'"),
        ({"command": "x", "rename": {"who": "x", "other": "x"}}, "the same name"),
    ],
)
@run
async def test_one_that_is_written_wrongly_is_left_out_and_said_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: Any, reason: str
) -> None:
    config = files(tmp_path, "a")
    config["mcpServers"]["wrong"] = wrong
    async with Clients(config) as clients:
        assert (await clients.call_tool("a_who")).text == "a hello"
        assert reason in str(clients.failed["wrong"])
        assert "upstream:wrong" in clients.gateway.health.components
    assert any("entry left out name='wrong'" in record.getMessage() for record in caplog.records)


@run
async def test_a_change_that_is_wrong_leaves_that_server_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    config = files(tmp_path, "a", "b")
    path.write_text(json.dumps(config))
    async with Clients(path) as clients:
        before = (await clients.call_tool("a_who")).text
        config["mcpServers"]["a"]["cwd"] = "${NOT_SET_ANYWHERE}"
        config["mcpServers"]["b"]["prefix"] = "c"
        path.write_text(json.dumps(config))
        await clients.gateway.reload()
        assert (await clients.call_tool("a_who")).text == before
        assert (await clients.call_tool("c_who")).text == "b hello"
        assert clients.failed == {}


@run
async def test_a_file_that_changes_while_its_servers_start_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    config = files(tmp_path, "a", prefix="a")
    path.write_text(json.dumps(config))
    gateway = Gateway(path)
    config["mcpServers"]["a"]["prefix"] = "changed"
    path.write_text(json.dumps(config))
    async with Client(gateway) as client:
        assert await found(partial(listed, client, "changed_who"))


@run
async def test_a_command_from_a_changed_file_is_not_run_before_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = tmp_path / "mcp.json"
    config = files(tmp_path, "a", "b")
    path.write_text(json.dumps(config))
    for entry in read(path):
        trust(entry)
    words = [sys.executable, "-m", "dovetail.cli.main", "gateway", str(path)]
    async with Client(words, env=dict(os.environ), discovery_timeout=20) as client:
        assert (await client.call_tool("a_who")).text == "a hello"
        config["mcpServers"]["new"] = {"command": "touch", "args": [str(tmp_path / "ran")]}
        config["mcpServers"]["b"]["args"] = ["-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
        config["mcpServers"]["a"]["prefix"] = "told"
        path.write_text(json.dumps(config))
        assert await found(partial(listed, client, "told_who"))
        assert (await client.call_tool("b_who")).text == "b hello", "it stays as it was"
        assert not (tmp_path / "ran").exists()
        trust(read(path)[2])
        path.write_text(json.dumps(config, indent=1))
        await until((tmp_path / "ran").exists)


async def command(*words: str, **more: Any) -> tuple[int, str]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dovetail.cli.main",
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        env={**os.environ, **more},
    )
    _, errors = await child.communicate()
    return child.returncode or 0, errors.decode()


@run
async def test_an_unapproved_command_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "touch", "args": [str(tmp_path / "ran")]}}}))
    status, errors = await command("gateway", str(path), XDG_DATA_HOME=str(tmp_path))
    assert status == 2
    assert "--yes" in errors
    assert not (tmp_path / "ran").exists()


@run
async def test_the_gateway_as_a_program(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(files(tmp_path, "a", "b")))
    words = [sys.executable, "-m", "dovetail.cli.main", "gateway", str(path), "--yes"]
    async with Client(words, env=dict(os.environ), discovery_timeout=20) as client:
        assert (await client.call_tool("b_who")).text == "b hello"


@pytest.mark.parametrize("front", ["2024-11-05", "2026-07-28"])
@run
async def test_the_bridge_as_a_program(tmp_path: Path, front: str) -> None:
    path = tmp_path / "a.py"
    path.write_text(SERVER.format(name="a"))
    words = [sys.executable, "-m", "dovetail.cli.main", "bridge", str(path), "--revision", "2025-06-18"]
    async with Client(words, revision=front, env=dict(os.environ), discovery_timeout=20) as client:
        assert client.server_info is not None
        assert client.server_info.name == "a"
        assert (await client.call_tool("who")).text == "a "


@run
async def test_a_bridge_forwards_the_named_environment_variables(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(SERVER.format(name="a"))
    words = [sys.executable, "-m", "dovetail.cli.main", "bridge", str(path)]
    environment = {**os.environ, "GREETING": "hello"}
    for more, text in (([], "a "), (["--env", "GREETING"], "a hello"), (["--env", "GREETING=x=y"], "a x=y")):
        async with Client([*words, *more], env=environment, discovery_timeout=20) as client:
            assert (await client.call_tool("who")).text == text
    status, errors = await command("bridge", str(path), "--env", "DOVETAIL_UNKNOWN")
    assert (status, "DOVETAIL_UNKNOWN" in errors) == (2, True)


@run
async def test_a_bridge_to_nowhere_ends_and_says_why() -> None:
    status, errors = await command("bridge", "tcp://127.0.0.1:9")
    assert status == 1
    assert "127.0.0.1:9" in errors
    status, errors = await command("bridge", "tcp://127.0.0.1:9", "--revision", "1999")
    assert status == 2
    assert "1999" in errors


# --- limits and middleware of one server ------------------------------------------------------------------------

HUNGRY = """
import sys
from dovetail import Server
server = Server("hungry")

@server.tool(run="inline")
def eat(size: int) -> int:
    return len(bytearray(size))
"""


@run
async def test_layers_of_an_entry_stand_around_its_calls_alone(tmp_path: Path) -> None:
    config = files(tmp_path, "a", "b")
    config["mcpServers"]["a"]["middleware"] = ["CircuitBreaker", {"Policy": {"disabled": ["other"]}}]
    async with Clients(config) as clients:
        assert (await clients.call_tool("a_who")).text == "a hello"
        assert (await clients.call_tool("b_other")).text == "other"
        with pytest.raises(DovetailError):
            await clients.call_tool("a_other")


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"middleware": ["Braker"]}, "unknown middleware 'Braker'; use one of Audit, Caching"),
        ({"middleware": ["Rate"]}, "unknown middleware 'Rate'"),
        ({"middleware": [{"CircuitBreaker": {"failure": 3}}]}, "middleware CircuitBreaker"),
        ({"memory": "lots"}, "is not a valid size"),
        ({"memory": 0}, ">= 1|> 0"),
        ({"start_timeout": 0}, "> 0"),
    ],
)
def test_limits_and_layers_that_are_none_are_said(members: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Gateway({"mcpServers": {"a": {"command": "x", **members}}})


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the limit counts something else")
@run
async def test_a_child_gets_no_more_memory_than_it_may_have(tmp_path: Path) -> None:
    path = tmp_path / "hungry.py"
    path.write_text(HUNGRY)
    words = [sys.executable, "-m", "dovetail.cli.main", "run", str(path)]
    entry = {"command": words[0], "args": words[1:], "env": dict(os.environ), "memory": "300M"}
    async with Clients({"mcpServers": {"hungry": entry}}) as clients:
        assert (await clients.call_tool("eat", {"size": 1000})).text == "1000"
        failed = await clients.call_tool("eat", {"size": 1 << 30}, check=False)
        assert failed.is_error
        assert (await clients.call_tool("eat", {"size": 2000})).text == "2000"


@run
async def test_a_server_that_does_not_start_in_time_is_left_out() -> None:
    silent = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"], "start_timeout": 0.3}
    async with Clients({"mcpServers": {"silent": silent}}) as clients:
        assert set(clients.failed) == {"silent"}
    await until(lambda: len(asyncio.all_tasks()) == 1)  # the process is being ended
