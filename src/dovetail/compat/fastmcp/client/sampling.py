"""What a client is asked to have written by its model."""

from collections.abc import Callable
from typing import Any

from ...mcp.shared.context import RequestContext
from ...mcp.types import CreateMessageRequestParams as SamplingParams
from ...mcp.types import SamplingMessage

SamplingHandler = Callable[[list[SamplingMessage], SamplingParams, Any], Any]

__all__ = ["RequestContext", "SamplingHandler", "SamplingMessage", "SamplingParams"]
