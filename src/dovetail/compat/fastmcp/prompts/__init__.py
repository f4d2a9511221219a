"""Prompts."""

from ...mcp.types import PromptMessage
from . import prompt as _module  # before the decorator of that name
from .base import FunctionPrompt, Message, Prompt, PromptArgument, PromptResult
from .decorator import PromptMeta, prompt

del _module
__all__ = [
    "FunctionPrompt", "Message", "Prompt", "PromptArgument", "PromptMessage", "PromptMeta", "PromptResult", "prompt",
]  # fmt: skip
