"""Servers in the files of clients: put in, left as they were otherwise, taken out again."""

import json
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli import jsonc
from dovetail.cli.install import BACKUP
from dovetail.cli.known_clients import CLIENTS
from dovetail.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weather.py").write_text(
        "import os, sys\nfrom dovetail import Server\nserver = Server('weather')\n"
        "server.tool(name='seen', description='d')(lambda: f\"{os.environ.get('UNITS')}\")\n"
    )
    return home


def entry(client: str, home: Path, name: str = "weather") -> Any:
    row = CLIENTS[client]
    text = row.config_path().read_text()
    if row.form == "yaml":
        import yaml

        return yaml.safe_load(text)[row.section][name]
    return (jsonc.read(text) if row.form == "json" else tomllib.loads(text))[row.section][name]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_is_put_in_once_and_taken_out_again(client: str, home: Path, capsys: Captured) -> None:
    assert main(["install", "weather.py", "--into", client, "--env", "UNITS=metric"]) == 0
    assert "written" in capsys.readouterr().out
    row = CLIENTS[client]
    assert row.config_path().is_relative_to(home)
    assert row.config_path().stat().st_mode & 0o077 == 0
    found = entry(client, home)
    command = found.get("command", found.get("cmd"))
    words = command if isinstance(command, list) else [command, *found["args"]]
    assert words == [sys.executable, "-m", "dovetail.cli.main", "run", str(home.parent / "weather.py")]
    assert "metric" in json.dumps(found)
    before = row.config_path().read_bytes()
    assert main(["install", "weather.py", "--into", client, "--env", "UNITS=metric"]) == 0
    assert "unchanged" in capsys.readouterr().out
    assert row.config_path().read_bytes() == before
    assert main(["discover", "--json"]) == 0
    (seen,) = json.loads(capsys.readouterr().out)["clients"]
    assert (seen["client"], [one["name"] for one in seen["servers"]]) == (client, ["weather"])
    assert "metric" not in json.dumps(seen)
    assert main(["uninstall", "weather", "--from", client]) == 0
    assert main(["uninstall", "weather", "--from", client]) == 1
    with pytest.raises(KeyError):
        entry(client, home)


def test_what_was_installed_runs(home: Path) -> None:
    assert main(["install", "weather.py", "--into", "cursor", "--env", "UNITS=metric"]) == 0
    found = entry("cursor", home)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "seen"}},
    ]
    done = subprocess.run(
        [found["command"], *found["args"]],
        input="".join(json.dumps(line) + "\n" for line in lines),
        env={**os.environ, **found["env"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert '"metric"' in done.stdout


OLD = """// my servers
{
    "theme": "dark", // keep
    "mcpServers": {
        /* the first */
        "other": {"command": "x", "args": ["a,b", "}"]},
    },
}
"""


def test_a_backup_file_is_readable_by_its_owner_only(home: Path) -> None:
    path = CLIENTS["cursor"].config_path()
    path.parent.mkdir(parents=True)
    path.write_text(OLD)
    backup, other = Path(str(path) + BACKUP), home / "other"
    other.write_text("mine")
    backup.symlink_to(other)
    assert main(["install", "weather.py", "--into", "cursor"]) == 0
    assert (other.read_text(), backup.is_symlink(), backup.read_text()) == ("mine", False, OLD)
    backup.chmod(0o644)  # as it may have been left by others
    assert main(["uninstall", "weather", "--from", "cursor"]) == 0
    assert backup.stat().st_mode & 0o777 == 0o600


def test_a_list_of_servers_shows_no_secrets(home: Path, capsys: Captured) -> None:
    path = CLIENTS["cursor"].config_path()
    path.parent.mkdir(parents=True)
    servers = {
        "a": {"command": "npx", "args": ["srv", "--token", "hush", "--api-key=hush", "--port", "80"]},
        "b": {"url": "https://me:hush@api.example/mcp?key=hush"},
    }
    path.write_text(json.dumps({"mcpServers": servers}))
    assert main(["discover"]) == 0
    text = capsys.readouterr().out
    assert "hush" not in text
    assert "npx srv --token [masked] --api-key=[masked]" in text
    assert "https://api.example/mcp" in text


def test_comments_and_everything_else_stay(home: Path) -> None:
    path = CLIENTS["cursor"].config_path()
    path.parent.mkdir(parents=True)
    path.write_text(OLD)
    path.chmod(0o644)
    assert main(["install", "weather.py", "--into", "cursor"]) == 0
    text = path.read_text()
    for kept in (
        "// my servers",
        '"theme": "dark", // keep',
        "/* the first */",
        '"other": {"command": "x", "args": ["a,b", "}"]}',
    ):
        assert kept in text
    assert list(jsonc.read(text)["mcpServers"]) == ["other", "weather"]
    assert path.stat().st_mode & 0o777 == 0o644
    assert Path(str(path) + BACKUP).read_text() == OLD
    assert main(["uninstall", "weather", "--from", "cursor"]) == 0
    assert jsonc.read(path.read_text()) == jsonc.read(OLD)
    assert "// keep" in path.read_text()


TOML = """# mine
model = "o"

[mcp_servers.other]
command = "x"

[mcp_servers.weather.env]
OLD = "1"

[tui]
a = 1
"""


def test_toml_and_yaml_keep_the_rest(home: Path) -> None:
    path = CLIENTS["codex"].config_path()
    path.parent.mkdir(parents=True)
    path.write_text(TOML)
    assert main(["install", "weather.py", "--into", "codex", "--env", "API_KEY"]) == 0
    found = tomllib.loads(path.read_text())
    assert "# mine" in path.read_text()
    assert (found["tui"], list(found["mcp_servers"])) == ({"a": 1}, ["other", "weather"])
    assert found["mcp_servers"]["weather"]["env_vars"] == ["API_KEY"]
    assert "OLD" not in path.read_text()
    path = CLIENTS["goose"].config_path()
    path.parent.mkdir(parents=True)
    path.write_text("# mine\nextensions:\n  other:\n    type: stdio\n    args:\n    - a\nGOOSE_MODE: auto\n")
    assert main(["install", "weather.py", "--into", "goose"]) == 0
    assert "GOOSE_MODE: auto" in path.read_text()
    assert entry("goose", home, "other")["args"] == ["a"]
    assert entry("goose", home)["enabled"] is True
    assert main(["uninstall", "other", "--from", "goose"]) == 0
    assert "# mine" in path.read_text()
    assert entry("goose", home)["type"] == "stdio"


@pytest.mark.parametrize(
    "text", ['{"mcpServers": [}', "[]", '{"mcpServers": 3}', "{" * 500, "{'a': 1}", '{"a": 1} x', "/* open"]
)
def test_a_file_that_cannot_be_read_is_left_alone(home: Path, text: str, capsys: Captured) -> None:
    path = CLIENTS["cursor"].config_path()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert main(["install", "weather.py", "--into", "cursor"]) == 1
    assert path.read_text() == text
    assert "was not changed" in capsys.readouterr().err
    assert main(["uninstall", "weather", "--from", "cursor"]) == 1
    assert main(["discover"]) == 0


def test_a_client_whose_file_cannot_be_read_does_not_hide_the_others(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert main(["install", "weather.py", "--into", "goose", "--into", "cursor"]) == 0
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    assert main(["discover"]) == 0
    shown = capsys.readouterr().out
    assert "pip install 'dovetail-mcp[cli]'" in shown
    assert "weather" in shown.partition("Cursor")[2]


@pytest.mark.parametrize(
    "name",
    ["a;b", "$(x)", "a b", "-x", "", "a\nb", "../x", "a'b", 'a"b', "ä", "a" * 65, "`id`", "a|b", "a&b"],
)
def test_a_name_that_could_reach_a_shell_is_refused(home: Path, name: str, capsys: Captured) -> None:
    (home.parent / "x.py").write_text("")
    given = ["--name", name] if name and not name.startswith("-") else [f"--name={name}"]
    status = main(["install", "x.py", *given, "--into", "cursor"])
    if name:
        assert status == 1
        assert "is not a valid name" in capsys.readouterr().err
        assert not CLIENTS["cursor"].config_path().exists()


def test_secrets_go_by_reference(home: Path, capsys: Captured) -> None:
    assert main(["install", "weather.py", "--into", "cursor", "--env", "API_KEY=abc"]) == 1
    assert "looks like a secret" in capsys.readouterr().err
    assert main(["install", "weather.py", "--into", "cursor", "--env", "API_KEY"]) == 0
    assert entry("cursor", home)["env"] == {"API_KEY": "${env:API_KEY}"}
    assert main(["install", "weather.py", "--into", "opencode", "--env", "API_KEY"]) == 0
    assert entry("opencode", home)["environment"] == {"API_KEY": "{env:API_KEY}"}
    assert main(["install", "weather.py", "--into", "claude-desktop", "--env", "API_KEY"]) == 1
    assert ".env" in capsys.readouterr().err
    assert main(["install", "weather.py", "--into", "cursor", "--env", "a-b=1"]) == 1


def test_a_url_is_sent_to_clients_that_support_it_and_bridged_for_the_others(home: Path) -> None:
    url = "https://weather.example.com/mcp"
    into = ["--into", "vscode", "--into", "claude-desktop", "--into", "gemini"]
    assert main(["install", url, *into, "--no-check"]) == 0
    name = "weather-example-com"
    assert entry("vscode", home, name) == {"type": "http", "url": url}
    assert entry("gemini", home, name) == {"httpUrl": url}
    assert entry("claude-desktop", home, name)["args"][-3:] == ["bridge", url, "--stdio"]


def test_print_writes_nothing_and_arguments_follow(home: Path, capsys: Captured) -> None:
    assert main(["install", "weather.py", "--into", "zed", "--print", "--", "--fast", "a b"]) == 0
    shown = capsys.readouterr().out
    found = json.loads(shown.split("\n", 1)[1])
    assert found["context_servers"]["weather"]["args"][-3:] == ["--", "--fast", "a b"]
    assert not list(home.rglob("*"))
    with pytest.raises(SystemExit) as caught:
        main(["install", "weather.py"])
    assert caught.value.code == 2
    capsys.readouterr()
    assert main(["install", "weather.py", "--into", "goose", "--print"]) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == ["extensions:", "  weather:"]
    with pytest.raises(SystemExit) as caught:
        main(["install", "weather.py", "--into", "netscape"])
    assert caught.value.code == 2
    assert "cursor" in capsys.readouterr().err
    assert main(["install", "nothing.py", "--into", "zed"]) == 1


def test_a_colon_in_the_path_of_a_file_is_a_part_of_it(home: Path, capsys: Captured) -> None:
    """As in C:\\servers\\weather.py."""
    folder = home.parent / "c:"
    folder.mkdir()
    (folder / "weather.py").write_text("")
    assert main(["install", str(folder / "weather.py"), "--into", "cursor", "--no-check"]) == 0
    assert entry("cursor", home)["args"][-1] == str(folder / "weather.py")
    assert main(["install", str(folder / "weather.py:guarded"), "--into", "cursor", "--no-check"]) == 0
    assert entry("cursor", home)["args"][-1] == str(folder / "weather.py:guarded")


def test_every_system_has_its_place(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = CLIENTS["claude-desktop"]
    monkeypatch.delenv("APPDATA", raising=False)
    assert (
        row.config_path("darwin", home)
        == home / "Library/Application Support/Claude/claude_desktop_config.json"
    )
    assert row.config_path("win32", home) == home / "AppData/Roaming/Claude/claude_desktop_config.json"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/xdg")
    assert row.config_path("linux", home) == Path("/xdg/Claude/claude_desktop_config.json")


def test_a_client_that_was_moved_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = {"codex": "CODEX_HOME", "claude-code": "CLAUDE_CONFIG_DIR", "gemini": "GEMINI_CLI_HOME"}
    for client, variable in moved.items():
        monkeypatch.setenv(variable, str(home / "moved" / client))
        assert CLIENTS[client].config_path().is_relative_to(home / "moved" / client)
        assert main(["install", "weather.py", "--into", client]) == 0
        assert entry(client, home)["command"] == sys.executable


def test_what_goose_cannot_do_without_is_written(home: Path) -> None:
    """It passes over entries without a name, and over URLs without a description."""
    far = "https://weather.example.com/mcp"
    assert main(["install", far, "--into", "goose", "--name", "far", "--no-check"]) == 0
    found = entry("goose", home, "far")
    assert (found["name"], found["description"], found["type"]) == ("far", "", "streamable_http")


def test_both_forms_of_opencode_are_kept(home: Path, capsys: Captured) -> None:
    row = CLIENTS["opencode"]
    path = row.config_path().with_name("opencode.jsonc")
    path.parent.mkdir(parents=True)
    path.write_text('{"mcp": {"servers": {"other": {"type": "local", "command": ["x"]}}}} // mine\n')
    assert main(["install", "weather.py", "--into", "opencode"]) == 0
    found = jsonc.read(path.read_text())["mcp"]
    assert (list(found), list(found["servers"])) == (["servers"], ["other", "weather"])
    assert not path.with_name("opencode.json").exists()
    capsys.readouterr()
    assert main(["discover", "--json"]) == 0
    (seen,) = json.loads(capsys.readouterr().out)["clients"]
    assert [one["name"] for one in seen["servers"]] == ["other", "weather"]
    assert main(["uninstall", "weather", "--from", "opencode"]) == 0
    assert list(jsonc.read(path.read_text())["mcp"]["servers"]) == ["other"]
    path.write_text('{"mcp": {"servers": {"type": "local", "command": ["a server of this name"]}}}')
    assert main(["install", "weather.py", "--into", "opencode"]) == 0
    assert list(jsonc.read(path.read_text())["mcp"]) == ["servers", "weather"]


def test_a_link_stays_one(home: Path) -> None:
    path = CLIENTS["cursor"].config_path()
    path.parent.mkdir(parents=True)
    real = home / "dotfiles.json"
    real.write_text("{}")
    path.symlink_to(real)
    assert main(["install", "weather.py", "--into", "cursor"]) == 0
    assert path.is_symlink()
    assert "weather" in real.read_text()


BROKEN = {
    "a mistake": ("import no_such_module\n", "no_such_module"),
    "no server": ("x = 1\n", "no Server"),
    "an end": ("import os\nos._exit(3)\n", "3"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_server_that_does_not_start_is_not_written_down(what: str, home: Path, capsys: Captured) -> None:
    text, reason = BROKEN[what]
    (home.parent / "broken.py").write_text(text)
    assert main(["install", "broken.py", "--into", "cursor"]) == 1
    said = capsys.readouterr().err
    assert "broken.py" in said
    assert reason in said
    assert "--no-check" in said
    assert not CLIENTS["cursor"].config_path().exists()
    assert main(["install", "broken.py", "--into", "cursor", "--no-check"]) == 0
    assert entry("cursor", home, "broken")


def test_a_url_that_cannot_be_reached_is_not_written_down(home: Path, capsys: Captured) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/mcp"
        assert main(["install", url, "--into", "cursor"]) == 1
        assert "nothing was written" in capsys.readouterr().err
        assert main(["install", url, "--into", "cursor", "--no-check"]) == 0
