"""The main loop of a worker process: read a call, run it, write the result.

Messages are pickles with a four-byte length prefix, on the descriptors that were stdin and stdout. Both are
moved away before user code runs. So a print in a handler goes to stderr and does not corrupt the protocol.
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
"""Name of the parent's main module in a worker; the parent knows it as an alias.

`multiprocessing` uses another name, and imports whatever is the main module under it.
"""


def main() -> None:
    """Serve calls until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
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
    """Linux: be killed together with the parent, even by SIGKILL.

    Elsewhere the end of the pipe ends the worker.
    """
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
        function = resolve(*target)  # first: unpickling the arguments may need the module that it loads
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
        pickle.loads(reply)  # some exceptions can be pickled but not unpickled
    except Exception:  # noqa: BLE001
        reply = pickle.dumps((False, (RuntimeError(f"{type(error).__name__}: {error}"), trace)))
    return reply


def resolve(module: str, file: str | None, name: str) -> Callable[..., Any]:
    """Find a function by its module, or by its file if the module cannot be imported."""
    value: Any = _module(module, file)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _module(name: str, file: str | None) -> ModuleType:
    if name == "__main__":
        # Not __main__: the script part of the file must not run here.
        name = MAIN
    if name in sys.modules:
        return sys.modules[name]
    try:
        return importlib.import_module(name)
    except ImportError:
        if file is None:
            raise ImportError(
                f"{name} cannot be imported in a worker process: put the function into a file"
            ) from None
        return _load(name, file)


def _load(name: str, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {file}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    if name == MAIN:
        # arguments pickled in the parent refer to their classes by this name
        sys.modules["__main__"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


if __name__ == "__main__":
    main()
