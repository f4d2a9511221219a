"""`McpError`: a failure with its JSON-RPC code, which reaches the peer as that error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .. import types

if TYPE_CHECKING:
    from ..types import ErrorData


class McpError(Exception):
    """Raise it in a handler, and the client gets ``error``; a client raises it when a server answers with one."""

    error: ErrorData

    def __init__(self, error: ErrorData) -> None:
        super().__init__(error.message)
        self.error = error


class UrlElicitationRequiredError(McpError):
    """The user has to visit these addresses before the request can be served."""

    def __init__(self, elicitations: list[types.ElicitRequestURLParams], message: str | None = None) -> None:
        words = f"URL elicitation{'s' if len(elicitations) > 1 else ''} required"
        data = {"elicitations": [one.model_dump(by_alias=True, exclude_none=True) for one in elicitations]}
        super().__init__(
            types.ErrorData(code=types.URL_ELICITATION_REQUIRED, message=message or words, data=data)
        )
        self._elicitations = elicitations

    @property
    def elicitations(self) -> list[types.ElicitRequestURLParams]:
        return self._elicitations

    @classmethod
    def from_error(cls, error: ErrorData) -> UrlElicitationRequiredError:
        """The exception that an error of this code stands for."""
        if error.code != types.URL_ELICITATION_REQUIRED:
            raise ValueError(f"Expected error code {types.URL_ELICITATION_REQUIRED}, got {error.code}")
        data = cast("dict[str, Any]", error.data or {})
        asked = [types.ElicitRequestURLParams.model_validate(one) for one in data.get("elicitations", [])]
        return cls(asked, error.message)
