"""URI templates: what matches, what never may, and that matching takes linear time."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import RegistrationError
from dovetail.server.registry.uri_templates import MATCHED_URI_LENGTH, UriTemplate

MATCHES: list[tuple[str, str, dict[str, str] | None]] = [
    ("app://config", "app://config", {}),
    ("app://config", "app://config/", None),
    ("weather://{city}/now", "weather://oslo/now", {"city": "oslo"}),
    ("weather://{city}/now", "weather:///now", None),
    ("weather://{city}/now", "weather://a/b/now", None),
    ("weather://{city}/now", "weather://S%C3%A3o%20Paulo/now", {"city": "São Paulo"}),
    ("weather://{city}/now", "weather://São Paulo/now", {"city": "São Paulo"}),
    ("db://{table}/{row}", "db://t/1", {"table": "t", "row": "1"}),
    ("db://{table}-{row}", "db://a-b-c", {"table": "a", "row": "b-c"}),
    ("db://{a}--{b}", "db://x-y--z", {"a": "x-y", "b": "z"}),
    ("file:///{+path}", "file:///a/b/c.txt", {"path": "a/b/c.txt"}),
    ("file:///{path*}", "file:///a/b%20c", {"path": "a/b c"}),
    ("file://{+path}", "file:///etc/hosts", {"path": "/etc/hosts"}),
    (
        "repo://{owner}/{+path}/raw/{line}",
        "repo://me/a/raw/b/raw/7",
        {"owner": "me", "path": "a/raw/b", "line": "7"},
    ),
    ("repo://{owner}/{+path}", "repo://me/", None),
    ("q://search{?term,page}", "q://search", {}),
    ("q://search{?term,page}", "q://search?term=a%26b+c&other=1", {"term": "a&b c"}),
    ("q://search{?term,page}", "q://search?term=a&term=b", None),
    ("q://{kind}/s{?term}", "q://x/s?term=%zz", None),
    ("x://{a}", "x://%ff", None),
    ("x://{a}", "x://%e", None),
]


@pytest.mark.parametrize(("template", "uri", "values"), MATCHES)
def test_a_uri_matches_its_template_and_no_other(
    template: str, uri: str, values: dict[str, str] | None
) -> None:
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    "value",
    ["..", "%2e%2e", ".", "%2E", "a%2fb", "..%2f..%2fetc", "a%5cb", "..\\x", "%00", "a%0Ab", "\x7f", "%2F"],
)
def test_one_segment_never_becomes_a_path(value: str) -> None:
    assert UriTemplate("file:///{name}").match(f"file:///{value}") is None


@pytest.mark.parametrize(
    "value",
    [
        "../x",
        "a/../b",
        "a/%2e%2e/b",
        "a%2f..%2fb",
        "a/./b",
        "/etc/passwd",
        "%2Fetc/passwd",
        "C:/x",
        "c%3a\\x",
        "a\\..\\b",
    ],
)
def test_a_spanning_value_never_climbs_or_starts_again(value: str) -> None:
    assert UriTemplate("file:///{+path}").match(f"file:///{value}") is None


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("no-scheme/{a}", "scheme"),
        ("{a}://x", "scheme"),
        ("x://{a", "brace"),
        ("x://a}", "brace"),
        ("x://{}", "not supported"),
        ("x://{#a}", "not supported"),
        ("x://{a,b}", "not supported"),
        ("x://{a}{b}", "touch"),
        ("x://{a}/{a}", "twice"),
        ("x://{a}{?a}", "twice"),
        ("x://{+a}/{b*}", "span"),
        ("x://a{?q}/b", "end"),
        ("x://a{?1}", "not a name"),
    ],
)
def test_a_template_that_needs_guessing_is_refused(template: str, reason: str) -> None:
    with pytest.raises(RegistrationError, match=reason) as caught:
        UriTemplate(template)
    assert caught.value.kind == "invalid_uri_template"


def test_matching_a_hostile_uri_is_fast_and_a_longer_one_is_not_looked_at() -> None:
    template = UriTemplate("x://" + "-".join(f"{{v{n}}}" for n in range(20)) + "/{+rest}/end")
    started = time.process_time()
    for _ in range(20):
        assert template.match("x://" + "-" * (MATCHED_URI_LENGTH - 10)) is None
        assert template.match("x://" + "a-" * 4000 + "/") is None
    assert time.process_time() - started < 1.0
    assert UriTemplate("x://{a}").match("x://" + "a" * MATCHED_URI_LENGTH) is None


VALUES = st.text(min_size=1, max_size=20)


@settings(max_examples=150, deadline=None)
@given(a=VALUES, path=VALUES, q=VALUES)
@pytest.mark.parametrize("text", ["x://{a}/y/{+path}{?q}", "x://{a}_/{path*}{?q}"])
def test_what_was_expanded_matches_back_or_not_at_all(text: str, a: str, path: str, q: str) -> None:
    values = {"a": a, "path": path, "q": q}
    try:
        written = {name: quote(value, safe="/" if name == "path" else "") for name, value in values.items()}
    except UnicodeEncodeError:
        return  # no URI carries these
    uri = (
        text.replace("{?q}", "?q={q}")
        .replace("{+path}", "{path}")
        .replace("{path*}", "{path}")
        .format(**written)
    )
    harmless = a.isalnum() and path.isalnum()
    assert UriTemplate(text).match(uri) in ([values] if harmless else [values, None])


@settings(max_examples=300, deadline=None)
@given(uri=st.text(max_size=60) | st.from_regex(r"x://[a-z%2e./-]{0,30}", fullmatch=True))
def test_no_match_ever_holds_a_climbing_segment(uri: str) -> None:
    values = UriTemplate("x://{a}/{+path}").match(uri)
    for value in (values or {}).values():
        assert ".." not in value.replace("\\", "/").split("/")


@given(st.text(min_size=1), st.text(min_size=1), st.text())
def test_what_is_expanded_is_found_again(segment: str, path: str, member: str) -> None:
    template = UriTemplate("x://{a}/{+b}{?c}")
    for values in ({"a": segment, "b": path, "c": member}, {"a": segment, "b": path}):
        try:
            uri = template.expand(values)
        except UnicodeEncodeError:
            continue
        assert uri is not None
        assert template.match(uri) in (values, None)  # what could climb never matches
    assert template.expand({"a": segment}) is None
