"""What a client may be pointed at."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.client.connecting.targets import parse_target


def test_each_form_of_target() -> None:
    assert parse_target(["python", "server.py"]).command == ("python", "server.py")
    assert parse_target("https://x.example/mcp").kind == "http"
    assert parse_target("ws://x.example/mcp").kind == "websocket"
    tcp = parse_target("tcp://localhost:9000")
    assert (tcp.kind, tcp.host, tcp.port, tcp.tls) == ("tcp", "localhost", 9000, False)
    assert parse_target("tls://localhost:9000").tls
    assert parse_target("unix:/tmp/s").path == "/tmp/s"
    assert parse_target("unix:///tmp/s").path == "/tmp/s"
    assert parse_target(Server("x")).kind == "memory"


def test_a_file_is_run_by_its_server_or_by_itself(tmp_path: Path) -> None:
    ours, fastmcp, foreign = (tmp_path / f"{name}.py" for name in ("ours", "fastmcp", "foreign"))
    ours.write_text("from dovetail import Server")
    fastmcp.write_text("import os, fastmcp")
    foreign.write_text("from elsewhere.mcp import Server")
    assert parse_target(ours).command[-2:] == ("run", str(ours))
    assert parse_target(fastmcp).command[-2:] == ("run", str(fastmcp))
    assert parse_target(str(foreign)).command == (sys.executable, str(foreign))


@pytest.mark.parametrize(
    "text", ["localhost:80", "ftp://x", "tcp://nohost", "http://", "server", "/no/such/file.py", ""]
)
def test_other_strings_are_refused_with_advice(text: str) -> None:
    with pytest.raises(ValueError, match=r"target|host|read"):
        parse_target(text)


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="a target is"):
        Client(42)
    with pytest.raises(ValueError, match="empty"):
        Client([])


def test_names_in_messages_hold_no_secrets_and_verdicts_no_query() -> None:
    target = parse_target("https://user:secret@x.example/mcp?token=1#f")
    assert target.label == "https://x.example/mcp"
    assert "token" not in (target.key or "")
    assert parse_target(Server("x")).key is None


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("revision", "1999", "revision must be"),
        ("dialect", "klingon", "unknown dialect 'klingon'; known dialects: official"),
        ("validate", "no", "validate must be"),
    ],
)
def test_wrong_options_are_named_at_once(option: str, value: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Client(Server("x"), **{option: value})


def test_tls_without_tls_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="ssl=False contradicts tls://"):
        Client("tls://127.0.0.1:9000", ssl=False)


def test_wrong_auth_is_named_at_once() -> None:
    with pytest.raises(TypeError, match="auth must be"):
        Client("http://x.example/", auth=42)


WRONG: list[dict[str, Any]] = [
    {"timeouts": 3}, {"on_elicit": "yes"}, {"on_roots": 1}, {"on_log": [print]}, {"limits": 3}, {"middleware": 3},
    {"reconnect": "no"}, {"revision": ["2025-06-18"]}, {"dialect": [1]}, {"headers": 3}, {"capabilities": "x"},
    {"client_info": "me"}, {"cache": 3}, {"env": "A=b"}, {"cwd": 3}, {"proxy": 3}, {"discovery_timeout": "1"},
    {"ping_interval": "1"}, {"server_cache": 3},
]  # fmt: skip


@pytest.mark.parametrize("options", WRONG)
def test_an_option_of_the_wrong_kind_is_refused_before_anything_happens(options: dict[str, Any]) -> None:
    [name] = options
    with pytest.raises(TypeError, match=f"{name} is "):
        Client(Server("x"), **options)
