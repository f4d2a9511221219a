"""The settings of FastMCP: ``fastmcp.settings``, read from ``FASTMCP_…`` and from a ``.env`` beside the program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from ..common.environment import EnvironmentSettings

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
DuplicateBehavior = Literal["warn", "error", "replace", "ignore"]


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


class Settings(EnvironmentSettings):
    """What may be said in the environment. What is assigned later wins."""

    model_config = ConfigDict(extra="ignore", validate_assignment=True)

    test_mode: bool = False
    home: Path = Path.home() / ".local" / "share" / "fastmcp"
    log_enabled: bool = True
    log_level: Annotated[LogLevel, BeforeValidator(_upper)] = "INFO"
    debug: bool = False
    host: str = "127.0.0.1"
    port: int = 8000
    transport: Literal["stdio", "http", "sse", "streamable-http"] = "stdio"
    sse_path: str = "/sse"
    message_path: str = "/messages/"
    streamable_http_path: str = "/mcp"
    json_response: bool = False
    stateless_http: bool = False
    http_host_origin_protection: bool | Literal["auto"] = False
    http_allowed_hosts: list[str] | None = None
    http_allowed_origins: list[str] | None = None
    mask_error_details: bool = False
    strict_input_validation: bool = False
    deprecation_warnings: bool = True
    enable_rich_logging: bool = True
    enable_rich_tracebacks: bool = True
    show_server_banner: bool = True
    show_cli_banner: bool = True
    check_for_updates: str = "stable"
    include_fastmcp_meta: bool = True
    include_tags: set[str] | None = None
    exclude_tags: set[str] | None = None
    server_auth: str | None = None
    server_dependencies: list[str] = Field(default_factory=list[str])
    decorator_mode: Literal["function", "object"] = "function"
    client_init_timeout: float | None = None
    client_raise_first_exceptiongroup_error: bool = True
    mounted_components_raise_on_load_error: bool = False

    @property
    def server_auth_class(self) -> Any:
        """The provider that ``server_auth`` names; None where it names none."""
        if not self.server_auth:
            return None
        from .server.auth.auth import provider_class  # most servers let in everybody

        return provider_class(self.server_auth)

    def get_setting(self, attr: str) -> Any:
        return getattr(self, attr)

    def set_setting(self, attr: str, value: Any) -> None:
        setattr(self, attr, value)


settings = Settings()
"""What the environment says."""


def __getattr__(name: str) -> Any:
    """``fastmcp.settings`` is both this module and the settings: whoever got the module may ask it for one of them."""
    return getattr(settings, name)
