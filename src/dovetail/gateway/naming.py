"""Names of mounted components: a reversible prefix rule.

A prefix joins names of tools and prompts with an underscore. In a URI it becomes the first segment
(``city://oslo`` is ``city://weather/oslo``); a URI without segments gets it before the scheme (``urn:x`` is
``weather+urn:x``). Templates follow the same rule, so an expanded template is the renamed URI.

The name of a tool with its prefix has 64 characters at most, because several model APIs reject longer ones. In a longer
name a hash of the whole name replaces the end, so every process of a server gives the same name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, Final, cast

from msgspec.structs import replace

from ..errors import RegistrationError
from ..model import CallToolResult, EmbeddedResource, GetPromptResult, ReadResourceResult, ResourceLink
from ..model.meta import FLAT_PAGE
from ..server.composition import NAME_LENGTH
from ..shapes import is_object
from ..wire.dialects.contents import LINK
from ..wire.dialects.dialect import VENDOR

LISTINGS_KEPT: Final = 256
"""Lists cached for different callers, and collisions that were reported."""
PREFIX_LENGTH: Final = 64
"""Characters of a prefix."""
HASH_LENGTH: Final = 8
"""Characters of the hash at the end of a shortened name."""
SHORTENED_KEPT: Final = 10_000
"""Shortened names of one mount that are remembered."""
_SHORTENED: Final = re.compile(r"_[0-9a-f]{8}$")

_PREFIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-]*(_[A-Za-z0-9.\-]+)*")


class Naming:
    """The names of one mounted server; without a prefix they are unchanged."""

    __slots__ = ("_head", "limit", "prefix", "shortened")

    def __init__(self, prefix: str | None, limit: int = NAME_LENGTH) -> None:
        if prefix and (len(prefix) > PREFIX_LENGTH or not _PREFIX.fullmatch(prefix)):
            raise RegistrationError(
                f"the prefix {prefix[:PREFIX_LENGTH]!r} is not valid: use letters, digits, '-', '.' and single '_'"
            )
        self.prefix = prefix or ""
        self._head = f"{prefix}_" if prefix else ""
        self.limit = limit
        self.shortened: dict[str, str] = {}
        """The inner names of the tools whose outer names are shortened."""

    def name(self, inner: str) -> str:
        """Return the outer name of a prompt."""
        return self._head + inner

    def tool(self, inner: str) -> str:
        """The name of a tool as others see it; ``name@version`` keeps its version."""
        if not self._head or len(self._head) + len(inner) <= self.limit:
            return self._head + inner
        base, at, version = inner.partition("@")
        whole = self._head + base
        if len(whole) > self.limit:
            digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_LENGTH]
            whole = f"{whole[: self.limit - HASH_LENGTH - 1]}_{digest}"
            if len(self.shortened) >= SHORTENED_KEPT:
                self.shortened.clear()  # those that are called are found again
            self.shortened[whole] = base
        return f"{whole}{at}{version}"

    def uri(self, inner: str) -> str:
        """Return the outer URI or URI template."""
        if not self.prefix:
            return inner
        scheme, separator, rest = inner.partition("://")
        return f"{scheme}://{self.prefix}/{rest}" if separator else f"{self.prefix}+{inner}"

    def inner_uri(self, uri: str) -> str | None:
        """Return the inner URI, or None if it belongs to another server."""
        if not self.prefix:
            return uri
        scheme, separator, rest = uri.partition("://")
        if separator:
            head = f"{self.prefix}/"
            return f"{scheme}://{rest.removeprefix(head)}" if rest.startswith(head) else None
        head = f"{self.prefix}+"
        return uri.removeprefix(head) if uri.startswith(head) else None

    def renamed(self, kind: str, inner: str) -> str:
        """Return the outer name or URI of a component of ``kind``."""
        if kind == "tools":
            return self.tool(inner)
        return self.uri(inner) if kind in ("resources", "templates") else self.name(inner)

    # --- definitions and results
    # -------------------------------------------------------------------------------------

    def definition(self, kind: str, inner: Any) -> Any:
        """Return the definition of a component with its outer names."""
        if not self.prefix:
            return inner
        if kind == "resources":
            return replace(inner, uri=self.uri(inner.uri))
        if kind == "templates":
            return replace(inner, uri_template=self.uri(inner.uri_template))
        found = replace(inner, name=self.renamed(kind, inner.name))
        if kind == "tools" and inner.meta:
            found.meta = self._with_page(inner.meta)
        return found

    def _with_page(self, meta: dict[str, Any]) -> dict[str, Any]:
        """Return the ``_meta`` of a tool with the outer URI of its page."""
        ui, flat = meta.get("ui"), meta.get(FLAT_PAGE)
        if isinstance(ui, dict) and "resourceUri" in ui:
            nested = cast("dict[str, Any]", ui)
            meta = {**meta, "ui": {**nested, "resourceUri": self.uri(str(nested["resourceUri"]))}}
        return {**meta, FLAT_PAGE: self.uri(flat)} if isinstance(flat, str) else meta

    def result(self, result: Any) -> Any:
        """Return a result with outer URIs: of contents that were read, and of links in content."""
        return relocated(result, self.uri) if self.prefix else result


def may_be_shortened(name: str, limit: int) -> bool:
    """Whether ``name`` looks like one that `Naming.tool` has shortened."""
    return len(name) == limit and _SHORTENED.search(name) is not None


def relocated(result: Any, uri: Callable[[str], str]) -> Any:
    """Return a result with mapped URIs: of contents that were read, and of links in content."""

    def located(one: Any) -> Any:
        return replace(one, uri=uri(one.uri)) if one.uri else one

    def block(one: Any) -> Any:
        if isinstance(one, EmbeddedResource):
            return replace(one, resource=located(one.resource))
        return located(one) if isinstance(one, ResourceLink) else one

    def contents(one: Any) -> Any:
        meta: dict[str, Any] = one.meta or {}
        link: Any = meta.get(VENDOR + LINK)
        if not (is_object(link) and link.get("uri") == one.text):
            return located(one)
        address = uri(one.text)
        return replace(located(one), text=address, meta={**meta, VENDOR + LINK: {**link, "uri": address}})

    if isinstance(result, ReadResourceResult):
        return replace(result, contents=[contents(each) for each in result.contents])
    if isinstance(result, GetPromptResult):
        messages = [replace(each, content=block(each.content)) for each in result.messages]
        return replace(result, messages=messages)
    if isinstance(result, CallToolResult):
        return replace(result, content=[block(each) for each in result.content])
    return result
