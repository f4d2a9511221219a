"""Skills in folders as resources: ``skill://name/SKILL.md``, a list of each one's files, and the files."""

from __future__ import annotations

import hashlib
import json
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import AnyUrl, PrivateAttr

from .....wire.frontmatter import FrontmatterError, read_frontmatter
from ...resources.base import Resource, ResourceContent, ResourceResult
from ...resources.template import ResourceTemplate
from .base import Provider

_BINARY = "application/octet-stream"


class Skill:
    """One folder with a main file. Only files that lie in it are ever read."""

    def __init__(self, folder: Path, main: str) -> None:
        self.folder, self.main, self.name = folder.resolve(), main, folder.name

    @property
    def description(self) -> str:
        """As its frontmatter says, or else its first line."""
        text = (self.folder / self.main).read_text(encoding="utf-8")
        try:
            return str(read_frontmatter(text)["description"])
        except (FrontmatterError, KeyError):
            lines = (line.strip("# \t") for line in text.splitlines() if line.strip() != "---")
            return next(filter(None, lines), self.name)[:200]

    def files(self) -> dict[str, Path]:
        found = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        inside = (path for path in found if path.resolve().is_relative_to(self.folder))
        return {path.relative_to(self.folder).as_posix(): path for path in inside}

    def manifest(self) -> str:
        read = ((name, path.read_bytes()) for name, path in self.files().items())
        files = [
            {"path": name, "size": len(data), "hash": f"sha256:{hashlib.sha256(data).hexdigest()}"}
            for name, data in read
        ]
        return json.dumps({"skill": self.name, "files": files}, indent=2)


class SkillResource(Resource):
    """The main file of a skill, the list of its files (None), or one of them."""

    _part: tuple[Skill, str | None] = PrivateAttr()

    @classmethod
    def of(cls, skill: Skill, file: str | None, mime_type: str, description: str) -> SkillResource:
        name = f"{skill.name}/{'_manifest' if file is None else file}"
        made = cls(uri=AnyUrl(f"skill://{name}"), name=name, mime_type=mime_type, description=description)
        made._part = skill, file
        return made

    def get_meta(self, include_fastmcp_meta: bool | None = None) -> dict[str, Any] | None:
        """Which skill it belongs to stands among what FastMCP says of itself."""
        meta, (skill, file) = super().get_meta(include_fastmcp_meta), self._part
        about = {"name": skill.name} | ({"is_manifest": file is None} if file in (None, skill.main) else {})
        for word in {"fastmcp", "_fastmcp"} & (meta or {}).keys():
            (meta or {})[word]["skill"] = about
        return meta

    async def read(self) -> Any:
        skill, file = self._part
        if file is None:
            return skill.manifest()
        data = skill.files()[file].read_bytes()
        return data.decode() if self.mime_type.startswith("text/") else data


class SkillFiles(ResourceTemplate):
    """All files of a skill."""

    _skill: Skill = PrivateAttr()

    async def read(self, arguments: dict[str, Any]) -> Any:
        path = self._skill.files().get(arguments["path"])
        if path is None:
            raise FileNotFoundError(f"File not found: {arguments['path']}")
        data = path.read_bytes()
        try:
            return ResourceResult([ResourceContent(data.decode(), "text/plain")])
        except UnicodeDecodeError:
            return ResourceResult([ResourceContent(data, _BINARY)])


class SkillsDirectoryProvider(Provider):
    """Every folder in ``roots`` with a main file; with ``reload`` they are looked up anew each time."""

    def __init__(
        self, roots: str | Path | Sequence[str | Path], reload: bool = False, main_file_name: str = "SKILL.md",
        supporting_files: Literal["template", "resources"] = "template",
    ) -> None:  # fmt: skip
        super().__init__()
        given = [roots] if isinstance(roots, str | Path) else roots
        self._roots = [Path(one).expanduser().resolve() for one in given]
        self._main, self._reload, self._listed = main_file_name, reload, supporting_files == "resources"
        self._found: dict[str, Skill] = {}

    def _skills(self) -> list[Skill]:
        if self._reload or not self._found:
            every = (folder for root in self._roots if root.is_dir() for folder in sorted(root.iterdir()))
            self._found = {}
            for folder in every:
                if (folder / self._main).is_file():
                    self._found.setdefault(folder.name, Skill(folder, self._main))
        return list(self._found.values())

    async def _list_resources(self) -> Sequence[Any]:
        found: list[Any] = []
        for skill in self._skills():
            found.append(SkillResource.of(skill, skill.main, "text/markdown", skill.description))
            found.append(SkillResource.of(skill, None, "application/json", f"File listing for {skill.name}"))
            for name in sorted(skill.files().keys() - {skill.main}) if self._listed else ():
                kind = mimetypes.guess_type(name)[0] or _BINARY
                found.append(SkillResource.of(skill, name, kind, f"File from {skill.name} skill"))
        return found

    async def _list_resource_templates(self) -> Sequence[Any]:
        return [] if self._listed else [_template(skill) for skill in self._skills()]


def _template(skill: Skill) -> SkillFiles:
    made = SkillFiles(
        name=f"{skill.name}_files", uri_template=f"skill://{skill.name}/{{path*}}", mime_type=_BINARY,
        description=f"Access files within {skill.name}",
        parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    )  # fmt: skip
    made._skill = skill  # pyright: ignore[reportPrivateUsage]
    return made
