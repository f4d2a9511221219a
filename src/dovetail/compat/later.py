"""Names of a package that are loaded when somebody asks for them."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def later(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of ``package``; ``places`` has the module of each name, such as ``.base``."""

    def found(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return vars(import_module(places[name], package))[name]

    return found
