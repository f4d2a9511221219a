"""Docstrings in the three usual styles, and in none."""

from __future__ import annotations

import pytest

from dovetail.server.signatures.docstrings import Docstring, parse

GOOGLE = """Do it
    in two lines.

    More.

    Args:
        a: The first,
            continued: here.
        b (dict[str, int], optional): The second.

            With a paragraph.
        *rest: Others.

    Returns:
        c: not a parameter
    """
NUMPY = """Do it in two lines.

    Parameters
    ----------
    a : int
        The first,
        continued: here.
    b, c : str, optional
        The second.

    Returns
    -------
    d : int
        Nothing.
    """
SPHINX = """Do it in two lines.

    :param a: The first,
        continued: here.
    :param dict b: The second.
    :type b: dict
    :returns: nothing
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_summary_and_parameters_are_found_in_every_style(text: str) -> None:
    docstring = parse(text)
    assert docstring.summary == "Do it in two lines."
    assert docstring.parameters["a"] == "The first, continued: here."
    assert docstring.parameters["b"].startswith("The second.")
    assert "d" not in docstring.parameters


def test_google_paragraphs_and_stars_belong_to_their_parameter() -> None:
    assert parse(GOOGLE).parameters == {
        "a": "The first, continued: here.",
        "b": "The second. With a paragraph.",
        "rest": "Others.",
    }


@pytest.mark.parametrize("text", [None, "", "   ", "\n\n"])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert parse(text) == Docstring(None, {})


def test_a_docstring_that_begins_with_its_arguments_has_no_summary() -> None:
    assert parse("Args:\n    a: x") == Docstring(None, {"a": "x"})


def test_prose_with_colons_is_not_taken_for_parameters() -> None:
    assert parse("Do it.\n\nNote: this is prose.\nAnd: this too.").parameters == {}
