"""YAML as data: the rules of YAML 1.2, and bounds that hold before anything is built."""

from typing import Any

import pytest

from dovetail.safe_yaml import YamlError, load_yaml


def load(text: str | bytes, *, max_depth: int = 8, max_nodes: int = 100, aliases: bool = True) -> Any:
    return load_yaml(
        text, max_depth=max_depth, max_nodes=max_nodes, aliases=aliases, purpose="a test", extra="skills"
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[yes, no, on, off, y, n]", ["yes", "no", "on", "off", "y", "n"]),
        ("[true, False, ~, null, '']", [True, False, None, None, ""]),
        ("[010, 0o17, 0x1F, -5, 1_000, 1:30]", [10, 15, 31, -5, "1_000", "1:30"]),
        ("[1.5, .5, 1e3, 1.e2, .inf]", [1.5, 0.5, 1000.0, 100.0, ".inf"]),
        ("2024-01-01", "2024-01-01"),
        ("!!str 12", "12"),
        ("{200: a, 1.0: b, ~: c}", {"200": "a", "1.0": "b", "~": "c"}),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
        ("", None),
        (b"\xef\xbb\xbfa: 1", {"a": 1}),
        ("a: &x [1, 2]\nb: [*x, *x]", {"a": [1, 2], "b": [[1, 2], [1, 2]]}),
    ],
)
def test_scalars_follow_yaml_1_2(text: str | bytes, value: Any) -> None:
    found = load(text)
    assert found == value
    assert repr(found) == repr(value)  # 1 == True == 1.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\na: 2", "line 2: the key 'a' occurs twice"),
        ("? [1]\n: 2", "line 1: a key must be a text"),
        ("a: !!set {b}", "line 1: the tag 'tag:yaml.org,2002:set' is not supported"),
        ("a: !!binary aGk=", "is not supported"),
        ("a: !!timestamp 2024-01-01", "is not supported"),
        ("a: !!python/name:os.system", "is not supported"),
        ("a: !mine 1", "the tag '!mine' is not supported"),
        ("a: !!int x", "this number cannot be read"),
        ("a: " + "1" * 5000, "this number cannot be read"),
        ("a: 1\n---\nb: 2", "single document"),
        ("a: &x [*x]", "names no finished value"),
        ("a: *x", "names no finished value"),
        ("a:\n  - [", "line 3: "),
        ("a: \0", "special characters|control characters"),
        ("a: \ud800", "surrogates"),
        (b"a: \xff", "invalid"),
    ],
)
def test_what_is_not_plain_data_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(YamlError, match=reason) as caught:
        load(text)
    assert "\n" not in str(caught.value)


def test_anchors_can_be_refused() -> None:
    for text in ("a: &x 1", "a: &x [1]", "a: &x {}"):
        with pytest.raises(YamlError, match="line 1: anchors and aliases are not supported here"):
            load(text, aliases=False)


def test_bounds_count_what_an_alias_stands_for() -> None:
    assert load("[[[]]]", max_depth=3) == [[[]]]
    with pytest.raises(YamlError, match="more than 2 levels"):
        load("[[[]]]", max_depth=2)
    with pytest.raises(YamlError, match="more than 4 levels"):
        load("a: &x [[]]\nb: [[*x]]", max_depth=4)
    assert load("a: &x [[]]\nb: [[*x]]", max_depth=5) == {"a": [[]], "b": [[[[]]]]}
    # 1 mapping, 2 keys, 3 nodes of the list, and the same 3 again.
    text = "a: &x [1, 2]\nb: *x"
    assert load(text, max_nodes=9) == {"a": [1, 2], "b": [1, 2]}
    with pytest.raises(YamlError, match="more than 8 values"):
        load(text, max_nodes=8)
    doubled = "".join(f"- &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefghijkl", "bcdefghijklm", strict=True))
    with pytest.raises(YamlError, match="more than 1000 values"):
        load(f"- &a 1\n{doubled}", max_depth=50, max_nodes=1000)
