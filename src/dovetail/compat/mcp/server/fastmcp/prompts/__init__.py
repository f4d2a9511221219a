"""Prompts."""

from typing import TYPE_CHECKING

from .....later import later
from .manager import PromptManager

if TYPE_CHECKING:
    from .base import Prompt

__getattr__ = later(__name__, {"Prompt": ".base"})
__all__ = ["Prompt", "PromptManager"]
