"""How a client shows who it is."""

from .bearer import BearerAuth

__all__ = ["BearerAuth"]
