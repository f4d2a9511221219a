"""Files of lines ``NAME=value``, as they lie beside many programs."""

from __future__ import annotations

from pathlib import Path


def read_dotenv(path: Path) -> dict[str, str]:
    """What the file says; nothing where there is none. Quotes around a value go, a comment behind it too."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, str] = {}
    for line in lines:
        name, mark, value = line.strip().removeprefix("export ").partition("=")
        if not mark or name.startswith("#") or not name.strip():
            continue
        value = value.strip()
        end = value.find(value[0], 1) if value[:1] in ("'", '"') else -1
        found[name.strip()] = value[1:end] if end > 0 else value.partition(" #")[0].rstrip()
    return found
