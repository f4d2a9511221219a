"""Listening Unix sockets: stale socket files are replaced, and the socket file is removed at the end."""

from __future__ import annotations

import errno
import os
import socket
import stat


def bind(path: str) -> socket.socket:
    """Return a socket bound to ``path``. The socket file of a server that has ended is replaced.

    Raises:
        OSError: another server listens there, ``path`` is another kind of file, or it cannot be created.
    """
    bound = socket.socket(socket.AF_UNIX)
    try:
        _remove_stale(path)
        bound.bind(path)
    except BaseException:
        bound.close()
        raise
    return bound


def identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of the file at ``path``, which identify it; None if the file does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def remove(path: str, bound: tuple[int, int] | None = None) -> None:
    """Delete the socket file, if it still has the identity ``bound`` (if given)."""
    if bound is None or identity(path) == bound:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def _remove_stale(path: str) -> None:
    if not os.path.exists(path):
        return
    if not stat.S_ISSOCK(os.stat(path).st_mode):
        raise FileExistsError(errno.EEXIST, "it exists and is not a socket; choose another path")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
