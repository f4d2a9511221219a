"""Read ``.env`` files: lines of ``NAME=value``."""

from __future__ import annotations

from pathlib import Path


def read_dotenv(path: Path) -> dict[str, str]:
    """Return the variables in the file; none if it does not exist. Quotes and trailing comments are removed.

    Raises:
        ValueError: the file is not UTF-8, or a line is not valid.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not encoded as UTF-8") from None
    except OSError:
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if "\0" in line:
            raise ValueError(f"{path}, line {number}: a variable cannot contain a NUL character")
        name, mark, value = line.strip().removeprefix("export ").partition("=")
        if not mark or name.startswith("#") or not name.strip():
            continue
        value = value.strip()
        end = value.find(value[0], 1) if value[:1] in ("'", '"') else -1
        found[name.strip()] = value[1:end] if end > 0 else value.partition(" #")[0].rstrip()
    return found
