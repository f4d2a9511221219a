"""Content conversion between the reference systems and the specification.

Every function edits in place, accepts any JSON, and leaves alone what it cannot convert. Values without an
official member are preserved under vendor ``_meta`` keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ...shapes import Object, is_list, is_object
from .dialect import extra

ANNOTATIONS = ("audience", "priority", "lastModified")
LINK = "resourceLink"
"""The ``_meta`` key of a link to another resource, without the vendor prefix."""
LINK_TYPE = "text/uri-list"
"""RFC 2483. The media type of a resource that is a link: officially a text whose content is the URI."""


def objects(value: Any) -> Iterator[Object]:
    """Return the objects in ``value`` if it is a list."""
    if is_list(value):
        for item in value:
            if is_object(item):
                yield item


def rename(members: Object, old: str, new: str) -> None:
    """Rename a member, unless the new name exists; ``null`` (erlmcp's ``undefined``) counts as missing."""
    if members.get(old) is not None and new not in members:
        members[new] = members.pop(old)


def iso_time(milliseconds: Any) -> str | None:
    """Format milliseconds since 1970 as the specification writes timestamps."""
    if not isinstance(milliseconds, int | float) or isinstance(milliseconds, bool):
        return None
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")[:-6] + "Z"


def milliseconds(moment: Any) -> int | None:
    """Parse what `iso_time` writes."""
    if not isinstance(moment, str):
        return None
    try:
        return round(datetime.fromisoformat(moment).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def unlist_annotations(members: Object) -> None:
    """Convert ``[{name, value}]`` to an object.

    Names that the specification does not define are preserved in ``_meta``.
    """
    listed = members.get("annotations")
    if not is_list(listed):
        return
    known: Object = {}
    rest: list[Object] = []
    for entry in objects(listed):
        name = entry.get("name")
        if name in ANNOTATIONS:
            value = entry.get("value")
            known[name] = [value] if name == "audience" and isinstance(value, str) else value
        else:
            rest.append(entry)
    del members["annotations"]
    if known:
        members["annotations"] = known
    if rest:
        extra(members, "annotations", rest)


def definition(members: Object) -> None:
    """Convert a listed resource, template, tool or prompt: move metadata, versions and timestamps."""
    rename(members, "mime_type", "mimeType")
    unlist_annotations(members)
    last_modified = members.pop("lastModified", members.pop("last_modified", None))
    if last_modified is not None:
        moment = iso_time(last_modified) or (last_modified if isinstance(last_modified, str) else None)
        if moment is not None:
            _annotate(members, "lastModified", moment)
    for name in ("audience", "priority"):
        if name in members:
            value = members.pop(name)
            _annotate(members, name, [value] if name == "audience" and isinstance(value, str) else value)
    for name in ("metadata", "deprecated", "version", "experimental"):
        if name in members:
            extra(members, name, members.pop(name))


def block(members: Any) -> Any:
    """Convert one content block to the official form. A bare string is text."""
    if isinstance(members, str):
        return {"type": "text", "text": members}
    if not is_object(members):
        return members
    rename(members, "mime_type", "mimeType")
    unlist_annotations(members)
    kind = members.get("type")
    if kind == "text":
        _text(members)
    elif kind == "resource/link":
        _link(members)
    elif kind == "document":
        _document(members)
    elif kind == "resource" and "resource" not in members:
        _flat_resource(members)
    elif kind == "resource":
        contents(members["resource"])
    elif kind in ("tool_result", "toolResult"):
        blocks(members, "content")
    return members


def blocks(members: Object, name: str) -> None:
    """Convert the content under ``name``: one block or a list of blocks."""
    value = members.get(name)
    if is_list(value):
        members[name] = [block(item) for item in value]
    elif value is not None:
        members[name] = block(value)


def contents(members: Any) -> None:
    """Convert one entry of ``resources/read``: ``data`` is ``blob``. The client fills in a missing URI."""
    if not is_object(members):
        return
    rename(members, "mime_type", "mimeType")
    if "text" not in members:
        rename(members, "data", "blob")
    members.setdefault("uri", "")


def linked_contents(members: Object) -> bool:
    """Convert a ``resources/read`` entry that links to another resource to its URI; False if it is not a
    link."""
    if members.get("type") != "resource/link":
        return False
    link = dict(members)
    _link(link)
    text = link.pop("text", link.get("uri"))
    if "blob" in link or not isinstance(text, str) or text != link.get("uri"):
        return False
    del link["type"]
    members.clear()
    members.update(uri="", mimeType=LINK_TYPE, text=link["uri"])
    extra(members, LINK, link)
    return True


def _annotate(members: Object, name: str, value: Any) -> None:
    known = members.get("annotations")
    if not is_object(known):
        known = members["annotations"] = Object()
    known.setdefault(name, value)


def _text(members: Object) -> None:
    if "mimeType" in members:
        extra(members, "mimeType", members.pop("mimeType"))
    if "resource_link" in members:
        link = members.pop("resource_link")
        if is_object(link):
            rename(link, "mime_type", "mimeType")
        extra(members, LINK, link)


def _link(members: Object) -> None:
    members["type"] = "resource_link"
    inner = members.pop("resource_link", members.pop("resource", None))
    if is_object(inner):
        for name, value in inner.items():
            members.setdefault(name, value)
        rename(members, "mime_type", "mimeType")
    if isinstance(members.get("uri"), str):
        members.setdefault("name", members["uri"])


def _document(members: Object) -> None:
    inner: Object = {"uri": members.pop("uri", "attachment:document")}
    for old, new in (("mimeType", "mimeType"), ("text", "text"), ("data", "blob"), ("blob", "blob")):
        if old in members:
            inner[new] = members.pop(old)
    members["type"] = "resource"
    members["resource"] = inner
    extra(members, "type", "document")


def _flat_resource(members: Object) -> None:
    inner: Object = {}
    for name in ("uri", "mimeType", "text", "blob", "data"):
        if name in members:
            inner[name] = members.pop(name)
    contents(inner)
    members["resource"] = inner
