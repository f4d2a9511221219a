"""What a client answers to forms."""

from ...mcp.types import ElicitRequestParams, ElicitResult

__all__ = ["ElicitRequestParams", "ElicitResult"]
