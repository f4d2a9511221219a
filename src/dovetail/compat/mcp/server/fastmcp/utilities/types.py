"""Media that tools return."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from .....common.media import Audio as _Audio
from .....common.media import Image as _Image

if TYPE_CHECKING:
    from ....types import AudioContent, ImageContent


class Image(_Image):
    """An image; of files it knows fewer kinds than FastMCP 2 does."""

    known: ClassVar[dict[str, str]] = {
        ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
    }  # fmt: skip

    def __init__(
        self, path: str | Path | None = None, data: bytes | None = None, format: str | None = None
    ) -> None:
        super().__init__(path, data, format)

    def _guessed(self, path: Path) -> str:
        return self.known.get(path.suffix.lower(), "application/octet-stream")


class Audio(_Audio):
    """A sound."""

    known: ClassVar[dict[str, str]] = {**_Audio.known, ".aac": "audio/aac"}

    def __init__(
        self, path: str | Path | None = None, data: bytes | None = None, format: str | None = None
    ) -> None:
        super().__init__(path, data, format)


__all__ = ["Audio", "AudioContent", "Image", "ImageContent"]
