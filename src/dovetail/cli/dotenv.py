"""Files of lines ``NAME=value``, as they lie beside many programs."""

from __future__ import annotations

from pathlib import Path


def read_dotenv(path: Path) -> dict[str, str]:
    """What the file says; nothing where there is none. Quotes around a value go, a comment behind it too.

    Raises:
        ValueError: it is no text, or a line cannot stand in an environment.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not written in UTF-8") from None
    except OSError:
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if "\0" in line:
            raise ValueError(f"{path}, line {number}: a NUL character cannot stand in an environment")
        name, mark, value = line.strip().removeprefix("export ").partition("=")
        if not mark or name.startswith("#") or not name.strip():
            continue
        value = value.strip()
        end = value.find(value[0], 1) if value[:1] in ("'", '"') else -1
        found[name.strip()] = value[1:end] if end > 0 else value.partition(" #")[0].rstrip()
    return found
