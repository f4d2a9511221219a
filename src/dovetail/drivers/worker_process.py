"""The inside of a worker process: read a call, make it, write what came of it.

Messages are pickles behind a four-byte length, on the descriptors that were stdin and stdout; both are moved
away before any user code runs, so that a print in a handler goes to stderr and never between two messages.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import os
import pickle
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, BinaryIO

HEADER = struct.Struct("!Q")
MAIN = "__dovetail_main__"
"""The name of the parent's main file in a worker; the parent knows it as an alias. `multiprocessing` has one of
its own, and lets it stand for whatever is the main module when it is imported."""


def main() -> None:
    """Serve calls until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the parent's business
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    _die_with_parent()
    sys.path[:] = pickle.loads(_read(requests) or pickle.dumps(sys.path))
    while (request := _read(requests)) is not None:
        reply = _reply(request)
        replies.write(HEADER.pack(len(reply)) + reply)
        replies.flush()


def _die_with_parent() -> None:
    """Linux: be killed when the parent is, even by SIGKILL. Elsewhere the end of the pipe has to do."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _read(stream: BinaryIO) -> bytes | None:
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (size,) = HEADER.unpack(header)
    body = stream.read(size)
    return body if len(body) == size else None


def _reply(request: bytes) -> bytes:
    try:
        target, arguments = pickle.loads(request)
        function = resolve(*target)  # first: unpickling the arguments may need the module it loads
        args, kwargs = pickle.loads(arguments)
        result = function(*args, **kwargs)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        return pickle.dumps((True, result))
    except BaseException as error:  # noqa: BLE001  the parent raises it again
        return _failure(error)


def _failure(error: BaseException) -> bytes:
    trace = "".join(traceback.format_exception(error))
    try:
        reply = pickle.dumps((False, (error, trace)))
        pickle.loads(reply)  # some exceptions pickle but do not come back
    except Exception:  # noqa: BLE001
        reply = pickle.dumps((False, (RuntimeError(f"{type(error).__name__}: {error}"), trace)))
    return reply


def resolve(module: str, file: str | None, name: str) -> Callable[..., Any]:
    """Find a function by where it was defined: its module, or the file if that name cannot be imported."""
    value: Any = _module(module, file)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _module(name: str, file: str | None) -> ModuleType:
    if name == "__main__":
        # Another name than __main__: what the file does as a script must not happen here.
        name = MAIN
    if name in sys.modules:
        return sys.modules[name]
    try:
        return importlib.import_module(name)
    except ImportError:
        if file is None:
            raise ImportError(
                f"{name} cannot be imported in another process: put the function into a file"
            ) from None
        return _load(name, file)


def _load(name: str, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {file}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    if name == MAIN:
        sys.modules["__main__"] = module  # arguments pickled in the parent name their classes so
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


if __name__ == "__main__":
    main()
