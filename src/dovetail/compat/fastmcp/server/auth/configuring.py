"""Words of a provider that the program leaves out: ``FASTMCP_SERVER_AUTH_GITHUB_CLIENT_ID`` and the like say them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from ....common.environment import PREFIX, dotenv
from ...utilities.types import NotSet

_PLACE: Final = f"{PREFIX}SERVER_AUTH_"
_LISTS: Final = frozenset(
    {"required_scopes", "valid_scopes", "allowed_client_redirect_uris", "additional_authorize_scopes"}
)
_PROXIES: Final = frozenset(
    {
        "client_id", "client_secret", "base_url", "issuer_url", "redirect_path", "required_scopes",
        "allowed_client_redirect_uris", "jwt_signing_key", "timeout_seconds",
    }
)  # fmt: skip
"""Words of every login proxy; a provider's own stand in the signature of its constructor."""


def configured(name: str, *needed: str) -> Callable[[Any], Any]:
    """For a constructor: what it is not given comes from ``FASTMCP_SERVER_AUTH_<name>_…``.

    It raises ValueError for what is ``needed`` and nobody says.
    """
    prefix = f"{_PLACE}{name}_"

    def around(construct: Any) -> Any:
        parameters = inspect.signature(construct).parameters.values()
        words = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
        if any(one.kind is one.VAR_KEYWORD for one in parameters):
            words |= _PROXIES

        @wraps(construct)
        def filled(self: Any, **given: Any) -> None:
            known = {word: value for word, value in given.items() if value is not NotSet}
            known = {**_said(prefix, words), **known}
            for word in needed:
                if not known.get(word):
                    raise ValueError(f"{word} is required - set via parameter or {prefix}{word.upper()}")
            construct(self, **known)

        return filled

    return around


def _said(prefix: str, words: set[str]) -> dict[str, Any]:
    file = Path(os.environ.get("FASTMCP_ENV_FILE", ".env"))
    said = {name.upper(): text for name, text in {**dotenv(file), **os.environ}.items()}
    found = {word: said[prefix + word.upper()] for word in words if prefix + word.upper() in said}
    return {
        word: scopes_of(text) if word in _LISTS else int(text) if word.endswith("_seconds") else text
        for word, text in found.items()
    }


def scopes_of(text: str) -> list[str]:
    """Scopes as variables have them: a JSON array, or words with commas or spaces between them."""
    try:
        found = msgspec.json.decode(text)
    except ValueError:
        found = None
    if isinstance(found, list):
        return [str(one).strip() for one in cast("list[Any]", found)]
    return text.replace(",", " ").split()
