"""The skills extension (SEP-2640): skills a server keeps for a client's model, as files under ``skill://``."""

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from .resources import Resource
from .struct_base import CacheableResult, Definition, PaginatedResult, ResourceRequestParams

__all__ = [
    "DIRECTORY_MIME_TYPE", "GetSkillRequestParams", "GetSkillResult", "ListSkillsResult",
    "ReadDirectoryRequestParams", "ReadDirectoryResult", "Skill", "SkillResource",
]  # fmt: skip

DIRECTORY_MIME_TYPE = "inode/directory"
"""The MIME type of a directory among the resources of a `ReadDirectoryResult`."""


class SkillResource(Definition, gc=False):
    """One file of a skill. Check ``digest`` (``sha256:`` and 64 hex digits) and ``size`` after reading it."""

    uri: str
    digest: str
    size: int


class Skill(Definition):
    """One skill: the URI of its ``SKILL.md``, that file's frontmatter word for word, and all of its files.

    ``resources`` is ``"dynamic"`` when the server cannot say beforehand which files there are.
    """

    uri: str
    frontmatter: dict[str, Any]
    resources: list[SkillResource] | Literal["dynamic"]


class ListSkillsResult(PaginatedResult):
    """Listing fetches nothing: read a skill's files only when it is used."""

    skills: list[Skill]


class GetSkillRequestParams(ResourceRequestParams):
    """``uri`` is that of a ``SKILL.md``."""


class GetSkillResult(CacheableResult):
    skill: Skill


class ReadDirectoryRequestParams(ResourceRequestParams, kw_only=True):
    """``resources/directory/read``: needs the extension's setting ``directoryRead``."""

    cursor: str | UnsetType = UNSET


class ReadDirectoryResult(PaginatedResult):
    """The direct children of a directory; directories among them have the MIME type `DIRECTORY_MIME_TYPE`."""

    resources: list[Resource]
