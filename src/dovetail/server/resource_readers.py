"""Ready-made resource readers: a text, a file, a folder, or the content of a URL.

```python
server.add_resource("docs://readme", FileResource("README.md"))
server.add_resource("docs://{+path}", FolderResource("docs"))
```

Each is a reader like any function: it runs in a worker thread. Options such as ``mime_type`` or ``scopes`` are set at
registration.
"""

from __future__ import annotations

import asyncio
import mimetypes
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import ProtocolError, RegistrationError, TransportError
from ..model import ResourceContents
from .media import File

FILE_BYTES: Final = 16 << 20
"""The largest file or response that is read by default, in bytes."""
NAMES_SHOWN: Final = 1000
"""The maximum of names in the listing of a folder."""


class _Found(File):
    """A file that is sent as text whenever its bytes are text."""

    def contents(self, uri: str) -> ResourceContents:
        if is_text(self.data):
            return ResourceContents(uri, mime_type=self.mime_type, text=self.data.decode())
        return super().contents(uri)


def _found(data: bytes, name: str, mime_type: str | None = None) -> _Found:
    guessed = mimetypes.guess_type(name)[0]
    kind = mime_type or guessed or ("text/plain" if is_text(data) else "application/octet-stream")
    return _Found(data, name="file", mime_type=kind)


def is_text(data: bytes) -> bool:
    """Whether ``data`` can be sent as text without a change."""
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


class TextResource:
    """A constant text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.__name__ = "text"

    def __call__(self) -> str:
        return self.text


class FileResource:
    """One file of at most ``limit`` bytes, read on every request.

    Raises:
        RegistrationError: the file does not exist.
    """

    def __init__(self, path: str | os.PathLike[str], *, limit: int = FILE_BYTES) -> None:
        self.path = Path(path).resolve()
        self.limit = limit
        self.__name__ = self.path.name
        if not self.path.is_file():
            raise RegistrationError(f"there is no file {path}")

    def __call__(self) -> File:
        try:
            descriptor = os.open(self.path, _READ)
        except OSError:
            raise ProtocolError("resource_not_found") from None
        return _found(_read(descriptor, self.limit), self.path.name)


class FolderResource:
    """Every file below a folder, under a template with ``{+path}``; reading a folder returns the names in it.

    No file outside the folder is ever read. Symbolic links are not followed, and each part of a path is opened relative
    to the one before, so replacing a folder by a link during the read does not help an attacker. Names that begin with
    a dot are hidden unless ``hidden``.

    Raises:
        RegistrationError: the folder does not exist, or the system is Windows, which cannot open files in this way.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, hidden: bool = False, limit: int = FILE_BYTES
    ) -> None:
        self.folder = Path(folder).resolve()
        self.hidden = hidden
        self.limit = limit
        self.__name__ = self.folder.name
        if not self.folder.is_dir():
            raise RegistrationError(f"there is no folder {folder}")
        if os.open not in os.supports_dir_fd:
            raise RegistrationError(
                "FolderResource needs Linux or macOS: register each file with FileResource instead"
            )

    def __call__(self, path: str) -> Any:
        parts = [part for part in path.split("/") if part]
        try:
            descriptor = self._open(parts)
        except (OSError, ValueError):
            raise ProtocolError("resource_not_found") from None
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return _found(_read(descriptor, self.limit), parts[-1])
        try:
            names = sorted(name for name in os.listdir(descriptor) if self.hidden or name[:1] != ".")
        finally:
            os.close(descriptor)
        return {"names": names[:NAMES_SHOWN], "more": len(names) > NAMES_SHOWN}

    def _open(self, parts: list[str]) -> int:
        """Open the last of ``parts``. Raises OSError or ValueError if it does not exist or is not allowed."""
        if any(part in (".", "..") or "\\" in part or "\0" in part for part in parts):
            raise ValueError(parts)
        if not self.hidden and any(part.startswith(".") for part in parts):
            raise ValueError(parts)
        at = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        for part in parts:
            try:
                below = os.open(part, _READ | os.O_NOFOLLOW, dir_fd=at)
            finally:
                os.close(at)
            at = below
        return at


class UrlResource:
    """The content of ``url``, fetched on every request; at most ``limit`` bytes.

    Redirects are followed, except to addresses more private than that of ``url``. ``headers`` are sent to its origin
    only. The whole fetch may take ``timeout`` seconds. It needs the extra ``http``.

    Raises:
        RegistrationError: ``url`` is not an http or https URL.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        limit: int = FILE_BYTES,
    ) -> None:
        if not url.startswith(("https://", "http://")):
            raise RegistrationError(f"an http or https URL is needed, not {url!r}")
        self.url = url
        self.headers = dict(headers or {})
        self.timeout = timeout
        self.limit = limit
        self.__name__ = url.partition("?")[0].rstrip("/").rpartition("/")[2] or "page"

    def __call__(self) -> File:
        from ..transports.http.client.guarded_fetch import REDIRECTS, AddressGuard, Fetched, guarded_fetch
        from ..transports.http.client.url_parts import displayed

        async def fetch() -> Fetched:
            return await guarded_fetch(
                self.url,
                guard=AddressGuard(self.url, allow_private=False),
                max_bytes=self.limit,
                timeout=self.timeout,
                headers=self.headers,
                max_redirects=REDIRECTS,
            )

        answer = asyncio.run(fetch())  # a reader runs in a worker thread, which has no event loop
        if answer.status in (404, 410):
            raise ProtocolError("resource_not_found")
        if answer.status != 200:
            raise TransportError(f"{displayed(self.url)} answers with HTTP {answer.status}", cause="status")
        return _found(answer.body, self.url, _media_type(answer.headers.get("Content-Type")))


def _media_type(header: str | None) -> str | None:
    return header.partition(";")[0].strip().lower() or None if header else None


_READ: Final[int] = os.O_RDONLY | (
    getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
"""O_NONBLOCK: a FIFO in the folder must not block a worker until its writer opens it. Windows has O_BINARY alone."""


def _read(descriptor: int, limit: int) -> bytes:
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ProtocolError("resource_not_found")
        if status.st_size > limit:
            raise ValueError(f"the file has more than {limit} bytes")
        return file.read(limit)
