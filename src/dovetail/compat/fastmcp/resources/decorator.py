"""The decorator that marks a function as a resource, for a server it is added to later."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..decorators import attach


@dataclass(frozen=True, kw_only=True)
class ResourceMeta:
    """What `resource` notes at a function."""

    uri: str
    type: str = "resource"
    options: dict[str, Any]


def resource(uri: str, **options: Any) -> Any:
    """Mark a function as the reader of ``uri``."""
    if inspect.isroutine(uri):
        raise TypeError("The @resource decorator requires a URI. Use @resource('uri') instead of @resource")
    return partial(attach, note=ResourceMeta(uri=uri, options=options))
