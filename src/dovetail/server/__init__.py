"""Servers: the classes that authors of servers use. What few servers need is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .context import Context
from .input_requests.input_required import InputNotSupported, InputRejected, InputRequired
from .media import Audio, File, Image
from .registry.component_tables import RegisteredPrompt, RegisteredResource, RegisteredTool
from .server import Middleware, Server
from .signatures.depends import Depends

if TYPE_CHECKING:
    from .handles import Handle
    from .input_requests.request_kinds import (
        Accepted,
        Declined,
        Elicit,
        ElicitUrl,
        Question,
        Roots,
        Sample,
        Sampled,
    )

_KINDS = ("Accepted", "Declined", "Elicit", "ElicitUrl", "Question", "Roots", "Sample", "Sampled")


def __getattr__(name: str) -> Any:
    if name != "Handle" and name not in _KINDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "handles" if name == "Handle" else "input_requests.request_kinds"
    return getattr(import_module(f"{__name__}.{home}"), name)


__all__ = [
    "Accepted",
    "Audio",
    "Context",
    "Declined",
    "Depends",
    "Elicit",
    "ElicitUrl",
    "File",
    "Handle",
    "Image",
    "InputNotSupported",
    "InputRejected",
    "InputRequired",
    "Middleware",
    "Question",
    "RegisteredPrompt",
    "RegisteredResource",
    "RegisteredTool",
    "Roots",
    "Sample",
    "Sampled",
    "Server",
]
