"""Skills that are part of the program instead of files in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from ...core.channel import EMPTY
from ...errors import RegistrationError
from ...wire.frontmatter import SKILL_BYTES, SKILL_FILES
from .skill_folders import MANIFEST, SKILL_DEPTH, IndexedSkill, check_skill_name, file_of, indexed, uri_of

_OWN: Final = ("name", "description")


class Skill:
    """A skill defined in code.

    ```python
    Skill(
        name="review",
        description="How to review a change.",
        files={"SKILL.md": "Read the tests first.", "checklist.md": "- names"},
    )
    ```

    ``files`` maps paths below the skill to their text or bytes. The text of ``SKILL.md`` is written without its
    frontmatter: that is made of ``name``, ``description`` and the members of ``frontmatter``.

    Raises:
        RegistrationError: the skill is invalid; the message says why.
    """

    def __init__(
        self,
        *,
        name: str,
        description: str,
        files: Mapping[str, str | bytes] = EMPTY,
        frontmatter: Mapping[str, Any] = EMPTY,
    ) -> None:
        check_skill_name(name)
        if not isinstance(cast("Any", description), str) or not description:
            raise RegistrationError(f"the skill {name!r} needs a description")
        taken = [member for member in _OWN if member in frontmatter]
        if taken:
            raise RegistrationError(
                f"the frontmatter of the skill {name!r} has {taken[0]!r} already: leave it out"
            )
        self.name, self.description = name, description
        self.frontmatter: dict[str, Any] = {"name": name, "description": description, **frontmatter}
        self.files = {path: _bytes(name, path, data) for path, data in files.items()}
        body = self.files.get(MANIFEST, f"{description}\n".encode())
        if body.lstrip().startswith(b"---"):
            raise RegistrationError(
                f"{MANIFEST} of the skill {name!r} begins with ---: write it without its frontmatter"
            )
        self.files[MANIFEST] = _head(self.frontmatter).encode() + body
        size = sum(map(len, self.files.values()))
        if len(self.files) > SKILL_FILES or size > SKILL_BYTES:
            raise RegistrationError(
                f"the skill {name!r} has more than {SKILL_FILES} files or {SKILL_BYTES >> 20} MiB"
            )

    def index(self, prefix: str) -> IndexedSkill:
        """The indexed skill, served below ``prefix``."""
        path = f"{prefix.strip('/')}/{self.name}".lstrip("/")
        uri = uri_of(path)
        files = tuple(
            file_of(name, data, uri)._replace(data=data) for name, data in sorted(self.files.items())
        )
        return indexed(None, path, self.frontmatter, files)


def _bytes(skill: str, path: str, data: Any) -> bytes:
    parts = path.split("/")
    if len(parts) > SKILL_DEPTH or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise RegistrationError(
            f"{path!r} of the skill {skill!r} must be a path below the skill, such as 'references/list.md'"
        )
    if not isinstance(data, str | bytes):
        raise RegistrationError(
            f"{path!r} of the skill {skill!r} must be text or bytes, not {type(data).__name__}"
        )
    return data.encode() if isinstance(data, str) else data


def _head(frontmatter: Mapping[str, Any]) -> str:
    # JSON is YAML.
    members = (f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in frontmatter.items())
    return f"---\n{''.join(members)}---\n\n"
