"""Where FastMCP 2 has its proxies."""

from .providers.proxy import (
    FastMCPProxy,
    ProxyClient,
    ProxyPrompt,
    ProxyProvider,
    ProxyResource,
    ProxyTemplate,
    ProxyTool,
    StatefulProxyClient,
    create_proxy,
)

__all__ = [
    "FastMCPProxy", "ProxyClient", "ProxyPrompt", "ProxyProvider", "ProxyResource", "ProxyTemplate", "ProxyTool",
    "StatefulProxyClient", "create_proxy",
]  # fmt: skip
