"""Servers: what their authors use."""

from .asking.ask import InputNotSupported, InputRejected, InputRequired
from .asking.questions import Accepted, Declined, Elicit, ElicitUrl, Question, Roots, Sample, Sampled
from .context import Context
from .handles import Handle
from .media import Audio, File, Image
from .registering.register import RegisteredPrompt, RegisteredResource, RegisteredTool
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
