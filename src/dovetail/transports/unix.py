"""Unix sockets that listen: one that a killed server has left is replaced, and none is left behind."""

from __future__ import annotations

import os
import socket
import stat


def bind(path: str) -> socket.socket:
    """A socket at ``path``. One that nobody listens on any more makes room.

    Raises:
        OSError: somebody listens there, something else is there, or it cannot be made.
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
    """What tells the file at ``path`` from one that comes later; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def remove(path: str, bound: tuple[int, int] | None = None) -> None:
    """Take the socket away; where it is told what was ``bound``, no other."""
    if bound is None or identity(path) == bound:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def _remove_stale(path: str) -> None:
    if not os.path.exists(path) or not stat.S_ISSOCK(os.stat(path).st_mode):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
