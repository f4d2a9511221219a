"""Servers: what their authors use."""

from .asking import CannotAsk, InputRequired, Unanswered
from .context import Context
from .media import Audio, File, Image
from .questions import Accepted, Declined, Elicit, ElicitUrl, Question, Roots, Sample, Sampled
from .register import RegisteredPrompt, RegisteredResource, RegisteredTool
from .server import Layer, Server

__all__ = [
    "Accepted",
    "Audio",
    "CannotAsk",
    "Context",
    "Declined",
    "Elicit",
    "ElicitUrl",
    "File",
    "Image",
    "InputRequired",
    "Layer",
    "Question",
    "RegisteredPrompt",
    "RegisteredResource",
    "RegisteredTool",
    "Roots",
    "Sample",
    "Sampled",
    "Server",
    "Unanswered",
]
