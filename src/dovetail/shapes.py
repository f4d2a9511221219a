"""Type guards for JSON values."""

from typing import Any, TypeAlias, TypeGuard

Object: TypeAlias = dict[str, Any]
"""A JSON object."""


def is_object(value: object) -> TypeGuard[Object]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
