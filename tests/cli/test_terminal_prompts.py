"""Questions at the terminal."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest

from dovetail.cli.terminal_prompts import ask
from dovetail.model import ElicitRequestParams

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number"},
        "sure": {"type": "boolean"},
        "seat": {
            "type": "string",
            "oneOf": [{"const": "A", "title": "Aisle"}, {"const": "W", "title": "Window"}],
        },
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}},
    },
    "required": ["name"],
}


def answer(monkeypatch: pytest.MonkeyPatch, typed: str, request: ElicitRequestParams) -> Any:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    return asyncio.run(ask(request))


def form() -> ElicitRequestParams:
    return ElicitRequestParams.form("Who are you?", FORM)


def test_a_form_is_asked_field_by_field(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(monkeypatch, "Ada\n\n1.5\nyes\nW\nx, y\n", form())
    assert found == {"name": "Ada", "age": 30, "score": 1.5, "sure": True, "seat": "W", "tags": ["x", "y"]}
    shown = capsys.readouterr().err
    assert "Who are you?" in shown
    assert "Your name" in shown
    assert "A/W" in shown


def test_what_does_not_fit_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch, "\nAda\nold\n7\n\nmaybe\nno\nQ\n\n\n", form())
    assert found == {"name": "Ada", "age": 7, "sure": False}


def test_the_end_of_the_input_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, "Ada\n", form()) == "cancel"


@pytest.mark.parametrize(("typed", "action"), [("y\n", "accept"), ("\n", "decline"), ("", "cancel")])
def test_a_url_is_shown_in_full_and_needs_consent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, action: str
) -> None:
    request = ElicitRequestParams.for_url("Sign in", "https://x.example/a?b=c")
    assert answer(monkeypatch, typed, request) == action
    assert "https://x.example/a?b=c" in capsys.readouterr().err
