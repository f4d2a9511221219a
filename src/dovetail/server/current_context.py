"""`get_context`: the context of the call that is served, for functions that handlers call.

Importing it is asking for it: from then on every call notes its context, and nobody else's calls pay for that.
"""

from __future__ import annotations

from ..errors import StateError
from . import current_call
from .context import Context

current_call.wanted = True


def get_context() -> Context:
    """The `Context` of the handler that runs here, however deep below it; in worker threads and tasks of its own too.

    Raises:
        StateError: no handler runs here.
    """
    context = current_call.context.get()
    if context is None:
        raise StateError("get_context() is for functions that a handler calls: no call is served here")
    return context
