"""Skills of a server (SEP-2640): list, load and verify them.

Listing fetches no file, and loading fetches only SKILL.md. Each file is verified against its entry (size,
SHA-256 digest and, for SKILL.md, the frontmatter) before the caller gets it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import TYPE_CHECKING, Any, Unpack

from ...errors import RemoteProtocolError
from ...model import ReadResourceResult, SkillEntry, SkillResource
from ...wire.frontmatter import SKILL_BYTES, SKILL_FILES, FrontmatterError, read_frontmatter
from ..client_config import CallOptions

if TYPE_CHECKING:
    from ..client import Client

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}$")


class SkillError(RemoteProtocolError):
    """A file of a skill differs from its entry. Do not use it; report it to the owner of the server."""

    def __init__(self, message: str) -> None:
        super().__init__("validation_failed", message)


class LoadedSkill:
    """A skill whose SKILL.md was read and verified."""

    def __init__(self, client: Client, entry: SkillEntry, text: str) -> None:
        self._client = client
        self.entry = entry
        self.uri = entry.uri
        self.frontmatter: dict[str, Any] = entry.frontmatter
        self.name = str(entry.frontmatter.get("name", ""))
        self.description = str(entry.frontmatter.get("description", ""))
        self.text = text
        """The content of SKILL.md."""

    @property
    def files(self) -> list[str]:
        """The URIs of its files; empty if the server does not list them."""
        resources = self.entry.resources
        return [] if isinstance(resources, str) else [file.uri for file in resources]

    async def read(self, file: str, **options: Unpack[CallOptions]) -> bytes:
        """Read one file by its URI or relative path.

        Raises:
            SkillError: the file is not listed, or differs from its entry.
        """
        uri = file if "://" in file else self.uri.rpartition("/")[0] + "/" + file
        return await read_verified(self._client, self.entry, uri, options)


async def load(client: Client, entry: SkillEntry, options: CallOptions) -> LoadedSkill:
    """Read and verify the SKILL.md of ``entry``."""
    check_entry(entry)
    data = await read_verified(client, entry, entry.uri, options)
    try:
        text = data.decode()
        found = read_frontmatter(text)
    except (UnicodeDecodeError, FrontmatterError) as error:
        raise SkillError(f"the frontmatter of {entry.uri} cannot be read: {error}") from error
    if found != entry.frontmatter:
        names = sorted(
            k for k in found.keys() | entry.frontmatter.keys() if found.get(k) != entry.frontmatter.get(k)
        )
        raise SkillError(f"the frontmatter of {entry.uri} differs from its entry in {', '.join(names)}")
    return LoadedSkill(client, entry, text)


async def read_verified(client: Client, entry: SkillEntry, uri: str, options: CallOptions) -> bytes:
    """Return the verified bytes of one file of a skill."""
    resources = entry.resources
    listed = None
    if not isinstance(resources, str):
        listed = next((file for file in resources if file.uri == uri), None)
        if listed is None:
            raise SkillError(f"{uri} is not among the files of {entry.uri}")
    data = contents_of(await client.read_resource(uri, **options), uri)
    if listed is not None:
        verify(listed, data)
    return data


def contents_of(result: ReadResourceResult, uri: str) -> bytes:
    """Return the bytes of the resource ``uri`` in ``result``."""
    for item in result.contents:
        if item.uri != uri and len(result.contents) > 1:
            continue
        if isinstance(item.text, str):
            return item.text.encode()
        if isinstance(item.blob, str):
            try:
                return base64.b64decode(item.blob, validate=True)
            except binascii.Error:
                break
    raise SkillError(f"{uri} was answered without readable contents")


def verify(listed: SkillResource, data: bytes) -> None:
    """Verify a file against its entry: the size first, because it is cheaper."""
    if len(data) != listed.size:
        raise SkillError(f"{listed.uri} has {len(data)} bytes, its entry says {listed.size}")
    if "sha256:" + hashlib.sha256(data).hexdigest() != listed.digest:
        raise SkillError(f"{listed.uri} does not have the digest of its entry")


def check_entry(entry: SkillEntry) -> None:
    """Reject an entry that cannot be verified or is too large."""
    if isinstance(entry.resources, str):
        return
    if len(entry.resources) > SKILL_FILES:
        raise SkillError(f"{entry.uri} lists more than {SKILL_FILES} files")
    if sum(file.size for file in entry.resources) > SKILL_BYTES:
        raise SkillError(f"{entry.uri} lists more than {SKILL_BYTES} bytes")
    for file in entry.resources:
        if not _DIGEST.match(file.digest):
            raise SkillError(f"{file.uri} has no SHA-256 digest")
