"""Resources ready to register: a text, a file, a folder, what another server has at a URL.

```python
server.add_resource("docs://readme", FileResource("README.md"))
server.add_resource_template("docs://{+path}", FolderResource("docs"))
```

Each is a reader like any function: it runs in a worker thread, and options such as ``mime_type`` or ``scopes`` are
given where it is registered.
"""

from __future__ import annotations

import mimetypes
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import ProtocolError, RegistrationError
from ..model import ResourceContents
from ..server.media import File
from ..server.skills.folders import is_text
from .bounds import FILE_BYTES, NAMES_SHOWN


class _Found(File):
    """A file that travels as text whenever it is text."""

    def contents(self, uri: str) -> ResourceContents:
        if is_text(self.data):
            return ResourceContents(uri, mime_type=self.mime_type, text=self.data.decode())
        return super().contents(uri)


def _found(data: bytes, name: str, mime_type: str | None = None) -> _Found:
    guessed = mimetypes.guess_type(name)[0]
    kind = mime_type or guessed or ("text/plain" if is_text(data) else "application/octet-stream")
    return _Found(data, name="file", mime_type=kind)


class TextResource:
    """A text that stands in the program."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.__name__ = "text"

    def __call__(self) -> str:
        return self.text


class FileResource:
    """One file, read whenever somebody asks; at most ``limit`` bytes.

    Raises:
        RegistrationError: there is no such file.
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
    """Every file below a folder, under a template with ``{+path}``; a folder itself is read as the names in it.

    Nothing outside is ever read: no link is followed, on the way or at its end, and each part of a path is opened
    within the one before, so that it does not help to swap a folder for a link meanwhile. Names that begin with a
    dot are not there unless ``hidden``.

    Raises:
        RegistrationError: there is no such folder.
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
        """The last of ``parts``, opened. Raises OSError or ValueError for what is not there, or not ours to show."""
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
    """What another server has at ``url``, fetched whenever somebody asks; at most ``limit`` bytes.

    Redirects are followed, but to no address that is more private than that of ``url``; ``headers`` are for its origin
    alone. All of it has ``timeout`` seconds.

    Raises:
        RegistrationError: it is no http or https URL.
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
        import urllib.request  # only servers with such a resource load it
        from urllib.error import HTTPError

        from .redirects import opener

        request, deadline = urllib.request.Request(self.url), time.monotonic() + self.timeout
        for name, value in self.headers.items():
            request.add_unredirected_header(name, value)
        try:
            with opener(self.url, self.headers, deadline).open(request, timeout=self.timeout) as answer:
                data = _within(answer, self.limit, deadline)
                kind: str | None = answer.headers.get_content_type()
        except HTTPError as error:
            error.close()
            if error.code in (404, 410):
                raise ProtocolError("resource_not_found") from None
            raise
        if len(data) > self.limit:
            raise ValueError(f"{self.url} has more than {self.limit} bytes")
        return _found(data, self.url, kind)


def _within(answer: Any, limit: int, deadline: float) -> bytes:
    """What comes until ``deadline``, and at most one byte too many: a server that drips must not keep a worker."""
    found = bytearray()
    while len(found) <= limit and (piece := answer.read1(limit + 1 - len(found))):
        found += piece
        if time.monotonic() > deadline:
            raise TimeoutError("the answer took too long")
    return bytes(found)


_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""A pipe in the folder must not keep a worker waiting for its writer."""


def _read(descriptor: int, limit: int) -> bytes:
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ProtocolError("resource_not_found")
        if status.st_size > limit:
            raise ValueError(f"the file has more than {limit} bytes")
        return file.read(limit)
