"""Every Python of a run of the originals' suites begins here: ``mcp`` and ``fastmcp`` mean ours, children's too."""

import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType


class Absent:
    """A name that we do not have: the tests that use it fail, not all that stand in the same file."""

    def __init__(self, *_: object, **__: object) -> None:
        raise NotImplementedError("this is not offered")


def stand_in(names: dict[str, list[str]]) -> None:
    """Let ``names`` of modules be there, so that a file that imports one of them can be read."""
    for module, absent in names.items():
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            found = sys.modules[module] = ModuleType(module)
        for name in absent:
            if hasattr(found, name):
                raise AssertionError(f"{module}.{name} is there: take it out of suites.json")
            setattr(found, name, Absent)


if os.environ.get("DOVETAIL_SUITE"):
    from dovetail.compat import hook

    hook.install()
    if os.environ["DOVETAIL_SUITE"] == "fastmcp":
        import suite_helpers

        for name in ("tests", "json_schema"):
            sys.modules[f"fastmcp.utilities.{name}"] = suite_helpers
    known = json.loads((Path(__file__).parents[1] / "suites.json").read_text())
    stand_in(known["suites"][os.environ["DOVETAIL_SUITE"]].get("absent", {}))
