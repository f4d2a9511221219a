"""The exceptions of the SDK's FastMCP."""


class FastMCPError(Exception):
    """The root of all of them."""


class ValidationError(FastMCPError):
    """Arguments or a value do not fit."""


class ResourceError(FastMCPError):
    """A resource cannot be read."""


class ToolError(FastMCPError):
    """A tool failed; the model gets the text."""


class InvalidSignature(Exception):
    """A function cannot be made a component."""
