"""Where FastMCP 2 has its prompts."""

from ...mcp.types import PromptMessage
from .base import FunctionPrompt, Message, Prompt, PromptArgument, PromptResult

__all__ = ["FunctionPrompt", "Message", "Prompt", "PromptArgument", "PromptMessage", "PromptResult"]
