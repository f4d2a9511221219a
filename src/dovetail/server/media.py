"""Images, audio and files that a tool, a prompt or a resource returns; they are encoded as base64.

return Image(path="chart.png")
return ["Here it is:", Image(data=png, format="png")]
"""

from __future__ import annotations

import os
from base64 import b64encode
from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from ..model import AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceContents


class Media:
    """Bytes with a MIME type. Use `Image`, `Audio` or `File`.

    Give ``data``, or a ``path`` that is read at once. The MIME type is ``mime_type``, or follows from
    ``format`` ("png", "mp3"), or from the file name.

    Raises:
        ValueError: neither or both of ``data`` and ``path`` were given, or the MIME type cannot be determined.
        OSError: the file cannot be read.
    """

    family: ClassVar[str] = ""
    fallback: ClassVar[str] = "application/octet-stream"

    def __init__(
        self,
        data: bytes | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        format: str | None = None,
        mime_type: str | None = None,
        annotations: dict[str, Any] | None = None,
    ) -> None:
        if (data is None) == (path is None):
            raise ValueError(f"{type(self).__name__} needs either data or a path")
        self.path = None if path is None else os.fspath(path)
        if data is None:
            with open(self.path or "", "rb") as file:
                data = file.read()
        self.data = bytes(data)
        self.mime_type = mime_type or self._mime_type(format)
        self.annotations: dict[str, Any] | UnsetType = annotations if annotations is not None else UNSET

    def _mime_type(self, format: str | None) -> str:
        if format is not None and self.family:
            return f"{self.family}/{_FORMATS.get(format.lower(), format.lower())}"
        import mimetypes

        name = f"x.{format}" if format is not None else self.path or ""
        return mimetypes.guess_type(name)[0] or self.fallback

    @property
    def encoded(self) -> str:
        return b64encode(self.data).decode("ascii")

    def content(self) -> ContentBlock:
        """The content block to send."""
        raise NotImplementedError

    def contents(self, uri: str) -> ResourceContents:
        """The same bytes as the contents of a resource."""
        return ResourceContents(uri, mime_type=self.mime_type, blob=self.encoded)


_FORMATS = {"jpg": "jpeg", "svg": "svg+xml", "mp3": "mpeg", "m4a": "mp4", "ico": "x-icon"}


class Image(Media):
    """An image."""

    family = "image"
    fallback = "image/png"

    def content(self) -> ImageContent:
        return ImageContent(self.encoded, self.mime_type, annotations=self.annotations)


class Audio(Media):
    """An audio clip."""

    family = "audio"
    fallback = "audio/wav"

    def content(self) -> AudioContent:
        return AudioContent(self.encoded, self.mime_type, annotations=self.annotations)


class File(Media):
    """Any other file; it is sent as an embedded resource, as text if its type is text."""

    def __init__(
        self, data: bytes | None = None, *, uri: str | None = None, name: str = "file", **options: Any
    ) -> None:
        super().__init__(data, **options)
        self.uri = uri or f"file:///{name}"
        if uri is None and self.path is not None:
            from pathlib import Path  # loaded with the first file

            self.uri = Path(self.path).resolve().as_uri()

    def content(self) -> EmbeddedResource:
        return EmbeddedResource(self.contents(self.uri), annotations=self.annotations)

    def contents(self, uri: str) -> ResourceContents:
        if self.mime_type.startswith("text/") or self.mime_type == "application/json":
            try:
                return ResourceContents(uri, mime_type=self.mime_type, text=self.data.decode())
            except UnicodeDecodeError:
                pass
        return super().contents(uri)
