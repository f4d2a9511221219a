"""Which components are shown: rules one after the other, and the last that fits decides."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...utilities.versions import VersionSpec
from .base import Each


class Visibility(Each):
    """Show, or do not show, the components that fit."""

    def __init__(
        self, enabled: bool, *, names: Collection[str] | None = None, keys: Collection[str] | None = None,
        version: VersionSpec | None = None, tags: Collection[str] | None = None,
        components: Collection[str] | None = None, match_all: bool = False,
    ) -> None:  # fmt: skip
        self.enabled = enabled
        self.names, self.keys, self.version, self.tags = names, keys, version, tags
        self.components, self.match_all = components, match_all

    def fits(self, component: Any) -> bool:
        if self.match_all:
            return True
        conditions = [
            self.names is None
            or component.name in self.names
            or str(getattr(component, "uri", "")) in self.names,
            self.keys is None or component.key in self.keys,
            self.version is None or self.version.matches(component.version, match_none=False),
            self.tags is None or not component.tags.isdisjoint(self.tags),
            self.components is None or component.KEY_PREFIX in {one.rstrip("s") for one in self.components},
        ]
        said = (self.names, self.keys, self.version, self.tags, self.components)
        return any(one is not None for one in said) and all(conditions)

    def change(self, component: Any) -> Any:
        if component.enabled == self.enabled or not self.fits(component):
            return component
        return component.model_copy(update={"enabled": self.enabled})


def is_enabled(component: Any) -> bool:
    """Whether it is shown."""
    return component.enabled


def rules(enabled: bool, only: bool = False, **conditions: Any) -> list[Visibility]:
    """The rules that ``enable(…)`` and ``disable(…)`` stand for."""
    first = [Visibility(False, match_all=True)] if only else []
    conditions.setdefault("match_all", not any(value is not None for value in conditions.values()))
    return [*first, Visibility(enabled, **conditions)]
