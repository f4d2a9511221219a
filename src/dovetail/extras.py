"""Packages that need not be there: which extra brings each, and what is said where one is missing."""

from typing import Final

from .errors import DovetailError

DISTRIBUTION: Final = "dovetail-mcp"
"""What pip calls this package; `import` and the command say ``dovetail``."""

EXTRAS: Final = {
    "httptools": "http",
    "websockets": "ws",
    "jsonschema_rs": "schema",
    "redis": "redis",
    "docket": "tasks",
    "joserfc": "auth",
    "keyring": "keyring",
    "opentelemetry": "otel",
    "yaml": "skills",
    "libcst": "migrate",
    "tomlkit": "cli",
    "ruamel.yaml": "cli",
}
"""Module → the extra that brings it. Every module whose absence is told to anybody stands here."""


def install(module: str, extra: str | None = None) -> str:
    """The command that installs ``module``, by ``extra`` where several extras bring it."""
    return f"pip install '{DISTRIBUTION}[{extra or EXTRAS[module]}]'"


def install_package(distribution: str) -> str:
    """The command that installs a library that is none of Dovetail's own extras."""
    return f"pip install {distribution}"


def installed(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def missing(module: str, purpose: str, extra: str | None = None) -> DovetailError:
    """What to raise where ``purpose`` needs ``module`` and it is not installed."""
    return DovetailError(f"{purpose} needs {module}: {install(module, extra)}", kind="missing_extra")
