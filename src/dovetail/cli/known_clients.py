"""The table of known clients: where their configuration files are, and how a server is written in each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

Form = Literal["json", "toml", "yaml"]


class Installed(Struct, frozen=True, kw_only=True):
    """A server to install: a command or a URL."""

    command: list[str] = []
    url: str | None = None
    env: Mapping[str, str] = {}
    """Variables that are written with their values."""
    refer: tuple[str, ...] = ()
    """Variables that the client copies from its environment; only their names are written."""


class KnownClient(Struct, frozen=True, kw_only=True):
    """One client."""

    title: str
    linux: str
    darwin: str | None = None
    """The path on macOS, below the home folder; by default that of Linux."""
    windows: str | None = None
    """The path on Windows, below the home folder, or below ``%APPDATA%`` if it starts with ``APPDATA/``."""
    other: str | None = None
    """An alternative name of the file, used if only this one exists."""
    home: tuple[str, str] | None = None
    """A variable that names another folder, and the file in this folder."""
    section: str
    """The member that contains the servers."""
    nested: str | None = None
    """A member of the section that contains the servers, in files that have it."""
    form: Form = "json"
    write: Callable[[Installed], dict[str, Any]]
    reference: str | None = None
    """How the client refers to a variable of its environment; None: it cannot."""
    urls: bool = True
    """Whether the client supports URLs; otherwise `dovetail bridge` connects to them."""

    def config_path(self, system: str | None = None, home: Path | None = None) -> Path:
        """Return the file of this user on ``system``."""
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
    """Return ``command``, ``args`` and ``env``, or the URL under the client's name for it."""
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
    # goose ignores a server with a URL and without a description.
    common: dict[str, Any] = {"enabled": True, "description": "", "timeout": 300}
    if server.url is not None:
        return {**common, "type": "streamable_http", "uri": server.url}
    head, *rest = server.command
    found = {**common, "type": "stdio", "cmd": head, "args": rest}
    return {**found, "envs": dict(server.env), "env_keys": list(server.refer)}


def _opencode(server: Installed) -> dict[str, Any]:
    # No member for "enabled": versions of the client disagree about it, and the default is on.
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
