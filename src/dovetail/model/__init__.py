"""The MCP types: one model for all revisions. Where revisions differ it has the newest shape.

`struct_base` has the conventions of all definitions, `meta` the reserved keys of ``_meta``. Every module
lists the names it exports here.
"""

# ruff: noqa: F403

from . import (
    base_protocol,
    capabilities,
    content,
    inputs,
    meta,
    prompts,
    resources,
    skills,
    struct_base,
    tasks,
    tools,
)
from .base_protocol import *
from .capabilities import *
from .content import *
from .inputs import *
from .prompts import *
from .resources import *
from .skills import *
from .struct_base import *
from .tasks import *
from .tools import *

__all__ = ["meta"]
__all__ += struct_base.__all__
__all__ += capabilities.__all__
__all__ += content.__all__
__all__ += inputs.__all__
__all__ += base_protocol.__all__
__all__ += prompts.__all__
__all__ += resources.__all__
__all__ += skills.__all__
__all__ += tasks.__all__
__all__ += tools.__all__
