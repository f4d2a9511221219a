"""`get_context`: the context of the current call, for functions that handlers call.

Importing this module enables it: only then does each call set a context variable.
"""

from __future__ import annotations

from ..errors import StateError
from . import current_call
from .context import Context

current_call.wanted = True


def get_context() -> Context:
    """Return the `Context` of the running handler, at any call depth, also in worker threads and tasks that it starts.

    Raises:
        StateError: no handler runs here.
    """
    context = current_call.context.get()
    if context is None:
        raise StateError("get_context() was called outside of a handler: no call is running here")
    return context
