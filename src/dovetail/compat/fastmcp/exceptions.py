"""The exceptions of FastMCP."""

from ..mcp.shared.exceptions import McpError as McpError


class FastMCPDeprecationWarning(DeprecationWarning):
    """Something is spelt the old way."""


class FastMCPError(Exception):
    """The root of all of them."""

    def __init__(self, *args: object, log_level: int | None = None) -> None:
        super().__init__(*args)
        self.log_level = log_level


class ValidationError(FastMCPError):
    """Arguments or a value do not fit."""


class ResourceError(FastMCPError):
    """A resource cannot be read; the client gets the text."""


class ToolError(FastMCPError):
    """A tool failed; the model gets the text."""


class PromptError(FastMCPError):
    """A prompt cannot be rendered; the client gets the text."""


class InvalidSignature(Exception):
    """A function cannot be made a component."""


class ClientError(Exception):
    """A client failed."""


class NotFoundError(Exception):
    """There is no such component."""


class DisabledError(Exception):
    """A component is there, but not enabled."""


class AuthorizationError(FastMCPError):
    """The caller may not do that."""
