"""How a client shows who it is."""

from typing import TYPE_CHECKING

from ....later import later
from .bearer import BearerAuth

if TYPE_CHECKING:
    from .oauth import OAuth

__getattr__ = later(__name__, {"OAuth": ".oauth"})
__all__ = ["BearerAuth", "OAuth"]
