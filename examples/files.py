"""Files of one folder: read, search, and nothing outside of it. ``NOTES_FOLDER=~/notes dovetail run files.py``"""

import os
from pathlib import Path

from dovetail import FolderResource, Server, ToolError

FOLDER = Path(os.environ.get("NOTES_FOLDER", ".")).expanduser().resolve()
server = Server("files", instructions="Search first, then read files://path.")
server.add_resource_template(
    "files://{+path}", FolderResource(FOLDER), name="file", description="A file or folder"
)


@server.tool(annotations={"readOnlyHint": True}, timeout=30)
def search(word: str, suffix: str = ".md", limit: int = 50) -> list[dict[str, str]]:
    """Lines with a word in them, and where they stand.

    Args:
        word: what to look for, whatever the case
        suffix: the end of the names of files to look into
        limit: lines to return at most
    """
    if not word.strip():
        raise ToolError("say what to look for")
    found: list[dict[str, str]] = []
    for path in sorted(FOLDER.rglob(f"*{suffix}")):
        if path.is_symlink() or not path.is_file() or any(part.startswith(".") for part in path.parts):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if word.lower() in line.lower():
                found.append(
                    {"uri": f"files://{path.relative_to(FOLDER).as_posix()}", "line": f"{number}: {line}"}
                )
                if len(found) >= limit:
                    return found
    return found
