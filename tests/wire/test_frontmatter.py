"""Frontmatter: the YAML that skills use, and a refusal for anchors, tags and what is too large."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail import DovetailError
from dovetail.wire.frontmatter import FrontmatterError, read_frontmatter
from tests.support.waiting import HANG


def read(yaml: str) -> dict[str, Any]:
    return read_frontmatter(f"---\n{yaml}\n---\n# The rest\n")


@pytest.mark.parametrize(
    ("yaml", "value"),
    [
        ("a: text", {"a": "text"}),
        ("a: two words # and a comment", {"a": "two words"}),
        ("a: C# is a word", {"a": "C# is a word"}),
        ('a: "quoted: # \\n"', {"a": "quoted: # \n"}),
        ("a: 'it''s'", {"a": "it's"}),
        (
            "a: 1\nb: 1.5\nc: true\nd: null\ne: ~\nf:",
            {"a": 1, "b": 1.5, "c": True, "d": None, "e": None, "f": None},
        ),
        ('a: "1"', {"a": "1"}),
        ("a:\n  b: 1\n  c:\n    d: 2\ne: 3", {"a": {"b": 1, "c": {"d": 2}}, "e": 3}),
        ("a:\n  - 1\n  - two\nb:\n- x", {"a": [1, "two"], "b": ["x"]}),
        ("a:\n  - k: 1\n    l: 2\n  - k: 3", {"a": [{"k": 1, "l": 2}, {"k": 3}]}),
        ("a: [1, two, 'th,ree']", {"a": [1, "two", "th,ree"]}),
        ("a: {b: 1, c: [2]}", {"a": {"b": 1, "c": [2]}}),
        ("a: |\n  line one\n  line two\nb: 1", {"a": "line one\nline two\n", "b": 1}),
        ("a: >-\n  folded\n  text", {"a": "folded text"}),
        ("a: goes on\n  in the next line", {"a": "goes on in the next line"}),
        ("# only a comment\na: 1", {"a": 1}),
        ("a: # what follows\n  - 1\n  - 2 # two\nb: # more\n  c: 3", {"a": [1, 2], "b": {"c": 3}}),
        ("a: # nothing\nb: 1", {"a": None, "b": 1}),
        ("a: 2024-01-01\nb: no\nc: 010\nd: 1:30", {"a": "2024-01-01", "b": "no", "c": 10, "d": "1:30"}),
        ("200: x\ntrue: y", {"200": "x", "true": "y"}),
        ("a:\n  - # a mapping\n    b: 1\n  - c", {"a": [{"b": 1}, "c"]}),
    ],
)
def test_what_frontmatter_uses_is_read(yaml: str, value: dict[str, Any]) -> None:
    assert read(yaml) == value


def test_line_ends_of_windows_and_a_byte_order_mark_do_not_matter() -> None:
    assert read_frontmatter("\ufeff---\r\nname: x\r\n---\r\nrest") == {"name": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name: x",
        "---\nname: x",
        "---\n- a list\n---",
        "---\nno mapping\n---",
        "---\na: &anchor 1\n---",
        "---\na: *alias\n---",
        "---\na: !!python/object:x 1\n---",
        "---\na: 1\na: 2\n---",
        '---\na: "open\n---',
        "---\na: [1, 2\n---",
        "---\na: [1] 2\n---",
        "---\n\ta: 1\n---",
        "---\na: use when: never\n---",
        "---\na: 1\n   b: 2\n---",
        "---\na: " + "[" * 100 + "]" * 100 + "\n---",
    ],
)
def test_what_cannot_be_read_for_certain_is_refused(text: str) -> None:
    with pytest.raises(FrontmatterError):
        read_frontmatter(text)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=" \t\n:-#[]{},'\"|>&*!abc1.~\\", max_size=60))
def test_no_text_does_anything_but_be_read_or_refused(text: str) -> None:
    try:
        assert isinstance(read(text), dict)
    except FrontmatterError:
        pass


def test_no_line_is_tried_over_and_over() -> None:
    # Where reading grows with the square of a line's length, these take minutes.
    hostile = [
        "a" + " " * 60_000,
        "a: " + " " * 60_000 + "b",
        "'" * 60_000,
        "- " * 30_000,
        "a: {" + "a: " * 2000,
        "a" * 60_000,
    ]
    code = (
        "import sys; from dovetail.wire.frontmatter import *\n"
        "try: read_frontmatter(sys.stdin.read())\n"
        "except FrontmatterError: pass\n"
    )
    for line in hostile:
        subprocess.run(
            [sys.executable, "-c", code], input=f"---\n{line}\n---\n", text=True, timeout=HANG, check=True
        )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: " + "x" * 70_000, "longer than"),
        ("a: [" + "1," * 10_000 + "1]", "more than 10000 values"),
        ("a: " + "[" * 40 + "]" * 40, "more than 32 levels"),
    ],
)
def test_what_is_too_large_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FrontmatterError, match=reason):
        read_frontmatter(f"---\n{text}\n---\n")


def test_an_error_names_the_line_of_the_file() -> None:
    with pytest.raises(FrontmatterError, match=r"line 3: the key 'a' occurs twice"):
        read("a: 1\na: 2")
    with pytest.raises(FrontmatterError, match=r"line 4: "):
        read("a: 1\nb: 2\nc: use when: never")


def test_without_pyyaml_the_error_is_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(DovetailError, match=r"pip install 'dovetail-mcp\[skills\]'") as caught:
        read("a: 1")
    assert "\n" not in str(caught.value)


def test_a_key_may_have_spaces_and_ends_before_its_colon() -> None:
    text = "---\nlong name  : x\n'quoted: key' : y\nlist of things:\n  - z\n---\n"
    assert read_frontmatter(text) == {"long name": "x", "quoted: key": "y", "list of things": ["z"]}
