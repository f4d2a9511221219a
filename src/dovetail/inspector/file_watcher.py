"""Detect changed files by polling, without a dependency and with a bounded number of files."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

FILE_SCAN_INTERVAL: Final = 0.05
"""Seconds between two scans of the files of a project."""
FILES_WATCHED: Final = 2_000
"""Watched files; a folder with more is not the project of one server."""
FOLDERS_WATCHED: Final = 8
"""Levels of folders in which files are watched."""


_PASSED: Final = frozenset({"node_modules", "__pycache__", "site-packages", "venv", "env", "build", "dist"})
_ENDINGS: Final = (".py", ".toml", ".json", ".yaml", ".yml")

Stamps = dict[str, tuple[int, int]]


class FileWatcher:
    """Watches the folder of a file and its subfolders."""

    def __init__(self, file: Path, *more: Path) -> None:
        self._root = str(file.parent)
        self._more = [str(path) for path in more]
        self._seen = self._look()

    async def changed(self) -> list[str]:
        """Wait for the next change; return the changed, added and removed files."""
        while True:
            await asyncio.sleep(FILE_SCAN_INTERVAL)
            now = self._look()
            if now != self._seen:
                found = [path for path in {**self._seen, **now} if self._seen.get(path) != now.get(path)]
                self._seen = now
                return sorted(found)

    def _look(self) -> Stamps:
        found: Stamps = {}
        for path in self._more:
            try:
                state = os.stat(path)
                found[path] = (state.st_mtime_ns, state.st_size)
            except OSError:
                pass
        self._walk(self._root, FOLDERS_WATCHED, found)
        return found

    def _walk(self, folder: str, depth: int, found: Stamps) -> None:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            return
        for entry in entries:
            if len(found) >= FILES_WATCHED:
                return
            try:
                if entry.name.endswith(_ENDINGS) and entry.is_file():
                    state = entry.stat()
                    found[entry.path] = (state.st_mtime_ns, state.st_size)
                elif depth and _is_own(entry.name) and entry.is_dir(follow_symlinks=False):
                    self._walk(entry.path, depth - 1, found)
            except OSError:
                pass  # removed during the scan


def _is_own(name: str) -> bool:
    return not name.startswith(".") and name not in _PASSED
