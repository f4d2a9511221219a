"""Secrets in configuration files: ``${keyring:NAME}`` from the keyring, ``${input:NAME}`` from the terminal.

A file with such references can be shared: it contains no secret. An input is asked for once per process. Without a
terminal it is taken from the environment variable ``DOVETAIL_INPUT_NAME``.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Final

from ..extras import missing

SERVICE: Final = "dovetail"
"""The service under which the keyring has the secrets: ``keyring set dovetail NAME`` stores one."""
INPUT_PREFIX: Final = "DOVETAIL_INPUT_"
_inputs: Final[dict[str, str]] = {}


def from_keyring(name: str) -> str | None:
    """Return the secret ``name`` of the keyring, or None.

    Raises:
        DovetailError: the extra ``keyring`` is not installed.
    """
    try:
        import keyring
    except ModuleNotFoundError:
        raise missing("keyring", f"${{keyring:{name}}}") from None
    return keyring.get_password(SERVICE, name)


def input_variable(name: str) -> str:
    """The environment variable of an input."""
    return INPUT_PREFIX + re.sub(r"\W", "_", name).upper()


def from_input(name: str) -> str | None:
    """The value of the input ``name``; None without a terminal and a variable."""
    if name not in _inputs:
        given = os.environ.get(input_variable(name))
        if given is None:
            if not sys.stdin.isatty():
                return None
            import getpass  # only a file with inputs needs it

            given = getpass.getpass(f"{name}: ", sys.stderr)
        _inputs[name] = given
    return _inputs[name]
