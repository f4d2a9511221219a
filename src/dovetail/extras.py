"""Optional packages: the extra that installs each, and the error if one is missing."""

from typing import Final

from .errors import DovetailError

DISTRIBUTION: Final = "dovetail-mcp"
"""The distribution name for pip; the package and the command are ``dovetail``."""

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
"""Module → the extra that installs it."""


def install(module: str, extra: str | None = None) -> str:
    """Return the pip command for ``module``, with ``extra`` if several extras install it."""
    return f"pip install '{DISTRIBUTION}[{extra or EXTRAS[module]}]'"


def install_package(distribution: str) -> str:
    """Return the pip command for a library that no extra installs."""
    return f"pip install {distribution}"


def installed(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def missing(module: str, purpose: str, extra: str | None = None) -> DovetailError:
    """Return the error for a missing ``module`` that ``purpose`` needs."""
    return DovetailError(f"{purpose} needs {module}: {install(module, extra)}", kind="missing_extra")
