"""Skills on disk: the index of the files in a folder, with sizes and digests.

A skill is a folder with a ``SKILL.md`` whose frontmatter names it as the folder is named. It has all files in the
folder, except those whose names begin with a dot. Only indexed files can be read: clients name entries of the index, so
no path from a client is ever resolved.
"""

from __future__ import annotations

import hashlib
import mimetypes
import os
import re
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from ...errors import RegistrationError
from ...model import SkillEntry, SkillResource
from ...server.resource_readers import is_text
from ...wire.frontmatter import SKILL_BYTES, SKILL_FILES, FrontmatterError, read_frontmatter

SKILL_DEPTH: Final = 16
"""Levels of folders that are searched for skills, and that one skill may have."""

MANIFEST: Final = "SKILL.md"
SCHEME: Final = "skill://"

_NAME = re.compile(r"(?!.*--)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
_SAFE = "-._~!$&'()*+,;=@"
_TYPES = {".md": "text/markdown", ".yaml": "application/yaml", ".yml": "application/yaml"}


class SkillFile(NamedTuple):
    """One file of a skill."""

    path: Path | None
    """Its path; None if the skill is defined in code."""
    uri: str
    name: str
    mime_type: str
    size: int
    digest: str
    data: bytes | None = None
    """Its contents, if the skill is defined in code."""


class IndexedSkill(NamedTuple):
    """One skill as it was when its folder was indexed."""

    folder: Path | None
    """Its path with all symbolic links resolved; None if the skill is defined in code."""
    path: str
    """The path of its URI ``skill://<path>/SKILL.md``, before percent-encoding."""
    entry: SkillEntry
    files: tuple[SkillFile, ...]

    @property
    def name(self) -> str:
        return str(self.entry.frontmatter["name"])

    @property
    def description(self) -> str:
        return str(self.entry.frontmatter["description"])


def find_skills(folder: Path, prefix: str) -> list[IndexedSkill]:
    """Every skill in ``folder``, which may be a skill itself. A skill is not searched for nested skills."""
    try:
        root = folder.resolve(strict=True)
    except OSError as error:
        raise RegistrationError(f"there is no folder {folder}") from error
    base = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    if (root / MANIFEST).is_file():
        return [index_skill(root, base + root.name)]
    found = [index_skill(root / path, base + path) for path in sorted(_skill_paths(root))]
    if not found:
        raise RegistrationError(f"there is no {MANIFEST} in {folder}")
    return found


def index_skill(folder: Path, path: str) -> IndexedSkill:
    """Index the skill in ``folder``, a path without symbolic links, to be served as ``skill://<path>/…``."""
    if folder.resolve() != folder:
        raise RegistrationError(f"{folder} is a symbolic link: replace it by the folder of the skill")
    uri = uri_of(path)
    files = tuple(_files(folder, uri))
    if all(file.path != folder / MANIFEST for file in files):
        raise RegistrationError(f"there is no {MANIFEST} in {folder}")
    return indexed(folder, path, _frontmatter(folder / MANIFEST, path.rpartition("/")[2]), files)


def indexed(
    folder: Path | None, path: str, frontmatter: dict[str, Any], files: tuple[SkillFile, ...]
) -> IndexedSkill:
    """The skill at ``path`` with these files, the manifest among them."""
    resources = [SkillResource(file.uri, file.digest, file.size) for file in files]
    return IndexedSkill(folder, path, SkillEntry(f"{uri_of(path)}/{MANIFEST}", frontmatter, resources), files)


def uri_of(path: str) -> str:
    """The URI of a path below ``skill://``."""
    return SCHEME + "/".join(quote(part, safe=_SAFE) for part in path.split("/"))


def read_file(skill: IndexedSkill, file: SkillFile) -> bytes | None:
    """The bytes of ``file``; None if they differ from the indexed ones."""
    if file.path is None or skill.folder is None:
        return file.data
    try:
        if not file.path.resolve(strict=True).is_relative_to(skill.folder):
            return None
        if file.path.stat().st_size != file.size:
            return None
        data = file.path.read_bytes()
    except OSError:
        return None
    return data if digest_of(data) == file.digest else None


def _skill_paths(root: Path) -> list[str]:
    found: list[str] = []
    for at, folders, files in os.walk(root):  # follows no links
        path = Path(at).relative_to(root)
        if MANIFEST in files:
            found.append(path.as_posix())
            folders.clear()
        elif len(path.parts) >= SKILL_DEPTH:
            folders.clear()
        folders[:] = [name for name in folders if not name.startswith(".")]
    return found


def _files(folder: Path, uri: str) -> list[SkillFile]:
    found: list[SkillFile] = []
    total = 0
    for at, folders, names in os.walk(folder):
        here = Path(at)
        for name in folders:
            _check_inside(here / name, folder)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(here.relative_to(folder).parts) >= SKILL_DEPTH:
            raise RegistrationError(f"the skill {folder} has more than {SKILL_DEPTH} levels of folders")
        for name in sorted(name for name in names if not name.startswith(".")):
            path = here / name
            _check_inside(path, folder)
            if not path.is_file():
                raise RegistrationError(
                    f"{path} is not a regular file: a skill can have files and folders only"
                )
            total += path.stat().st_size
            if len(found) == SKILL_FILES or total > SKILL_BYTES:
                raise RegistrationError(
                    f"the skill {folder} has more than {SKILL_FILES} files or {SKILL_BYTES >> 20} MiB"
                )
            found.append(_file(path, folder, uri))
    return found


def _check_inside(path: Path, folder: Path) -> None:
    if path.is_symlink() and not path.resolve().is_relative_to(folder):
        raise RegistrationError(f"{path} links to a file outside of its skill: replace the link by the file")


def _file(path: Path, folder: Path, uri: str) -> SkillFile:
    data = path.read_bytes()
    parts = path.relative_to(folder).parts
    return file_of("/".join(parts), data, uri)._replace(path=path)


def file_of(path: str, data: bytes, uri: str) -> SkillFile:
    """The file at ``path`` of the skill that is served at ``uri``."""
    name = path.rpartition("/")[2]
    suffix = f".{name.rpartition('.')[2].lower()}"
    mime_type = _TYPES.get(suffix) or mimetypes.guess_type(name)[0]
    return SkillFile(
        path=None,
        uri=f"{uri}/" + "/".join(quote(part, safe=_SAFE) for part in path.split("/")),
        name=name,
        mime_type=mime_type or ("text/plain" if is_text(data) else "application/octet-stream"),
        size=len(data),
        digest=digest_of(data),
    )


def digest_of(data: bytes) -> str:
    """The digest in the format of skill entries."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _frontmatter(path: Path, folder: str) -> dict[str, Any]:
    try:
        found = read_frontmatter(path.read_bytes().decode())
    except (FrontmatterError, UnicodeDecodeError) as error:
        raise RegistrationError(f"the frontmatter of {path} cannot be read: {error}") from None
    name, description = found.get("name"), found.get("description")
    if not isinstance(name, str) or not isinstance(description, str) or not description:
        raise RegistrationError(f"the frontmatter of {path} needs a name and a description")
    check_skill_name(name, f" in {path}")
    if name != folder:
        raise RegistrationError(f"the skill in {path} is named {name!r}: its folder must be, too")
    return found


def check_skill_name(name: str, where: str = "") -> None:
    """Raises RegistrationError: the name is not valid for a skill."""
    if _NAME.fullmatch(name) is None:
        raise RegistrationError(
            f"the name {name!r}{where} must be 1 to 64 of a-z, 0-9 and single hyphens between them"
        )
