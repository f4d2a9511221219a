"""The client."""

from .client import Client
from .transports import (
    ClientTransport,
    FastMCPTransport,
    NodeStdioTransport,
    NpxStdioTransport,
    PythonStdioTransport,
    SSETransport,
    StdioTransport,
    StreamableHttpTransport,
    UvxStdioTransport,
)

__all__ = [
    "Client", "ClientTransport", "FastMCPTransport", "NodeStdioTransport", "NpxStdioTransport", "PythonStdioTransport",
    "SSETransport", "StdioTransport", "StreamableHttpTransport", "UvxStdioTransport",
]  # fmt: skip
