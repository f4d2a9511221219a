"""Files that somebody else reads too: written whole or not at all, and never a link's target by accident."""

from __future__ import annotations

import os
import tempfile


def write_atomically(
    path: str | os.PathLike[str], data: bytes, mode: int | None = None, *, anew: bool = False
) -> None:
    """Replace the file at ``path`` (following a link to it) with ``data``: a reader sees the old one or the new one.

    It keeps the permissions it had; a new one gets ``mode``, or what is usual. ``anew``: it is a new one whatever lies
    there, a link too.
    """
    target = os.path.abspath(path) if anew else os.path.realpath(path)
    folder = os.path.dirname(target)
    os.makedirs(folder, exist_ok=True)
    if not anew and os.path.exists(target):
        mode = os.stat(target).st_mode & 0o7777
    elif mode is None:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    descriptor, name = tempfile.mkstemp(prefix=".dovetail-", dir=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
