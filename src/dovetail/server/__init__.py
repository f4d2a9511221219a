"""Servers: the classes that authors of servers use."""

from .context import Context
from .handles import Handle
from .input_requests.client_requests import InputNotSupported, InputRejected, InputRequired
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
from .media import Audio, File, Image
from .registry.component_tables import RegisteredPrompt, RegisteredResource, RegisteredTool
from .server import Middleware, Server
from .signatures.depends import Depends

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
