"""Where clients keep their servers, and how they write one down: one row each, and nothing about them anywhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

Form = Literal["json", "toml", "yaml"]


class Installed(Struct, frozen=True, kw_only=True):
    """A server as it is to be installed: a command, or a URL."""

    command: list[str] = []
    url: str | None = None
    env: Mapping[str, str] = {}
    """Values that are written as they are."""
    refer: tuple[str, ...] = ()
    """Variables of the client's own environment, written by reference."""


class KnownClient(Struct, frozen=True, kw_only=True):
    """One client."""

    title: str
    linux: str
    darwin: str | None = None
    """Below the home folder; as on Linux where it is not given."""
    windows: str | None = None
    """The same, or below ``%APPDATA%`` with ``APPDATA/``."""
    other: str | None = None
    """Another name of the file beside the first, taken where it is the one that is there."""
    home: tuple[str, str] | None = None
    """A variable with which people move it, and the file below what it names."""
    section: str
    """The member that holds all servers."""
    nested: str | None = None
    """A member of the section that holds them, in files that have it."""
    form: Form = "json"
    write: Callable[[Installed], dict[str, Any]]
    reference: str | None = None
    """How it writes a variable of its environment; None: it cannot."""
    urls: bool = True
    """It can be given a URL; else our bridge stands between."""

    def place(self, system: str | None = None, home: Path | None = None) -> Path:
        """The file of this user on this ``system``."""
        system, home = system or sys.platform, home or Path.home()
        if self.home is not None and os.environ.get(self.home[0]):
            return Path(os.environ[self.home[0]]) / self.home[1]
        below = self.linux
        if system == "darwin":
            below = self.darwin or below
        elif system == "win32":
            below = self.windows or below
        if below.startswith("APPDATA/"):
            return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming") / below.removeprefix(
                "APPDATA/"
            )
        if below.startswith(".config/") and system == "linux" and os.environ.get("XDG_CONFIG_HOME"):
            home, below = Path(os.environ["XDG_CONFIG_HOME"]), below.removeprefix(".config/")
        found = home / below
        other = found.with_name(self.other) if self.other else found
        return other if other.exists() and not found.exists() else found


def _env(server: Installed, reference: str | None) -> dict[str, str]:
    named = {name: (reference or "").replace("NAME", name) for name in server.refer}
    return {**named, **server.env}


def _common(reference: str | None, **remote: str) -> Callable[[Installed], dict[str, Any]]:
    """``command``, ``args`` and ``env``, or the URL under the member that this client has for it."""
    words = {"url": "url", "kind": "", "local": "", **remote}

    def write(server: Installed) -> dict[str, Any]:
        if server.url is not None:
            return {**({"type": words["kind"]} if words["kind"] else {}), words["url"]: server.url}
        head, *rest = server.command
        found: dict[str, Any] = {"type": words["local"]} if words["local"] else {}
        found |= {"command": head, "args": rest}
        env = _env(server, reference)
        return {**found, "env": env} if env else found

    return write


def _codex(server: Installed) -> dict[str, Any]:
    if server.url is not None:
        return {"url": server.url}
    head, *rest = server.command
    found: dict[str, Any] = {"command": head, "args": rest}
    if server.refer:
        found["env_vars"] = list(server.refer)
    return {**found, "env": dict(server.env)} if server.env else found


def _goose(server: Installed) -> dict[str, Any]:
    # Without a description goose passes over what is reached by a URL.
    common: dict[str, Any] = {"enabled": True, "description": "", "timeout": 300}
    if server.url is not None:
        return {**common, "type": "streamable_http", "uri": server.url}
    head, *rest = server.command
    found = {**common, "type": "stdio", "cmd": head, "args": rest}
    return {**found, "envs": dict(server.env), "env_keys": list(server.refer)}


def _opencode(server: Installed) -> dict[str, Any]:
    # No word on whether it is switched on: its versions disagree about it, and it is.
    if server.url is not None:
        return {"type": "remote", "url": server.url}
    found: dict[str, Any] = {"type": "local", "command": server.command}
    env = _env(server, "{env:NAME}")
    return {**found, "environment": env} if env else found


_DOLLAR: Final = "${NAME}"
_BRACED: Final = "${env:NAME}"
_SERVERS: Final = "mcpServers"
CLIENTS: Final[Mapping[str, KnownClient]] = {
    "claude-desktop": KnownClient(
        title="Claude Desktop",
        linux=".config/Claude/claude_desktop_config.json",
        darwin="Library/Application Support/Claude/claude_desktop_config.json",
        windows="APPDATA/Claude/claude_desktop_config.json",
        section=_SERVERS, write=_common(None), urls=False,
    ),
    "claude-code": KnownClient(
        title="Claude Code", linux=".claude.json", home=("CLAUDE_CONFIG_DIR", ".claude.json"), section=_SERVERS,
        write=_common(_DOLLAR, kind="http", local="stdio"), reference=_DOLLAR,
    ),
    "cursor": KnownClient(
        title="Cursor", linux=".cursor/mcp.json", section=_SERVERS, write=_common(_BRACED), reference=_BRACED,
    ),
    "vscode": KnownClient(
        title="Visual Studio Code",
        linux=".config/Code/User/mcp.json",
        darwin="Library/Application Support/Code/User/mcp.json",
        windows="APPDATA/Code/User/mcp.json",
        section="servers", write=_common(_BRACED, kind="http", local="stdio"), reference=_BRACED,
    ),
    "codex": KnownClient(
        title="Codex", linux=".codex/config.toml", home=("CODEX_HOME", "config.toml"), section="mcp_servers",
        form="toml", write=_codex, reference="NAME",
    ),
    "gemini": KnownClient(
        title="Gemini CLI", linux=".gemini/settings.json", home=("GEMINI_CLI_HOME", ".gemini/settings.json"),
        section=_SERVERS,
        write=_common(_DOLLAR, url="httpUrl"), reference=_DOLLAR,
    ),
    "goose": KnownClient(
        title="goose", linux=".config/goose/config.yaml", windows="APPDATA/Block/goose/config/config.yaml",
        section="extensions", form="yaml", write=_goose, reference="NAME",
    ),
    "windsurf": KnownClient(
        title="Windsurf", linux=".codeium/windsurf/mcp_config.json", section=_SERVERS,
        write=_common(_BRACED, url="serverUrl"), reference=_BRACED,
    ),
    "zed": KnownClient(
        title="Zed", linux=".config/zed/settings.json", windows="APPDATA/Zed/settings.json",
        section="context_servers", write=_common(None),
    ),
    "opencode": KnownClient(
        title="opencode", linux=".config/opencode/opencode.json", other="opencode.jsonc", section="mcp",
        nested="servers", write=_opencode, reference="{env:NAME}",
    ),
    "kiro": KnownClient(
        title="Kiro", linux=".kiro/settings/mcp.json", section=_SERVERS, write=_common(_DOLLAR), reference=_DOLLAR,
    ),
    "lm-studio": KnownClient(title="LM Studio", linux=".lmstudio/mcp.json", section=_SERVERS, write=_common(None)),
}  # fmt: skip
