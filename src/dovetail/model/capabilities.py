"""Capabilities of clients and servers: open dicts with typed views.

Neither set is closed, so both are dicts that keep everything a peer declared. A capability is declared if its
member exists and is neither ``null`` nor ``false``: ``{}`` declares it, ``{"subscribe": false}`` does not.
"""

from typing import Any, Self, cast

__all__ = ["Capabilities", "ClientCapabilities", "ServerCapabilities"]

EXTENSIONS = "extensions."


def _steps(path: str) -> list[str]:
    # Extension identifiers contain dots, so everything after ``extensions.`` is one step.
    if path.startswith(EXTENSIONS):
        return ["extensions", path[len(EXTENSIONS) :]]
    return path.split(".")


class _Settings:
    """The settings of one capability, as an attribute: see `Capabilities.view`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, declared: "Capabilities", kind: type[Any] | None = None) -> dict[str, Any] | None:
        return declared.view(self._name)


class Capabilities(dict[str, Any]):
    """Common base of client and server capabilities."""

    experimental = _Settings("experimental")
    tasks = _Settings("tasks")
    """Core tasks of 2025-11-25; later revisions have an extension."""

    def has(self, path: str) -> bool:
        """Return whether the capability at ``path``, such as ``sampling.tools``, was declared."""
        if path.startswith(EXTENSIONS):
            return self.extension(path[len(EXTENSIONS) :]) is not None
        value: Any = self
        for step in path.split("."):
            if not isinstance(value, dict):
                return False
            value = cast("dict[str, Any]", value).get(step)
        return value is not None and value is not False

    @classmethod
    def requiring(cls, *paths: str) -> Self:
        """Return the smallest capabilities that have all ``paths``, for error data."""
        needed = cls()
        for path in paths:
            level: dict[str, Any] = needed
            for step in _steps(path):
                level = level.setdefault(step, {})
        return needed

    def extension(self, identifier: str) -> dict[str, Any] | None:
        """Return the settings declared for an extension, or ``None`` if it was not declared.

        Peers of older revisions, which have no member for extensions, declare them as experimental.
        """
        found = _settings((self.extensions or {}).get(identifier))
        return _settings((self.experimental or {}).get(identifier)) if found is None else found

    @property
    def extensions(self) -> dict[str, Any] | None:
        return self.view("extensions")

    def view(self, name: str) -> dict[str, Any] | None:
        """Return the settings of one capability: ``{}`` without settings, ``None`` if it is not declared."""
        return _settings(self.get(name))


def _settings(value: Any) -> dict[str, Any] | None:
    if value is None or value is False:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class ClientCapabilities(Capabilities):
    """The capabilities of a client."""

    roots = _Settings("roots")
    sampling = _Settings("sampling")
    elicitation = _Settings("elicitation")

    def has(self, path: str) -> bool:
        """Return whether the capability at ``path``, such as ``sampling.tools``, was declared."""
        if path != "elicitation.form":
            return super().has(path)
        # Declared explicitly, or elicitation declared without any mode.
        modes: Any = (declared := self.get("elicitation"))
        if isinstance(declared, dict):
            modes = modes.get("form", "url" not in modes)
        return modes is not None and modes is not False

    @property
    def elicitation_form(self) -> bool:
        """Whether the client supports form elicitation."""
        return self.has("elicitation.form")

    @property
    def elicitation_url(self) -> bool:
        return self.has("elicitation.url")


class ServerCapabilities(Capabilities):
    """The capabilities of a server."""

    tools = _Settings("tools")
    resources = _Settings("resources")
    prompts = _Settings("prompts")
    completions = _Settings("completions")
    logging = _Settings("logging")
