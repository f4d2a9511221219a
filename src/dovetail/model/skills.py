"""The skills extension (SEP-2640): skills for a client's model, as files under ``skill://``."""

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from .resources import Resource
from .struct_base import CacheableResult, Definition, PaginatedResult, ResourceRequestParams

__all__ = [
    "DIRECTORY_MIME_TYPE", "GetSkillRequestParams", "GetSkillResult", "ListSkillsResult",
    "ReadDirectoryRequestParams", "ReadDirectoryResult", "SkillEntry", "SkillResource",
]  # fmt: skip

DIRECTORY_MIME_TYPE = "inode/directory"
"""The MIME type of a directory among the resources of a `ReadDirectoryResult`."""


class SkillResource(Definition, gc=False):
    """One file of a skill.

    Verify ``digest`` (``sha256:`` and 64 hex digits) and ``size`` after reading it.
    """

    uri: str
    digest: str
    size: int


class SkillEntry(Definition):
    """One skill: the URI of its ``SKILL.md``, the unchanged frontmatter of that file, and all its files.

    ``resources`` is ``"dynamic"`` if the server cannot list the files in advance.
    """

    uri: str
    frontmatter: dict[str, Any]
    resources: list[SkillResource] | Literal["dynamic"]


class ListSkillsResult(PaginatedResult):
    """Listing fetches no files: read the files of a skill when it is used."""

    skills: list[SkillEntry]


class GetSkillRequestParams(ResourceRequestParams):
    """``uri`` is the URI of a ``SKILL.md``."""


class GetSkillResult(CacheableResult):
    skill: SkillEntry


class ReadDirectoryRequestParams(ResourceRequestParams, kw_only=True):
    """Params of ``resources/directory/read``, which requires the extension setting ``directoryRead``."""

    cursor: str | UnsetType = UNSET


class ReadDirectoryResult(PaginatedResult):
    """The direct children of a directory; subdirectories have the MIME type `DIRECTORY_MIME_TYPE`."""

    resources: list[Resource]
