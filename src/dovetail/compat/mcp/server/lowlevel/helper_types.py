"""What a reader of resources may return."""

from dataclasses import dataclass
from typing import Any


@dataclass
class ReadResourceContents:
    """One content of a resource, with its media type."""

    content: str | bytes
    mime_type: str | None = None
    meta: dict[str, Any] | None = None
