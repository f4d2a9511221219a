"""Read and check an OpenAPI description: JSON or YAML, 3.0 or 3.1.

The description is not trusted: its size, depth and number of values are limited first, and references to other
documents are never fetched.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from ..errors import RegistrationError, TransportError
from ..json_schema.references import value_at
from ..safe_yaml import YamlError, load_yaml
from ..server.signatures.validation_errors import NAME_SHOWN
from ..shapes import Object, is_list, is_object

SPEC_BYTES: Final = 64 << 20
"""The largest description; those of the largest public APIs have 12 MB."""
SPEC_NODES: Final = 3_000_000
"""The most values of a description; shared values count each time."""
SPEC_DEPTH: Final = 128
"""The deepest nesting of a description."""
SPEC_SECONDS: Final = 30.0
"""Seconds to load a description from a URL."""
REFERENCE_HOPS: Final = 32
"""The longest chain of references."""


Spec = Mapping[str, Any] | str | bytes | os.PathLike[str]

_URL: Final = ("http://", "https://")


class Document:
    """A description and its source."""

    def __init__(self, root: Object, origin: str | None = None) -> None:
        version = root.get("openapi")
        if not isinstance(version, str) or re.match(r"3\.[01]\b", version) is None:
            said = str(root.get("swagger", version))[:NAME_SHOWN]
            raise RegistrationError(
                f"this is not an OpenAPI 3.0 or 3.1 description (its version is {said!r})"
            )
        if not is_object(root.get("paths")):
            raise RegistrationError(
                "the description has no paths, so it describes no operations: give the whole document"
            )
        _measure(root)
        self.root = root
        self.origin = origin
        """The URL it was read from, if any."""
        self.old = version.startswith("3.0")
        """Whether schemas are those of 3.0, which differ from JSON Schema."""

    def find(self, reference: str) -> Any:
        """Return the target of ``reference``; None if it does not exist in the document."""
        return value_at(reference, self.root) if reference.startswith("#/") else None

    def follow(self, node: Any) -> Object:
        """Return ``node``, or the target of its references; an empty object if it does not exist."""
        for _ in range(REFERENCE_HOPS):
            if not is_object(node):
                break
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            node = self.find(reference)
        return {}


def read(spec: Spec) -> Document:
    """Read ``spec``: a dict, the text of a JSON or YAML document, a path, or an http(s) URL.

    Raises:
        RegistrationError: it cannot be read, is too large, or is not an OpenAPI description.
    """
    if isinstance(spec, Mapping):
        return Document(dict(spec))
    if isinstance(spec, str) and spec.startswith(_URL):
        return Document(_parsed(_fetched(spec), "the description"), spec)
    if isinstance(spec, bytes):
        return Document(_parsed(spec, "the description"))
    if isinstance(spec, str) and ("\n" in spec or spec.lstrip()[:1] == "{"):
        return Document(_parsed(spec.encode(), "the description"))
    path = Path(spec)
    try:
        if path.stat().st_size > SPEC_BYTES:
            raise RegistrationError(f"{path} has more than {SPEC_BYTES} bytes")
        return Document(_parsed(path.read_bytes(), str(path)))
    except OSError as error:
        raise RegistrationError(f"{path} cannot be read: {error.strerror}") from None


def _parsed(data: bytes, where: str) -> Object:
    if len(data) > SPEC_BYTES:
        raise RegistrationError(f"{where} has more than {SPEC_BYTES} bytes")
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        found: Any = msgspec.json.decode(data) if data.lstrip()[:1] == b"{" else _yaml(data, where)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RegistrationError(f"{where} cannot be read: {error}") from None
    if not is_object(found):
        raise RegistrationError(f"{where} is not an object")
    return found


def _yaml(data: bytes, where: str) -> Any:
    try:
        return load_yaml(
            data,
            max_depth=SPEC_DEPTH,
            max_nodes=SPEC_NODES,
            aliases=True,
            purpose="a description in YAML",
            extra="openapi",
        )
    except YamlError as error:
        raise RegistrationError(f"{where} cannot be read: {error}") from None


def _measure(root: Object) -> None:
    """Count the values of a description, also of a recursive one."""
    count, level, depth = 0, [cast("Any", root)], 0
    while level:
        below: list[Any] = []
        for value in level:
            if is_object(value):
                below += value.values()
            elif is_list(value):
                below += value
        count += len(level)
        level, depth = below, depth + 1
        if count > SPEC_NODES or len(level) > SPEC_NODES or depth > SPEC_DEPTH:
            raise _too_much()


def _too_much() -> RegistrationError:
    return RegistrationError(
        f"the description has more than {SPEC_NODES} values, or more than {SPEC_DEPTH} levels of them"
    )


def _fetched(url: str) -> bytes:
    """Load the description at ``url``, in a thread with a separate event loop, because the caller may run in one."""
    from ..transports.http.client.guarded_fetch import REDIRECTS, AddressGuard, Fetched, guarded_fetch

    async def fetch() -> Fetched:
        return await guarded_fetch(
            url,
            guard=AddressGuard(url, allow_private=False),
            max_bytes=SPEC_BYTES,
            timeout=SPEC_SECONDS,
            headers={"Accept": "application/json, application/yaml, */*"},
            max_redirects=REDIRECTS,
        )

    with ThreadPoolExecutor(1) as thread:
        try:
            found = thread.submit(lambda: asyncio.run(fetch())).result()
        except TransportError as error:
            raise RegistrationError(f"the description cannot be fetched: {error}") from None
    if found.status != 200:
        raise RegistrationError(f"the description cannot be fetched: HTTP {found.status}")
    return found.body
