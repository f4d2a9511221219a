"""The examples as modules, each loaded again so that it reads the environment a test gave it."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
numbers = itertools.count()


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}_{next(numbers)}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations are resolved through it
    spec.loader.exec_module(module)
    return module
