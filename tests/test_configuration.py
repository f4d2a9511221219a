"""The configuration reference is complete, up to date, and has a sentence for every option."""

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail import auth, settings, stores
from dovetail.cli.main import COMMANDS
from dovetail.server.registry.component_options import PromptOptions, ResourceOptions, ToolOptions

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
configuration: Any = importlib.import_module("configuration")
sys.path.remove(str(ROOT / "scripts"))

KINDS = [kind for _, kinds in configuration.sections() for kind in kinds]
OPTIONS = [(kind, option) for kind in KINDS for option in configuration.options_of(kind)]
UNITS = re.compile(
    r"^max_|_(bytes|ms|timeout|interval|period|delay|lifetime|threshold|ttl|length|rounds|port)$|^(ttl|timeout|size|seconds)$"
)
COUNTS = {
    "connect", "idle", "total", "page_size", "queue", "limit", "attempts", "burst", "checkpoint", "jitter",
    "per_tool", "per_principal", "level", "temperature",
}  # fmt: skip
"""Promised names, counts and fractions, whose docstring has the unit."""


def test_every_generated_page_is_up_to_date() -> None:
    assert [path.name for path, text in configuration.pages() if path.read_text() != text] == [], (
        "run `make configuration`"
    )


def test_options_of_a_parent_are_listed_too() -> None:
    for kind in (ToolOptions, ResourceOptions, PromptOptions):
        names = {option.name for option in configuration.options_of(kind)}
        assert names == set(kind.__annotations__), kind


def test_a_marked_table_is_written_and_the_text_around_it_is_kept() -> None:
    text = "before\n<!-- options Timeout -->\nold\n<!-- /options -->\nafter\n"
    lines = configuration.filled(text).splitlines()
    assert lines[0] == "before"
    assert lines[-1] == "after"
    assert "old" not in lines
    assert any(line.startswith("| `seconds` | `float` |") for line in lines)


def test_an_unknown_class_in_a_marker_is_an_error() -> None:
    with pytest.raises(LookupError, match="Nothing"):
        configuration.filled("<!-- options Nothing -->\n<!-- /options -->")


@pytest.mark.parametrize(
    ("kind", "option"), OPTIONS, ids=lambda one: getattr(one, "__name__", None) or one.name
)
def test_every_option_has_a_docstring(kind: type[Any], option: Any) -> None:
    assert option.meaning, f"{kind.__name__}.{option.name} has no docstring"
    assert option.meaning.endswith("."), option.meaning
    assert option.meaning[0].isupper() or option.meaning[0] in '"`0123456789', option.meaning


@pytest.mark.parametrize(
    ("kind", "option"), OPTIONS, ids=lambda one: getattr(one, "__name__", None) or one.name
)
def test_numbers_have_their_unit_in_the_name(kind: type[Any], option: Any) -> None:
    if re.fullmatch(r"(int|float)( \| (int|float|None))*", option.type):
        assert UNITS.search(option.name) or option.name in COUNTS, f"{kind.__name__}.{option.name}"


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("explain",)])
def test_every_flag_has_a_meaning(command: str) -> None:
    for flag in configuration.flags_of(command):
        assert flag.meaning, f"dovetail {command} {flag.name}"


def public_option_classes() -> set[type[Any]]:
    """Classes with options that users can import: settings, middleware, stores and ways to authenticate."""
    found: set[type[Any]] = {
        one
        for one in vars(settings).values()
        if inspect.isclass(one) and issubclass(one, msgspec.Struct) and one is not msgspec.Struct
    }
    for module in (importlib.import_module("dovetail.middleware"), stores, auth):
        for name in module.__all__:
            one = getattr(module, name)
            if inspect.isclass(one) and configuration.has_options(one):
                found.add(one)
    return found


BASES = {"Verifier", "Middleware", "Extension"}
"""Classes to derive from."""


def test_every_class_with_options_is_on_the_page() -> None:
    missing = {one.__name__ for one in public_option_classes()} - {kind.__name__ for kind in KINDS} - BASES
    assert missing == set()


def test_every_environment_variable_is_on_the_page() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"DOVETAIL_[A-Z][A-Z_]*[A-Z]", source)) - configuration.INTERNAL
    page = configuration.page()
    assert {name for name in named if name not in page} == set()


def test_every_flag_that_an_option_names_exists() -> None:
    flags = {flag.name: flag.variable for flag in configuration.flags_of("run")}
    for _, option in OPTIONS:
        if option.flag:
            assert flags[option.flag] == option.variable


def test_a_missing_docstring_is_found() -> None:
    class Small(msgspec.Struct):
        first: int = 1
        """The first."""
        second: int = 2

    assert [(one.name, one.default, one.meaning) for one in configuration.options_of(Small)] == [
        ("first", "1", "The first."),
        ("second", "2", ""),
    ]
