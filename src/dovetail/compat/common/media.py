"""Images, sounds and files that a handler returns, made into content blocks."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any, ClassVar

from ..mcp import types as t


def _guess(path: str | Path) -> str | None:
    """The media type that the name of a file stands for."""
    import mimetypes  # reads tables of the system, for the few who return files

    return mimetypes.guess_type(path)[0]


class Media:
    """Bytes, or a file that is read when somebody wants it."""

    kind: ClassVar[str]
    default: ClassVar[str]
    """The media type of bytes whose format nobody has said."""

    def __init__(
        self,
        path: str | Path | None = None,
        data: bytes | None = None,
        format: str | None = None,
        annotations: t.Annotations | None = None,
    ) -> None:
        if path is None and data is None:
            raise ValueError("Either path or data must be provided")
        if path is not None and data is not None:
            raise ValueError("Only one of path or data can be provided")
        self.path = None if path is None else Path(os.path.expandvars(str(path))).expanduser()
        self.data = data
        self._format = format
        self.annotations = annotations
        self._mime_type = self._get_mime_type()

    def _get_mime_type(self) -> str:
        if self._format:
            return f"{self.kind}/{self._format.lower()}"
        if self.path is None:
            return self.default
        return self._guessed(self.path)

    def _guessed(self, path: Path) -> str:
        raise NotImplementedError

    def read(self) -> bytes:
        return self.path.read_bytes() if self.path is not None else self.data or b""

    def _get_data(self) -> str:
        return base64.b64encode(self.read()).decode()


class Image(Media):
    """An image that a tool returns."""

    kind, default = "image", "image/png"

    def _guessed(self, path: Path) -> str:
        return _guess(path) or "application/octet-stream"

    def to_image_content(
        self, mime_type: str | None = None, annotations: t.Annotations | None = None
    ) -> t.ImageContent:
        return t.ImageContent(
            type="image", data=self._get_data(), mimeType=mime_type or self._mime_type,
            annotations=annotations or self.annotations,
        )  # fmt: skip

    def to_data_uri(self, mime_type: str | None = None) -> str:
        return f"data:{mime_type or self._mime_type};base64,{self._get_data()}"


class Audio(Media):
    """A sound that a tool returns."""

    kind, default = "audio", "audio/wav"
    known: ClassVar[dict[str, str]] = {
        ".wav": "audio/wav", ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".flac": "audio/flac", ".m4a": "audio/mp4",
    }  # fmt: skip

    def _guessed(self, path: Path) -> str:
        return self.known.get(path.suffix.lower(), "application/octet-stream")

    def to_audio_content(
        self, mime_type: str | None = None, annotations: t.Annotations | None = None
    ) -> t.AudioContent:
        return t.AudioContent(
            type="audio", data=self._get_data(), mimeType=mime_type or self._mime_type,
            annotations=annotations or self.annotations,
        )  # fmt: skip


class File(Media):
    """A file that a tool returns, as an embedded resource."""

    kind, default = "application", "application/octet-stream"

    def __init__(
        self, path: str | Path | None = None, data: bytes | None = None, format: str | None = None,
        name: str | None = None, annotations: t.Annotations | None = None,
    ) -> None:  # fmt: skip
        self._name = name
        super().__init__(path, data, format, annotations)

    def _get_mime_type(self) -> str:
        if self._format:
            words = self._format.lower()
            return "text/plain" if words in {"plain", "txt", "text"} else f"application/{words}"
        return self.default if self.path is None else self._guessed(self.path)

    def _guessed(self, path: Path) -> str:
        return _guess(path) or self.default

    def to_resource_content(
        self, mime_type: str | None = None, annotations: t.Annotations | None = None
    ) -> t.EmbeddedResource:
        kind = mime_type or self._mime_type
        if self.path is not None:
            uri = self.path.resolve().as_uri()
        else:
            uri = f"file:///{self._name or 'resource'}.{kind.partition('/')[2]}"
        members: dict[str, Any] = {"uri": t.AnyUrl(uri), "mimeType": kind}
        if kind.startswith("text/"):
            contents: Any = t.TextResourceContents(text=self.read().decode("utf-8", "replace"), **members)
        else:
            contents = t.BlobResourceContents(blob=self._get_data(), **members)
        return t.EmbeddedResource(
            type="resource", resource=contents, annotations=annotations or self.annotations
        )
