"""The scopes of a principal: any strings, and nothing else."""

from typing import Any

import pytest

from dovetail import Principal
from dovetail.core.rights import Right, visible


@pytest.mark.parametrize("scopes", [("a", "b"), ["a", "b"], {"a", "b"}, iter(["a", "b"]), {"a": 1, "b": 2}])
def test_scopes_may_come_in_any_collection(scopes: Any) -> None:
    principal = Principal("ann", scopes=scopes)
    assert principal.scopes == frozenset({"a", "b"})
    assert visible((Right(frozenset({"a"})),), principal)


@pytest.mark.parametrize("scopes", ["a b", b"a", 5, None, [1], [b"a"]])
def test_other_scopes_are_refused_where_they_are_written(scopes: Any) -> None:
    with pytest.raises(TypeError, match="scopes of a principal must be an iterable of strings"):
        Principal("ann", scopes=scopes)
