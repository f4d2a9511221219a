"""When a process that serves ends abnormally: what went wrong is logged, and written to a file to be shown around.

The file has where it happened and what it was, no values of variables, and nothing that looks like a secret. It lies in
``DOVETAIL_CRASH_DIR``, or below ``$XDG_STATE_HOME`` (``~/.local/state``) in ``dovetail/crashes``; only its owner may
read it.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from ..errors import DovetailError

log = logging.getLogger("dovetail")


@contextmanager
def reported() -> Generator[None, None, None]:
    """Write a report of what escapes, unless it is an error we explain to the user anyway; then let it escape."""
    try:
        yield
    except DovetailError:
        raise
    except Exception as error:
        log.error("the server ends abnormally: %s", type(error).__name__)
        from .crash_report import write  # nothing of it is wanted before

        path = write(error)
        if path is not None:
            log.error("what is known of it is in %s", path)
        raise
