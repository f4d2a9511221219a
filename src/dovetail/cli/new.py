"""``dovetail new NAME``: create a project with a server, tests, a Dockerfile, registry files and a release workflow.

``--target`` adds the files of a place to run it. They replace files of the template that have the same path.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ..command_parser import CommandParser
from ..errors import DovetailError
from ..version import __version__
from .output import Printer

_TEMPLATE: Final = Path(__file__).with_name("template")
"""The files, by path; ``@NAME@``, ``@OWNER@``, ``@VERSION@`` and the words of the target are replaced."""
_TARGETS: Final = Path(__file__).with_name("targets")
"""The files of each target, likewise."""
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class DeployTarget(NamedTuple):
    """A place to run a server: what its project differs in."""

    deploy: str
    """The command that deploys it, or tries that on this machine."""
    extras: str = "http"
    source: str = ""
    """The folder of server.py, with a slash."""
    without: tuple[str, ...] = ()
    """Files of the template that the target has no use for."""


_HERE: Final = DeployTarget("docker build -t @NAME@ . && docker run -p 8000:8000 @NAME@")
TARGETS: Final = {
    "docker": DeployTarget("docker compose up --build", extras="http,redis"),
    "kubernetes": DeployTarget(
        "docker build -t registry.example.com/@NAME@:0.1.0 . && kubectl apply -f kubernetes/server.yaml",
        extras="http,redis",
    ),
    "lambda": DeployTarget("sam build && sam deploy --guided"),
    "cloud-run": DeployTarget("gcloud run services replace service.yaml"),
    "workers": DeployTarget("uv run pywrangler dev", source="src/", without=("Dockerfile", ".dockerignore")),
}


def main(command: str, arguments: Sequence[str]) -> int:
    """Write the project; returns the exit status."""
    parser = CommandParser("new", "Create a project in a new folder.")
    parser.add_argument("name", help="the name of the folder and of the server: a-z, 0-9 and hyphens")
    parser.add_argument("--owner", default="you", help="the owner in registries (default: the user name)")
    parser.add_argument("--target", choices=TARGETS, help="add the files that deploy the server there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(list(arguments))
    for word in (options.name, options.owner):
        if not _NAME.fullmatch(word) or len(word) > 64:
            sys.stderr.write(
                f"dovetail new: {word!r} is not a valid name: use a-z, 0-9 and hyphens, starting with a letter\n"
            )
            return 2
    folder = Path(options.name)
    target = TARGETS.get(options.target, _HERE)
    written = write(folder, options.name, options.owner, options.target)
    steps = [
        f"cd {options.name}",
        "python -m pytest",
        f"dovetail dev {target.source}server.py",
        f"dovetail install {target.source}server.py --into cursor",
    ]
    if options.target is not None:
        steps.append(target.deploy.replace("@NAME@", options.name))
    lines = [f"{options.name} is ready:", *(f"  {step}" for step in steps)]
    Printer(json=options.json).show({"folder": str(folder), "files": written, "next": steps}, lines)
    return 0


def write(folder: Path, name: str, owner: str, target: str | None = None) -> list[str]:
    """Write all files below ``folder``, which must not exist; returns their names.

    Raises:
        DovetailError: ``folder`` exists.
    """
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise DovetailError(f"{folder} cannot be created: {error.strerror}") from None
    place = _HERE if target is None else TARGETS[target]
    words = {
        "@DEPLOY@": place.deploy,
        "@EXTRAS@": place.extras,
        "@SOURCE@": place.source,
        "@NAME@": name,
        "@OWNER@": owner,
        "@VERSION@": __version__,
    }
    for path, file in sorted(_files(target, place).items()):
        text = file.read_text("utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return sorted(_files(target, place))


def _files(target: str | None, place: DeployTarget) -> dict[str, Path]:
    """The path of each file in the project, and the file it is made from."""
    result = _below(_TEMPLATE)
    for path in place.without:
        del result[path]
    result[f"{place.source}server.py"] = result.pop("server.py")
    return result if target is None else result | _below(_TARGETS / target)


def _below(folder: Path) -> dict[str, Path]:
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in folder.rglob("*.in")}
