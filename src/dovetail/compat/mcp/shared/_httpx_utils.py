"""The HTTP client of SDK 1.x: httpx with the settings its users know."""

from typing import Any, Final, Protocol

from ....errors import DovetailError
from ....extras import DISTRIBUTION

MCP_DEFAULT_TIMEOUT: Final = 30.0
MCP_DEFAULT_SSE_READ_TIMEOUT: Final = 300.0


class McpHttpClientFactory(Protocol):
    def __call__(
        self, headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None
    ) -> Any: ...


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise DovetailError(f"this needs httpx beside {DISTRIBUTION}", kind="missing_extra") from None
    return httpx


def httpx_timeout(limit: float, silence: float) -> Any:
    """An ``httpx.Timeout``: ``limit`` to connect and to write, ``silence`` while an answer is read."""
    return _httpx().Timeout(limit, read=silence)


def create_mcp_http_client(
    headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None
) -> Any:
    """An ``httpx.AsyncClient`` that follows redirects and waits for streams.

    Raises:
        DovetailError: httpx is not installed.
    """
    limit = timeout or httpx_timeout(MCP_DEFAULT_TIMEOUT, MCP_DEFAULT_SSE_READ_TIMEOUT)
    return _httpx().AsyncClient(follow_redirects=True, headers=headers, timeout=limit, auth=auth)
