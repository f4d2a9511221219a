"""Write files that other programs read: completely or not at all."""

from __future__ import annotations

import os
import tempfile


def write_atomically(
    path: str | os.PathLike[str], data: bytes, mode: int | None = None, *, replace: bool = False
) -> None:
    """Replace the file at ``path`` with ``data``, so that a reader sees either the old or the new content.

    Follow a symbolic link and keep the permissions of the old file; a new file gets ``mode`` or the default.
    ``replace=True`` does neither: it replaces a link by a new file.
    """
    target = os.path.abspath(path) if replace else os.path.realpath(path)
    folder = os.path.dirname(target)
    os.makedirs(folder, exist_ok=True)
    if not replace and os.path.exists(target):
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
