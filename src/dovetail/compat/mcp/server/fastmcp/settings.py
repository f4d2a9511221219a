"""`Settings` of the SDK's FastMCP: keywords of its constructor, or ``FASTMCP_…`` in the environment."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from ....common.environment import EnvironmentSettings
from ..transport_security import TransportSecuritySettings

_LOCAL: Final = ("127.0.0.1", "localhost", "::1")


class Settings(EnvironmentSettings):
    """How a server is served. What is assigned later wins."""

    model_config = ConfigDict(extra="ignore", arbitrary_types_allowed=True)

    debug: bool = False
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    host: str = "127.0.0.1"
    port: int = 8000
    mount_path: str = "/"
    sse_path: str = "/sse"
    message_path: str = "/messages/"
    streamable_http_path: str = "/mcp"
    json_response: bool = False
    stateless_http: bool = False
    max_request_body_size: int = 4194304
    session_idle_timeout: float | None = 1800
    max_sessions: int | None = 10000
    warn_on_duplicate_resources: bool = True
    warn_on_duplicate_tools: bool = True
    warn_on_duplicate_prompts: bool = True
    dependencies: list[str] = Field(default_factory=list[str])
    lifespan: Any = None
    auth: Any = None
    transport_security: TransportSecuritySettings | None = None

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if self.transport_security is None and self.host in _LOCAL:
            hosts = [f"{name}:*" for name in ("127.0.0.1", "localhost", "[::1]")]
            self.transport_security = TransportSecuritySettings.model_construct(
                allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
            )
