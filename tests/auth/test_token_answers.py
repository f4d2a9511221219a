"""What token endpoints answer, and how a client authenticates there."""

from typing import Any

import msgspec
import pytest

from dovetail.auth.core.client_authentication import authenticate, basic_header
from dovetail.auth.core.registration import NONE, SECRET_BASIC, SECRET_POST
from dovetail.auth.core.steps import Answer
from dovetail.auth.core.token_set import read_tokens


@pytest.mark.parametrize(
    ("scope", "wanted"), [({}, None), ({"scope": "a b"}, ("a", "b")), ({"scope": ["a", "b"]}, ("a", "b"))]
)
def test_scopes_may_be_a_text_or_a_list(scope: dict[str, Any], wanted: Any) -> None:
    body = msgspec.json.encode({"access_token": "t", "token_type": "bearer", **scope})
    assert read_tokens(Answer(200, {}, body), 0.0).scopes == wanted


@pytest.mark.parametrize(
    ("method", "secret", "form", "headers"),
    [
        (SECRET_BASIC, "s", {"client_id": "c"}, {"Authorization": "Basic Yzpz"}),
        (SECRET_POST, "s", {"client_id": "c", "client_secret": "s"}, {}),
        (NONE, None, {"client_id": "c"}, {}),
        (NONE, "s", {"client_id": "c"}, {}),
    ],
)
def test_a_secret_is_sent_where_the_method_puts_it(
    method: str, secret: str | None, form: dict[str, str], headers: dict[str, str]
) -> None:
    sent: dict[str, str] = {}
    assert authenticate(sent, "c", method, secret) == headers
    assert sent == form


def test_both_parts_of_a_basic_header_are_form_encoded() -> None:
    assert basic_header("a:b", "ü /") == "Basic YSUzQWI6JUMzJUJDKyUyRg=="
