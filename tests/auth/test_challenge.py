"""``WWW-Authenticate``, written and read."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.auth.core.challenge import Challenge, bearer, read, write

URL = "https://shop.example/.well-known/oauth-protected-resource/mcp"


def test_a_bearer_challenge_says_what_is_missing() -> None:
    said = write(bearer(resource_metadata=URL, scope="a b", error="insufficient_scope", description="no"))
    assert said == (
        f'Bearer error="insufficient_scope", error_description="no", scope="a b", resource_metadata="{URL}"'
    )
    assert write(bearer()) == "Bearer"


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("Bearer", [Challenge("Bearer")]),
        ('bearer Realm="x"', [Challenge("bearer", {"realm": "x"})]),
        ("Bearer realm=x , scope=a", [Challenge("Bearer", {"realm": "x", "scope": "a"})]),
        (
            'Basic realm="a, b=c", Bearer scope="x y"',
            [Challenge("Basic", {"realm": "a, b=c"}), Challenge("Bearer", {"scope": "x y"})],
        ),
        ('Bearer a="\\"q\\\\"', [Challenge("Bearer", {"a": '"q\\'})]),
        (
            "Negotiate abc==, Bearer a=b",
            [Challenge("Negotiate", {}, "abc=="), Challenge("Bearer", {"a": "b"})],
        ),
        ("Basic, Bearer", [Challenge("Basic"), Challenge("Bearer")]),
        ("Bearer a=1, a=2", [Challenge("Bearer", {"a": "1"})]),
        ('Bearer a=b, c="unterminated', [Challenge("Bearer", {"a": "b"})]),
        ('Bearer error="x" scope="y"', [Challenge("Bearer", {"error": "x", "scope": "y"})]),
        (", ,", []),
        ('"', []),
        ("", []),
    ],
)
def test_challenges_are_read(header: str, found: list[Challenge]) -> None:
    assert read(header) == found


def test_several_headers_are_read_in_their_order() -> None:
    assert [one.scheme for one in read(["DPoP algs=ES256", "Bearer"])] == ["DPoP", "Bearer"]


def test_the_scopes_of_a_challenge_keep_their_order() -> None:
    assert bearer(scope="b a b").scopes == ("b", "a")
    assert bearer(scope="").scopes == ()
    assert bearer().scopes is None


names = st.text("abcdefgh_", min_size=1)
values = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))


@given(st.lists(st.dictionaries(names, values, min_size=1), min_size=1, max_size=5))
def test_what_is_written_is_read_back(parameters: list[dict[str, str]]) -> None:
    challenges = [Challenge("Bearer", one) for one in parameters]
    assert read(", ".join(map(write, challenges))) == challenges


@given(st.text())
def test_nothing_that_is_written_breaks_a_header(value: str) -> None:
    said = write(Challenge("Bearer", {"error_description": value}))
    assert said.isascii()
    assert said.isprintable()
    assert len(read(said)) == 1


@given(st.text())
def test_an_arbitrary_header_never_raises(header: str) -> None:
    read(header)


@pytest.mark.parametrize("piece", ["a ", "a=", 'a="\\', ",", "a,", "Bearer a=b,", '"', "\\"])
def test_a_long_header_takes_no_time(piece: str) -> None:
    begun = time.process_time()
    assert len(read([piece * 1_000_000] * 100)) <= 16
    assert time.process_time() - begun < 2
