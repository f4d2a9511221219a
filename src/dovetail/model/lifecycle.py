"""Getting to know each other: the handshake until 2025-11-25, discovery since 2026-07-28.

``ping``, ``server/discover`` and erlmcp's ``shutdown`` need no more than `RequestParams` and answer with
`EmptyResult`, discovery apart.
"""

from typing import Any

from msgspec import UNSET, UnsetType

from .base import CacheableResult, Implementation, LoggingLevel, RequestParams, Result

__all__ = [
    "DiscoverResult", "InitializeRequestParams", "InitializeResult", "SetLevelRequestParams",
]  # fmt: skip


class InitializeRequestParams(RequestParams):
    """Wrap ``capabilities`` in `ClientCapabilities` to ask it questions."""

    protocol_version: str
    capabilities: dict[str, Any]
    client_info: Implementation


class InitializeResult(Result):
    """Wrap ``capabilities`` in `ServerCapabilities` to ask it questions."""

    protocol_version: str
    capabilities: dict[str, Any]
    server_info: Implementation
    instructions: str | UnsetType = UNSET


class DiscoverResult(CacheableResult):
    """What a server speaks and offers. Its name stands in ``_meta``, as on every result."""

    supported_versions: list[str]
    capabilities: dict[str, Any]
    instructions: str | UnsetType = UNSET


class SetLevelRequestParams(RequestParams):
    """Until 2025-11-25; later each request says in ``_meta`` what it wants logged."""

    level: LoggingLevel
